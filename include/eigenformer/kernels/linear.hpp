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
struct Epilogue {
  Activation activation = Activation::identity;
  const T* multiplier = nullptr;

  bool empty() const { return activation == Activation::identity && multiplier == nullptr; }

  /// On rows of y from `row` on and of a part of the columns; `y` is the whole result, whose rows
  /// have `width` elements.
  void apply(T* y, Index width, Index row, Index rows, Index column, Index columns) const {
    if (empty()) return;
    const Target<T>& m = target<T>();
    for (Index r = row; r < row + rows; ++r) {
      const Index offset = r * width + column;
      T* part = y + offset;
      if (activation != Activation::identity) m.activate(activation, part, part, columns);
      if (multiplier != nullptr) m.multiply_elements(multiplier + offset, part, part, columns);
    }
  }
};

/// One affine map of a network: weights as a factor, bias or null.
template <class T>
struct AffineMap {
  RightFactor<T> weight;
  const T* bias = nullptr;
};

/// The product of a map; y must not overlap the others.
template <class T>
MatrixProduct<T> product_of(TensorView<const T, 2> x, const AffineMap<T>& map, TensorView<T, 2> y) {
  return {.rows = x.rows(),
          .columns = y.columns(),
          .depth = x.columns(),
          .a = x.data(),
          .a_stride = x.columns(),
          .b = map.weight,
          .bias = map.bias,
          .c = y.data(),
          .c_stride = y.columns()};
}

/// y must not overlap the others.
template <class T>
void linear(TensorView<const T, 2> x, const AffineMap<T>& map, TensorView<T, 2> y,
            const Epilogue<T>& epilogue, Workspace& workspace) {
  const auto apply = [&](Index row, Index rows, Index column, Index columns) {
    epilogue.apply(y.data(), y.columns(), row, rows, column, columns);
  };
  multiply<T>(product_of(x, map, y), apply, workspace);
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
