// SPDX-License-Identifier: MIT
#include "eigenformer/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

// Sign, exponent and fraction of a format with `fraction_bits`, by the definition in IEEE 754.
double by_definition(unsigned bits, int exponent_bits, int fraction_bits) {
  const int exponent_limit = (1 << exponent_bits) - 1, bias = exponent_limit / 2;
  const int exponent = static_cast<int>(bits >> fraction_bits) & exponent_limit;
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
  if (exponent == exponent_limit) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

void expect_same(float actual, double wanted, unsigned bits) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(actual)) << bits;
  } else {
    EXPECT_EQ(static_cast<double>(actual), wanted) << bits;
    EXPECT_EQ(std::signbit(actual), std::signbit(wanted)) << bits;
  }
}

TEST(Half, Float16OfAllBits) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    expect_same(ef::to_float(ef::Float16{static_cast<std::uint16_t>(bits)}),
                by_definition(bits, 5, 10), bits);
  }
}

TEST(Half, BFloat16OfAllBits) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    expect_same(ef::to_float(ef::BFloat16{static_cast<std::uint16_t>(bits)}),
                by_definition(bits, 8, 7), bits);
  }
}

TEST(Half, KnownNumbers) {
  static_assert(ef::to_float(ef::Float16{0x3C00}) == 1.0f);
  static_assert(ef::to_float(ef::Float16{0x7BFF}) == 65504.0f);
  static_assert(ef::to_float(ef::Float16{0x0001}) == 0x1p-24f);
  static_assert(ef::to_float(ef::BFloat16{0xC040}) == -3.0f);
}

}  // namespace
