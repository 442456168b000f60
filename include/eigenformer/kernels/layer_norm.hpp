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

/// Rows of x + z (rows, C) to y of the same shape; z and `bias` may be null; y may be x or z.
template <class T>
void layer_norm(TensorView<const T, 2> x, const T* z, const T* weight, const T* bias, T eps,
                TensorView<T, 2> y, Workspace& workspace) {
  normalize(x, z, y, workspace, [&](const T* from, T* to) {
    target<T>().layer_norm(from, weight, bias, eps, to, x.columns());
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
