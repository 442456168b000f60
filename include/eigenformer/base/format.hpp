// SPDX-License-Identifier: MIT
#pragma once

// The format in which a module stores its parameters: the first template parameter of every module.
//
//   float, double    plain tensors: trainable, Eigen-mappable
//   ShapeOnly        shapes without storage, to count and name the parameters of any model
//   Packed<...>      weights laid out for speed, read-only: nn/packed.hpp
//
// `ScalarOf<Format>` is the number type of activations, `Parameter<Format, Rank>` what a parameter
// field holds, `Weight<Format>` what the large matrices hold: those of linear maps and the tables of
// embeddings.

#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A parameter that has a shape but no elements.
template <int Rank>
class ShapeOnlyParameter {
 public:
  static constexpr int rank = Rank;

  ShapeOnlyParameter() = default;
  explicit ShapeOnlyParameter(const Shape<Rank>& shape) : shape_(shape) {
    require_valid(shape, sizeof(double));
  }

  const Shape<Rank>& shape() const { return shape_; }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  friend bool operator==(const ShapeOnlyParameter&, const ShapeOnlyParameter&) = default;

 private:
  Shape<Rank> shape_{};
};

struct ShapeOnly {};

namespace internal {

/// A class whose objects can be added and multiplied, such as a type of automatic differentiation.
template <class T>
concept NumberClass = std::is_class_v<T> && requires(const T& x) {
  (x + x);
  (x * x);
};

}  // namespace internal

/// A plain format: numbers that can be computed with.
template <class Format>
concept PlainFormat = std::is_floating_point_v<Format> || internal::NumberClass<Format>;

namespace internal {

/// True, or the one error that the compiler reports.
template <class Format>
constexpr bool require_plain_format() {
  static_assert(
      PlainFormat<Format>,
      "the format of a module is a number type such as float or double, a Packed one such "
      "as Packed<bfloat16>, or ShapeOnly");
  return PlainFormat<Format>;
}

}  // namespace internal

template <class Format>
struct FormatTraits {
  using Scalar = std::conditional_t<internal::require_plain_format<Format>(), Format, float>;
  template <int Rank>
  using Parameter = Tensor<Scalar, Rank>;
  using Weight = Tensor<Scalar, 2>;
};

template <>
struct FormatTraits<ShapeOnly> {
  using Scalar = float;
  template <int Rank>
  using Parameter = ShapeOnlyParameter<Rank>;
  using Weight = ShapeOnlyParameter<2>;
};

template <class Format>
using ScalarOf = typename FormatTraits<Format>::Scalar;

template <class Format, int Rank>
using Parameter = typename FormatTraits<Format>::template Parameter<Rank>;

template <class Format>
using Weight = typename FormatTraits<Format>::Weight;

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
