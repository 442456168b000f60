# SPDX-License-Identifier: MIT
"""What transformers generates from a model, row by row, and checks that the ids don't hang on the
last digits.
"""

import contextlib

import torch
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig, LogitsProcessor

from checkpoint import load_again
from golden import random_tensor, randomize


@contextlib.contextmanager
def in_double():
    """transformers computes norms, rotary tables and the scores of beams in float32 whatever type
    the model has. Inside, they are float64 as all the rest.
    """
    single, method = torch.float32, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32 = torch.float = single
        torch.Tensor.float = method


def double_model(kind, config, seed, gain=2.0):
    """Its rotary tables too are in double."""
    with in_double():
        return randomize(kind(config), seed, gain).eval()


def require_same(run, model, folder, expected):
    """The directory gives the same numbers in double, and transformers' own mixture of types gives
    nearly the same.
    """
    again = load_again(model, folder)
    with torch.no_grad(), in_double():
        for module in again.modules():
            if hasattr(module, "original_inv_freq"):
                module.__init__(module.config)
        assert torch.allclose(run(again), expected, rtol=1e-12, atol=1e-12), folder.name
    with torch.no_grad():
        single = run(type(model).from_pretrained(folder))
    difference = float((single - expected).abs().max() / expected.abs().max())
    assert difference < 2e-5, (folder.name, difference)
    print(f"{folder.name}: in float32 {difference:.1e} of the largest away")


class Disturb(LogitsProcessor):
    """Adds 1e-4 of the largest score, up or down."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, input_ids, scores):
        noise = random_tensor(self.seed + input_ids.shape[1], tuple(scores.shape)).sign()
        return scores + 1e-4 * scores.abs().amax() * noise.to(scores.dtype)


def generate(model, ids, use_cache=True, disturb=None, **options):
    """Of a batch without padding."""
    cache = {}
    if use_cache and model.config.is_encoder_decoder:
        # Its own has as many layers as the encoder.
        cache["cache"] = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model.generation_config = GenerationConfig(
        do_sample=False,
        use_cache=use_cache,
        return_dict_in_generate=True,
        output_scores=True,
        output_logits=True,
        pad_token_id=getattr(model.config, "pad_token_id", None) or 0,
        decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None),
        **options,
    )
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=[Disturb(disturb)] if disturb is not None else [],
        **cache,
    )


def rows_of(ids, lengths):
    return [row[None, :length] for row, length in zip(ids, lengths)]


def greedy(model, ids, lengths, count):
    """(B, count): what follows each row, end tokens included. The runner-up of each step is at
    least 1e-3 of the largest logit below; a pass over everything for each step gives the same ids.
    """
    found = []
    for row in rows_of(ids, lengths):
        cached = generate(model, row, max_new_tokens=count)
        for logits in cached.logits:
            first, second = logits[0].topk(2).values
            assert first - second > 1e-3 * logits.abs().max(), (first, second)
        plain = generate(model, row, use_cache=False, max_new_tokens=count)
        assert torch.equal(cached.sequences, plain.sequences)
        found.append(cached.sequences[0, -count:])
    found = torch.stack(found)
    assert found.shape == (len(lengths), count)
    print("greedy:", found.tolist())
    assert min(len(set(row.tolist())) for row in found) >= 4, "dull"
    return found


def beam_search(model, ids, lengths, count, beams, length_penalty, end):
    """The `beams` best continuations of each row: their ids, padded with 0, their numbers of ids
    and their scores.
    """
    sequences = torch.zeros((len(lengths), beams, count), dtype=torch.int64)
    sizes = torch.zeros((len(lengths), beams), dtype=torch.int64)
    scores = torch.zeros((len(lengths), beams))
    options = {
        "max_new_tokens": count,
        "num_beams": beams,
        "num_return_sequences": beams,
        "length_penalty": length_penalty,
        "early_stopping": False,
        "eos_token_id": end,
    }
    for b, row in enumerate(rows_of(ids, lengths)):
        result = generate(model, row, **options)
        for other in (
            generate(model, row, use_cache=False, **options),
            generate(model, row, disturb=1, **options),
            generate(model, row, disturb=1000, **options),
        ):
            assert torch.equal(result.sequences, other.sequences)
        prompt = 1 if model.config.is_encoder_decoder else row.shape[1]
        scores[b] = result.sequences_scores
        for i in range(beams):
            new = result.sequences[i, prompt:]
            if (new == end).any():
                new = new[: int((new == end).nonzero()[0]) + 1]
            sizes[b, i] = len(new)
            sequences[b, i, : len(new)] = new
    print("beams:", sizes.tolist())
    return {"sequences": sequences, "sizes": sizes, "scores": scores}
