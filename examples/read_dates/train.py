#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the transformer that reads dates, on expressions that dates.py makes up as it goes.

    python3 train.py --output model

Writes `config.json` and `model.safetensors`. Needs torch and safetensors. Everything random comes from
--seed: the same versions on the same machine give the same model.
"""

import argparse
import json
import math
import pathlib
import time

import torch
from safetensors.torch import save_file
from torch.nn import functional

from dates import ALPHABET, END, PADDING, START, UNKNOWN, VOCAB_SIZE, Generator, encode
from evaluate import accuracy
from model import HERE, Transformer, pad

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def configuration(arguments):
    """The fields of the library's configuration, and what the tokenizer needs."""
    return {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": arguments.hidden,
        "num_hidden_layers": arguments.encoder_layers,
        "num_decoder_layers": arguments.decoder_layers,
        "num_attention_heads": arguments.heads,
        "intermediate_size": arguments.inner,
        "activation": "gelu",
        "norm_placement": "pre",
        "final_norm": True,
        "layer_norm_eps": 1e-5,
        "position_embedding": "sinusoidal",
        "sinusoidal_layout": "interleaved",
        "max_position_embeddings": arguments.length,
        "scale_embeddings": True,
        "embedding_norm": False,
        "share_embeddings": True,
        "tie_word_embeddings": True,
        "padding_id": PADDING,
        "start_id": START,
        "end_id": END,
        "unknown_id": UNKNOWN,
        "alphabet": ALPHABET,
    }


def batches(generator, size, longest, pool=32):
    """(ids, targets) of `size` examples; lengths are alike within a batch."""
    while True:
        rows = []
        while len(rows) < pool * size:
            text, date = generator()
            ids = encode(text)
            if len(ids) <= longest:
                rows.append((ids, [START] + encode(date)))
        rows.sort(key=lambda row: len(row[0]))
        starts = list(range(0, len(rows), size))
        generator.random.shuffle(starts)
        for start in starts:
            ids, targets = zip(*rows[start:start + size])
            yield pad(ids), torch.tensor(targets)


def save(model, folder, dtype):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")
    save_file({name: value.to(dtype).contiguous() for name, value in model.state_dict().items()},
              folder / "model.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "model")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--inner", type=int, default=128)
    parser.add_argument("--encoder-layers", type=int, default=2)
    parser.add_argument("--decoder-layers", type=int, default=2)
    parser.add_argument("--length", type=int, default=96, help="ids of an expression, its end included")
    parser.add_argument("--steps", type=int, default=8500)
    parser.add_argument("--decay", type=int, default=9000, help="steps after which the rate would be 0")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--type", choices=TYPES, default="bfloat16", help="of the stored numbers")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)

    model = Transformer(configuration(arguments))
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=arguments.rate, betas=(0.9, 0.98), fused=True)
    warmup = min(400, arguments.decay // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1, step / arguments.decay)))))

    trial = Generator("trial", arguments.seed)
    trial = [trial() for _ in range(500)]
    examples = batches(Generator("training", arguments.seed), arguments.batch, arguments.length)
    started, running = time.time(), None
    for step in range(1, arguments.steps + 1):
        ids, targets = next(examples)
        loss = functional.cross_entropy(model(ids, targets[:, :-1]).flatten(0, 1),
                                        targets[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"step {step} loss {running:.4f} {time.time() - started:.0f} s", flush=True)
        if step % 500 == 0 or step == arguments.steps:
            save(model, arguments.output, TYPES[arguments.type])
            print(f"  {100 * accuracy(model, trial):.1f} % of {len(trial)} trial expressions", flush=True)


if __name__ == "__main__":
    main()
