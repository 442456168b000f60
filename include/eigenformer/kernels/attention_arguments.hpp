// SPDX-License-Identifier: MIT
#pragma once

// What the kernel of attention is given: kernels/attention.hpp.

#include "eigenformer/kernels/key_value_panels.hpp"
#include "eigenformer/kernels/relative_keys.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct Attention {
  Index batch, queries, keys;    // B, T, S
  Index heads, key_value_heads;  // H, K; K divides H
  Index head_size, value_size;   // D, E
  Heads<const T> q;
  Heads<T> y;
  T scale;
  T* attention_weights = nullptr;  // (B, H, T, S) probabilities, or null

  T soft_cap = 0;                   // 0: none
  const T* alibi_slopes = nullptr;  // (H), or null
  RelativeKeys<T> relative_keys = {};
  const Index* query_offsets = nullptr;  // (B), added to mask.query_offset; null: 0
  const Index* key_counts = nullptr;     // (B), keys that batch row b has; null: S
  const Index* query_counts = nullptr;   // (B), likewise; null: T

  Index group() const { return heads / key_value_heads; }
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
