# SPDX-License-Identifier: MIT
"""LayerNorm and RMSNorm: torch.nn.LayerNorm, torch.nn.RMSNorm, and transformers' GemmaRMSNorm
(scale 1 + weight).
"""

import numpy as np
import torch
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

from golden import GoldenFile, random_tensor, randomize

SIZE = 13


def layer_norm(file, case, x, eps=1e-5, bias=True):
    norm = randomize(torch.nn.LayerNorm(x.shape[-1], eps=eps, bias=bias), seed=1)
    file.add(
        case,
        "LayerNorm",
        {"hidden_size": x.shape[-1], "eps": eps, "bias": bias},
        "torch.nn.LayerNorm",
        norm,
        inputs={"x": x},
        torch_module=norm,
    )


class UnitOffsetRMSNorm(torch.nn.Module):
    """GemmaRMSNorm in the input's own precision (the original computes in float32)."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), 1.0 + self.weight, self.eps)


def make():
    file = GoldenFile("layer_norm")
    x = random_tensor(2, (2, 5, SIZE), scale=2.0, shift=0.5)
    layer_norm(file, "default", x)
    layer_norm(file, "no_bias", x, bias=False)
    # On numbers of about 1e-3 the place and the value of eps show.
    small = random_tensor(3, (2, 3, SIZE), scale=1e-3)
    for eps in (1e-5, 1e-6, 1e-12, 0.1):
        layer_norm(file, f"small_eps_{eps:g}", small, eps=eps)
    # Mean 1e4 and steps of 2^-10, which is float32's resolution there: only exact arithmetic on
    # differences survives.
    steps = np.random.RandomState(4).randint(-3, 4, (2, 3, SIZE))
    layer_norm(file, "large_mean", torch.from_numpy(1e4 + steps * 2.0**-10), eps=1e-12)
    layer_norm(file, "constant_rows", torch.full((2, 3, SIZE), 1234.0))
    layer_norm(file, "zero_rows", torch.zeros(2, 3, SIZE))
    layer_norm(file, "wide", random_tensor(5, (3, 1, 257), scale=3.0, shift=-7.0))

    rms = GoldenFile("rms_norm")
    for eps in (1e-5, 1e-6):
        for name, x in (
            ("", random_tensor(6, (2, 5, SIZE), scale=2.0, shift=0.5)),
            ("small_", small),
        ):
            norm = randomize(torch.nn.RMSNorm(SIZE, eps=eps), seed=7)
            rms.add(
                f"{name}eps_{eps:g}",
                "RMSNorm",
                {"hidden_size": SIZE, "eps": eps},
                "torch.nn.RMSNorm",
                norm,
                inputs={"x": x},
                torch_module=norm,
            )
    x = random_tensor(8, (2, 5, SIZE))
    norm = UnitOffsetRMSNorm(SIZE, 1e-6)
    with torch.no_grad():
        norm.weight.copy_(random_tensor(9, (SIZE,), scale=0.25))
    original = GemmaRMSNorm(SIZE, eps=1e-6)
    original.load_state_dict(norm.state_dict())
    assert (original(x) - norm(x)).abs().max() < 1e-6
    rms.add(
        "unit_offset",
        "RMSNorm",
        {"hidden_size": SIZE, "eps": 1e-6, "unit_offset": True},
        "transformers.models.gemma.modeling_gemma.GemmaRMSNorm",
        norm,
        inputs={"x": x},
        torch_module=norm,
    )
    return [file, rms]


if __name__ == "__main__":
    for file in make():
        file.write()
