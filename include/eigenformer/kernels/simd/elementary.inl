// SPDX-License-Identifier: MIT

// Elementary functions on registers: exp, tanh, the logistic function, the normal distribution. The
// library's own polynomials (kernels/polynomials.hpp), so results depend neither on the C library
// nor on Eigen's version.
//
// Results of exp below 1.7e-38 (float) or 4.9e-308 (double) are flushed to zero. NaN in, NaN out.
// Number types other than float and double take <cmath>'s functions, found through
// argument-dependent look-up.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

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

/// x = n ln 2 + r with |r| <= ln 2 / 2; shifted = n + ExponentialConstants<T>::round.
template <class T>
struct ReducedArgument {
  typename Simd<T>::Vector shifted, r;
};

template <class T>
EIGENFORMER_ALWAYS_INLINE ReducedArgument<T> reduced_argument(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  using Constants = ExponentialConstants<T>;
  const auto round = S::set(Constants::round);
  const auto shifted = S::fma(x, S::set(Constants::inverse_log_2), round);
  const auto n = S::subtract(shifted, round);
  const auto r = S::fma(n, S::set(-Constants::log_2_high), x);
  return {shifted, S::fma(n, S::set(-Constants::log_2_low), r)};
}

/// e^r - 1 for |r| <= ln 2 / 2.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential_minus_one(
    typename Simd<T>::Vector r) {
  using S = Simd<T>;
  return S::fma(S::multiply(r, r), polynomial(ExponentialConstants<T>::q, r), r);
}

/// 2^n e^r, or 0 for x < lowest; x <= 0.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential_from(
    typename Simd<T>::Vector x, typename Simd<T>::Vector shifted, typename Simd<T>::Vector r) {
  using S = Simd<T>;
  const auto scale = S::power_of_two(shifted, 0);
  const auto result = S::fma(scale, exponential_minus_one<T>(r), scale);
  return S::select(S::less(x, S::set(ExponentialConstants<T>::lowest)), S::set(T(0)), result);
}

/// e^x for x <= 0, with less work than for any x.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential_of_nonpositive(
    typename Simd<T>::Vector x) {
  if constexpr (has_polynomials<T>) {
    const auto reduced = reduced_argument<T>(x);
    return exponential_from<T>(x, reduced.shifted, reduced.r);
  } else {
    using std::exp;
    return exp(x);
  }
}

/// e^(x + correction) for x <= 0 and a correction far below 1 that doesn't fit into x.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential_of_nonpositive(
    typename Simd<T>::Vector x, typename Simd<T>::Vector correction) {
  const auto reduced = reduced_argument<T>(x);
  return exponential_from<T>(x, reduced.shifted, Simd<T>::add(reduced.r, correction));
}

/// e^x = scale * (1 + fraction) with scale = 2^n / 2 kept apart by a factor of two, so that the
/// largest results don't overflow early. x must be in [lowest, highest].
template <class T>
struct ExponentialParts {
  typename Simd<T>::Vector half_scale, fraction;
};

template <class T>
EIGENFORMER_ALWAYS_INLINE ExponentialParts<T> exponential_parts(typename Simd<T>::Vector x) {
  const auto reduced = reduced_argument<T>(x);
  return {Simd<T>::power_of_two(reduced.shifted, -1), exponential_minus_one<T>(reduced.r)};
}

/// e^x for any x.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector exponential(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  if constexpr (has_polynomials<T>) {
    using Constants = ExponentialConstants<T>;
    const auto lowest = S::set(Constants::lowest), highest = S::set(Constants::highest);
    const auto inside =
        S::select(S::less(highest, x), highest, S::select(S::less(x, lowest), lowest, x));
    const auto parts = exponential_parts<T>(inside);
    const auto half = S::fma(parts.half_scale, parts.fraction, parts.half_scale);
    return S::select(S::less(x, lowest), S::set(T(0)), S::add(half, half));
  } else {
    using std::exp;
    return exp(x);
  }
}

/// tanh(x) = -m / (2 + m) with m = e^{-2|x|} - 1, and x's sign.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector hyperbolic_tangent(typename Simd<T>::Vector x) {
  using S = Simd<T>;
  if constexpr (has_polynomials<T>) {
    const auto lowest = S::set(T(-44));  // tanh is 1 to the last bit long before 22
    auto argument = S::multiply(S::set(T(-2)), S::absolute(x));
    argument = S::select(S::less(argument, lowest), lowest, argument);
    const auto parts = exponential_parts<T>(argument);
    const auto scale = S::add(parts.half_scale, parts.half_scale);
    const auto m = S::fma(scale, parts.fraction, S::subtract(scale, S::set(T(1))));
    const auto magnitude = S::divide(S::subtract(S::set(T(0)), m), S::add(S::set(T(2)), m));
    return S::select(S::less(x, S::set(T(0))), S::subtract(S::set(T(0)), magnitude), magnitude);
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
  return S::divide(one, S::add(one, exponential<T>(S::subtract(S::set(T(0)), x))));
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
  if constexpr (has_polynomials<T>) {
    using Constants = ComplementaryErrorConstants<T>;
    const auto one = S::set(T(1)), half = S::set(T(0.5)), minus_half = S::set(T(-0.5));
    const auto furthest = S::set(Constants::furthest * T(1.4142135623730950488));
    auto a = S::absolute(x);
    a = S::select(S::less(furthest, a), furthest, a);
    const auto square = S::multiply(a, a);
    const auto rounded_off =
        S::fma(a, a, S::subtract(S::set(T(0)), square));  // 0 without hardware fma
    const auto bell = exponential_of_nonpositive<T>(S::multiply(minus_half, square),
                                                    S::multiply(minus_half, rounded_off));
    const auto z = S::multiply(a, S::set(T(0.70710678118654752440)));
    const auto k = S::set(T(2.5));
    const auto z_plus_k = S::add(z, k);
    const auto two_z_plus_1 = S::fma(z, S::set(T(2)), one);
    const auto inverse = S::divide(one, S::multiply(z_plus_k, two_z_plus_1));
    const auto t = S::multiply(S::subtract(z, k), S::multiply(inverse, two_z_plus_1));
    const auto scaled = S::multiply(polynomial(Constants::g, t), S::multiply(inverse, z_plus_k));
    const auto tail = S::multiply(S::multiply(half, bell), scaled);
    return {S::select(S::less(x, S::set(T(0))), tail, S::subtract(one, tail)), bell};
  } else {
    using std::erfc;
    using std::exp;
    return {T(0.5) * erfc(-x * T(0.707106781186547524400844362104849039L)), exp(T(-0.5) * x * x)};
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
