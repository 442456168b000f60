# SPDX-License-Identifier: MIT
"""Softmax over the last axis (torch.softmax), and with lengths and a finite fill value as in Dive
into Deep Learning 11.3.
"""

import torch

from golden import GoldenFile, random_tensor


def filled_softmax(scores, lengths, fill=-1e6):
    """Positions at or past the length get the score `fill` before the softmax; an empty row thus
    becomes uniform.
    """
    lengths = torch.as_tensor(lengths)
    keep = torch.arange(scores.shape[-1]) < (
        lengths[:, None, None] if lengths.dim() == 1 else lengths[:, :, None]
    )
    return torch.softmax(torch.where(keep, scores, torch.full_like(scores, fill)), dim=-1)


def make():
    file = GoldenFile("softmax")
    softmax = lambda x: torch.softmax(x, dim=-1)
    file.add(
        "random",
        "Softmax",
        {},
        "torch.softmax",
        softmax,
        inputs={"x": random_tensor(1, (2, 5, 11), scale=3.0)},
    )
    file.add(
        "wide",
        "Softmax",
        {},
        "torch.softmax",
        softmax,
        inputs={"x": random_tensor(2, (3, 1, 257), scale=10.0)},
    )
    file.add(
        "shifted",
        "Softmax",
        {},
        "torch.softmax",
        softmax,
        inputs={"x": random_tensor(3, (1, 3, 7), shift=-5000.0)},
    )
    large = torch.tensor(
        [
            [
                [8000.0, 7999.5, 2.0, 1.0, -3e38],
                [-1000.0, -1001.0, -1002.0, -1003.0, -1e30],
                [0.0] * 5,
            ]
        ],
        dtype=torch.float32,
    ).double()
    file.add("extremes", "Softmax", {}, "torch.softmax", softmax, inputs={"x": large})

    book = "Dive into Deep Learning, section 11.3, masked_softmax"
    scores = torch.tensor([[[1.0, 2, 3, 4], [1, 1, 1, 1]], [[0, 0, 0, 0], [1, 2, 3, 4]]])
    for case, lengths in (("lengths_per_row", [2, 3]), ("lengths_per_query", [[1, 3], [2, 4]])):
        file.add(
            case,
            "MaskedSoftmax",
            {"fill": -1e6},
            book,
            lambda x: filled_softmax(x, lengths),
            inputs={"x": scores},
            mask={"key_lengths": torch.tensor(lengths)},
        )
    scores = random_tensor(4, (3, 5, 7), scale=2.0)
    for case, lengths in (
        ("ragged", [7, 3, 0]),
        ("ragged_per_query", [[1, 2, 3, 4, 5], [7, 6, 5, 1, 0], [0, 7, 0, 7, 3]]),
    ):
        file.add(
            case,
            "MaskedSoftmax",
            {"fill": -1e6},
            book,
            lambda x: filled_softmax(x, lengths),
            inputs={"x": scores},
            mask={"key_lengths": torch.tensor(lengths)},
        )
    return file


if __name__ == "__main__":
    make().write()
