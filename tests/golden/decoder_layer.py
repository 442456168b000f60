# SPDX-License-Identifier: MIT
"""DecoderLayer: torch.nn.TransformerDecoderLayer in both norm placements, with ReLU and GELU, with
and without biases, under masks of the targets and of the memory. The causal mask, which PyTorch
must be given, isn't stored: the layer is always causal.
"""

import torch

from golden import GoldenFile, causal, key_padding, random_tensor, randomize, rename
from multi_head_attention import split_in_projection

B, T, S, C, H, F = 3, 7, 11, 10, 2, 13
LENGTHS = [7, 4, 0]
MEMORY_LENGTHS = [11, 0, 5]


def torch_layer_names(state):
    """Key map of torch.nn.TransformerDecoderLayer and torch.nn.TransformerDecoder."""
    for attention in ("self_attn.", "multihead_attn."):
        prefixes = {name[: name.index(attention)] for name in state if attention in name}
        for prefix in prefixes:
            state = split_in_projection(f"{prefix}{attention}")(state)
    final = {
        f"final_norm.{name[5:]}" if name.startswith("norm.") else name: t
        for name, t in state.items()
    }
    return rename(
        ("self_attn.", "self_attention."),
        ("multihead_attn.", "cross_attention."),
        ("linear1.", "feed_forward.linear_1."),
        ("linear2.", "feed_forward.linear_2."),
        ("norm1.", "self_attention_norm."),
        ("norm2.", "cross_attention_norm."),
        ("norm3.", "feed_forward_norm."),
    )(final)


def torch_layer(norm_first, activation="relu", bias=True):
    return torch.nn.TransformerDecoderLayer(
        C,
        H,
        F,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        bias=bias,
    )


def configuration(norm_first, activation, bias=True):
    config = {
        "hidden_size": C,
        "num_attention_heads": H,
        "intermediate_size": F,
        "cross_attention": True,
        "activation": activation,
        "norm_placement": "pre" if norm_first else "post",
        "layer_norm_eps": 1e-5,
    }
    return config if bias else config | {"bias": False}


def bias_tensor(seed, shape):
    """Numbers, and some keys that are left out."""
    return random_tensor(seed, shape).masked_fill(random_tensor(seed + 1, shape) > 1.2, -torch.inf)


def masks():
    """Name: (torch.nn arguments, fields of Mask, fields of the memory's Mask). PyTorch's boolean
    masks say what is blocked.
    """
    triangle = {"tgt_mask": ~causal(T, T)}
    padding = {"tgt_key_padding_mask": ~key_padding(LENGTHS, T)}
    memory_padding = {"memory_key_padding_mask": ~key_padding(MEMORY_LENGTHS, S)}
    allowed = random_tensor(11, (T, S)) > -0.5
    allowed[2] = False
    target_allowed = random_tensor(12, (T, T)) > -0.5
    target_allowed |= torch.eye(T, dtype=torch.bool)
    bias, target_bias = bias_tensor(13, (T, S)), bias_tensor(15, (T, T))
    target_bias.fill_diagonal_(0.5)
    torch_target_bias = target_bias.masked_fill(~causal(T, T), -torch.inf)
    lengths, memory_lengths = {"key_lengths": LENGTHS}, {"key_lengths": MEMORY_LENGTHS}
    return {
        "causal": (triangle, {}, {}),
        "padding": (triangle | padding, lengths, {}),
        "allowed": (
            {"tgt_mask": ~(causal(T, T) & target_allowed)},
            {"allowed": target_allowed},
            {},
        ),
        "bias": ({"tgt_mask": torch_target_bias}, {"bias": target_bias}, {}),
        "memory_padding": (triangle | memory_padding, {}, memory_lengths),
        "memory_allowed": (triangle | {"memory_mask": ~allowed}, {}, {"allowed": allowed}),
        "memory_bias": (triangle | {"memory_mask": bias}, {}, {"bias": bias}),
        "all_allowed": (
            triangle | padding | memory_padding | {"memory_mask": ~allowed},
            lengths,
            memory_lengths | {"allowed": allowed},
        ),
        "all_bias": (
            {"tgt_mask": torch_target_bias, "memory_mask": bias}
            | {name: zero_or_blocked(m) for name, m in (padding | memory_padding).items()},
            lengths | {"bias": target_bias},
            memory_lengths | {"bias": bias},
        ),
    }


def zero_or_blocked(blocked):
    """PyTorch wants both masks of one type."""
    return torch.zeros(blocked.shape).masked_fill(blocked, -torch.inf)


def make():
    files = []
    inputs = {"x": random_tensor(1, (B, T, C)), "memory": random_tensor(2, (B, S, C))}
    for norm_first in (False, True):
        file = GoldenFile(f"decoder_layer_{'pre' if norm_first else 'post'}")
        for activation in ("relu", "gelu"):
            for bias in (True, False):
                layer = randomize(torch_layer(norm_first, activation, bias), seed=3)
                for name, (arguments, mask, memory_mask) in masks().items():
                    case = f"{activation}{'' if bias else '_no_bias'}_{name}"
                    file.add(
                        case,
                        "DecoderLayer",
                        configuration(norm_first, activation, bias),
                        "torch.nn.TransformerDecoderLayer",
                        lambda x, memory: layer(x, memory, **arguments),
                        inputs=inputs,
                        torch_module=layer,
                        convert=torch_layer_names,
                        mask=mask,
                        memory_mask=memory_mask,
                        gradients={
                            "relu_all_allowed": True,
                            "gelu_no_bias_all_allowed": True,
                            "gelu_all_bias": "input",
                        }.get(case, False),
                    )
        files.append(file)
    return files


if __name__ == "__main__":
    for file in make():
        file.write()
