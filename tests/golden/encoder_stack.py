# SPDX-License-Identifier: MIT
"""EncoderStack: torch.nn.TransformerEncoder of two and three layers, with and without the final
norm.
"""

import torch

from encoder_layer import B, C, T, configuration, masks, torch_layer, torch_layer_names
from golden import GoldenFile, random_tensor, randomize


def make():
    file = GoldenFile("encoder_stack")
    x = random_tensor(1, (B, T, C))
    for case, depth, norm_first, activation, final_norm, mask_name in (
        ("post", 2, False, "relu", False, "no_mask"),
        ("post_final_norm", 3, False, "gelu", True, "padding"),
        ("pre", 3, True, "gelu", False, "causal_padding"),
        ("pre_final_norm", 2, True, "gelu", True, "no_mask"),
        ("pre_final_norm_causal", 2, True, "gelu", True, "causal"),
    ):
        norm = torch.nn.LayerNorm(C) if final_norm else None
        stack = torch.nn.TransformerEncoder(
            torch_layer(norm_first, activation), depth, norm, enable_nested_tensor=False
        )
        randomize(stack, seed=2)
        arguments, mask = masks()[mask_name]
        arguments = {
            "mask" if name == "src_mask" else name: value for name, value in arguments.items()
        }
        config = configuration(norm_first, activation) | {
            "num_hidden_layers": depth,
            "final_norm": final_norm,
        }
        file.add(
            case,
            "EncoderStack",
            config,
            "torch.nn.TransformerEncoder",
            lambda x: stack(x, **arguments),
            inputs={"x": x},
            torch_module=stack,
            convert=torch_layer_names,
            mask=mask,
            gradients=mask_name != "causal" or "input",
        )
    return file


if __name__ == "__main__":
    make().write()
