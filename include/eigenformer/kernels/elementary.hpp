// SPDX-License-Identifier: MIT
#pragma once

// Elementary functions on vector registers: exp, exp - 1, tanh, the logistic function, the normal
// distribution. The library's own polynomials, so results depend neither on the C library nor on
// Eigen's version.
//
//   exp(x)    x = n ln 2 + r, |r| <= ln 2 / 2;  e^r - 1 = r + r^2 q(r), q of degree 4 or 10
//   erfc(z)   e^{-z^2} g(t) / (1 + 2 z) for z >= 0, t = (z - 2.5) / (z + 2.5), g of degree 9 or 22:
//             one polynomial for the whole half line (form: Shepherd and Laframboise, "Chebyshev
//             approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981)
//
// Coefficients: Remez exchange in 50 digits. Largest relative errors of the polynomials: 1.1e-8 and
// 2.3e-19 (exp), 1.7e-8 and 1.4e-16 (erfc). Results of exp below 1.7e-38 (float) or 4.5e-308
// (double) are flushed to zero. NaN in, NaN out. Number types other than float and double take
// <cmath>'s functions, found through argument-dependent look-up.

#include <cmath>
#include <type_traits>

#include "eigenformer/kernels/simd.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct ExponentialConstants;

template <>
struct ExponentialConstants<float> {
  static constexpr float lowest = -86.98f, highest = 89.0f;
  static constexpr float round = 0x1.8p23f;  // adding and subtracting it rounds to a whole number
  static constexpr float inverse_log_2 = 1.44269504f;
  static constexpr float log_2_high = 0x1.62e4p-1f, log_2_low = 0x1.7f7d1cp-20f;
  static constexpr float q[] = {0.5f, 0.16666576f, 0.041666374f, 0.008363235f, 0.0013941218f};
};

template <>
struct ExponentialConstants<double> {
  static constexpr double lowest = -707.6, highest = 710.0;
  static constexpr double round = 0x1.8p52;
  static constexpr double inverse_log_2 = 1.4426950408889634;
  static constexpr double log_2_high = 0x1.62e42fee00000p-1, log_2_low = 0x1.a39ef35793c76p-33;
  static constexpr double q[] = {0.5,
                                 0.1666666666666667,
                                 0.041666666666666685,
                                 0.008333333333326082,
                                 0.0013888888888874298,
                                 0.00019841269875004014,
                                 2.4801587347584487e-05,
                                 2.755725516822667e-06,
                                 2.7557252671101505e-07,
                                 2.510531336495883e-08,
                                 2.0921672352163222e-09};
};

template <class T>
struct ComplementaryErrorConstants;

template <>
struct ComplementaryErrorConstants<float> {
  static constexpr float furthest = 11.0f;  // erfc is 0 beyond
  static constexpr float g[] = {
      1.2648382186889648f,    -0.1223568245768547f, -0.09902281314134598f,  0.15763188898563385f,
      -0.10298921167850494f,  0.03273962065577507f, 0.0010292098158970475f, -0.0042859031818807125f,
      0.0003263929102104157f, 0.00045296925236471f};
};

template <>
struct ComplementaryErrorConstants<double> {
  static constexpr double furthest = 28.0;
  static constexpr double g[] = {
      1.2648381843668617,      -0.12235676308240538,    -0.09902453957365538,
      0.15762991902332993,     -0.10296705603572028,    0.03276089326551192,
      0.0009318927575401873,   -0.004382078303505425,   0.0004918664629980601,
      0.0006321241469186948,   -8.848340817636573e-05,  -0.00011352207863918868,
      6.282893201547027e-06,   2.270147210123804e-05,   2.5645693132406115e-06,
      -4.228999344995919e-06,  -1.5092962303740607e-06, 5.55024216689301e-07,
      4.5104167654809457e-07,  -5.379320358799618e-09,  -7.301031615618962e-08,
      -1.1571344659679072e-08, 2.7500259045991285e-09};
};

namespace internal {

template <class T>
inline constexpr bool has_polynomials = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Horner's scheme, unrolled.
template <class T, std::size_t Count>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector polynomial(const T (&coefficients)[Count],
                                                              typename Simd<T>::Vector x) {
  using S = Simd<T>;
  typename S::Vector sum = S::set(coefficients[Count - 1]);
  EIGENFORMER_UNROLL
  for (std::size_t i = 2; i <= Count; ++i) sum = S::fma(sum, x, S::set(coefficients[Count - i]));
  return sum;
}

/// e^(x + correction) = scale * (1 + fraction) with scale = 2^n / 2 kept apart by a factor of two,
/// so that the largest results don't overflow early. x must lie in [lowest, highest]; |correction|
/// must be far below 1.
template <class T>
struct ExponentialParts {
  typename Simd<T>::Vector half_scale, fraction;
};

template <class T>
EIGENFORMER_ALWAYS_INLINE ExponentialParts<T> exponential_parts(
    typename Simd<T>::Vector x, typename Simd<T>::Vector correction) {
  using S = Simd<T>;
  using Constants = ExponentialConstants<T>;
  const auto round = S::set(Constants::round);
  const auto n = S::subtract(S::fma(x, S::set(Constants::inverse_log_2), round), round);
  auto r = S::fma(n, S::set(-Constants::log_2_high), x);
  r = S::add(S::fma(n, S::set(-Constants::log_2_low), r), correction);
  const auto square = S::multiply(r, r);
  const auto fraction = S::fma(square, polynomial(Constants::q, r), r);
  return {S::power_of_two(S::subtract(n, S::set(T(1)))), fraction};
}

}  // namespace internal

/// e^(x + correction), for a correction far below 1 that doesn't fit into x.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential(
    typename Simd<T>::Vector x, typename Simd<T>::Vector correction) {
  using S = Simd<T>;
  using Constants = ExponentialConstants<T>;
  const auto lowest = S::set(Constants::lowest), highest = S::set(Constants::highest);
  const auto inside =
      S::select(S::less(highest, x), highest, S::select(S::less(x, lowest), lowest, x));
  const auto parts = internal::exponential_parts<T>(inside, correction);
  const auto half = S::fma(parts.half_scale, parts.fraction, parts.half_scale);
  return S::select(S::less(x, lowest), S::zero(), S::add(half, half));
}

template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential(typename Simd<T>::Vector x) {
  if constexpr (internal::has_polynomials<T>) {
    return exponential<T>(x, Simd<T>::zero());
  } else {
    using std::exp;
    return exp(x);
  }
}

/// tanh(x) = -m / (2 + m) with m = e^{-2|x|} - 1, and x's sign.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector hyperbolic_tangent(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  if constexpr (internal::has_polynomials<T>) {
    const auto lowest = S::set(T(-44));  // tanh is 1 to the last bit long before 22
    auto argument = S::multiply(S::set(T(-2)), S::absolute(x));
    argument = S::select(S::less(argument, lowest), lowest, argument);
    const auto parts = internal::exponential_parts<T>(argument, S::zero());
    const auto scale = S::add(parts.half_scale, parts.half_scale);
    const auto m = S::fma(scale, parts.fraction, S::subtract(scale, S::set(T(1))));
    const auto magnitude = S::divide(S::subtract(S::zero(), m), S::add(S::set(T(2)), m));
    return S::select(S::less(x, S::zero()), S::subtract(S::zero(), magnitude), magnitude);
  } else {
    using std::tanh;
    return tanh(x);
  }
}

/// 1 / (1 + e^{-x}).
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector logistic(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  const auto one = S::set(T(1));
  return S::divide(one, S::add(one, exponential<T>(S::subtract(S::zero(), x))));
}

/// The standard normal distribution's cumulative function at x and e^{-x^2/2}: what GELU and its
/// derivative need.
template <class T>
struct NormalDistribution {
  typename Simd<T>::Vector cumulative, bell;
};

/// cumulative = erfc(-x / sqrt(2)) / 2, accurate relative to itself in the left tail too.
template <class T>
EIGENFORMER_ALWAYS_INLINE NormalDistribution<T> normal_distribution(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  if constexpr (internal::has_polynomials<T>) {
    using Constants = ComplementaryErrorConstants<T>;
    const auto one = S::set(T(1)), half = S::set(T(0.5)), minus_half = S::set(T(-0.5));
    const auto furthest = S::set(Constants::furthest * T(1.4142135623730950488));
    auto a = S::absolute(x);
    a = S::select(S::less(furthest, a), furthest, a);
    const auto square = S::multiply(a, a);
    const auto rounded_off =
        S::fma(a, a, S::subtract(S::zero(), square));  // 0 without hardware fma
    const auto bell =
        exponential<T>(S::multiply(minus_half, square), S::multiply(minus_half, rounded_off));
    const auto z = S::multiply(a, S::set(T(0.70710678118654752440)));
    const auto k = S::set(T(2.5));
    const auto z_plus_k = S::add(z, k);
    const auto two_z_plus_1 = S::fma(z, S::set(T(2)), one);
    const auto inverse = S::divide(one, S::multiply(z_plus_k, two_z_plus_1));
    const auto t = S::multiply(S::subtract(z, k), S::multiply(inverse, two_z_plus_1));
    const auto scaled =
        S::multiply(internal::polynomial(Constants::g, t), S::multiply(inverse, z_plus_k));
    const auto tail = S::multiply(S::multiply(half, bell), scaled);
    return {S::select(S::less(x, S::zero()), tail, S::subtract(one, tail)), bell};
  } else {
    using std::erfc;
    using std::exp;
    return {T(0.5) * erfc(-x * T(0.707106781186547524400844362104849039L)), exp(T(-0.5) * x * x)};
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
