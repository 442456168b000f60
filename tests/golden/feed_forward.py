# SPDX-License-Identifier: MIT
"""Feed-forward blocks: Linear, activation, Linear; and the gated family of Shazeer 2020, y =
down(act(gate(x)) * up(x)).
"""

import torch

from activations import ACTIVATIONS
from golden import GoldenFile, random_tensor, randomize

HIDDEN, INTERMEDIATE = 7, 13
GATED = {
    "sigmoid": "GLU",
    "identity": "Bilinear",
    "relu": "ReGLU",
    "gelu": "GEGLU",
    "silu": "SwiGLU",
    "gelu_tanh": "GEGLU_tanh",
}


class FeedForward(torch.nn.Module):
    def __init__(self, activation, bias=True, hidden=HIDDEN, intermediate=INTERMEDIATE):
        super().__init__()
        self.linear_1 = torch.nn.Linear(hidden, intermediate, bias)
        self.activation = ACTIVATIONS[activation][0]
        self.linear_2 = torch.nn.Linear(intermediate, hidden, bias)

    def forward(self, x):
        return self.linear_2(self.activation(self.linear_1(x)))


class GatedFeedForward(torch.nn.Module):
    def __init__(self, activation, bias=True, hidden=HIDDEN, intermediate=INTERMEDIATE):
        super().__init__()
        self.gate = torch.nn.Linear(hidden, intermediate, bias)
        self.up = torch.nn.Linear(hidden, intermediate, bias)
        self.activation = ACTIVATIONS[activation][0]
        self.down = torch.nn.Linear(intermediate, hidden, bias)

    def forward(self, x):
        return self.down(self.activation(self.gate(x)) * self.up(x))


def make():
    file = GoldenFile("feed_forward")
    config = {"hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE}
    x = random_tensor(1, (2, 5, HIDDEN))
    for activation in ACTIVATIONS:
        module = randomize(FeedForward(activation), seed=2)
        file.add(
            activation,
            "FeedForward",
            config | {"activation": activation, "bias": True},
            f"torch.nn.Linear, {ACTIVATIONS[activation][1]}, torch.nn.Linear",
            module,
            inputs={"x": x},
            torch_module=module,
        )
    module = randomize(FeedForward("gelu", bias=False), seed=2)
    file.add(
        "gelu_no_bias",
        "FeedForward",
        config | {"activation": "gelu", "bias": False},
        "torch.nn.Linear, torch.nn.GELU, torch.nn.Linear",
        module,
        inputs={"x": x},
        torch_module=module,
    )

    gated = GoldenFile("gated_feed_forward")
    for activation, name in GATED.items():
        for bias in (True, False):
            module = randomize(GatedFeedForward(activation, bias), seed=3)
            gated.add(
                name if bias else f"{name}_no_bias",
                "GatedFeedForward",
                config | {"activation": activation, "bias": bias},
                f"torch.nn.Linear, {ACTIVATIONS[activation][1]}",
                module,
                inputs={"x": x},
                torch_module=module,
            )
    return [file, gated]


if __name__ == "__main__":
    for file in make():
        file.write()
