// SPDX-License-Identifier: MIT
// What depends on the offset of key and query alone: ALiBi's slopes, T5's buckets.
#include <gtest/gtest.h>

#include "eigenformer/kernels/alibi.hpp"
#include "eigenformer/kernels/relative_bias.hpp"
#include "tests/reference/positions.hpp"

namespace position_bias_test {

namespace ef = eigenformer;
using ef::Index;
using ef::kernels::RelativeBuckets;

std::vector<double> slopes(Index heads) {
  std::vector<double> found;
  for (Index h = 0; h < heads; ++h) found.push_back(ef::kernels::alibi_slope(h, heads));
  return found;
}

TEST(Alibi, SlopesOfThePaper) {
  EXPECT_EQ(slopes(1), std::vector<double>({1 / 256.}));
  EXPECT_EQ(slopes(2), std::vector<double>({1 / 16., 1 / 256.}));
  const std::vector<double> eight = {1 / 2.,  1 / 4.,  1 / 8.,   1 / 16.,
                                     1 / 32., 1 / 64., 1 / 128., 1 / 256.};
  EXPECT_EQ(slopes(8), eight);
  EXPECT_EQ(slopes(6), std::vector<double>({1 / 4., 1 / 16., 1 / 64., 1 / 256., 1 / 2., 1 / 8.}));
  const auto twelve = slopes(12), sixteen = slopes(16);
  EXPECT_EQ(std::vector<double>(twelve.begin(), twelve.begin() + 8), eight);
  const double rest[] = {0.70710678, 0.35355339, 0.17677670, 0.08838835};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(twelve[8 + i], rest[i], 5e-9);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(sixteen[i], std::exp2(-0.5 * double(i + 1)), 1e-15);
  }
}

TEST(Alibi, AnyNumberOfHeadsFollowsTheRule) {
  for (Index heads = 1; heads <= 71; ++heads) {
    const auto expected = reference::alibi_slopes(heads);
    const auto actual = slopes(heads);
    for (std::size_t h = 0; h < actual.size(); ++h) {
      EXPECT_NEAR(actual[h], double(expected[h]), 1e-15) << h << " of " << heads;
    }
  }
}

/// The distances at which a new bucket begins, of keys before or behind the query.
std::vector<Index> begins(const RelativeBuckets& buckets, Index sign, Index from, Index to) {
  std::vector<Index> found;
  for (Index n = from; n <= to; ++n) {
    if (buckets.of(sign * n) != buckets.of(sign * (n - 1))) found.push_back(n);
  }
  return found;
}

TEST(RelativeBuckets, OfACausalDecoder) {
  const RelativeBuckets buckets{.count = 32, .max_distance = 128, .bidirectional = false};
  for (Index n = 0; n < 16; ++n) EXPECT_EQ(buckets.of(-n), n);
  EXPECT_EQ(begins(buckets, -1, 16, 5000),
            std::vector<Index>({16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
  EXPECT_EQ(buckets.of(-113), 31);
  EXPECT_EQ(buckets.of(-1000000), 31);
  for (Index n : {1, 2, 17, 4000}) EXPECT_EQ(buckets.of(n), 0) << "the future is one bucket";
}

TEST(RelativeBuckets, OfAnEncoder) {
  const RelativeBuckets buckets{.count = 32, .max_distance = 128, .bidirectional = true};
  for (Index n = 0; n < 8; ++n) EXPECT_EQ(buckets.of(-n), n);
  EXPECT_EQ(begins(buckets, -1, 8, 5000), std::vector<Index>({8, 12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(buckets.of(-91), 15);
  EXPECT_EQ(buckets.of(1), 17);
  EXPECT_EQ(buckets.of(8), 24);
  EXPECT_EQ(buckets.of(128), 31);
  for (Index n = 1; n < 1100; ++n) EXPECT_EQ(buckets.of(n), buckets.of(-n) + 16) << n;
}

TEST(RelativeBuckets, AgainstWholeNumbers) {
  for (bool bidirectional : {false, true}) {
    for (const auto& [count, distance] : {std::pair<Index, Index>{32, 128},
                                          {4, 3},
                                          {6, 5},
                                          {14, 53},
                                          {22, 31},
                                          {32, 17},
                                          {8, 1024}}) {
      const RelativeBuckets buckets{
          .count = count, .max_distance = distance, .bidirectional = bidirectional};
      for (Index offset = -1200; offset <= 1200; ++offset) {
        ASSERT_EQ(buckets.of(offset),
                  reference::relative_bucket(offset, count, distance, bidirectional))
            << offset << ", " << count << " buckets up to " << distance << ", " << bidirectional;
      }
    }
  }
}

TEST(RelativeBuckets, SpreadOverOffsets) {
  const RelativeBuckets buckets{.count = 6, .max_distance = 11, .bidirectional = true};
  const auto table = reference::random_tensor<float, 2>({6, 5}, 1);
  ef::Tensor<float, 2> bias({5, 23});
  ef::kernels::spread_relative_bias<float>(buckets, table, bias);
  for (Index h = 0; h < 5; ++h) {
    for (Index i = 0; i < 23; ++i) {
      EXPECT_EQ(bias(h, i), table(reference::relative_bucket(i - 11, 6, 11, true), h));
    }
  }
}

}  // namespace position_bias_test
