# SPDX-License-Identifier: MIT
"""MultiHeadAttention: torch.nn.MultiheadAttention, whose stacked in_proj is split into query, key
and value; and attention with grouped heads, a head size of its own and single missing biases,
put together from torch.nn.Linear and torch.nn.functional.scaled_dot_product_attention.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from golden import GoldenFile, causal, key_padding, random_tensor, randomize

B, T, S, C, H = 3, 7, 11, 10, 2


def split_in_projection(prefix=""):
    """Key map of torch.nn.MultiheadAttention under `prefix`."""

    def convert(state):
        converted = {}
        for name, tensor in state.items():
            if name in (f"{prefix}in_proj_weight", f"{prefix}in_proj_bias"):
                kind = name.rsplit("_", 1)[1]
                for part, piece in zip(("query", "key", "value"), tensor.chunk(3)):
                    converted[f"{prefix}{part}.{kind}"] = piece
            elif name in (f"{prefix}{part}_proj_weight" for part in "qkv"):
                part = {"q": "query", "k": "key", "v": "value"}[name[len(prefix)]]
                converted[f"{prefix}{part}.weight"] = tensor
            else:
                converted[name.replace(f"{prefix}out_proj.", f"{prefix}output.")] = tensor
        return converted

    return convert


class GroupedAttention(torch.nn.Module):
    def __init__(self, hidden, heads, key_heads, head_size, biases, scale=None):
        super().__init__()
        self.heads, self.key_heads, self.head_size, self.scale = heads, key_heads, head_size, scale
        self.query = torch.nn.Linear(hidden, heads * head_size, biases[0])
        self.key = torch.nn.Linear(hidden, key_heads * head_size, biases[1])
        self.value = torch.nn.Linear(hidden, key_heads * head_size, biases[2])
        self.output = torch.nn.Linear(heads * head_size, hidden, biases[3])

    def forward(self, query, memory, allowed=None):
        def split(x, heads):
            return x.unflatten(-1, (heads, self.head_size)).transpose(1, 2)

        y = scaled_dot_product_attention(
            split(self.query(query), self.heads),
            split(self.key(memory), self.key_heads),
            split(self.value(memory), self.key_heads),
            allowed,
            scale=self.scale,
            enable_gqa=self.heads != self.key_heads,
        )
        return self.output(y.transpose(1, 2).flatten(2))


def make():
    file = GoldenFile("multi_head_attention")
    source = "torch.nn.MultiheadAttention"
    x, query = random_tensor(1, (B, T, C)), random_tensor(2, (B, T, C))
    key, value = random_tensor(3, (B, S, C)), random_tensor(4, (B, S, C))

    def add(
        case,
        inputs,
        mask=None,
        bias=True,
        weights=False,
        key_width=C,
        value_width=C,
        gradients=True,
        **torch_masks,
    ):
        module = randomize(
            torch.nn.MultiheadAttention(
                C, H, bias=bias, kdim=key_width, vdim=value_width, batch_first=True
            ),
            seed=5,
        )
        config = {"hidden_size": C, "num_attention_heads": H}
        if key_width != C or value_width != C:
            config |= {"key_value_size": key_width, "value_size": value_width}
        if not bias:
            config |= {f"{part}_bias": False for part in ("query", "key", "value", "output")}

        def run(*arguments):
            arguments = (
                arguments * (3 // len(arguments))
                if len(arguments) != 2
                else (*arguments, arguments[1])
            )
            y, attention_weights = module(
                *arguments, need_weights=weights, average_attn_weights=False, **torch_masks
            )
            return {"y": y, "weights": attention_weights} if weights else y

        file.add(
            case,
            "MultiHeadAttention",
            config,
            source,
            run,
            inputs=inputs,
            torch_module=module,
            convert=split_in_projection(),
            mask=mask,
            constants=("weights",),
            gradients=gradients,
        )

    # torch.nn.MultiheadAttention's boolean masks say what is blocked, hence the negations.
    lengths = [7, 4, 0]
    padding = ~key_padding(lengths, T)
    add("self", {"x": x})
    add("self_no_bias", {"x": x}, bias=False)
    add("self_weights", {"x": x}, weights=True, gradients="input")
    add("self_causal", {"x": x}, {"causal": True}, attn_mask=~causal(T, T), gradients="input")
    add(
        "self_causal_weights",
        {"x": x},
        {"causal": True},
        weights=True,
        attn_mask=~causal(T, T),
        gradients="input",
    )
    add("self_padding", {"x": x}, {"key_lengths": lengths}, key_padding_mask=padding)
    add(
        "self_causal_padding",
        {"x": x},
        {"causal": True, "key_lengths": lengths},
        key_padding_mask=padding,
        attn_mask=~causal(T, T),
    )
    each = random_tensor(6, (B, H, T, T)) > 0.3
    add(
        "self_allowed_each",
        {"x": x},
        {"allowed": each},
        attn_mask=~each.flatten(0, 1),
        gradients="input",
    )
    scores = random_tensor(7, (T, T))
    add("self_bias_scores", {"x": x}, {"bias": scores}, attn_mask=scores, gradients="input")
    add("cross", {"query": query, "memory": key})
    add("cross_three_inputs", {"query": query, "key": key, "value": value}, gradients="input")
    scattered = random_tensor(8, (B, S)) > -0.5
    add(
        "cross_padding",
        {"query": query, "memory": key},
        {"key_allowed": scattered},
        key_padding_mask=~scattered,
        gradients="input",
    )
    add(
        "cross_widths",
        {
            "query": query,
            "key": random_tensor(9, (B, S, 13)),
            "value": random_tensor(10, (B, S, 17)),
        },
        key_width=13,
        value_width=17,
    )
    add(
        "cross_widths_no_bias",
        {
            "query": query,
            "key": random_tensor(9, (B, S, 13)),
            "value": random_tensor(10, (B, S, 17)),
        },
        key_width=13,
        value_width=17,
        bias=False,
        gradients="input",
    )

    def grouped(
        case,
        hidden,
        heads,
        key_heads,
        head_size,
        biases=(True,) * 4,
        scale=None,
        mask=None,
        allowed=None,
    ):
        module = randomize(
            GroupedAttention(hidden, heads, key_heads, head_size, biases, scale), seed=11
        )
        config = {
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": key_heads,
            "head_size": head_size,
        }
        config |= {
            f"{part}_bias": bias for part, bias in zip(("query", "key", "value", "output"), biases)
        }
        if scale is not None:
            config["scale"] = scale
        file.add(
            case,
            "MultiHeadAttention",
            config,
            "torch.nn.Linear, torch.nn.functional.scaled_dot_product_attention",
            lambda x: module(x, x, allowed),
            inputs={"x": random_tensor(12, (2, 5, hidden))},
            torch_module=module,
            mask=mask,
        )

    grouped("head_size", 7, 2, 2, 3)
    grouped("grouped", 7, 6, 2, 3)
    grouped("multi_query_causal", 7, 5, 1, 3, mask={"causal": True}, allowed=causal(5, 5))
    grouped("no_key_bias", 7, 2, 2, 3, biases=(True, False, True, True))
    grouped("only_output_bias", 7, 2, 2, 3, biases=(False, False, False, True))
    grouped("scale", 7, 2, 2, 3, scale=1.0)
    return file


if __name__ == "__main__":
    make().write()
