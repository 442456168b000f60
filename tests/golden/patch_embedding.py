# SPDX-License-Identifier: MIT
"""PatchEmbedding: torch.nn.Conv2d whose kernel and stride are the patch, then (B, C, rows, columns)
-> (B, rows * columns, C).

The kernel (C, channels, p, q) is stored as the matrix (C, channels * p * q).
"""

import torch

from golden import GoldenFile, random_tensor, randomize


def flat_kernel(state):
    return {
        name: tensor.flatten(1) if tensor.dim() == 4 else tensor for name, tensor in state.items()
    }


class PatchEmbedding(torch.nn.Module):
    def __init__(self, channels, hidden, patch):
        super().__init__()
        self.projection = torch.nn.Conv2d(channels, hidden, kernel_size=patch, stride=patch)

    def forward(self, images):
        return self.projection(images).flatten(2).transpose(1, 2)


def make():
    file = GoldenFile("patch_embedding")
    for case, image, patch, channels in (
        ("square", (9, 9), (3, 3), 3),
        ("wide", (6, 15), (3, 3), 2),
        ("pair_sizes", (6, 15), (2, 5), 2),
        ("floor", (11, 17), (3, 5), 2),
        ("whole_image", (3, 5), (3, 5), 1),
    ):
        module = randomize(PatchEmbedding(channels, 7, patch), seed=1)
        config = {
            "image_size": list(image),
            "patch_size": list(patch),
            "num_channels": channels,
            "hidden_size": 7,
        }
        file.add(
            case,
            "PatchEmbedding",
            config,
            "torch.nn.Conv2d",
            module,
            inputs={"images": random_tensor(2, (2, channels, *image))},
            torch_module=module,
            convert=flat_kernel,
        )
    return file


if __name__ == "__main__":
    make().write()
