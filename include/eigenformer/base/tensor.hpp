// SPDX-License-Identifier: MIT
#pragma once

// Tensors: `Tensor<T, Rank>` owns its elements, `TensorView<T, Rank>` and `TensorView<const T,
// Rank>` do not. Row-major, contiguous, static rank, dynamic extents. Owned storage is aligned to
// 64 bytes, however Eigen was compiled; views accept any alignment.
//
//   ef::Tensor<float, 3> x({2, 100, 24});                 // zeros
//   x(1, 5, 7) = 0.5f;
//   auto ids = ef::Tensor<std::int32_t, 2>::from({{1, 17, 4}, {1, 9, 2}});
//   x.matrix();                                           // Eigen::Map, (200, 24), no copy
//   ef::TensorView<const float, 2> v(pointer, {3, 4});    // someone else's memory
//
// Element access is checked in Debug (EIGENFORMER_ASSERT) only; everything that takes whole tensors
// checks shapes always.

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include "eigenformer/base/memory.hpp"
#include "eigenformer/base/tensor_view.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

/// Braces within braces: NestedList<T, 2> is std::initializer_list<std::initializer_list<T>>.
template <class T, int Rank>
struct NestedListOf {
  using Type = std::initializer_list<typename NestedListOf<T, Rank - 1>::Type>;
};
template <class T>
struct NestedListOf<T, 0> {
  using Type = T;
};
template <class T, int Rank>
using NestedList = typename NestedListOf<T, Rank>::Type;

/// The extents of nested lists or ranges, those of the first of each.
template <int Rank, int Axis = 0, class Nested>
void measure_nested(const Nested& nested, Shape<Rank>& shape) {
  if constexpr (Axis < Rank) {
    shape[Axis] = static_cast<Index>(std::size(nested));
    if (std::size(nested) > 0) measure_nested<Rank, Axis + 1>(*std::begin(nested), shape);
  }
}

/// Copies the elements to `to`; throws unless all lists of an axis are equally long.
template <int Rank, int Axis = 0, class Nested, class T>
void copy_nested(const Nested& nested, const Shape<Rank>& shape, T*& to) {
  if constexpr (Axis < Rank) {
    require(static_cast<Index>(std::size(nested)) == shape[Axis],
            "Tensor::from: all lists of axis ", Axis, " must hold ", shape[Axis],
            " elements, as the first one; got ", std::size(nested));
    for (const auto& inner : nested) copy_nested<Rank, Axis + 1>(inner, shape, to);
  } else {
    *to++ = static_cast<T>(nested);
  }
}

}  // namespace internal

/// Owned elements; copies deeply, moves leave an empty tensor. New elements are zero.
template <class T, int Rank>
class Tensor {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                "Tensor holds plain numbers; for const elements take a TensorView<const T, Rank>");

 public:
  using Scalar = T;
  static constexpr int rank = Rank;
  static constexpr std::size_t alignment = memory_alignment;

  Tensor() = default;

  explicit Tensor(const Shape<Rank>& shape) : shape_(shape) {
    require_valid(shape, sizeof(T));
    allocate();
    std::fill(begin(), end(), T{});
  }

  explicit Tensor(TensorView<const T, Rank> view) : shape_(view.shape()) {
    allocate();
    std::copy(view.begin(), view.end(), begin());
  }

  Tensor(const Tensor& other) : Tensor(other.view()) {}
  Tensor(Tensor&& other) noexcept { swap(other); }

  Tensor& operator=(const Tensor& other) {
    if (shape_ == other.shape_) {
      if (this != &other) std::copy(other.begin(), other.end(), begin());
    } else {
      Tensor copy(other);
      swap(copy);
    }
    return *this;
  }

  Tensor& operator=(Tensor&& other) noexcept {
    Tensor moved(std::move(other));
    swap(moved);
    return *this;
  }

  ~Tensor() { internal::free_block(data_, bytes()); }

  /// From braces: Tensor<float, 2>::from({{1, 2, 3}, {4, 5, 6}}).
  static Tensor from(const internal::NestedList<T, Rank>& nested) { return from_nested(nested); }

  /// From vectors, or vectors of vectors, of the tensor's rank.
  template <class Range>
  requires(!std::is_same_v<Range, internal::NestedList<T, Rank>>) static Tensor
      from(const Range& nested) {
    return from_nested(nested);
  }

  /// The elements of a range, in row-major order; throws unless there are as many as the shape has.
  template <class Range>
  static Tensor from(const Range& elements, const Shape<Rank>& shape) {
    return from(std::begin(elements), std::end(elements), shape);
  }
  template <class Iterator>
  static Tensor from(Iterator first, Iterator last, const Shape<Rank>& shape) {
    Tensor tensor(shape);
    T* to = tensor.begin();
    for (; first != last && to != tensor.end(); ++first) *to++ = static_cast<T>(*first);
    require(first == last && to == tensor.end(), "Tensor::from: there must be ", shape.size(),
            " elements for shape ", shape, "; got ",
            first == last ? to_text(to - tensor.begin()) : std::string("more"));
    return tensor;
  }

  void swap(Tensor& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(shape_, other.shape_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  const Shape<Rank>& shape() const { return shape_; }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  bool empty() const { return size() == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size(); }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size(); }

  template <class... Indices>
  T& operator()(Indices... indices) {
    return data_[internal::offset_of(shape_, indices...)];
  }
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    return data_[internal::offset_of(shape_, indices...)];
  }

  TensorView<T, Rank> view() { return TensorView<T, Rank>(data_, shape_); }
  TensorView<const T, Rank> view() const { return TensorView<const T, Rank>(data_, shape_); }

  MatrixMap<T> matrix() { return view().matrix(); }
  MatrixMap<const T> matrix() const { return view().matrix(); }
  VectorMap<T> vector() { return view().vector(); }
  VectorMap<const T> vector() const { return view().vector(); }

  /// Equal shapes and equal elements.
  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.shape_ == b.shape_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  template <class Nested>
  static Tensor from_nested(const Nested& nested) {
    Shape<Rank> shape{};
    internal::measure_nested<Rank>(nested, shape);
    Tensor tensor(shape);
    T* to = tensor.begin();
    internal::copy_nested<Rank>(nested, shape, to);
    return tensor;
  }

  void allocate() {
    if (shape_.size() == 0) return;
    data_ = static_cast<T*>(internal::allocate_block(bytes()));
  }

  std::size_t bytes() const { return static_cast<std::size_t>(shape_.size()) * sizeof(T); }

  T* data_ = nullptr;
  Shape<Rank> shape_{};
};

template <class T, int Rank>
Tensor(TensorView<T, Rank>) -> Tensor<std::remove_const_t<T>, Rank>;

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
