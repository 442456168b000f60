#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints how many expressions a checkpoint reads right: of dates never trained on, and of written.txt.

    python3 evaluate.py [--model model] [--count 10000] [--errors]
"""

import argparse
import pathlib

import torch

from dates import Generator, decode, encode, read_written
from model import HERE, load, pad


def read(model, texts, batch=100):
    """[(date, probability), ...]"""
    result = []
    longest = model.config["max_position_embeddings"]
    for start in range(0, len(texts), batch):
        ids = pad([encode(text)[:longest] for text in texts[start:start + batch]])
        rows, probabilities = model.greedy(ids)
        result += [(decode(row), p) for row, p in zip(rows.tolist(), probabilities.tolist())]
    return result


def accuracy(model, pairs):
    answers = read(model, [text for text, _ in pairs])
    return sum(answer == date for (answer, _), (_, date) in zip(answers, pairs)) / len(pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--count", type=int, default=10000, help="of generated expressions")
    parser.add_argument("--errors", action="store_true", help="list the wrong answers too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = load(arguments.model)
    generator = Generator("held out", 2)
    written = [(text, date) for date, text in read_written()]
    for name, pairs in (("held-out dates", [generator() for _ in range(arguments.count)]),
                        ("written by hand", written)):
        answers = read(model, [text for text, _ in pairs])
        wrong = [(text, date, *answer) for (text, date), answer in zip(pairs, answers)
                 if answer[0] != date]
        right = len(pairs) - len(wrong)
        print(f"{name}: {right} of {len(pairs)} right, {100 * right / len(pairs):.2f} %")
        sure = [answer[0] == date for (_, date), answer in zip(pairs, answers) if answer[1] >= 0.9]
        print(f"  at least 0.9 probable: {len(sure)}, of which {sum(sure)} right")
        if arguments.errors:
            for text, date, answer, probability in wrong:
                print(f"  {date}  {answer}  {probability:.3f}  {text!r}")


if __name__ == "__main__":
    main()
