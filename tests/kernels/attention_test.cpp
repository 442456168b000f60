// SPDX-License-Identifier: MIT
// Attention against plain loops: every kind of mask, over sizes.
#include "eigenformer/kernels/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/attention_cases.hpp"
#include "tests/reference/error_text.hpp"

namespace attention_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::AttentionSize;
using reference::Real;
using reference::widen;

/// How far the probabilities may be off, relative to themselves. A score's error is at most D + 3
/// roundings of sum |q k| scale, here <= 4 D scale; it and that of the exponential's argument come
/// in twice, through the weight and through the sum.
template <class T>
Real relative_error(const AttentionSize& s, Real scale, bool biased) {
  const Real epsilon = std::numeric_limits<T>::epsilon();
  const Real largest_score = 4 * Real(s.head_size) * scale + (biased ? 3 : 0);
  return 2 * epsilon *
             ((Real(s.head_size) + 3) * 4 * Real(s.head_size) * scale + 2 * largest_score) +
         epsilon * (20 + Real(s.keys));
}

template <class T>
void compare(const AttentionSize& s, const reference::MaskKind& kind,
             std::optional<double> scale = {}) {
  const reference::AttentionInputs<T> in(s);
  const reference::RandomMask<T> mask(kind, s, 11);
  const Real factor = scale ? Real(static_cast<T>(*scale)) : 1 / std::sqrt(Real(s.head_size));
  const reference::Attended expected =
      reference::attention(widen(in.q), widen(in.k), widen(in.v), mask.plain(), factor);

  Tensor<T, 4> weights;
  const Tensor<T, 4> y =
      ef::scaled_dot_product_attention(in.q, in.k, in.v, mask.mask(), scale, &weights);
  const Real tolerance = relative_error<T>(s, std::abs(factor), kind.bias);
  const auto where = [&] {
    return std::string(kind.name) + " with queries, keys " + std::to_string(s.queries) + ", " +
           std::to_string(s.keys);
  };
  ASSERT_TRUE(reference::near(y, expected.y, tolerance)) << where();  // |v| <= 1
  ASSERT_TRUE(reference::near(weights, expected.weights, tolerance)) << where();

  // What may not be seen has weight exactly zero, a query without keys the result exactly zero.
  for (Index i = 0; i < weights.size(); ++i) {
    if (expected.weights.data()[i] == 0) {
      ASSERT_EQ(weights.data()[i], 0) << where();
    }
  }
  for (Index i = 0; i < y.size(); i += s.value_size) {
    Real sum = 0;
    for (Index j = 0; j < s.keys; ++j)
      sum += expected.weights.data()[i / s.value_size * s.keys + j];
    if (sum != 0) continue;
    for (Index e = 0; e < s.value_size; ++e) ASSERT_EQ(y.data()[i + e], 0) << where();
  }
  // Asking for the weights changes nothing.
  ASSERT_TRUE(reference::same_bits(
      y, ef::scaled_dot_product_attention(in.q, in.k, in.v, mask.mask(), scale)))
      << where();
}

template <class T>
class AttentionTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(AttentionTest, Scalars);

TYPED_TEST(AttentionTest, EveryMask) {
  for (const auto& kind : reference::mask_kinds) {
    compare<TypeParam>({3, 4, 2, 13, 17, 5, 7}, kind);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AttentionTest, EveryMaskAcrossKeyTilesAndQueryBlocks) {
  for (const auto& kind : reference::mask_kinds) {
    reference::MaskKind wide = kind;
    if (wide.window > 1) wide.window *= 23;
    compare<TypeParam>({2, 2, 1, 101, 307, 3, 2}, wide);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AttentionTest, EveryNumberOfKeysAroundATile) {
  const Index tile = ef::kernels::key_tile;
  for (Index keys : {Index{1}, Index{2}, tile - 1, tile, tile + 1, 2 * tile, Index{300}}) {
    compare<TypeParam>({1, 1, 1, 3, keys, 5, 3}, reference::mask_kinds[0]);
    compare<TypeParam>({1, 1, 1, 3, keys, 5, 3},
                       {.name = "causal", .causal = true, .query_offset = keys - 2});
  }
}

TYPED_TEST(AttentionTest, EveryHeadSize) {
  for (Index size : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 67}) {
    compare<TypeParam>({2, 3, 3, 5, 11, size, 13}, {.name = "lengths", .lengths = true});
    compare<TypeParam>({2, 3, 3, 5, 11, 13, size}, {.name = "causal", .causal = true});
  }
}

TYPED_TEST(AttentionTest, GroupedHeads) {
  for (const auto& [heads, groups] :
       {std::pair<Index, Index>{6, 1}, {6, 2}, {6, 3}, {6, 6}, {7, 1}}) {
    compare<TypeParam>({2, heads, groups, 5, 11, 3, 2}, {.name = "allowed", .allowed = true});
  }
  // More grouped heads than a block of queries holds.
  compare<TypeParam>({1, 101, 1, 3, 5, 3, 2},
                     {.name = "causal", .causal = true, .query_offset = 2});
}

TYPED_TEST(AttentionTest, AnyScale) {
  for (double scale : {1.0, 0.0, -0.5, 0.125}) {
    compare<TypeParam>({1, 2, 1, 5, 11, 3, 2}, {.name = "bias", .bias = true}, scale);
  }
}

// As the sum of no values is 0, so is that of values which are all -0.
TYPED_TEST(AttentionTest, NegativeZerosAreZeros) {
  using T = TypeParam;
  for (Index keys : {1, 2, 7, 65, 131}) {
    for (Index size : {1, 3, 8, 17, 37}) {
      reference::AttentionInputs<T> in({1, 2, 1, 5, keys, 3, size});
      std::fill(in.v.begin(), in.v.end(), T(-0.0));
      const auto y = ef::scaled_dot_product_attention(in.q, in.k, in.v);
      for (T value : y) {
        ASSERT_EQ(value, 0);
        ASSERT_FALSE(std::signbit(value)) << keys << " keys of size " << size;
      }
    }
  }
}

TEST(Attention, EmptyExtents) {
  const auto shape = [](const AttentionSize& s) {
    const reference::AttentionInputs<float> in(s);
    Tensor<float, 4> weights;
    const auto y = ef::scaled_dot_product_attention(in.q, in.k, in.v, {}, {}, &weights);
    EXPECT_EQ(weights.shape(), s.scores());
    for (float value : y) EXPECT_EQ(value, 0) << "nothing to see gives zeros";
    return y.shape();
  };
  EXPECT_EQ(shape({0, 2, 1, 5, 7, 3, 2}), (ef::Shape<4>{0, 2, 5, 2}));
  EXPECT_EQ(shape({2, 2, 1, 0, 7, 3, 2}), (ef::Shape<4>{2, 2, 0, 2}));
  EXPECT_EQ(shape({2, 2, 1, 5, 0, 3, 2}), (ef::Shape<4>{2, 2, 5, 2}));
  EXPECT_EQ(shape({2, 2, 1, 5, 7, 3, 0}), (ef::Shape<4>{2, 2, 5, 0}));
  EXPECT_EQ(shape({2, 0, 0, 5, 7, 3, 2}), (ef::Shape<4>{2, 0, 5, 2}));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const AttentionSize s{2, 4, 2, 3, 5, 7, 11};
  const reference::AttentionInputs<float> in(s);
  const auto refused = [&](const ef::Mask<float>& mask, const std::string& first,
                           const std::string& second) {
    try {
      ef::scaled_dot_product_attention(in.q, in.k, in.v, mask);
      ADD_FAILURE() << "nothing thrown for " << second;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(first), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(second), std::string::npos) << error.what();
    }
  };
  const std::vector<int> three = {1, 2, 3}, long_one = {5, 6}, negative = {0, -1}, none;
  refused({.key_lengths = three}, "2", "3");
  refused({.key_lengths = none}, "2", "0");
  refused({.key_lengths = long_one}, "[0, 5]", "6");
  refused({.key_lengths = negative}, "[0, 5]", "-1");
  const Tensor<bool, 2> keep({2, 6}), empty_keep({2, 0});
  refused({.key_allowed = keep}, "(2, 5)", "(2, 6)");
  const Tensor<bool, 2> pairs({5, 3});
  refused({.allowed = pairs}, "(2, 4, 3, 5)", "(1, 1, 5, 3)");
  const Tensor<float, 3> bias({2, 3, 5});
  refused({.bias = bias}, "(2, 4, 3, 5)", "(1, 2, 3, 5)");
  refused({.window = -1}, "window", "-1");

  const Tensor<float, 4> wrong({2, 3, 5, 7}), narrow({2, 2, 5, 6}), short_v({2, 2, 4, 11});
  EXPECT_ERROR(ef::scaled_dot_product_attention(in.q, wrong, wrong), std::invalid_argument,
               "scaled_dot_product_attention: the heads of k and v must divide");
  EXPECT_ERROR(ef::scaled_dot_product_attention(in.q, narrow, in.v), std::invalid_argument,
               "scaled_dot_product_attention: k: shape must be (2, 2, 5, 7);");
  EXPECT_ERROR(ef::scaled_dot_product_attention(in.q, in.k, short_v), std::invalid_argument,
               "scaled_dot_product_attention: v: shape must be (2, 2, 5, 11);");
  const Tensor<float, 4> no_heads({2, 0, 5, 7}), no_values({2, 0, 5, 11});
  EXPECT_ERROR(ef::scaled_dot_product_attention(in.q, no_heads, no_values), std::invalid_argument,
               "scaled_dot_product_attention: the heads of k and v must divide");
}

}  // namespace attention_test
