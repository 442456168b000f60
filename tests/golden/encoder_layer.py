# SPDX-License-Identifier: MIT
"""EncoderLayer: torch.nn.TransformerEncoderLayer in both norm placements, with ReLU and GELU, with
and without biases, under masks; and a layer with RMSNorm and SwiGLU from torch.nn parts.
"""

import torch

from feed_forward import GatedFeedForward
from golden import GoldenFile, causal, key_padding, random_tensor, randomize, rename
from multi_head_attention import GroupedAttention, split_in_projection

B, T, C, H, F = 3, 7, 10, 2, 13
LENGTHS = [7, 4, 0]


def torch_layer_names(state):
    """Key map of torch.nn.TransformerEncoderLayer and torch.nn.TransformerEncoder."""
    prefixes = {name[: name.index("self_attn.")] for name in state if "self_attn." in name}
    for prefix in prefixes:
        state = split_in_projection(f"{prefix}self_attn.")(state)
    final = {
        f"final_norm.{name[5:]}" if name.startswith("norm.") else name: t
        for name, t in state.items()
    }
    return rename(
        ("self_attn.", "attention."),
        ("linear1.", "feed_forward.linear_1."),
        ("linear2.", "feed_forward.linear_2."),
        ("norm1.", "attention_norm."),
        ("norm2.", "feed_forward_norm."),
    )(final)


def torch_layer(norm_first, activation="relu", bias=True, eps=1e-5):
    return torch.nn.TransformerEncoderLayer(
        C,
        H,
        F,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=eps,
        batch_first=True,
        norm_first=norm_first,
        bias=bias,
    )


def configuration(norm_first, activation, bias=True, eps=1e-5):
    config = {
        "hidden_size": C,
        "num_attention_heads": H,
        "intermediate_size": F,
        "activation": activation,
        "norm_placement": "pre" if norm_first else "post",
        "layer_norm_eps": eps,
    }
    return config if bias else config | {"bias": False}


def masks():
    """Name: (torch.nn arguments, fields of Mask). PyTorch's boolean masks say what is blocked."""
    blocked = ~key_padding(LENGTHS, T)
    return {
        "no_mask": ({}, {}),
        "causal": ({"src_mask": ~causal(T, T)}, {"causal": True}),
        "padding": ({"src_key_padding_mask": blocked}, {"key_lengths": LENGTHS}),
        "causal_padding": (
            {"src_mask": ~causal(T, T), "src_key_padding_mask": blocked},
            {"causal": True, "key_lengths": LENGTHS},
        ),
    }


class RMSNormSwiGLULayer(torch.nn.Module):
    """x + attention(norm(x)), then x + gated(norm(x))."""

    def __init__(self, hidden, heads, key_heads, intermediate, eps, bias):
        super().__init__()
        self.attention_norm = torch.nn.RMSNorm(hidden, eps=eps)
        self.attention = GroupedAttention(hidden, heads, key_heads, hidden // heads, (bias,) * 4)
        self.feed_forward_norm = torch.nn.RMSNorm(hidden, eps=eps)
        self.feed_forward = GatedFeedForward("silu", bias, hidden, intermediate)

    def forward(self, x, allowed=None):
        normed = self.attention_norm(x)
        x = x + self.attention(normed, normed, allowed)
        return x + self.feed_forward(self.feed_forward_norm(x))


def make():
    files = []
    x = random_tensor(1, (B, T, C))
    for norm_first in (False, True):
        file = GoldenFile(f"encoder_layer_{'pre' if norm_first else 'post'}")
        for activation in ("relu", "gelu"):
            for bias in (True, False):
                layer = randomize(torch_layer(norm_first, activation, bias), seed=2)
                for name, (arguments, mask) in masks().items():
                    case = f"{activation}{'' if bias else '_no_bias'}_{name}"
                    file.add(
                        case,
                        "EncoderLayer",
                        configuration(norm_first, activation, bias),
                        "torch.nn.TransformerEncoderLayer",
                        lambda x: layer(x, **arguments),
                        inputs={"x": x},
                        torch_module=layer,
                        convert=torch_layer_names,
                        mask=mask,
                        gradients=True if name == "causal_padding" else "input",
                    )
        layer = randomize(torch_layer(norm_first, "gelu", eps=1e-12), seed=3)
        file.add(
            "small_eps",
            "EncoderLayer",
            configuration(norm_first, "gelu", eps=1e-12),
            "torch.nn.TransformerEncoderLayer",
            layer,
            inputs={"x": random_tensor(4, (B, T, C), scale=1e-3)},
            torch_module=layer,
            convert=torch_layer_names,
            gradients="input",
        )
        files.append(file)

    file = GoldenFile("encoder_layer_gated")
    for key_heads in (2, 1):
        for bias in (True, False):
            layer = randomize(RMSNormSwiGLULayer(C, H, key_heads, F, 1e-6, bias), seed=5)
            config = {
                "hidden_size": C,
                "num_attention_heads": H,
                "num_key_value_heads": key_heads,
                "intermediate_size": F,
                "activation": "silu",
                "norm_placement": "pre",
                "rms_norm_eps": 1e-6,
            } | ({} if bias else {"bias": False})
            stem = ("grouped" if key_heads < H else "all_heads") + ("" if bias else "_no_bias")
            source = (
                "torch.nn parts: RMSNorm, Linear, SiLU, functional.scaled_dot_product_attention"
            )
            file.add(
                stem,
                "EncoderLayer<RMSNorm, GatedFeedForward>",
                config,
                source,
                lambda x: layer(x),
                inputs={"x": x},
                torch_module=layer,
            )
            allowed = key_padding(LENGTHS, T)[:, None, None] & causal(T, T)
            file.add(
                f"{stem}_causal_padding",
                "EncoderLayer<RMSNorm, GatedFeedForward>",
                config,
                source,
                lambda x: layer(x, allowed),
                inputs={"x": x},
                torch_module=layer,
                mask={"causal": True, "key_lengths": LENGTHS},
                gradients="input",
            )
    files.append(file)
    return files


if __name__ == "__main__":
    for file in make():
        file.write()
