// SPDX-License-Identifier: MIT
#pragma once

// What a decoder's configuration takes for open fields, and what a call is given besides the ids.

#include <optional>

#include "eigenformer/base/tensor_view.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/nn/embeddings_config.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What a decoder takes for fields that are left open: GPT-2's, but for the activation.
inline TransformerConfig decoder_defaults() {
  TransformerConfig defaults = layer_defaults();
  defaults.max_position_embeddings = 1024;
  defaults.position_embedding = PositionEmbedding::learned;
  defaults.scale_embeddings = false;
  defaults.embedding_norm = false;
  defaults.norm_placement = NormPlacement::pre;
  defaults.final_norm = true;
  defaults.rms_norm_eps = 1e-6;
  defaults.share_embeddings = false;
  return defaults;
}

/// What goes along with the ids; everything is optional.
template <class T>
struct DecoderInputs {
  Mask<T> mask = {};  // of the self-attention, which is causal in any case
  std::optional<TensorView<const T, 3>> memory = {};  // (B, S, key_value_size); without cache
  Mask<T> memory_mask = {};
  std::optional<IntegerSequence> token_counts = {};  // with cache: the real tokens of each row;
                                                     // default all
  EmbeddingInputs embedding = {};                    // token types, positions
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
