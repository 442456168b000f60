// SPDX-License-Identifier: MIT
#pragma once

// The two 16-bit number formats of checkpoints, widened to float exactly, subnormals, infinities and
// NaN included; and float rounded to the second.
//
//   Float16    1 sign, 5 exponent, 10 fraction bits (IEEE 754 binary16)
//   BFloat16   1 sign, 8 exponent, 7 fraction bits: the upper half of a float

#include <bit>
#include <cstdint>

#include "eigenformer/base/config.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct Float16 {
  std::uint16_t bits = 0;
};

struct BFloat16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(BFloat16, BFloat16) = default;  // of the bits
};

constexpr float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = value.bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // a normal float
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

/// A float as a double, by integers alone: a processor that takes subnormal operands for zero would
/// lose them.
constexpr double to_double(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t fraction = bits & 0x7FFFFFu;
  if ((bits & 0x7F800000u) != 0 || fraction == 0) return value;
  // fraction * 2^-149, a normal double
  const int shift = std::countl_zero(fraction) - 8;  // until the leading one is in bit 23
  const std::uint64_t exponent = 1023 - 126 - static_cast<std::uint64_t>(shift);
  const std::uint64_t rest = std::uint64_t{fraction} << (shift + 29) & 0xFFFFFFFFFFFFFu;
  return std::bit_cast<double>(std::uint64_t{bits >> 31} << 63 | exponent << 52 | rest);
}

/// The nearest bfloat16, to even where two are as near; NaN stays NaN.
constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

/// The name as a format: Packed<bfloat16>.
using bfloat16 = BFloat16;

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
