// SPDX-License-Identifier: MIT
#pragma once

// What a module's configuration says about the scores of its attention: scale, soft cap, ALiBi's
// slopes, relative biases and embeddings, the sliding window.

#include <algorithm>
#include <cmath>

#include "eigenformer/kernels/alibi.hpp"
#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/nn/attention_config.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// The kernel's arguments for queries q (B T, H D), which are placed, against `keys` keys; the result
/// goes to `attended` (B T, H D). Slopes are put into `scratch`.
template <class Attention, class T = typename Attention::Scalar>
kernels::Attention<T> kernel_arguments(const Attention& attention, TensorView<const T, 2> q,
                                       TensorView<T, 2> attended, Index batch, Index keys,
                                       Scratch& scratch) {
  using std::sqrt;
  const MultiHeadAttentionConfig& config = attention.config;
  const Index heads = config.num_attention_heads, size = config.size_of_head();
  const Index queries = batch == 0 ? 0 : q.rows() / batch;
  kernels::Attention<T> a{};
  a.batch = batch;
  a.queries = queries;
  a.keys = keys;
  a.heads = heads;
  a.key_value_heads = config.key_value_heads();
  a.head_size = a.value_size = size;
  a.q = kernels::Heads<const T>::token_major(q.data(), queries, heads, size);
  a.y = kernels::Heads<T>::token_major(attended.data(), queries, heads, size);
  a.scale = config.scale ? static_cast<T>(*config.scale) : T(1) / sqrt(static_cast<T>(size));
  a.soft_cap = static_cast<T>(config.attn_logit_softcapping);
  if (attention.distance_embedding) {
    a.relative_keys = attention.distance_embedding->table(config.attention_positions.kind ==
                                                          AttentionPosition::relative_key_query);
  }
  if (config.attention_positions.kind == AttentionPosition::alibi) {
    T* slopes = scratch.array<T>(heads);
    for (Index h = 0; h < heads; ++h) slopes[h] = static_cast<T>(kernels::alibi_slope(h, heads));
    a.alibi_slopes = slopes;
  }
  return a;
}

/// The caller's mask with the module's relative biases, put into `scratch`, and sliding window.
template <class Attention, class T = typename Attention::Scalar>
Mask<T> mask_for(const Attention& attention, Mask<T> mask, Scratch& scratch) {
  if (attention.relative_bias) mask = attention.relative_bias->add_to(mask, scratch);
  const Index window = attention.config.sliding_window;
  if (window > 0) mask.window = mask.window > 0 ? (std::min)(mask.window, window) : window;
  return mask;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
