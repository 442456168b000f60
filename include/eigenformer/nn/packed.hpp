// SPDX-License-Identifier: MIT
#pragma once

// Packed formats: weights laid out once, in the order in which the matrix product reads them. A
// packed module is read-only: it computes, and nothing else.
//
//   const auto fast = ef::pack(model);                   // Packed<float>: the same bits, faster
//   auto encoder = ef::load_encoder<ef::Packed<float>>(directory);    // never holds both layouts
//
//   Packed<float>, Packed<double>   panels (kernels/panels.hpp) of the numbers themselves
//   Packed<bfloat16>                rounded to 8 bits of precision: half the memory
//   Packed<int8_weights>            int8 with a scale for each row of the weights: a quarter
//   Packed<int8>                    the same, and activations are quantized as well, row by row, so
//                                   that products are those of integers; rows of activations that
//                                   hold infinity or NaN stay as they are
//
// Activations, biases and norms are float in all of them (double in Packed<double>).

#include <algorithm>
#include <cmath>
#include <limits>

#include "eigenformer/kernels/packing.hpp"
#include "eigenformer/nn/module.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

using int8 = std::int8_t;
struct int8_weights {};

template <class Element>
struct Packed {};

namespace internal {

template <class Format>
inline constexpr bool is_packed = false;
template <class Element>
inline constexpr bool is_packed<Packed<Element>> = true;

/// What panels of an element hold.
template <class Element>
struct PackedElement {
  static_assert(std::is_floating_point_v<Element>,
                "packed formats: Packed<float>, <double>, <bfloat16>, <int8>, <int8_weights>");
  using Stored = Element;
  using Scalar = Element;
};
template <>
struct PackedElement<bfloat16> {
  using Stored = bfloat16;
  using Scalar = float;
};
template <>
struct PackedElement<int8> {
  using Stored = std::int8_t;
  using Scalar = float;
};
template <>
struct PackedElement<int8_weights> : PackedElement<int8> {};

}  // namespace internal

/// A matrix (N, K) in panels. Rows go in and come out as they are in a Tensor.
template <class Element>
class PackedMatrix {
  using Stored = typename internal::PackedElement<Element>::Stored;

 public:
  using Scalar = typename internal::PackedElement<Element>::Scalar;
  static constexpr int rank = 2;
  /// Rows that share a panel: writing so many at once, from a multiple of it on, is fastest.
  static constexpr Index row_group = kernels::panel_width<Scalar>;
  /// int8 can't hold NaN or infinity: `set_rows` throws.
  static constexpr bool finite_only = std::is_same_v<Stored, std::int8_t>;

  PackedMatrix() = default;
  explicit PackedMatrix(const Shape<2>& shape)
      : shape_(checked(shape)),
        panels_({kernels::whole_panels<Scalar>(shape[0]) * stored_depth()}),
        scales_({is_int8 ? shape[0] : 0}) {}

  const Shape<2>& shape() const { return shape_; }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  /// Bytes of the panels and scales.
  std::size_t bytes() const {
    return static_cast<std::size_t>(panels_.size()) * sizeof(Stored) +
           static_cast<std::size_t>(scales_.size()) * sizeof(Scalar);
  }

  /// Overwrites `count` rows from `first` on with consecutive rows.
  void set_rows(Index first, Index count, const Scalar* from) {
    const Index depth = shape_[1];
    for (Index row = 0; row < count;) {
      const Index place = (first + row) % row_group;
      const Index rows = (std::min)(row_group - place, count - row);
      if constexpr (std::is_same_v<Stored, Scalar>) {
        if (place == 0 && (rows == row_group || first + row + rows == shape_[0])) {
          kernels::pack_panel(kernels::StridedFactor<Scalar>{from + row * depth, depth}, 0, rows, 0,
                              depth, panel_of(first + row));
          row += rows;
          continue;
        }
      }
      for (const Index end = row + rows; row < end; ++row) set_row(first + row, from + row * depth);
    }
  }

  void get_row(Index row, Scalar* to) const { factor().copy_row(row, shape_[1], to); }

  kernels::RightFactor<Scalar> factor() const {
    if constexpr (is_int8) {
      return kernels::compressed_factor(panels_.data(), shape_[1], scales_.data(),
                                        std::is_same_v<Element, int8>);
    } else if constexpr (std::is_same_v<Stored, bfloat16>) {
      return kernels::compressed_factor<Scalar>(panels_.data(), shape_[1]);
    } else {
      return kernels::RightFactor<Scalar>::from_panels(panels_.data(), shape_[1]);
    }
  }

  friend bool operator==(const PackedMatrix&, const PackedMatrix&) = default;

 private:
  static constexpr bool is_int8 = finite_only;

  static const Shape<2>& checked(const Shape<2>& shape) {
    require_valid(shape, sizeof(Scalar));
    constexpr Index longest = (std::numeric_limits<std::int32_t>::max)() / (127 * 127);
    require(!std::is_same_v<Element, int8> || shape[1] <= longest,
            "PackedMatrix: sums of int8 products hold rows of at most ", longest, "; got ", shape);
    return shape;
  }

  Index stored_depth() const { return is_int8 ? kernels::whole_groups(shape_[1]) : shape_[1]; }

  Stored* panel_of(Index row) {
    return panels_.data() + row / row_group * row_group * stored_depth();
  }

  void set_row(Index row, const Scalar* from) {
    [[maybe_unused]] const kernels::Int8Factors<Scalar> factors(is_int8 ? set_scale(row, from) : 0);
    for (Index k = 0; k < shape_[1]; ++k) {
      Stored& to = panel_of(row)[kernels::place_in_panel<Scalar, Stored>(row % row_group, k)];
      if constexpr (is_int8) {
        to = static_cast<Stored>(std::lrint(from[k] * factors.enlarge * factors.inverse));
      } else if constexpr (std::is_same_v<Stored, bfloat16>) {
        to = to_bfloat16(from[k]);
      } else {
        to = from[k];
      }
    }
  }

  /// The scale max |w| / 127; returns max |w|.
  Scalar set_scale(Index row, const Scalar* from) {
    Scalar top = 0;
    for (Index k = 0; k < shape_[1]; ++k) {
      const Scalar magnitude = std::abs(from[k]);
      require(magnitude <= (std::numeric_limits<Scalar>::max)(), "PackedMatrix: weight ", from[k],
              " in row ", row, " column ", k, " has no place in int8");
      top = (std::max)(top, magnitude);
    }
    scales_(row) = top / Scalar(127);
    return top;
  }

  Shape<2> shape_{};
  Tensor<Stored, 1> panels_;
  Tensor<Scalar, 1> scales_;  // of the rows, with int8
};

template <class Element>
struct FormatTraits<Packed<Element>> {
  using Scalar = typename internal::PackedElement<Element>::Scalar;
  template <int Rank>
  using Parameter = Tensor<Scalar, Rank>;
  using Weight = PackedMatrix<Element>;
};

namespace internal {

/// True, or the one error that the compiler reports.
template <class M>
constexpr bool require_scalar() {
  constexpr bool given = requires { typename M::Scalar; };
  static_assert(given, "pack: the module needs `using Scalar`, its type of numbers");
  return given;
}

template <class Format, class M>
constexpr bool require_packable() {
  constexpr bool plain = PlainModule<M>, packed = is_packed<Format>;
  constexpr bool suits = std::is_same_v<ScalarOf<Format>, typename M::Scalar>;
  static_assert(plain, "pack: takes a module in a plain format, float or double");
  static_assert(!plain || packed,
                "pack: the format must be a Packed one: pack<Packed<int8>>(model)");
  static_assert(!plain || !packed || suits,
                "pack: of another number type than the module; cast<float>(model) first");
  return plain && packed && suits;
}

inline constexpr auto pack_parameter = [](const std::string&, auto& to, const auto& from) {
  if constexpr (requires { to.set_rows(0, from.dim(0), from.data()); }) {
    to.set_rows(0, from.dim(0), from.data());
  } else {
    std::copy(from.begin(), from.end(), to.begin());
  }
};

}  // namespace internal

/// The same module with its weights packed.
template <class Format, Module M>
auto pack(const M& module) {
  if constexpr (internal::require_format<M, Format>() && internal::require_scalar<M>()) {
    typename M::template WithFormat<Format> result(module.config);
    if constexpr (internal::require_packable<Format, M>()) {
      for_each_parameter_in_step(internal::pack_parameter, result, module);
    }
    return result;
  }
}

template <Module M>
auto pack(const M& module) {
  if constexpr (internal::require_scalar<M>()) return pack<Packed<typename M::Scalar>>(module);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
