// SPDX-License-Identifier: MIT
#pragma once

// What calls of multi-head attention must fulfil. Each function throws std::invalid_argument.

#include <optional>

#include "eigenformer/base/disjoint.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/nn/attention_config.hpp"
#include "eigenformer/nn/key_value_cache.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// The maps are those that the configuration makes: it may have been changed, or the module moved from.
template <class Attention>
void require_attention_parameters(const Attention& attention) {
  const MultiHeadAttentionConfig& c = attention.config;
  constexpr const char* who = "MultiHeadAttention";
  require_linear(who, "query", attention.query, c.hidden_size, c.query_features());
  require_linear(who, "key", attention.key, c.key_input_size(), c.key_value_features());
  require_linear(who, "value", attention.value, c.value_input_size(), c.key_value_features());
  require_linear(who, "output", attention.output, c.query_features(), c.hidden_size);
  require(attention.query_norm.has_value() == c.query_key_norm &&
              attention.key_norm.has_value() == c.query_key_norm &&
              attention.relative_bias.has_value() == c.attention_positions.has_relative_bias() &&
              attention.distance_embedding.has_value() == c.attention_positions.embeds_offsets(),
          who, ": the parameters don't fit the configuration");
}

template <class Attention, class T = typename Attention::Scalar>
void require_memories(const Attention& attention, Index batch, TensorView<const T, 3> key_memory,
                      TensorView<const T, 3> value_memory) {
  const Index keys = key_memory.dim(1);
  require_shape("MultiHeadAttention: memory of the keys", key_memory.shape(),
                {batch, keys, attention.config.key_input_size()});
  require_shape("MultiHeadAttention: memory of the values", value_memory.shape(),
                {batch, keys, attention.config.value_input_size()});
}

/// x, y, the mask for S = `keys` and the place for attention weights.
template <class Attention, class T = typename Attention::Scalar>
void require_queries(const Attention& attention, TensorView<const T, 3> x, Index keys,
                     const Mask<T>& mask, TensorView<T, 3> y,
                     const std::optional<TensorView<T, 4>>& attention_weights) {
  constexpr const char* who = "MultiHeadAttention";
  require_attention_parameters(attention);
  require_shape("MultiHeadAttention: x", x.shape(),
                {x.dim(0), x.dim(1), attention.config.hidden_size});
  require_shape("MultiHeadAttention: y", y.shape(), x.shape());
  const Shape<4> scores = attention.scores_shape(x, keys);
  require(!attention.relative_bias || !mask.offset_bias, who,
          ": mask.offset_bias is given, but relative_bias has its place");
  kernels::require_valid_mask(who, mask, scores);
  if (!attention_weights) return;
  require_shape("MultiHeadAttention: attention_weights", attention_weights->shape(), scores);
  kernels::require_no_sequences(who, mask);
}

template <class Attention, class T = typename Attention::Scalar>
void require_cache(const Attention& attention, Index batch, const KeyValueCache<T>& cache) {
  const Shape<3> wanted{batch, attention.config.key_value_heads(), attention.config.size_of_head()};
  require_shape("MultiHeadAttention: cache (batch, key/value heads, head size)", cache.sizes(),
                wanted);
}

/// Memories whose keys and values a cache is to hold.
template <class Attention, class T = typename Attention::Scalar>
void require_memories_for(const Attention& attention, TensorView<const T, 3> key_memory,
                          TensorView<const T, 3> value_memory, const KeyValueCache<T>& cache) {
  require_attention_parameters(attention);
  require_cache(attention, key_memory.dim(0), cache);
  require_memories(attention, key_memory.dim(0), key_memory, value_memory);
}

/// A cache knows the positions.
template <class T>
void require_no_offset(const Mask<T>& mask) {
  kernels::require_no_sequences("MultiHeadAttention", mask);
  require(mask.query_offset == 0,
          "MultiHeadAttention: with a cache, which knows the positions, mask.query_offset must "
          "be 0; got ",
          mask.query_offset);
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
