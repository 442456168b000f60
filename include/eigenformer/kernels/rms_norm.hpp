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

/// Rows of x + z (rows, C) to y of the same shape; z may be null; y may be x or z.
template <class T>
void rms_norm(TensorView<const T, 2> x, const T* z, const T* weight, T offset, T eps,
              TensorView<T, 2> y, Workspace& workspace) {
  normalize(x, z, y, workspace, [&](const T* from, T* to) {
    target<T>().rms_norm(from, weight, offset, eps, to, x.columns());
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
