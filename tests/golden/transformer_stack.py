# SPDX-License-Identifier: MIT
"""DecoderStack: torch.nn.TransformerDecoder with and without the final norm. TransformerStack:
torch.nn.Transformer, whose two halves end with a norm each in either placement, under each
combination of masks. Sources and targets differ in length, encoder and decoder in depth.
"""

import itertools

import torch

import encoder_layer
from decoder_layer import (
    B,
    C,
    F,
    H,
    LENGTHS,
    MEMORY_LENGTHS,
    S,
    T,
    configuration,
    masks,
    torch_layer,
    torch_layer_names,
)
from golden import GoldenFile, causal, key_padding, random_tensor, randomize


def torch_names(state):
    """Key map of torch.nn.Transformer."""
    converted = {}
    for half, names in (
        ("encoder.", encoder_layer.torch_layer_names),
        ("decoder.", torch_layer_names),
    ):
        part = {name[len(half) :]: t for name, t in state.items() if name.startswith(half)}
        converted |= {half + name: t for name, t in names(part).items()}
    return converted


def decoder_stack():
    file = GoldenFile("decoder_stack")
    inputs = {"x": random_tensor(1, (B, T, C)), "memory": random_tensor(2, (B, S, C))}
    for case, depth, norm_first, activation, final_norm, mask_name in (
        ("post", 2, False, "relu", False, "causal"),
        ("post_final_norm", 3, False, "gelu", True, "all_allowed"),
        ("pre", 3, True, "gelu", False, "all_bias"),
        ("pre_final_norm", 2, True, "gelu", True, "causal"),
        ("pre_final_norm_padding", 2, True, "gelu", True, "padding"),
        ("pre_final_norm_memory_padding", 2, True, "gelu", True, "memory_padding"),
    ):
        norm = torch.nn.LayerNorm(C) if final_norm else None
        stack = torch.nn.TransformerDecoder(torch_layer(norm_first, activation), depth, norm)
        randomize(stack, seed=3)
        arguments, mask, memory_mask = masks()[mask_name]
        file.add(
            case,
            "DecoderStack",
            configuration(norm_first, activation)
            | {"num_hidden_layers": depth, "final_norm": final_norm},
            "torch.nn.TransformerDecoder",
            lambda x, memory: stack(x, memory, **arguments),
            inputs=inputs,
            torch_module=stack,
            convert=torch_layer_names,
            mask=mask,
            memory_mask=memory_mask,
            gradients=True if case == "pre_final_norm" else "input",
        )
    return file


def transformer_stacks():
    inputs = {"source": random_tensor(1, (B, S, C)), "target": random_tensor(2, (B, T, C))}
    source_mask = random_tensor(21, (S, S)) > -0.7
    memory_mask = random_tensor(22, (T, S)) > -0.7
    parts = {
        "source_padding": (
            {"src_key_padding_mask": ~key_padding(MEMORY_LENGTHS, S)},
            {"source_mask": {"key_lengths": MEMORY_LENGTHS}},
        ),
        "source_allowed": ({"src_mask": ~source_mask}, {"source_mask": {"allowed": source_mask}}),
        "target_padding": (
            {"tgt_key_padding_mask": ~key_padding(LENGTHS, T)},
            {"mask": {"key_lengths": LENGTHS}},
        ),
        "memory_padding": (
            {"memory_key_padding_mask": ~key_padding(MEMORY_LENGTHS, S)},
            {"memory_mask": {"key_lengths": MEMORY_LENGTHS}},
        ),
        "memory_allowed": (
            {"memory_mask": ~memory_mask},
            {"memory_mask": {"allowed": memory_mask}},
        ),
    }
    subsets = [c for n in range(len(parts) + 1) for c in itertools.combinations(parts, n)]
    files = []
    for norm_first in (False, True):
        file = GoldenFile(f"transformer_stack_{'pre' if norm_first else 'post'}")
        stack = torch.nn.Transformer(
            C, H, 2, 3, F, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        randomize(stack, seed=4)
        stack.encoder.use_nested_tensor = False
        half = {
            "hidden_size": C,
            "num_attention_heads": H,
            "intermediate_size": F,
            "activation": "relu",
            "norm_placement": "pre" if norm_first else "post",
            "final_norm": True,
            "layer_norm_eps": 1e-5,
        }
        config = {
            "encoder": half | {"num_hidden_layers": 2},
            "decoder": half | {"num_hidden_layers": 3},
        }
        for subset in subsets:
            arguments, fields = {"tgt_mask": ~causal(T, T)}, {}
            for name in subset:
                arguments |= parts[name][0]
                for mask, values in parts[name][1].items():
                    fields[mask] = fields.get(mask, {}) | values
            file.add(
                "_".join(subset) or "causal",
                "TransformerStack",
                config,
                "torch.nn.Transformer",
                lambda source, target: stack(source, target, **arguments),
                inputs=inputs,
                torch_module=stack,
                convert=torch_names,
                gradients="input" if len(subset) in (0, len(parts)) else False,
                **fields,
            )
        files.append(file)
    return files


def make():
    return [decoder_stack(), *transformer_stacks()]


if __name__ == "__main__":
    for file in make():
        file.write()
