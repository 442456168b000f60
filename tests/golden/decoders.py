# SPDX-License-Identifier: MIT
"""GPT-2, Llama with every scaling of its rotary positions, Mistral, Qwen2 and Qwen3, tiny and
random: directories checkpoints/<name> with their logits and what transformers generates from them.

ids are prompts of key_lengths tokens, padded on the right. `logits` come from one pass over the
padded batch; `greedy` (B, N) follows each row by itself, without padding, with and without cache.
The cases of module "BeamSearch" hold the `sequences` (B, beams, N), best first and padded with 0,
their `sizes` (B, beams) and `scores`, the sum of their tokens' log-probabilities divided by
size^length_penalty; the end token counts.
"""

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from checkpoint import save_directory
from generation import beam_search, double_model, greedy, in_double, require_same
from golden import FOLDER, GoldenFile, key_padding, random_ids

V, B, T = 37, 3, 11
LENGTHS = [11, 5, 1]
STEPS = 20
GPT2_END = 30  # ends some beams early and others never
LLAMA = {
    "vocab_size": V,
    "hidden_size": 20,
    "intermediate_size": 29,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 61,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LINEAR = {"rope_type": "linear", "factor": 2.5, "rope_theta": 1000.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 1000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 31,
    "rope_theta": 500.0,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 3.0,
    "beta_slow": 0.5,
    "original_max_position_embeddings": 23,
    "rope_theta": 500.0,
}


def as_version_4(config):
    """As most files are: version 5 of transformers writes `rope_parameters`, the versions before
    `rope_theta` and `rope_scaling`; the first ones said `type` for `rope_type` and had no
    `head_dim`.
    """
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if rope["rope_type"] == "default":
        del config["head_dim"]
    if rope["rope_type"] == "linear":
        rope["type"] = rope.pop("rope_type")
    return config


def prompts(lengths):
    ids = random_ids(1, (len(lengths), max(lengths)), 3, V)
    ids[~key_padding(lengths, max(lengths))] = 0
    return ids


class Checkpoints:
    """The golden file, and one directory after the other."""

    def __init__(self, name, folder):
        self.file = GoldenFile(name)
        self.folder = folder / "checkpoints"

    def add(self, case, model, lengths=LENGTHS, directory=None, steps=STEPS, change_config=None):
        ids = prompts(lengths)
        padded = min(lengths) < max(lengths)
        name = type(model).__name__

        def run(m, i):
            mask = key_padding(lengths, i.shape[1]).long() if padded else None
            return m(i, attention_mask=mask).logits

        def outputs(ids):
            with torch.no_grad(), in_double():
                found = {"logits": run(model, ids)}
                if steps:
                    found["greedy"] = greedy(model, ids, lengths, steps)
                return found

        found = self.file.add(
            case,
            name,
            {},
            f"transformers.{name}",
            outputs,
            inputs={"ids": ids},
            mask={"key_lengths": lengths} if padded else {},
            gradients=False,
            extra={"directory": directory or case},
        )
        if directory is None:
            save_directory(model, self.folder / case, change_config=change_config)
        require_same(
            lambda m: run(m, ids), model, self.folder / (directory or case), found["logits"]
        )

    def add_beams(self, penalties, model, directory, end, count=13, beams=3):
        for case, length_penalty in penalties.items():
            with torch.no_grad(), in_double():
                self.file.add(
                    case,
                    "BeamSearch",
                    {},
                    f"transformers.{type(model).__name__}.generate",
                    lambda ids: beam_search(model, ids, LENGTHS, count, beams, length_penalty, end),
                    inputs={"ids": prompts(LENGTHS)},
                    mask={"key_lengths": LENGTHS},
                    gradients=False,
                    extra={
                        "directory": directory,
                        "num_beams": beams,
                        "length_penalty": length_penalty,
                        "max_new_tokens": count,
                        "eos_token_id": end,
                    },
                )


def gpt2(seed):
    return double_model(
        GPT2LMHeadModel,
        GPT2Config(
            vocab_size=V,
            n_positions=41,
            n_embd=10,
            n_layer=3,
            n_head=2,
            n_inner=23,
            bos_token_id=1,
            eos_token_id=GPT2_END,
        ),
        seed,
    )


def llama_like(kind, config, seed, **options):
    return double_model(kind, config(**(LLAMA | options)), seed)


def make(folder=FOLDER):
    # Seeds for which the runner-up of no step comes near.
    checkpoints = Checkpoints("decoder_checkpoints", folder)
    model = gpt2(78)
    checkpoints.add("gpt2", model)
    penalties = {"gpt2_beams": 1.0, "gpt2_beams_short": 0.6}
    checkpoints.add_beams(penalties, model, "gpt2", GPT2_END)

    def llama(seed, rope=None, **options):
        rope = {"rope_parameters": rope, "head_dim": 10} if rope else {}
        return llama_like(LlamaForCausalLM, LlamaConfig, seed, **rope, **options)

    checkpoints.add("llama", llama(10, hidden_size=24), change_config=as_version_4)
    checkpoints.add("llama_linear", llama(11, LINEAR), change_config=as_version_4)
    checkpoints.add("llama_llama3", llama(10, LLAMA3), change_config=as_version_4)
    checkpoints.add("llama_yarn", llama(10, YARN))
    dynamic = llama(12, DYNAMIC, max_position_embeddings=T + STEPS)
    checkpoints.add("llama_dynamic", dynamic)
    checkpoints.add("llama_dynamic_long", dynamic, [43, 43], "llama_dynamic", steps=0)
    mistral = llama_like(MistralForCausalLM, MistralConfig, 10, sliding_window=5, head_dim=6)
    checkpoints.add("mistral", mistral, [17, 5, 1])
    checkpoints.add("qwen2", llama_like(Qwen2ForCausalLM, Qwen2Config, 10, hidden_size=24))
    qwen3 = {"head_dim": 14, "tie_word_embeddings": True}
    checkpoints.add("qwen3", llama_like(Qwen3ForCausalLM, Qwen3Config, 11, **qwen3))
    return checkpoints.file


if __name__ == "__main__":
    make().write()
