// SPDX-License-Identifier: MIT
#include "eigenformer/base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace random_test {

namespace ef = eigenformer;
using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123 (tests/kat_vectors, philox4x32-10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(ef::philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  constexpr std::uint32_t ones = 0xffffffffu;
  EXPECT_EQ(ef::philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  // Digits of pi.
  EXPECT_EQ(
      ef::philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Words{0xd16cfe09u, 0x94fdcceb, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, WorksAtCompileTime) {
  static_assert(ef::philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5u);
  static_assert(ef::Key(1) != ef::Key(2));
}

TEST(Key, IsAPureFunction) {
  const ef::Key key(42);
  const double first = key.uniform(1000);
  for (std::uint64_t i = 0; i < 10; ++i) key.uniform(i);
  EXPECT_EQ(key.uniform(1000), first);
  EXPECT_EQ(ef::Key(42).uniform(1000), first);
}

TEST(Key, UsesAll64BitsOfSeedAndPosition) {
  EXPECT_NE(ef::Key(1).bits(0), ef::Key(1 + (std::uint64_t{1} << 32)).bits(0));
  EXPECT_NE(ef::Key(1).bits(3), ef::Key(1).bits(3 + (std::uint64_t{1} << 40)));
  EXPECT_NE(ef::Key(1).fold_in(3), ef::Key(1).fold_in(3 + (std::uint64_t{1} << 40)));
}

TEST(Key, FoldInGivesKeysOfTheirOwn) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    seen.insert(ef::Key(seed).bits(0));
    for (std::uint64_t part = 0; part < 50; ++part) {
      seen.insert(ef::Key(seed).fold_in(part).bits(0));
      seen.insert(ef::Key(seed).fold_in(part).fold_in(1).bits(0));
    }
  }
  EXPECT_EQ(seen.size(), 20u * 101u);
  EXPECT_NE(ef::Key(5).fold_in(1).fold_in(2), ef::Key(5).fold_in(2).fold_in(1));
}

// Each moment of n independent numbers is within six standard errors of its value.
constexpr std::uint64_t count = 200000;

void expect_moment(double sum, double expected, double deviation, const char* what) {
  const double n = static_cast<double>(count);
  EXPECT_NEAR(sum / n, expected, 6 * deviation / std::sqrt(n)) << what;
}

TEST(Key, UniformIsUniform) {
  const ef::Key key(7);
  double sum = 0, squares = 0, neighbours = 0, smallest = 1, largest = 0;
  std::vector<double> cells(64, 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double u = key.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    EXPECT_EQ(u, std::ldexp(std::floor(std::ldexp(u, 53)), -53));
    sum += u;
    squares += u * u;
    neighbours += (u - 0.5) * (key.uniform(i + 1) - 0.5);
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
    cells[static_cast<std::size_t>(u * 64)] += 1;
  }
  expect_moment(sum, 0.5, std::sqrt(1.0 / 12), "mean");
  expect_moment(squares, 1.0 / 3, std::sqrt(4.0 / 45), "second moment");
  expect_moment(neighbours, 0, 1.0 / 12, "correlation of neighbours");
  EXPECT_LT(smallest, 1e-4);
  EXPECT_GT(largest, 1 - 1e-4);
  double chi_square = 0;
  const double expected = static_cast<double>(count) / 64;
  for (double cell : cells) chi_square += (cell - expected) * (cell - expected) / expected;
  EXPECT_LT(chi_square, 63 + 6 * std::sqrt(2 * 63.0));
}

TEST(Key, NormalIsNormal) {
  const ef::Key key(8);
  double moment[5] = {}, neighbours = 0, beyond_two = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double z = key.normal(i);
    ASSERT_TRUE(std::isfinite(z));
    double power = 1;
    for (double& m : moment) {
      m += power;
      power *= z;
    }
    neighbours += z * key.normal(i + 1);
    beyond_two += std::abs(z) > 2;
  }
  expect_moment(moment[1], 0, 1, "mean");
  expect_moment(moment[2], 1, std::sqrt(2.0), "variance");
  expect_moment(moment[3], 0, std::sqrt(15.0), "third moment");
  expect_moment(moment[4], 3, std::sqrt(96.0), "fourth moment");
  expect_moment(neighbours, 0, 1, "correlation of neighbours");
  const double p = std::erfc(std::sqrt(2.0));
  expect_moment(beyond_two, p, std::sqrt(p * (1 - p)), "beyond two deviations");
}

TEST(Key, FoldedKeysAreUncorrelated) {
  const ef::Key key(9), first = key.fold_in(1), second = key.fold_in(2);
  double across = 0, with_parent = 0, other_kind = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    across += (first.uniform(i) - 0.5) * (second.uniform(i) - 0.5);
    with_parent += (first.uniform(i) - 0.5) * (key.uniform(i) - 0.5);
    other_kind += (key.uniform(i) - 0.5) * (key.bits(2 * i) * 0x1p-32 - 0.5);
  }
  expect_moment(across, 0, 1.0 / 12, "two parts");
  expect_moment(with_parent, 0, 1.0 / 12, "a part and the whole");
  expect_moment(other_kind, 0, 1.0 / 12, "uniform numbers and bits");
}

}  // namespace random_test
