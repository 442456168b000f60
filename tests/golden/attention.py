# SPDX-License-Identifier: MIT
"""scaled_dot_product_attention: torch.nn.functional.scaled_dot_product_attention under every
constraint of `Mask`.

PyTorch takes one mask; here the constraints of a case are combined into one boolean mask (all
must allow), or into -infinity in an additive one. Queries that may see no key give zeros
(PyTorch 2.5 and newer).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from golden import GoldenFile, causal, key_padding, random_tensor, sliding_window

B, H, T, S, D, E = 2, 3, 5, 7, 11, 13


def make():
    files = []

    def group(name, heads=H, key_heads=H, batch=B):
        file = GoldenFile(name)
        files.append(file)
        inputs = {
            "query": random_tensor(1, (batch, heads, T, D)),
            "key": random_tensor(2, (batch, key_heads, S, D)),
            "value": random_tensor(3, (batch, key_heads, S, E)),
        }

        def add(case, mask=None, allowed=None, **options):
            mask = dict(mask or {})
            torch_mask = allowed
            if "bias" in mask:
                torch_mask = mask["bias"]
                if allowed is not None:
                    torch_mask = torch_mask.masked_fill(~allowed, -torch.inf)

            def run(query, key, value):
                return scaled_dot_product_attention(
                    query, key, value, torch_mask, enable_gqa=key_heads != heads, **options
                )

            config = {"scale": options["scale"]} if "scale" in options else {}
            y = file.add(
                case,
                "scaled_dot_product_attention",
                config,
                "torch.nn.functional.scaled_dot_product_attention",
                run,
                inputs=inputs,
                mask=mask,
            )["y"]
            if allowed is not None:
                blocked = ~allowed.expand(batch, heads, T, S).any(-1)
                assert (y[blocked] == 0).all()

        return add

    add = group("attention")
    add("no_mask")
    add("scale", scale=0.75)
    add(
        "causal", {"causal": True}, is_causal=True
    )  # aligned to the first key, as ours with query_offset = 0
    add("causal_offset", {"causal": True, "query_offset": 2}, causal(T, S, 2))
    add("key_lengths", {"key_lengths": [7, 3]}, key_padding([7, 3], S)[:, None, None])
    add("key_lengths_empty", {"key_lengths": [0, 5]}, key_padding([0, 5], S)[:, None, None])
    scattered = torch.tensor([[0, 1, 1, 0, 0, 1, 0], [1, 1, 0, 1, 1, 0, 1]], dtype=torch.bool)
    add("key_allowed", {"key_allowed": scattered}, scattered[:, None, None])
    add(
        "causal_key_allowed",
        {"causal": True, "key_allowed": scattered},
        scattered[:, None, None] & causal(T, S),
    )
    add(
        "causal_padding_window",
        {"causal": True, "query_offset": 2, "key_lengths": [7, 3], "window": 3},
        key_padding([7, 3], S)[:, None, None] & sliding_window(T, S, 3, offset=2),
    )

    add = group("attention_masks")
    pairs = random_tensor(4, (T, S)) > 0
    add("allowed", {"allowed": pairs}, pairs)
    each = random_tensor(5, (B, H, T, S)) > 0.2
    each[0, 1] = False
    each[1, 2, 3] = False
    add("allowed_each", {"allowed": each}, each)
    add("allowed_heads", {"allowed": each[:1]}, each[:1])
    scores = random_tensor(6, (T, S))
    add("bias", {"bias": scores})
    add("bias_each", {"bias": random_tensor(7, (B, H, T, S))})
    holes = random_tensor(8, (H, T, S)).masked_fill(random_tensor(9, (H, T, S)) > 0.3, -torch.inf)
    holes[1, 4] = -torch.inf
    add("bias_infinite", {"bias": holes})
    add(
        "bias_and_lengths",
        {"causal": True, "query_offset": 2, "bias": scores, "key_lengths": [4, 0]},
        key_padding([4, 0], S)[:, None, None] & causal(T, S, 2),
    )

    add = group("attention_grouped", heads=6, key_heads=2)
    add("grouped")
    add(
        "grouped_causal_lengths",
        {"causal": True, "query_offset": 1, "key_lengths": [5, 2]},
        key_padding([5, 2], S)[:, None, None] & causal(T, S, 1),
    )
    pairs = random_tensor(10, (6, T, S)) > 0
    add("grouped_allowed_heads", {"allowed": pairs}, pairs)
    add = group("attention_multi_query", heads=5, key_heads=1)
    add("multi_query")
    add("multi_query_causal", {"causal": True}, causal(T, S))
    return files


if __name__ == "__main__":
    for file in make():
        file.write()
