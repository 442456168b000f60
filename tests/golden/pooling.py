# SPDX-License-Identifier: MIT
"""Sentence vectors by sentence-transformers' formula: the mean over the tokens that the mask keeps,
with the count clamped from below, then division by the Euclidean norm
(torch.nn.functional.normalize). A row without tokens gives zeros.
"""

import torch

from golden import GoldenFile, key_padding, random_tensor


def mean(x, keep):
    weights = keep[:, :, None].to(x.dtype)
    return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def make():
    file = GoldenFile("pooling")
    x = random_tensor(1, (3, 7, 11))
    everything = torch.ones(3, 7, dtype=torch.bool)
    scattered = random_tensor(2, (3, 7)) > 0
    scattered[2] = False
    for case, keep, mask in (
        ("mean", everything, {}),
        ("mean_lengths", key_padding([7, 4, 1], 7), {"key_lengths": [7, 4, 1]}),
        ("mean_empty", key_padding([3, 0, 5], 7), {"key_lengths": [3, 0, 5]}),
        ("mean_key_allowed", scattered, {"key_allowed": scattered}),
    ):
        for normalize in (False, True):

            def run(x):
                y = mean(x, keep)
                return torch.nn.functional.normalize(y, p=2.0, dim=-1) if normalize else y

            file.add(
                f"{case}_normalized" if normalize else case,
                "mean_pooling",
                {"normalize": normalize},
                "sentence-transformers' mean pooling",
                run,
                inputs={"x": x},
                mask=mask,
            )
    return file


if __name__ == "__main__":
    make().write()
