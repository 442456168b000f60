// SPDX-License-Identifier: MIT
#pragma once

// The thin layer between the kernels and a machine's vector registers: `Simd<T>` over Eigen's
// packets, which cover every instruction set that Eigen knows, and over plain scalars (width 1)
// where a number type has no packets.
//
// Rules that keep bits the same everywhere:
//   a multiply that feeds an add is an explicit `fma`, so no compiler decides about contraction;
//   the tail of a row goes through the same vector code as the rest, filled up with zeros.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "eigenformer/base/config.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // vector types as template arguments
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct Simd {
  using Scalar = T;
  using Traits = Eigen::internal::packet_traits<T>;
  using Vector =
      std::conditional_t<static_cast<bool>(Traits::Vectorizable), typename Traits::type, T>;
  static constexpr Index width = Traits::Vectorizable ? static_cast<Index>(Traits::size) : 1;

  static Vector load(const T* from) { return Eigen::internal::ploadu<Vector>(from); }
  static void store(T* to, Vector a) { Eigen::internal::pstoreu(to, a); }
  static Vector set(T a) { return Eigen::internal::pset1<Vector>(a); }
  static Vector zero() { return set(T(0)); }

  static Vector add(Vector a, Vector b) { return Eigen::internal::padd(a, b); }
  static Vector subtract(Vector a, Vector b) { return Eigen::internal::psub(a, b); }
  static Vector multiply(Vector a, Vector b) { return Eigen::internal::pmul(a, b); }
  static Vector divide(Vector a, Vector b) { return Eigen::internal::pdiv(a, b); }
  static Vector square_root(Vector a) { return Eigen::internal::psqrt(a); }
  static Vector absolute(Vector a) { return Eigen::internal::pabs(a); }

  /// a * b + c, rounded once where the machine can.
  static Vector fma(Vector a, Vector b, Vector c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    // Eigen's scalar form is a * b + c, which the compiler would fuse in one kernel and not in
    // another.
    if constexpr (width == 1 && std::is_floating_point_v<T>) return std::fma(a, b, c);
#endif
    return Eigen::internal::pmadd(a, b, c);
  }

  /// a > b ? a : b, so the second wins where either is NaN.
  static Vector maximum(Vector a, Vector b) { return select(less(b, a), a, b); }

  /// A mask for `select`: a < b, false where either is NaN.
  static auto less(Vector a, Vector b) {
    if constexpr (width == 1) {
      return a < b;
    } else {
      return Eigen::internal::pcmp_lt(a, b);
    }
  }
  template <class Mask>
  static Vector select(Mask mask, Vector yes, Vector no) {
    if constexpr (width == 1) {
      return mask ? yes : no;
    } else {
      return Eigen::internal::pselect(mask, yes, no);
    }
  }

  /// Sum and maximum of the lanes: halves are folded onto each other, on any machine and with any
  /// version of Eigen. (GCC 12 warns about the insides of Eigen's own reductions for AVX-512.)
  static T sum(Vector a) {
    return fold(a, [](T x, T y) { return x + y; });
  }
  static T largest(Vector a) {
    return fold(a, [](T x, T y) { return x < y ? y : x; });
  }

  /// The first `count` elements, then zeros; `count` <= width.
  static Vector load_partial(const T* from, Index count) {
    if (count == width) return load(from);
    T buffer[static_cast<std::size_t>(width)] = {};
    std::copy_n(from, count, buffer);
    return load(buffer);
  }
  static void store_partial(T* to, Vector a, Index count) {
    if (count == width) return store(to, a);
    T buffer[static_cast<std::size_t>(width)];
    store(buffer, a);
    std::copy_n(buffer, count, to);
  }

  /// `a` with zeros in all lanes but the first `count`.
  static Vector keep_first(Vector a, Index count) {
    if (count == width) return a;
    T buffer[static_cast<std::size_t>(width)];
    store(buffer, a);
    return load_partial(buffer, count);
  }

  template <class F>
  static T fold(Vector a, F&& f) {
    T lanes[static_cast<std::size_t>(width)];
    store(lanes, a);
    EIGENFORMER_UNROLL
    for (Index half = width / 2; half > 0; half /= 2) {
      EIGENFORMER_UNROLL
      for (Index i = 0; i < half; ++i) lanes[i] = f(lanes[i], lanes[i + half]);
    }
    return lanes[0];
  }

  /// 2^n for whole n (float: -126 <= n <= 127, double: -1022 <= n <= 1023); anything for other n.
  static Vector power_of_two(Vector n);
};

namespace internal {

// A whole number n to 2^n, lane by lane; compilers turn the loop into vector instructions. Adding
// 1.5 * 2^(mantissa bits) brings n + bias into the low bits, from where they are shifted into the
// exponent's place. Any n gives some number, NaN too.
template <class T>
inline void exponents_to_powers(T* lanes, int count) {
  constexpr bool is_float = std::is_same_v<T, float>;
  using Bits = std::conditional_t<is_float, std::uint32_t, std::uint64_t>;
  constexpr T shift = is_float ? T(0x1.8p23 + 127.0) : T(0x1.8p52 + 1023.0);
  for (int i = 0; i < count; ++i) {
    const T shifted = lanes[i] + shift;
    Bits bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits <<= is_float ? 23 : 52;
    std::memcpy(&lanes[i], &bits, sizeof bits);
  }
}

}  // namespace internal

template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector Simd<T>::power_of_two(Vector n) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, float> && width > 1) {
    using Integers = typename Eigen::internal::unpacket_traits<Vector>::integer_packet;
    const Integers biased = Eigen::internal::pcast<Vector, Integers>(add(n, set(T(127))));
    return Eigen::internal::preinterpret<Vector>(Eigen::internal::plogical_shift_left<23>(biased));
  } else {
    T lanes[static_cast<std::size_t>(width)];
    store(lanes, n);
    internal::exponents_to_powers(lanes, static_cast<int>(width));
    return load(lanes);
  }
}

/// y[i] = f(x[i]) over a row of `n`, `f` from register to register; x and y may be the same.
template <class T, class F>
EIGENFORMER_ALWAYS_INLINE void transform(const T* x, T* y, Index n, F&& f) {
  using S = Simd<T>;
  Index i = 0;
  for (; i + S::width <= n; i += S::width) S::store(y + i, f(S::load(x + i)));
  if (i < n) S::store_partial(y + i, f(S::load_partial(x + i, n - i)), n - i);
}

/// y[i] = f(x[i], z[i]).
template <class T, class F>
EIGENFORMER_ALWAYS_INLINE void transform(const T* x, const T* z, T* y, Index n, F&& f) {
  using S = Simd<T>;
  Index i = 0;
  for (; i + S::width <= n; i += S::width) S::store(y + i, f(S::load(x + i), S::load(z + i)));
  if (i < n) {
    const Index rest = n - i;
    S::store_partial(y + i, f(S::load_partial(x + i, rest), S::load_partial(z + i, rest)), rest);
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
