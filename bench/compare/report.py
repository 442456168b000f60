# SPDX-License-Identifier: MIT
"""A table and a chart of what compare.py measured; by itself: python report.py results.json"""

import json
import math
import pathlib
import statistics
import sys

TITLES = {
    "feed_forward/memory":
        "Feed-forward, 768 to 3072, GELU, six layers in turn: weights from memory",
    "feed_forward/cache": "One layer: weights in cache",
    "gated_feed_forward/memory":
        "Gated feed-forward, 768 to 2048, SiLU, six layers in turn: weights from memory",
    "gated_feed_forward/cache": "One gated layer: weights in cache",
    "attention/full": "Self-attention with its projections, 768, 12 heads (8x: batch of 8)",
    "attention/causal": "Causal self-attention",
    "encoder_layer": "Encoder layer, 768, 12 heads, 3072",
    "encoder": "Encoder from ids on, 6 layers of 384 (ragged: batch of 32 with 5 to 60 tokens)",
    "decoder": "Decoder of GPT-2's size, one token after so many",
    "decoder/int8": "The same decoder, weights in 8 bits",
}
COLOURS = {"PyTorch": "#e4572e", "ONNX Runtime": "#3f8fd2", "OpenVINO": "#8e6bbf",
           "OpenBLAS": "#c79a1b", "oneDNN": "#2a9d8f", "llama.cpp": "#c2528b"}


def line(row):
    """One case in a few words."""
    ratios = "  ".join(f"{engine} {peer['ratio']:.2f}" for engine, peer in row["peers"].items())
    threads = f"{row['threads']} thread" + "s" * (row["threads"] > 1)
    return (f"{row['case']:32} {threads:9}  {1e3 * row['seconds']:9.3f} ms  "
            f"{row['of_multiply_add']:4.0%} of multiply-add, {row['of_memory_read']:4.0%} of memory"
            f"   {ratios}")


def write(results, path):
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(results))
    path.with_suffix(".svg").write_text(chart(results["results"]))


def engines_of(rows):
    return [engine for engine in COLOURS if any(engine in row["peers"] for row in rows)]


# ---------------------------------------------------------------- tables


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def markdown(results):
    rows = results["results"]
    engines = engines_of(rows)
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    text = ["Peer's time / Eigenformer's time, medians of alternating runs: above 1, Eigenformer "
            f"is faster.\n{versions}.\n"]
    for threads in sorted({row["threads"] for row in rows}):
        mine = [row for row in rows if row["threads"] == threads]
        text += [f"## {threads} thread" + "s" * (threads > 1) + "\n",
                 "Geometric means, in parentheses the smallest:\n",
                 table(["", *engines],
                       [summary(group, mine, engines) for group in TITLES
                        if any(row["group"] == group for row in mine)]),
                 table(["", "ms", "tokens/s", "GFLOP/s", "of multiply-add peak",
                        "of memory reading", *engines], [details(row, engines) for row in mine])]
    return "\n".join(text)


def summary(group, rows, engines):
    cells = [group]
    for engine in engines:
        ratios = [row["peers"][engine]["ratio"] for row in rows
                  if row["group"] == group and engine in row["peers"]]
        cells.append("" if not ratios else
                     f"{statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f})")
    return cells


def details(row, engines):
    operations = row["limits"]["multiply_add"] * row["of_multiply_add"]  # a second
    return [row["case"], f"{1e3 * row['seconds']:.3g}", f"{row['tokens'] / row['seconds']:.0f}",
            f"{1e-9 * operations:.1f}", f"{row['of_multiply_add']:.0%}",
            "" if row["group"].endswith("cache") else f"{row['of_memory_read']:.0%}",
            *(f"{row['peers'][engine]['ratio']:.2f}" if engine in row["peers"] else ""
              for engine in engines)]


# ---------------------------------------------------------------- chart

PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 420, 120, 44, 76, 62
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.panel, .legend { font-size: 13px }
.grid { stroke: #8b949e; stroke-opacity: 0.3 }
.one { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .one { stroke: #e6edf3 } }
"""


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def rule(x, y, width, kind):
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + width:.1f}" y2="{y:.1f}" class="{kind}"/>'


def chart(rows):
    """Bars from 1 upwards, or downwards where the peer is faster; a row of panels for each group, a
    column for each number of threads."""
    engines = engines_of(rows)
    columns = sorted({row["threads"] for row in rows})
    groups = [group for group in TITLES if any(row["group"] == group for row in rows)]
    width = LEFT + len(columns) * (PANEL_WIDTH + LEFT)
    height = TOP + len(groups) * (PANEL_HEIGHT + GAP)
    title = "Peer's time / Eigenformer's time, by number of tokens: above 1, Eigenformer is faster"
    parts = [text(LEFT, 22, title, "title")]
    x = LEFT
    for engine in engines:
        parts.append(f'<rect x="{x}" y="35" width="12" height="12" fill="{COLOURS[engine]}"/>')
        parts.append(text(x + 17, 46, engine, "legend"))
        x += 40 + 8 * len(engine)
    for j, threads in enumerate(columns):
        parts.append(text(LEFT + j * (PANEL_WIDTH + LEFT) + PANEL_WIDTH, 70,
                          f"{threads} thread" + "s" * (threads > 1), "panel", "end"))
    for i, group in enumerate(groups):
        shown = [row for row in rows if row["group"] == group]
        y = TOP + i * (PANEL_HEIGHT + GAP) + 20
        parts.append(text(LEFT, y - 8, TITLES[group], "panel"))
        for j, threads in enumerate(columns):
            parts += panel([row for row in shown if row["threads"] == threads], engines,
                           LEFT + j * (PANEL_WIDTH + LEFT), y, *limits(shown))
    label = "Bar chart of ratios of running time"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{label}">\n<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n")


def limits(rows):
    """Powers of 2 between which the axis runs, at most from 1/4 to 8; longer bars are cut."""
    exponents = [math.log2(peer["ratio"]) for row in rows for peer in row["peers"].values()] or [0]
    return (max(-2, min(-1, math.floor(min(exponents)))),
            min(3, max(1, math.ceil(max(exponents)))))


def panel(rows, engines, x, y, low, high):
    def place(ratio):
        exponent = min(high, max(low, math.log2(ratio)))
        return y + PANEL_HEIGHT * (high - exponent) / (high - low)

    parts = []
    for exponent in range(low, high + 1):
        parts.append(rule(x, place(2.0**exponent), PANEL_WIDTH, "grid"))
        parts.append(text(x - 6, place(2.0**exponent) + 4, f"{2.0**exponent:g}", "", "end"))
    present = [engine for engine in engines if any(engine in row["peers"] for row in rows)]
    step = PANEL_WIDTH / max(4, len(rows))
    bar = min(14, (step - 8) / max(1, len(present)))
    for i, row in enumerate(rows):
        left = x + step * (i + 0.5) - bar * len(present) / 2
        for j, engine in enumerate(present):
            if engine not in row["peers"]:
                continue
            ratio = row["peers"][engine]["ratio"]
            top, bottom = sorted((place(ratio), place(1)))
            parts.append(f'<rect x="{left + j * bar:.1f}" y="{top:.1f}" width="{bar - 1:.1f}" '
                         f'height="{max(1, bottom - top):.1f}" fill="{COLOURS[engine]}">'
                         f'<title>{engine}, {row["label"]}: {ratio:.2f}</title></rect>')
        parts.append(text(x + step * (i + 0.5), y + PANEL_HEIGHT + 16, row["label"], "", "middle"))
    return [*parts, rule(x, place(1), PANEL_WIDTH, "one")]


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    write(json.loads(source.read_text()), source)
