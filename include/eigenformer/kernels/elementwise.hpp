// SPDX-License-Identifier: MIT
#pragma once

// Functions applied element by element to whole views: activations and sums.

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// y = activation(x), same shape; x and y may be the same.
template <class T, int Rank>
void activate(Activation activation, TensorView<const T, Rank> x, TensorView<T, Rank> y) {
  require_shape("activate: y", y.shape(), x.shape());
  machine<T>().activate(activation, x.data(), y.data(), x.size());
}

/// y = x + z, same shapes; any of them may be the same.
template <class T>
void add(TensorView<const T, 2> x, TensorView<const T, 2> z, TensorView<T, 2> y,
         Workspace& workspace) {
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    const Index offset = begin * n;
    machine<T>().add(x.data() + offset, z.data() + offset, y.data() + offset, (end - begin) * n);
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
