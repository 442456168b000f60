// SPDX-License-Identifier: MIT
#pragma once

// The end of a language model's scores: y = cap(scale * y + bias), cap(s) = c tanh(s / c) (Gemma Team,
// "Gemma 2", 2024).

#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// In place. `bias` (columns) may be null; cap 0: none.
template <class T>
void scale_and_cap_logits(TensorView<T, 2> y, T scale, const T* bias, T cap, Workspace& workspace) {
  if (scale == T(1) && bias == nullptr && cap == T(0)) return;
  const Index n = y.columns();
  for_each_row_block(y.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      T* logits = y.data() + row * n;
      if (scale != T(1)) target<T>().scale(logits, scale, logits, n);
      if (bias != nullptr) target<T>().add(logits, bias, logits, n);
      if (cap > T(0)) target<T>().soft_cap(logits, n, cap);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
