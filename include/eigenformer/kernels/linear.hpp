// SPDX-License-Identifier: MIT
#pragma once

// y = activation(x W^T + b) * multiplier: the affine map of a Linear, with what usually follows it
// done on each part of the result while it is in the first-level cache.
//
//   x: (M, K)   W: (N, K)   b: (N) or null   multiplier: (M, N) or null   y: (M, N)

#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/kernels/matrix_product.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct LinearFinish {
  Activation activation = Activation::identity;
  const T* multiplier = nullptr;
};

/// y must not overlap the others.
template <class T>
void linear(TensorView<const T, 2> x, TensorView<const T, 2> weight, const T* bias,
            TensorView<T, 2> y, const LinearFinish<T>& finish, Workspace& workspace) {
  const Index outputs = weight.rows();
  const MatrixProduct<T> product{
      x.rows(), outputs,     x.columns(),
      x.data(), x.columns(), RightFactor<T>::from_rows(weight.data(), weight.columns()),
      bias,     y.data(),    outputs};
  if (finish.activation == Activation::identity && finish.multiplier == nullptr) {
    multiply(product, workspace);
    return;
  }
  using S = Simd<T>;
  multiply(
      product,
      [&](Index row, Index rows, Index column, Index columns) {
        for (Index r = row; r < row + rows; ++r) {
          T* part = y.data() + r * outputs + column;
          activate(finish.activation, part, part, columns);
          if (finish.multiplier == nullptr) continue;
          transform(finish.multiplier + r * outputs + column, part, part, columns,
                    [](auto m, auto a) { return S::multiply(m, a); });
        }
      },
      workspace);
}

/// y = x + z, element by element; any of them may be the same.
template <class T>
void add(TensorView<const T, 2> x, TensorView<const T, 2> z, TensorView<T, 2> y,
         Workspace& workspace) {
  using S = Simd<T>;
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    const Index offset = begin * n;
    transform(x.data() + offset, z.data() + offset, y.data() + offset, (end - begin) * n,
              [](auto a, auto b) { return S::add(a, b); });
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
