# SPDX-License-Identifier: MIT
"""T5 in both versions and BART, tiny and random: directories checkpoints/<name> with their numbers
and what transformers generates from them.

ids are sources of key_lengths tokens, padded on the right; decoder_ids are targets, their start
token first. `encoder` is the last hidden state of the encoder and `logits` those of the whole pass.
`greedy` (B, N) and "BeamSearch" are as in decoders.py; each begins with the start token, which
isn't part of the results.
"""

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from checkpoint import save_directory
from decoders import Checkpoints, V, prompts
from generation import double_model, greedy, in_double, require_same
from golden import FOLDER, key_padding, random_ids, random_tensor

LENGTHS = [11, 5, 1]
STEPS = 20
T5_START, T5_END = 0, 16  # ends some beams early and others never
BART_START = 2


class EncoderDecoderCheckpoints(Checkpoints):
    def add(self, case, model, start, change=None, change_config=None):
        ids = prompts(LENGTHS)
        decoder_ids = random_ids(2, (len(LENGTHS), 7), 3, V)
        decoder_ids[:, 0] = start
        name = type(model).__name__

        def run(m, i, d):
            mask = key_padding(LENGTHS, i.shape[1]).long()
            found = m(i, attention_mask=mask, decoder_input_ids=d)
            return {"encoder": found.encoder_last_hidden_state, "logits": found.logits}

        def outputs(i, d):
            with torch.no_grad(), in_double():
                return run(model, i, d) | {"greedy": greedy(model, i, LENGTHS, STEPS)}

        found = self.file.add(
            case,
            name,
            {},
            f"transformers.{name}",
            outputs,
            inputs={"ids": ids, "decoder_ids": decoder_ids},
            mask={"key_lengths": LENGTHS},
            gradients=False,
            extra={"directory": case},
        )
        save_directory(model, self.folder / case, change, change_config)
        require_same(
            lambda m: run(m, ids, decoder_ids)["logits"],
            model,
            self.folder / case,
            found["logits"],
        )


def alternate(scales):
    """Every other one negative: a tied output projection would repeat its input for ever."""
    scales.mul_(torch.tensor([1.0, -1.0]).repeat(len(scales) // 2))


@torch.no_grad()
def t5(seed, **options):
    config = T5Config(
        **{
            "vocab_size": V,
            "d_model": 10,
            "d_kv": 6,
            "d_ff": 23,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "num_heads": 3,
            "pad_token_id": 0,
            "eos_token_id": T5_END,
            "decoder_start_token_id": T5_START,
        }
        | options
    )

    def build(config):
        model = T5ForConditionalGeneration(config)
        if not config.scale_decoder_outputs:
            model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
        return model

    model = double_model(build, config, seed, gain=1.0)
    alternate(model.decoder.final_layer_norm.weight)
    model.shared.weight *= 2
    for block in model.decoder.block:
        block.layer[1].EncDecAttention.o.weight *= 0.5
    for stack in (model.encoder, model.decoder):
        stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight *= 4
    return model


@torch.no_grad()
def bart(seed):
    config = BartConfig(
        vocab_size=V,
        max_position_embeddings=29,
        d_model=12,
        encoder_layers=2,
        encoder_attention_heads=3,
        encoder_ffn_dim=23,
        decoder_layers=3,
        decoder_attention_heads=3,
        decoder_ffn_dim=23,
        scale_embedding=True,
        forced_eos_token_id=None,
    )
    model = double_model(BartForConditionalGeneration, config, seed, gain=1.0)
    model.final_logits_bias.copy_(random_tensor(seed, (1, V), scale=0.25))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter *= 0.25
    for layer in model.model.decoder.layers:
        layer.encoder_attn.out_proj.weight *= 0.5
    model.model.decoder.embed_positions.weight *= 4
    alternate(model.model.decoder.layers[-1].final_layer_norm.weight)
    return model


def with_stray_table(tensors):
    """T5's first files have a table that belongs to nothing."""
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return tensors | {name: random_tensor(3, (32, 3)).float()}


def as_version_4(config):
    """As T5 v1.1 and FLAN-T5 are stored. Version 5 of transformers says `scale_decoder_outputs`
    instead and `tie_word_embeddings` of every T5.
    """
    tied = config.pop("scale_decoder_outputs", True)
    return config | {"tie_word_embeddings": tied}


def make(folder=FOLDER):
    checkpoints = EncoderDecoderCheckpoints("encoder_decoder_checkpoints", folder)
    model = t5(13)
    checkpoints.add("t5", model, T5_START, with_stray_table)
    penalties = {"t5_beams": 1.0, "t5_beams_short": 0.6}
    checkpoints.add_beams(penalties, model, "t5", T5_END)
    gated = t5(
        14,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        relative_attention_num_buckets=14,
        relative_attention_max_distance=17,
    )
    checkpoints.add("t5_v1_1", gated, T5_START, change_config=as_version_4)
    checkpoints.add("bart", bart(10), BART_START)
    return checkpoints.file


if __name__ == "__main__":
    make().write()
