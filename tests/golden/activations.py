# SPDX-License-Identifier: MIT
"""Activations of PyTorch and transformers by Eigenformer's name, over a grid with extremes.

Cases `<activation>_double`: x is any double, y in float64.
Cases `<activation>_float`: x is representable in float32 and stored so; y is computed from it in
float64. PyTorch's own float32 results are checked against it where they are finite (its GELU
overflows near the largest float).
"""

import json

import numpy as np
import torch
from transformers.activations import ACT2FN

from golden import GoldenFile

ACTIVATIONS = {
    "identity": (torch.nn.Identity(), "torch.nn.Identity"),
    "relu": (torch.nn.ReLU(), "torch.nn.ReLU"),
    "gelu": (torch.nn.GELU(), "torch.nn.GELU"),
    "gelu_tanh": (torch.nn.GELU(approximate="tanh"), "torch.nn.GELU(approximate='tanh')"),
    "silu": (torch.nn.SiLU(), "torch.nn.SiLU"),
    "quick_gelu": (ACT2FN["quick_gelu"], "transformers.activations.QuickGELUActivation"),
    "sigmoid": (torch.nn.Sigmoid(), "torch.nn.Sigmoid"),
    "tanh": (torch.nn.Tanh(), "torch.nn.Tanh"),
}


def grid(extremes):
    """Both signs of a fine grid around 0, of the tails where the functions saturate, and of
    extreme magnitudes.
    """
    positive = np.concatenate(
        [
            [0.0],
            extremes,
            10.0 ** np.arange(-12, 0),
            np.arange(1, 49) / 16,
            np.arange(13, 40) / 4,
            [10.5, 13.24, 20, 38, 40, 88, 89, 104],
            [150, 700, 709.5, 746, 1e4, 1e8, 1e20],
        ]
    )
    return np.concatenate([-positive[::-1], positive])


def make():
    file = GoldenFile("activations")
    for name, (function, source) in ACTIVATIONS.items():
        x = torch.from_numpy(grid([5e-324, 1e-310, 1e-300, 1e-160, 1e-38, 1e100, 1e300]))
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        y.sum().backward()
        store(
            file,
            f"{name}_double",
            name,
            source,
            {"input/x": x, "output/y": y, "gradient/input/x": finite_slope(name, leaf)},
        )

        x = torch.from_numpy(grid([1e-45, 1e-40, 1e-38, 1e-30, 1e-20, 3e38]).astype(np.float32))
        leaf = x.double().requires_grad_()
        y = function(leaf)
        y.sum().backward()
        single = function(x).double()
        off = torch.where(torch.isfinite(single), single - y, 0.0).abs() / x.double().abs().clamp(
            min=1.0
        )
        assert off.max() < 1e-6, (name, off.max())
        store(
            file,
            f"{name}_float",
            name,
            source,
            {"input/x": x, "output/y": y, "gradient/input/x": finite_slope(name, leaf)},
        )
    return file


def finite_slope(name, leaf):
    """PyTorch's derivative; the tanh form's infinity * 0 far out is replaced by the limit."""
    lost = torch.isnan(leaf.grad)
    assert not lost.any() or name == "gelu_tanh" and leaf.detach()[lost].abs().min() > 1e10
    return torch.where(lost, (leaf.detach() > 0).double(), leaf.grad)


def store(file, case, activation, source, tensors):
    shared = None
    for name, tensor in tensors.items():
        if name == "input/x":
            shared = next(
                (
                    c
                    for c in file.metadata
                    if torch.equal(file.tensors.get(f"{c}/input/x", torch.empty(0)), tensor)
                ),
                None,
            )
            if shared is not None:
                continue
        assert torch.isfinite(tensor).all(), (case, name)
        file.tensors[f"{case}/{name}"] = tensor.detach().clone()
    entry = {"module": "Activation", "config": {"activation": activation}, "source": source}
    if shared is not None:
        entry["input_of"] = shared
    file.metadata[case] = json.dumps(entry)


if __name__ == "__main__":
    make().write()
