# SPDX-License-Identifier: MIT
"""Texts that transformers generates, greedily and by beam search, from a model that is three
tables, so that the search alone is tested:

    logits after ... a b  =  last[b] + before[a] + place[number of tokens - 1]

without the second term after a single token. The third one keeps texts with the same transitions in
another order from being equally probable.

A case holds the `sequences` (B, N, max_new_tokens) of each prompt, best first and padded with -1,
and for beams their `scores` (B, N).
"""

import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from generation import in_double
from golden import GoldenFile, random_ids, random_tensor

VOCABULARY = 23


class Tables(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, *tables):
        super().__init__(PretrainedConfig(vocab_size=tables[0].shape[1], is_decoder=True))
        self.generation_config = GenerationConfig()
        self.last, self.before, self.place = (
            torch.nn.Parameter(table.clone(), requires_grad=False) for table in tables
        )

    def forward(self, input_ids, **_):
        logits = self.last[input_ids] + self.place[: input_ids.shape[1]]
        logits[:, 1:] += self.before[input_ids[:, :-1]]
        return CausalLMOutput(logits=logits)


def continuations(model, prompt, count, options):
    """What generate returns for a prompt (1, T): new ids (N, count) padded with -1, scores (N)."""
    result = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        generation_config=GenerationConfig(
            max_new_tokens=count,
            use_cache=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        ),
    )
    stops = options.get("eos_token_id", [])
    ids = torch.full((len(result.sequences), count), -1)
    for row, sequence in zip(ids, result.sequences[:, prompt.shape[1] :].tolist()):
        for i, token in enumerate(sequence):
            row[i] = token
            if token in stops:
                break
    return ids, getattr(result, "sequences_scores", None)


LENGTHS = (3, 1, 5, 2)
STOP_IDS = (4, 11, 7, 2)
MOST_TOKENS = 20


def text_generation(count, stops, **options):
    """Of the same tables and prompts, with so many of the stop ids."""

    def run(last, before, place, ids, lengths, stop_ids):
        prompts = [row[None, :length] for row, length in zip(ids, lengths.tolist())]
        arguments = dict(options)
        if options.get("num_beams", 1) > 1:
            arguments["num_return_sequences"] = options["num_beams"]
        if stops:
            arguments["eos_token_id"] = stop_ids[:stops].tolist()
        with torch.no_grad(), in_double():
            model = Tables(last, before, place)
            found = [continuations(model, prompt, count, arguments) for prompt in prompts]
        # As it is: in float32, and with logits a little off.
        for noise in (0, 5, 6):
            with torch.no_grad():
                other = last + 1e-5 * (random_tensor(noise, last.shape) if noise else 0)
                model = Tables(other.float(), before.float(), place.float())
                again = [continuations(model, prompt, count, arguments) for prompt in prompts]
            for (ids, _), (ids_again, _) in zip(found, again):
                assert torch.equal(ids, ids_again), (options, noise)
        sequences = torch.stack([ids for ids, _ in found])
        print(options, (sequences >= 0).sum(dim=-1).tolist())
        outputs = {"sequences": sequences.double()}
        if options.get("num_beams", 1) > 1:
            outputs["scores"] = torch.stack([scores for _, scores in found])
        return outputs

    shape = (VOCABULARY, VOCABULARY)
    inputs = {
        "last": random_tensor(1, shape, scale=1.5),
        "before": random_tensor(2, shape, scale=1.5),
        "place": random_tensor(3, (max(LENGTHS) + MOST_TOKENS, VOCABULARY), scale=0.5),
        "ids": random_ids(4, (len(LENGTHS), max(LENGTHS)), 0, VOCABULARY),
        "lengths": torch.tensor(LENGTHS),
        "stop_ids": torch.tensor(STOP_IDS),
    }
    return inputs, {"max_new_tokens": count, "stops": stops, **options}, run


def make():
    file = GoldenFile("text_generation")
    for case, (inputs, config, run) in {
        "greedy": text_generation(20, 2),
        "greedy_penalty": text_generation(20, 1, repetition_penalty=1.5),
        "greedy_minimum": text_generation(20, 4, min_new_tokens=6),
        "beams": text_generation(12, 0, num_beams=3),
        "beams_stop": text_generation(14, 2, num_beams=4),
        "beams_early": text_generation(14, 2, num_beams=4, early_stopping=True),
        "beams_short": text_generation(14, 2, num_beams=3, length_penalty=-1.0),
        "beams_sum": text_generation(14, 3, num_beams=3, length_penalty=0.0),
        "beams_long": text_generation(14, 2, num_beams=5, length_penalty=2.0),
        "beams_minimum": text_generation(10, 3, num_beams=3, min_new_tokens=5),
        "beams_penalty": text_generation(10, 1, num_beams=3, repetition_penalty=1.4),
    }.items():
        file.add(
            case,
            "TextGeneration",
            config,
            "transformers.GenerationMixin.generate",
            run,
            inputs=inputs,
            gradients=False,
        )
    return file


if __name__ == "__main__":
    make().write()
