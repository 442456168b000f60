// SPDX-License-Identifier: MIT
#pragma once

// y = activation(x W^T + b) * multiplier: the affine map of a Linear, with what usually follows it
// done on each part of the result while it is in the first-level cache.
//
//   x: (M, K)   W: (N, K)   b: (N) or null   multiplier: (M, N) or null   y: (M, N)

#include "eigenformer/kernels/elementwise.hpp"
#include "eigenformer/kernels/matrix_product.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct LinearFinish {
  Activation activation = Activation::identity;
  const T* multiplier = nullptr;

  bool empty() const { return activation == Activation::identity && multiplier == nullptr; }

  /// On n elements of y; `offset` counts from the first element of the whole result.
  void apply(T* y, Index offset, Index n) const {
    const Machine<T>& m = machine<T>();
    if (activation != Activation::identity) m.activate(activation, y, y, n);
    if (multiplier != nullptr) m.multiply(multiplier + offset, y, y, n);
  }
};

/// One affine map of a network: weights as a factor, bias or null.
template <class T>
struct AffineMap {
  RightFactor<T> weight;
  const T* bias = nullptr;
};

/// y must not overlap the others.
template <class T>
void linear(TensorView<const T, 2> x, const AffineMap<T>& map, TensorView<T, 2> y,
            const LinearFinish<T>& finish, Workspace& workspace) {
  const Index outputs = y.columns();
  const auto apply = [&](Index row, Index rows, Index column, Index columns) {
    if (finish.empty()) return;
    for (Index r = row; r < row + rows; ++r) {
      const Index offset = r * outputs + column;
      finish.apply(y.data() + offset, offset, columns);
    }
  };
  multiply<T>({.rows = x.rows(),
               .columns = outputs,
               .depth = x.columns(),
               .a = x.data(),
               .a_stride = x.columns(),
               .b = map.weight,
               .bias = map.bias,
               .c = y.data(),
               .c_stride = outputs},
              apply, workspace);
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
