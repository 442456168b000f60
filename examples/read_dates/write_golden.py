#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes golden.json and golden.safetensors, which the C++ program is tested against.

    python3 write_golden.py [--model model] [--output .]

golden.json: ids of a few expressions, the ids that greedy decoding gives, the date, its probability.
golden.safetensors: for the first cases, as case.<number>.encoder (S, C) the encoder's result and as
case.<number>.logits (T, V) the decoder's for the start and all ids of the answer but the last. Computed
in 64-bit floats from the stored weights.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

from dates import START, decode, encode
from model import HERE, load

TEXTS = [
    "the 3rd of November, '98",
    "5/3/19",
    "SUNDAY, FEBRUARY 29th 2004",
    "12/17/2019",
    "2004.9.21",
    "Tuesday, March 5 2019",
    "21st Sept 2004",
    "thursday the twenty-first of june, nineteen oh five",
    "Wedensday 13 Febuary 2019",
    "4 July 1776",
    "30mar2008",
    "Fri, 05 Apr 2024 14:32:10 GMT",
    "‘on’ 14–Mar–74 — ok?",
    "1.1.00",
    "",
]
WHOLE = 5  # cases with the encoder's result and logits


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--output", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = load(arguments.model, torch.float64)
    cases, tensors = [], {}
    for number, text in enumerate(TEXTS):
        ids = encode(text)
        rows, probabilities = model.greedy(torch.tensor([ids]))
        answer = rows[0].tolist()
        cases.append({"text": text, "ids": ids, "answer": answer, "date": decode(answer),
                      "probability": float(f"{probabilities.item():.12g}")})
        if number < WHOLE:
            with torch.no_grad():
                memory, allowed = model.encode(torch.tensor([ids]))
                logits = model.decode(torch.tensor([[START] + answer[:-1]]), memory, allowed)
            tensors[f"case.{number}.encoder"] = memory[0].contiguous()
            tensors[f"case.{number}.logits"] = logits[0].contiguous()
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (arguments.output / "golden.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    save_file(tensors, arguments.output / "golden.safetensors")


if __name__ == "__main__":
    main()
