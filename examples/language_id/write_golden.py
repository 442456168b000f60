#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes golden.json: ids and probabilities of a few texts, which the C++ program is tested against.

    python3 write_golden.py [--model model] [--output golden.json]

The probabilities are computed in 64-bit floats from the stored 16-bit weights.
"""

import argparse
import json
import pathlib

import torch
from transformers import BertForSequenceClassification

from evaluate import HERE
from tokenizer import Tokenizer

TEXTS = [
    "Good morning, did you sleep well last night?",
    "GUTEN MORGEN, hast du letzte Nacht gut geschlafen?",
    "J’ai oublié mon parapluie à la maison…",
    "Ελάτε το ΒΡΑΔΥ, ΈΧΟΥΜΕ ψάρι!",
    "Сьогодні ҐАНОК фарбують, а завтра — ні.",
    "ՈՐՔԱՆ արժե այս խնձորը։",
    "ĈU vi parolas Esperanton? Jes, ŝi ankaŭ.",
    "İstanbul'da hava bugün çok güzel.",
    "ỪM, tôi không biết ĐƯỜNG về nhà.",
    "我把雨伞忘在家里了，现在正在下雨。",
    "오늘은 날씨가 아주 좋아요.",
    "سلام، حال شما چطور است؟",
    "12:30 -- 100 %",
    "a",
    "",
    "Ein langer Satz wiederholt sich immer wieder und wieder, damit er sicher abgeschnitten wird. " * 4,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "golden.json")
    arguments = parser.parse_args()
    model = BertForSequenceClassification.from_pretrained(arguments.model, dtype=torch.float64).eval()
    tokenizer = Tokenizer.load(arguments.model, model.config.max_position_embeddings)
    cases = []
    for text in TEXTS:
        ids = tokenizer(text)
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0]
        cases.append({"text": text, "ids": ids,
                      "language": model.config.id2label[int(logits.argmax())],
                      "probabilities": [float(f"{p:.9g}") for p in logits.softmax(-1)]})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    arguments.output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
