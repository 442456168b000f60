// SPDX-License-Identifier: MIT
#pragma once

// Additive attention of projected queries and keys (Bahdanau, Cho, Bengio 2014):
//
//   s_tj = w . tanh(q_t + k_j)   y_t = sum_j p_tj v_j, p_t = softmax of s_t over j < length
//
//   q: (B T, C)   k: (B S, C)   w: (C)   v: (B, S, E)   y: (B, T, E)   p: (B, T, S)

#include <algorithm>
#include <optional>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// `lengths`: one for each batch row or each query, or none; length 0 gives zeros.
template <class T>
void additive_attention(TensorView<const T, 2> q, TensorView<const T, 2> k, const T* w,
                        TensorView<const T, 3> v, const std::optional<IntegerSequence>& lengths,
                        TensorView<T, 3> y,
                        const std::optional<TensorView<T, 3>>& attention_weights,
                        Workspace& workspace) {
  const Index batch = y.dim(0), queries = y.dim(1), keys = v.dim(1), size = q.columns();
  const Index rows = batch * queries, width = v.dim(2);
  for_each_row(rows, keys * size, workspace, [&](Index row, Arena& arena) {
    const Index b = row / queries;
    const Index length = lengths ? (*lengths)[lengths->size() == batch ? b : row] : keys;
    Scratch scratch(arena);
    T* p = attention_weights ? attention_weights->data() + row * keys : scratch.array<T>(keys);
    for (Index j = 0; j < length; ++j) {
      p[j] = target<T>().additive_score(q.data() + row * size, k.data() + (b * keys + j) * size, w,
                                        size);
    }
    target<T>().softmax(p, p, length);
    std::fill(p + length, p + keys, T(0));
    T* result = y.data() + row * width;
    std::fill_n(result, width, T(0));
    for (Index j = 0; j < keys; ++j) {
      if (p[j] == T(0)) continue;  // takes no part and may hold anything
      target<T>().add_scaled(v.data() + (b * keys + j) * width, p[j], result, width);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
