# SPDX-License-Identifier: MIT
"""Compares WordPiece with transformers' BertTokenizer on as much text as is given; slow.

    python word_piece_differential.py DIR PROGRAM [FILE...]

DIR is all-MiniLM-L6-v2's directory with vocab.txt, PROGRAM the built word_piece_ids, the files are
text (or gzip of text) in any encoding. Checked are every line of the files, every token of the
vocabulary, random texts and random bytes, each with five settings of the tokenizer; and every code
point but NUL, alone and inside words. Texts must agree. Code points may differ if they are newer
than Unicode 8, whose categories tokenizers knows, so random bytes that make such characters are
left out. Needs Perl, for its tables of ages.
"""

import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from transformers import BertTokenizer

SETTINGS = [
    {"do_lower_case": True},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"do_lower_case": True, "tokenize_chinese_chars": False},
]


def lines_of(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return [line.replace(b"\0", b"") for line in data.split(b"\n") if line.strip()]


def random_texts(generator, tokens, count):
    """Pieces of words glued with accents, spaces, punctuation, controls and special tokens."""
    glue = ["", "", " ", "\u0301", "\u0323\u0302", "\u200d", "\u00a0", ".", "'", "-", "\u2014", "$",
            "\u4e2d", "\u3042\u3099", "\uac00", "\u00df", "\u0130", "\u0131", "\u03a3", "\u00c9",
            "\u1e9e", "\U0001f600", "[MASK]", "[", "]", "##", "\u0007", "\ufffd", "\u2028",
            "\u064b", "\u0e31", "\u093f", "\u00bd", "\ufb01", "\u212b", "A", "\u1fbf"]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(1, 30)):
            word = generator.choice(tokens).removeprefix("##")
            word = generator.choice([str, str.upper, str.title])(word)
            parts += [word, generator.choice(glue)]
        texts.append("".join(parts).encode("utf-8"))
    return texts


def random_bytes(generator, count):
    texts = []
    for _ in range(count):
        size = generator.randrange(1, 60)
        if generator.random() < 0.5:
            text = bytes(generator.randrange(1, 256) for _ in range(size))
        else:  # well-formed text with a few bytes changed, cut out or doubled
            text = bytearray("naïve 東京 [MASK] 😀 été Straße…".encode() * 2)
            for _ in range(generator.randrange(1, 6)):
                i = generator.randrange(len(text))
                text[i:i + generator.randrange(3)] = bytes(
                    generator.randrange(1, 256) for _ in range(generator.randrange(3)))
            text = bytes(text)
        texts.append(text)
    return texts


def ours(program, directory, texts):
    result = subprocess.run([program, directory], input=b"".join(t + b"\0" for t in texts),
                            stdout=subprocess.PIPE, check=True)
    lines = result.stdout.decode("ascii").splitlines()
    assert len(lines) == len(texts), (len(lines), len(texts))
    return [[int(word) for word in line.split()] for line in lines]


def theirs(tokenizer, texts):
    # Through the batch in slices, to bound the memory.
    ids = []
    for i in range(0, len(texts), 10000):
        decoded = [t.decode("utf-8", "replace") for t in texts[i:i + 10000]]
        ids += tokenizer(decoded, truncation=True, max_length=512)["input_ids"]
    return ids


# Characters of Unicode 8 whose category has changed since.
CHANGED = {0x166D, 0x1734, 0x1885, 0x1886, 0xA9BD, 0x111C9}


def not_in_unicode_8():
    """The code points that Unicode 8 doesn't assign, from Perl's tables."""
    program = r'for (1 .. 0x10FFFF) { print "$_\n" if chr !~ /\p{In=8.0}/ }'
    result = subprocess.run(["perl", "-e", program], stdout=subprocess.PIPE, check=True)
    return {int(line) for line in result.stdout.split()}


def check_code_points(program, directory, tokenizer, newer):
    points = [p for p in range(1, 0x110000) if not 0xD800 <= p < 0xE000]
    texts = [f"{c} a{c}b {c}{c}s".encode("utf-8") for c in map(chr, points)]
    different = {p for p, a, b in zip(points, ours(program, directory, texts),
                                      theirs(tokenizer, texts)) if a != b}
    unexplained = different - newer - CHANGED
    print(f"code points: {len(points)}, different: {len(different)}: newer than Unicode 8: "
          f"{len(different & newer)}, of another category since: {len(different & CHANGED)}, "
          f"others: {len(unexplained)}")
    for p in sorted(unexplained)[:50]:
        print(f"  U+{p:04X}")
    return not unexplained


def main():
    source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    vocabulary_text = (source / "vocab.txt").read_text("utf-8")
    tokens = vocabulary_text.removesuffix("\n").split("\n")
    vocabulary = {token: position for position, token in enumerate(tokens)}
    generator = random.Random(7)
    newer = not_in_unicode_8()
    unsettled = {chr(p) for p in newer | CHANGED}
    groups = {
        "lines of files": [line for name in sys.argv[3:] for line in lines_of(pathlib.Path(name))],
        "tokens": [token.encode("utf-8") for token in tokens],
        "random texts": random_texts(generator, tokens, 20000),
        "random bytes": [text for text in random_bytes(generator, 20000)
                         if unsettled.isdisjoint(text.decode("utf-8", "replace"))],
    }
    agree = True
    for setting in SETTINGS:
        tokenizer = BertTokenizer(vocab=vocabulary, **setting)
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "vocab.txt").write_text(vocabulary_text, "utf-8")
            (pathlib.Path(directory) / "tokenizer_config.json").write_text(json.dumps(setting))
            print(setting)
            for name, texts in groups.items():
                expected, found = theirs(tokenizer, texts), ours(program, directory, texts)
                different = [t for t, a, b in zip(texts, expected, found) if a != b]
                print(f"{name}: {len(texts)}, ids: {sum(map(len, expected))}, "
                      f"different: {len(different)}")
                for text in different[:5]:
                    print("  ", ascii(text.decode("utf-8", "replace"))[:300])
                agree = agree and not different
            if setting in SETTINGS[:2]:
                agree = check_code_points(program, directory, tokenizer, newer) and agree
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
