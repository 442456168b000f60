// SPDX-License-Identifier: MIT
#pragma once

// Functions applied element by element to whole views: activations and sums.

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// y = activation(x) for x, y (rows, columns), which may be the same.
template <class T>
void activate(Activation activation, TensorView<const T, 2> x, TensorView<T, 2> y,
              Workspace& workspace) {
  require_shape("activate: y", y.shape(), x.shape());
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    target<T>().activate(activation, x.data() + begin * n, y.data() + begin * n, (end - begin) * n);
  });
}

/// y = x + z, same shapes; any of them may be the same.
template <class T>
void add(TensorView<const T, 2> x, TensorView<const T, 2> z, TensorView<T, 2> y,
         Workspace& workspace) {
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    const Index offset = begin * n;
    target<T>().add(x.data() + offset, z.data() + offset, y.data() + offset, (end - begin) * n);
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
