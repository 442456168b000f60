// SPDX-License-Identifier: MIT
#pragma once

// Layer normalisation over the last axis (Ba, Kiros, Hinton, "Layer normalization", 2016; PyTorch's
// conventions):
//
//   y = (x - mean) / sqrt(variance + eps) * weight + bias
//
// with the population variance and eps inside the root. x, y: (..., C); weight, bias: (C).
//
// A first mean is rounded, which alone would spoil rows such as 1e4 +- 1e-3; so the deviations from
// it are averaged and taken off once more before they are squared. A constant row gives exactly the
// bias.

#include <cmath>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// One row of `n` elements; `bias` may be null; x and y may be the same.
template <class T>
void layer_norm_row(const T* x, const T* weight, const T* bias, T eps, T* y, Index n) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  using std::sqrt;
  const T count = static_cast<T>(n);

  const T mean =
      row_sum<T>(n, [&](Index i, Index part) { return S::load_partial(x + i, part); }) / count;
  const Vector first = S::set(mean);
  const auto from_first = [&](Index i, Index part) {
    return S::subtract(S::load_partial(x + i, part), first);
  };
  const Vector rest = S::set(row_sum<T>(n, from_first) / count);
  const auto deviation = [&](Index i, Index part) {
    return S::subtract(from_first(i, part), rest);
  };
  const T variance = row_sum<T>(n,
                                [&](Index i, Index part) {
                                  const Vector d = deviation(i, part);
                                  return S::multiply(d, d);
                                }) /
                     count;
  const Vector scale = S::set(T(1) / sqrt(variance + eps));

  for (Index i = 0; i < n; i += S::width) {
    const Index part = (std::min)(S::width, n - i);
    const Vector normal = S::multiply(deviation(i, part), scale);
    const Vector w = S::load_partial(weight + i, part);
    const Vector b = bias == nullptr ? S::zero() : S::load_partial(bias + i, part);
    S::store_partial(y + i, S::fma(normal, w, b), part);
  }
}

/// Rows of x (rows, C) to y of the same shape; `bias` may be null; x and y may be the same.
template <class T>
void layer_norm(TensorView<const T, 2> x, const T* weight, const T* bias, T eps, TensorView<T, 2> y,
                Workspace& workspace) {
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      layer_norm_row(x.data() + row * n, weight, bias, eps, y.data() + row * n, n);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
