// SPDX-License-Identifier: MIT
#include "eigenformer/base/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "eigenformer/base/floating_point_mode.hpp"

namespace half_test {

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

// Also where the processor takes subnormal operands for zero.
TEST(Half, FloatsWidenToDoubleByIntegersAlone) {
  std::vector<std::uint32_t> patterns = {0, 1, 2, 0x7fffff, 0x400000, 0x800000, 0x7f800000};
  for (std::uint32_t bits = 1; bits < 0x800000; bits = bits * 3 + 1) patterns.push_back(bits);
  std::vector<double> expected;
  for (std::uint32_t bits : patterns)
    expected.push_back(static_cast<double>(std::bit_cast<float>(bits)));
#if defined(__SSE__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
#endif
  std::vector<std::uint64_t> found, negative;
  for (std::uint32_t bits : patterns) {
    found.push_back(std::bit_cast<std::uint64_t>(ef::to_double(std::bit_cast<float>(bits))));
    negative.push_back(
        std::bit_cast<std::uint64_t>(ef::to_double(std::bit_cast<float>(bits | 0x80000000u))));
  }
#if defined(__SSE__)
  _mm_setcsr(before);
#endif
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(expected[i]);
    EXPECT_EQ(found[i], bits) << std::hex << patterns[i];
    EXPECT_EQ(negative[i], bits | std::uint64_t{1} << 63) << std::hex << patterns[i];
  }
}

TEST(Half, EveryNaNStaysOne) {
  for (std::uint32_t payload = 1; payload < 0x800000; payload = payload * 2 + 1) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const auto rounded = ef::to_bfloat16(std::bit_cast<float>(sign | 0x7f800000u | payload));
      EXPECT_TRUE((rounded.bits & 0x7f80u) == 0x7f80u && (rounded.bits & 0x7fu) != 0)
          << std::hex << payload;
    }
  }
  const auto lowest = ef::to_bfloat16(std::bit_cast<float>(0x7f800001u));
  EXPECT_NE(lowest.bits & 0x7fu, 0u);
}

}  // namespace half_test
