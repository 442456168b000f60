// SPDX-License-Identifier: MIT
#pragma once

// Names of the vision transformer's parameters in Hugging Face's checkpoints, for
// VisionTransformer.
//
// The model is pre-norm: layernorm_before is the attention_norm, layernorm_after (after the
// attention, before the feed-forward) the feed_forward_norm. The patch projection is stored as a
// convolution, (C, channels, height, width).

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

inline KeyMap vit_keys() {
  return {
      .prefixes = {"", "vit."},
      .rows = {{.stored = "embeddings.cls_token",
                .own = "class_token",
                .shape = StoredShape::leading_ones},
               {.stored = "embeddings.position_embeddings",
                .own = "position_embedding",
                .shape = StoredShape::leading_ones},
               {.stored = "embeddings.patch_embeddings.projection.weight",
                .own = "patch_embedding.projection.weight",
                .shape = StoredShape::folded_trailing},
               {"embeddings.patch_embeddings.projection.bias", "patch_embedding.projection.bias"},
               {"encoder.layer.{}.attention.attention.query.*", "layers.{}.attention.query.*"},
               {"encoder.layer.{}.attention.attention.key.*", "layers.{}.attention.key.*"},
               {"encoder.layer.{}.attention.attention.value.*", "layers.{}.attention.value.*"},
               {"encoder.layer.{}.attention.output.dense.*", "layers.{}.attention.output.*"},
               {"encoder.layer.{}.layernorm_before.*", "layers.{}.attention_norm.*"},
               {"encoder.layer.{}.layernorm_after.*", "layers.{}.feed_forward_norm.*"},
               {"encoder.layer.{}.intermediate.dense.*", "layers.{}.feed_forward.linear_1.*"},
               {"encoder.layer.{}.output.dense.*", "layers.{}.feed_forward.linear_2.*"},
               {"layernorm.*", "final_norm.*"},
               {.stored = "classifier.*", .own = "head.*", .prefixed = false}},
      .ignored = {"embeddings.mask_token", "pooler.*"}};
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
