// SPDX-License-Identifier: MIT
#pragma once

// The end of a language model's scores: y = cap(scale * y + bias), cap(s) = c tanh(s / c).

#include "eigenformer/kernels/elementary.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// s = cap tanh(s / cap) over a row (Gemma Team, "Gemma 2", 2024).
template <class T>
void soft_cap(T* s, Index n, T cap) {
  using S = Simd<T>;
  const auto largest = S::set(cap), inverse = S::set(T(1) / cap);
  transform(s, s, n, [&](auto score) {
    return S::multiply(largest, hyperbolic_tangent<T>(S::multiply(score, inverse)));
  });
}

/// In place. `bias` (columns) may be null; cap 0: none.
template <class T>
void finish_logits(TensorView<T, 2> y, T scale, const T* bias, T cap, Workspace& workspace) {
  using S = Simd<T>;
  if (scale == T(1) && bias == nullptr && cap == T(0)) return;
  const Index n = y.columns();
  for_each_row_block(y.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      T* logits = y.data() + row * n;
      if (scale != T(1)) {
        const auto factor = S::set(scale);
        transform(logits, logits, n, [&](auto s) { return S::multiply(s, factor); });
      }
      if (bias != nullptr)
        transform(logits, bias, logits, n, [](auto s, auto b) { return S::add(s, b); });
      if (cap > T(0)) soft_cap(logits, n, cap);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
