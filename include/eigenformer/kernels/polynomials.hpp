// SPDX-License-Identifier: MIT
#pragma once

// The numbers behind the elementary functions of simd/elementary.inl, for float and double.
//
//   exp(x)    x = n ln 2 + r, |r| <= ln 2 / 2;  e^r - 1 = r + r^2 q(r), q of degree 4 or 10
//   erfc(z)   e^{-z^2} g(t) / (1 + 2 z) for z >= 0, t = (z - 2.5) / (z + 2.5), g of degree 9 or 22:
//             one polynomial for the whole half line (form: Shepherd and Laframboise, "Chebyshev
//             approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981)
//
// Coefficients: Remez exchange in 50 digits. Largest relative errors of the polynomials: 1.1e-8 and
// 2.3e-19 (exp), 1.7e-8 and 1.4e-16 (erfc).

#include <type_traits>

#include "eigenformer/base/config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
inline constexpr bool has_polynomials = std::is_same_v<T, float> || std::is_same_v<T, double>;

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

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
