# SPDX-License-Identifier: MIT
"""Filters of next-token logits, in transformers' order: repetition penalty, temperature, top-k,
top-p, min-p.

`previous` are the ids that a row has so far, padded on the right to `key_lengths`. `kept` (B, V)
says which ids remain and `log_probability` is that of the remaining ones, 0 for the others.
"""

import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

from generation import in_double
from golden import GoldenFile, random_ids, random_tensor

B, V = 5, 37
LENGTHS = [11, 7, 3, 1, 5]
CASES = {
    "none": {},
    "repetition_penalty": {"repetition_penalty": 1.7},
    "repetition_reward": {"repetition_penalty": 0.6},
    "temperature": {"temperature": 0.4},
    "hot": {"temperature": 3.0},
    "top_k": {"top_k": 7},
    "top_k_of_all": {"top_k": 41},
    "top_k_ties": {"top_k": 3},
    "top_p": {"top_p": 0.8},
    "top_p_smallest": {"top_p": 1e-9},
    "min_p": {"min_p": 0.2},
    "min_p_largest": {"min_p": 1.0},
    "temperature_top_p": {"temperature": 2.0, "top_p": 0.6},
    "top_k_top_p": {"top_k": 11, "top_p": 0.7},
    "top_p_min_p": {"top_p": 0.9, "min_p": 0.1},
    "all": {
        "repetition_penalty": 1.3,
        "temperature": 0.7,
        "top_k": 13,
        "top_p": 0.9,
        "min_p": 0.05,
    },
}


def processors(model, options):
    """As `generate` would apply them."""
    config = GenerationConfig(do_sample=True, **({"top_k": 0} | options))
    model.generation_config = config
    config, _ = model._prepare_generation_config(config)
    model._prepare_special_tokens(config)
    return model._get_logits_processor(config, input_ids_seq_length=1)


def filtered(model, options, logits, previous):
    scores = torch.empty_like(logits)
    for b, length in enumerate(LENGTHS):
        row = processors(model, options)(previous[b : b + 1, :length], logits[b : b + 1].clone())
        scores[b] = row[0]
    kept = torch.isfinite(scores)
    log_probability = torch.log_softmax(scores, dim=-1).masked_fill(~kept, 0.0)
    return {"kept": kept, "log_probability": log_probability}


def make():
    file = GoldenFile("sampling")
    model = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=2, n_layer=1, n_head=1))
    previous = random_ids(1, (B, max(LENGTHS)), 0, V)
    logits = random_tensor(2, (B, V), scale=2.0)
    ties = (logits * 2).round() / 2
    for case, options in CASES.items():
        with torch.no_grad(), in_double():
            outputs = file.add(
                case,
                "Sampling",
                options,
                "transformers.generation",
                lambda *i: filtered(model, options, *i),
                inputs={"logits": ties if case == "top_k_ties" else logits, "previous": previous},
                mask={"key_lengths": LENGTHS},
                gradients=False,
            )
        print(f"{case}: {outputs['kept'].sum(-1).tolist()} of {V} kept")
    return file


if __name__ == "__main__":
    make().write()
