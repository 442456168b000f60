// SPDX-License-Identifier: MIT
#pragma once

// `TensorView<T, Rank>` and `TensorView<const T, Rank>`: someone else's elements with a shape.
// Row-major, contiguous, any alignment; also made from row-major Eigen objects.
//
//   ef::TensorView<const float, 2> v(pointer, {3, 4});

#include <cstddef>
#include <type_traits>

#include "eigenformer/base/shape.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T, int Rank>
class Tensor;

template <class T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// An Eigen map of contiguous row-major elements of any alignment; read-only for `const T`.
template <class T>
using MatrixMap =
    Eigen::Map<std::conditional_t<std::is_const_v<T>, const RowMajorMatrix<std::remove_const_t<T>>,
                                  RowMajorMatrix<T>>>;

template <class T>
using VectorMap =
    Eigen::Map<std::conditional_t<std::is_const_v<T>,
                                  const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>,
                                  Eigen::Matrix<T, Eigen::Dynamic, 1>>>;

namespace internal {

template <class Derived>
concept DirectAccess = requires(Derived& object) {
  object.data();
  object.innerStride();
  object.outerStride();
  static_cast<bool>(Derived::IsRowMajor);
};

template <class Derived>
concept RowMajorDirectAccess = DirectAccess<Derived> && static_cast<bool>(Derived::IsRowMajor);

/// Flat offset of (i, j, ...) in row-major order.
template <int Rank, class... Indices>
Index offset_of(const Shape<Rank>& shape, Indices... indices) {
  static_assert(sizeof...(Indices) == static_cast<std::size_t>(Rank),
                "one index for each axis of the tensor");
  Index offset = 0;
  int axis = 0;
  const auto advance = [&](Index index) {
    EIGENFORMER_ASSERT(index >= 0 && index < shape[axis]);
    offset = offset * shape[axis] + index;
    ++axis;
  };
  (advance(static_cast<Index>(indices)), ...);
  return offset;
}

template <int Rank>
Index rows_of(const Shape<Rank>& shape) {
  Index rows = 1;
  for (int axis = 0; axis + 1 < Rank; ++axis) rows *= shape[axis];
  return rows;
}

}  // namespace internal

/// A pointer and a shape. Cheap to copy; `T` may be const. Constness of the view itself says
/// nothing about the elements.
template <class T, int Rank>
class TensorView {
 public:
  using Scalar = std::remove_const_t<T>;
  static constexpr int rank = Rank;

  /// Views nothing: every extent is 0.
  TensorView() = default;

  /// `data` must hold `shape.size()` elements for as long as the view is used.
  TensorView(T* data, const Shape<Rank>& shape) : data_(data), shape_(shape) {
    require_valid(shape, sizeof(T));
    require(data != nullptr || shape.size() == 0, "TensorView: null pointer with shape ", shape);
  }

  /// A view of mutable elements is also one of const elements.
  template <class U>
  requires std::is_same_v<const U, T> TensorView(const TensorView<U, Rank>& other)
      : data_(other.data()), shape_(other.shape()) {}

  TensorView(const Tensor<Scalar, Rank>& tensor) requires std::is_const_v<T>
      : data_(tensor.data()), shape_(tensor.shape()) {}

  TensorView(Tensor<Scalar, Rank>& tensor) : data_(tensor.data()), shape_(tensor.shape()) {}

  /// From a row-major Eigen matrix, map or block without gaps between its rows (rank 2).
  template <class Derived>
  requires(Rank == 2 && internal::RowMajorDirectAccess<Derived> &&
           std::is_same_v<typename Derived::Scalar, Scalar> &&
           std::is_convertible_v<decltype(std::declval<Derived&>().data()), T*>)
      TensorView(Derived& matrix)
      : data_(matrix.data()), shape_{matrix.rows(), matrix.cols()} {
    require(
        matrix.innerStride() == 1 && (matrix.rows() <= 1 || matrix.outerStride() == matrix.cols()),
        "TensorView: the Eigen object must be contiguous; its rows have gaps");
  }

  /// Elements are row by row here.
  template <class Derived>
  requires(Rank == 2 && internal::DirectAccess<Derived> && !internal::RowMajorDirectAccess<Derived>)
      TensorView(Derived&) {
    static_assert(internal::RowMajorDirectAccess<Derived>,
                  "a view needs a row-major Eigen object, and this one is column-major: use "
                  "ef::RowMajorMatrix<float>, or view its transpose");
  }

  T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  bool empty() const { return size() == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

  template <class... Indices>
  T& operator()(Indices... indices) const {
    return data_[internal::offset_of(shape_, indices...)];
  }

  /// Rows and columns when all axes but the last are folded.
  Index rows() const { return internal::rows_of(shape_); }
  Index columns() const { return shape_[Rank - 1]; }

  MatrixMap<T> matrix() const { return MatrixMap<T>(data_, rows(), columns()); }
  VectorMap<T> vector() const { return VectorMap<T>(data_, size()); }

  /// The same elements as (rows, columns).
  TensorView<T, 2> folded() const { return TensorView<T, 2>(data_, {rows(), columns()}); }

  /// The same elements under another shape of the same size.
  template <int NewRank>
  TensorView<T, NewRank> reshaped(const Shape<NewRank>& shape) const {
    require(shape.size() == size(), "TensorView: cannot reshape ", shape_, " to ", shape);
    return TensorView<T, NewRank>(data_, shape);
  }

  /// Element `i` of the first axis, as a view of one axis less.
  TensorView<T, Rank - 1> operator[](Index i) const requires(Rank > 1) {
    EIGENFORMER_ASSERT(i >= 0 && i < shape_[0]);
    Shape<Rank - 1> rest;
    for (int axis = 1; axis < Rank; ++axis) rest[axis - 1] = shape_[axis];
    return TensorView<T, Rank - 1>(data_ + i * rest.size(), rest);
  }

 private:
  T* data_ = nullptr;
  Shape<Rank> shape_{};
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
