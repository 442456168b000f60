#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the accuracy by language of a checkpoint on the texts of held_out/.

    python3 evaluate.py [--model model] [--held-out held_out] [--confusions]

Columns: for each folder of held_out, the percentage of its lines whose most probable language is the
right one, and the number of lines; `40+` counts only lines of at least 40 characters (for Chinese,
Japanese, Korean and Thai: at least 40 bytes).
"""

import argparse
import json
import pathlib
from collections import Counter

import torch
from transformers import BertForSequenceClassification

from tokenizer import PAD, Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
DENSE_SCRIPTS = ("cmn", "jpn", "kor", "tha")


def read_lines(path):
    """Lines of a text file without empty lines and lines that begin with '#'."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def read_held_out(folder):
    """{set: {code: [line, ...]}}"""
    return {part.name: {path.stem: read_lines(path) for path in sorted(part.glob("*.txt"))}
            for part in sorted(folder.iterdir()) if part.is_dir()}


def is_long(line, code):
    return (len(line.encode()) if code in DENSE_SCRIPTS else len(line)) >= 40


@torch.no_grad()
def predict(model, tokenizer, lines, batch=64):
    """Probabilities (lines, languages)."""
    model.eval()
    result = []
    for start in range(0, len(lines), batch):
        rows = [tokenizer(line) for line in lines[start:start + batch]]
        width = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
        result.append(model(input_ids=ids, attention_mask=(ids != PAD).long()).logits.softmax(-1))
    return torch.cat(result)


def measure(model, tokenizer, held_out):
    """{set: {code: [(line, predicted code), ...]}}"""
    id2label = model.config.id2label
    result = {}
    for part, texts in held_out.items():
        result[part] = {}
        for code, lines in texts.items():
            best = predict(model, tokenizer, lines).argmax(-1).tolist()
            result[part][code] = [(line, id2label[i]) for line, i in zip(lines, best)]
    return result


def print_table(result, names):
    columns = [(part, long) for part in result for long in (False, True)]
    print("| language | " + " | ".join(p + (" 40+" if long else "") for p, long in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    means = {column: [] for column in columns}
    totals = {column: [0, 0] for column in columns}
    for code in names:
        cells = []
        for part, long in columns:
            rows = [row for row in result[part].get(code, []) if not long or is_long(row[0], code)]
            right = sum(predicted == code for _, predicted in rows)
            if rows:
                means[part, long].append(right / len(rows))
                totals[part, long][0] += right
                totals[part, long][1] += len(rows)
            cells.append(f"{100 * right / len(rows):.0f} ({len(rows)})" if rows else "")
        print(f"| {code} {names[code]} | " + " | ".join(cells) + " |")
    print("| mean of the languages | " + " | ".join(
        f"{100 * sum(means[c]) / max(1, len(means[c])):.1f}" for c in columns) + " |")
    print("| all lines | " + " | ".join(
        f"{100 * totals[c][0] / max(1, totals[c][1]):.1f} ({totals[c][1]})" for c in columns) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--held-out", type=pathlib.Path, default=HERE / "held_out")
    parser.add_argument("--confusions", action="store_true", help="list the wrong answers too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = BertForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float32)
    tokenizer = Tokenizer.load(arguments.model, model.config.max_position_embeddings)
    names = json.loads((arguments.model / "config.json").read_text())["language_names"]
    result = measure(model, tokenizer, read_held_out(arguments.held_out))
    print_table(result, names)
    if arguments.confusions:
        for part, texts in result.items():
            wrong = Counter((code, predicted) for code, rows in texts.items()
                            for _, predicted in rows if predicted != code)
            print(f"\n{part}: " + ", ".join(f"{a} as {b}: {n}" for (a, b), n in wrong.most_common()))
            for code, rows in texts.items():
                for line, predicted in rows:
                    if predicted != code:
                        print(f"  {code} as {predicted}: {line[:100]}")


if __name__ == "__main__":
    main()
