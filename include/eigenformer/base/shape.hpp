// SPDX-License-Identifier: MIT
#pragma once

// Shapes, and the alphabet of every comment in the library:
//   B batch   T queries   S keys   C hidden size   H heads   K key/value heads   D head size
//   F intermediate size   V vocabulary   L layers
// `(B, T, C)` is a shape; `d_x` is the gradient of `x`.

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Extents of a tensor of `Rank` axes, outermost first: `Shape<2>{3, 4}`.
template <int Rank>
struct Shape {
  static_assert(Rank >= 1, "a shape has at least one axis");
  Index extents[static_cast<std::size_t>(Rank)]{};

  constexpr Shape() = default;

  template <std::convertible_to<Index>... Extents>
  requires(Rank > 1 &&
           sizeof...(Extents) == static_cast<std::size_t>(Rank)) constexpr Shape(Extents... all)
      : extents{static_cast<Index>(all)...} {}

  /// The one extent of a vector, in braces only: a bare number shall not turn into a shape.
  constexpr Shape(std::initializer_list<Index> one) requires(Rank == 1) {
    EIGENFORMER_ASSERT(one.size() == 1);
    extents[0] = *one.begin();
  }

  constexpr Index operator[](int axis) const { return extents[axis]; }
  constexpr Index& operator[](int axis) { return extents[axis]; }

  /// Number of elements.
  constexpr Index size() const {
    Index count = 1;
    for (Index extent : extents) count *= extent;
    return count;
  }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// "(2, 3, 4)".
template <int Rank>
std::string to_string(const Shape<Rank>& shape) {
  std::string text = "(";
  for (int axis = 0; axis < Rank; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + ")";
}

/// Throws unless every extent is >= 0 and the number of bytes fits into `Index`.
template <int Rank>
void require_valid(const Shape<Rank>& shape, std::size_t bytes_per_element) {
  Index limit = (std::numeric_limits<Index>::max)() / static_cast<Index>(bytes_per_element);
  for (int axis = 0; axis < Rank; ++axis) {
    require(shape[axis] >= 0, "Tensor: extents must be >= 0; got ", shape);
    if (shape[axis] == 0) continue;
    require(shape[axis] <= limit, "Tensor: too many elements to address; got ", shape);
    limit /= shape[axis];
  }
}

/// Throws `std::invalid_argument` naming both shapes unless they agree.
template <int Rank>
void require_shape(std::string_view who, const Shape<Rank>& actual, const Shape<Rank>& required) {
  require(actual == required, who, ": shape must be ", required, "; got ", actual);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
