# SPDX-License-Identifier: MIT
"""Linear: torch.nn.Linear with and without bias."""

import torch

from golden import GoldenFile, random_tensor, randomize


def make():
    file = GoldenFile("linear")
    for bias in (True, False):
        layer = randomize(torch.nn.Linear(7, 11, bias=bias), seed=1)
        file.add(
            "bias" if bias else "no_bias",
            "Linear",
            {"in_features": 7, "out_features": 11, "bias": bias},
            "torch.nn.Linear",
            layer,
            inputs={"x": random_tensor(2, (2, 5, 7))},
            torch_module=layer,
        )
    layer = randomize(torch.nn.Linear(131, 37), seed=3)
    file.add(
        "long_reduction",
        "Linear",
        {"in_features": 131, "out_features": 37, "bias": True},
        "torch.nn.Linear",
        layer,
        inputs={"x": random_tensor(4, (3, 1, 131))},
        torch_module=layer,
        gradients="input",
    )
    return file


if __name__ == "__main__":
    make().write()
