# SPDX-License-Identifier: MIT
"""VisionTransformer: transformers' ViTForImageClassification with random parameters, tiny; images
are not square and not divisible.
"""

import torch
from transformers import ViTConfig, ViTForImageClassification

from checkpoint import load_again, save_directory
from golden import FOLDER, GoldenFile, random_tensor, randomize, rename

SHAPE = {
    "hidden_size": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 13,
    "image_size": [11, 17],
    "patch_size": [3, 5],
    "num_channels": 2,
    "num_labels": 7,
}
NAMES = rename(
    ("vit.embeddings.patch_embeddings.", "patch_embedding."),
    ("vit.embeddings.cls_token", "class_token"),
    ("vit.embeddings.position_embeddings", "position_embedding"),
    ("vit.layers.", "layers."),
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("o_proj", "output"),
    ("layernorm_before", "attention_norm"),
    ("layernorm_after", "feed_forward_norm"),
    ("mlp.fc", "feed_forward.linear_"),
    ("vit.layernorm.", "final_norm."),
    ("classifier.", "head."),
)


def vision_transformer_names(state):
    converted = NAMES(state)
    converted["class_token"] = converted["class_token"].flatten()
    converted["position_embedding"] = converted["position_embedding"].flatten(0, 1)
    converted["patch_embedding.projection.weight"] = converted[
        "patch_embedding.projection.weight"
    ].flatten(1)
    return converted


def make(folder=FOLDER):
    file = GoldenFile("vision_transformer")
    images = random_tensor(1, (3, SHAPE["num_channels"], *SHAPE["image_size"]))
    architecture = SHAPE | {"activation": "gelu", "norm_placement": "pre", "layer_norm_eps": 1e-12}
    for case, bias in (("image_classification", True), ("no_qkv_bias", False)):
        config = ViTConfig(
            **SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, qkv_bias=bias
        )
        model = randomize(ViTForImageClassification(config), seed=2)
        logits = file.add(
            case,
            "VisionTransformer",
            architecture | {"qkv_bias": bias},
            "transformers.ViTForImageClassification",
            lambda x: {"logits": model(x).logits},
            inputs={"images": images},
            torch_module=model,
            convert=vision_transformer_names,
            gradients=bias,
        )["logits"]
        if bias:
            save_directory(model, folder / "checkpoints" / "vit_image_classification")
            again = load_again(model, folder / "checkpoints" / "vit_image_classification")
            assert torch.allclose(again(images).logits, logits, rtol=1e-12, atol=1e-12)
    return file


if __name__ == "__main__":
    make().write()
