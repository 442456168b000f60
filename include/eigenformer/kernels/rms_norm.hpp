// SPDX-License-Identifier: MIT
#pragma once

// Root-mean-square normalisation over the last axis (Zhang and Sennrich, "Root mean square layer
// normalization", 2019), with eps inside the root as in PyTorch, T5 and Llama (the authors' code
// adds it outside):
//
//   y = x / sqrt(mean(x^2) + eps) * (offset + weight)
//
// offset is 0, or 1 for checkpoints that store weight - 1 (Gemma). x, y: (..., C); weight: (C).

#include <cmath>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// One row of `n` elements; x and y may be the same.
template <class T>
void rms_norm_row(const T* x, const T* weight, T offset, T eps, T* y, Index n) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  using std::sqrt;
  const T mean_square = row_sum<T>(n,
                                   [&](Index i, Index part) {
                                     const Vector a = S::load_partial(x + i, part);
                                     return S::multiply(a, a);
                                   }) /
                        static_cast<T>(n);
  const Vector scale = S::set(T(1) / sqrt(mean_square + eps));
  transform(x, weight, y, n, [&](Vector a, Vector w) {
    return S::multiply(S::multiply(a, scale), S::add(w, S::set(offset)));
  });
}

/// Rows of x (rows, C) to y of the same shape; x and y may be the same.
template <class T>
void rms_norm(TensorView<const T, 2> x, const T* weight, T offset, T eps, TensorView<T, 2> y,
              Workspace& workspace) {
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      rms_norm_row(x.data() + row * n, weight, offset, eps, y.data() + row * n, n);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
