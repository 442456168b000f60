// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/normalization.hpp"

namespace softmax_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::Real;
using reference::widen;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T>
Tensor<T, 1> row(const std::vector<T>& values) {
  Tensor<T, 1> x({static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), x.begin());
  return x;
}

template <class T>
class SoftmaxTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(SoftmaxTest, Scalars);

TYPED_TEST(SoftmaxTest, EveryLength) {
  using T = TypeParam;
  const Real epsilon = std::numeric_limits<T>::epsilon();
  for (Index n = 1; n <= 67; ++n) {
    for (double scale : {1.0, 30.0}) {
      const auto x =
          reference::random_tensor<T, 3>({2, 3, n}, static_cast<std::uint64_t>(n), scale);
      // x - maximum is rounded: |x - maximum| half units; the exponential and the sum a few more.
      EXPECT_TRUE(reference::near(ef::softmax(x), reference::softmax(widen(x)),
                                  (10 + Real(scale)) * epsilon))
          << n;
    }
  }
}

TYPED_TEST(SoftmaxTest, LargeScores) {
  using T = TypeParam;
  const auto expect = [](const std::vector<T>& x, const std::vector<double>& expected) {
    const Tensor<T, 1> y = ef::softmax(row(x));
    for (Index i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(y(i)), expected[static_cast<std::size_t>(i)], 1e-6);
    }
  };
  if (!std::is_same_v<T, float>)
    expect({T(7999.99), 8000, 2, 1}, {0.4975000, 0.5025000, 0, 0});
  else
    expect({T(7999.99), 8000, 2, 1}, {0.4975586, 0.5024414, 0, 0});
  expect({-1000, -1001}, {0.7310586, 0.2689414});
  expect({T(-249.87), T(-424.13), T(-460.29), T(378.10), T(-292.61)}, {0, 0, 0, 1, 0});
  expect({T(1e30), T(-1e30), T(1e30)}, {0.5, 0, 0.5});
}

TYPED_TEST(SoftmaxTest, Infinities) {
  using T = TypeParam;
  const T inf = infinity<T>, nan = std::numeric_limits<T>::quiet_NaN();
  const Tensor<T, 1> none = ef::softmax(row<T>({-inf, -inf, -inf}));
  for (T value : none) EXPECT_EQ(value, 0);
  const Tensor<T, 1> some = ef::softmax(row<T>({-inf, 1, -inf, 1}));
  EXPECT_EQ(some(0), 0);
  EXPECT_EQ(some(1), T(0.5));
  for (const auto& bad : {row<T>({inf, 0}), row<T>({nan, 0})}) {
    EXPECT_TRUE(std::isnan(ef::softmax(bad)(0)));
  }
}

TYPED_TEST(SoftmaxTest, PaddingWithMinusInfinityChangesNoBit) {
  using T = TypeParam;
  for (Index n = 1; n <= 40; ++n) {
    const auto x = reference::random_tensor<T, 1>({n}, static_cast<std::uint64_t>(n), 5);
    const Tensor<T, 1> alone = ef::softmax(x);
    for (Index padding : {1, 3, 16, 67}) {
      Tensor<T, 1> padded({n + padding});
      std::fill(padded.begin(), padded.end(), -infinity<T>);
      std::copy(x.begin(), x.end(), padded.begin());
      const Tensor<T, 1> y = ef::softmax(padded);
      ASSERT_TRUE(reference::same_bits(y.data(), alone.data(), n)) << n << " + " << padding;
      for (Index i = n; i < y.size(); ++i) ASSERT_EQ(y(i), 0);
    }
  }
}

TYPED_TEST(SoftmaxTest, ThreadsAndBeingInPlaceDoNotMatter) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 2>({601, 59}, 1, 5);
  const Tensor<T, 2> alone = ef::softmax(x);
  for (Index threads : {2, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    Tensor<T, 2> y(x);
    ef::kernels::softmax<T>(ef::TensorView<const T, 2>(y), y, workspace);
    EXPECT_TRUE(reference::same_bits(y, alone));
  }
}

TEST(Softmax, EmptyTensors) {
  EXPECT_EQ(ef::softmax(Tensor<float, 2>({0, 5})).shape(), (ef::Shape<2>{0, 5}));
  EXPECT_EQ(ef::softmax(Tensor<float, 2>({5, 0})).shape(), (ef::Shape<2>{5, 0}));
}

// scores (B, T, S) = 0; the weights are uniform over what the lengths leave.
TEST(MaskedSoftmax, LengthsForEachRowOrEachQuery) {
  const Tensor<float, 3> scores({2, 3, 4});
  const std::vector<int> by_row = {2, 3};
  const Tensor<float, 3> a = ef::masked_softmax(scores, by_row);
  const std::vector<std::int64_t> by_query = {1, 2, 3, 4, 0, 1};
  const Tensor<float, 3> b = ef::masked_softmax(scores, by_query);
  for (Index i = 0; i < 2; ++i) {
    for (Index t = 0; t < 3; ++t) {
      for (Index j = 0; j < 4; ++j) {
        const Index row = by_row[static_cast<std::size_t>(i)];
        EXPECT_NEAR(a(i, t, j), j < row ? 1.0f / static_cast<float>(row) : 0.0f, 1e-6f);
        const Index own = by_query[static_cast<std::size_t>(3 * i + t)];
        EXPECT_NEAR(b(i, t, j), j < own ? 1.0f / static_cast<float>(own) : 0.0f, 1e-6f);
      }
    }
  }
  for (Index j = 0; j < 4; ++j) EXPECT_EQ(b(1, 1, j), 0) << "length 0 is exactly zero";
}

TEST(MaskedSoftmax, AFiniteFillGivesLengthZeroTheUniformRow) {
  const auto scores = reference::random_tensor<float, 3>({1, 1, 4}, 1);
  const Tensor<float, 3> y = ef::masked_softmax(scores, std::vector<int>{0}, -1e6f);
  for (float value : y) EXPECT_EQ(value, 0.25f);
}

TEST(MaskedSoftmax, WhatIsMaskedMayHoldAnything) {
  auto scores = reference::random_tensor<float, 3>({1, 2, 5}, 1);
  const std::vector<int> lengths = {3};
  const Tensor<float, 3> before = ef::masked_softmax(scores, lengths);
  scores(0, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  scores(0, 1, 4) = infinity<float>;
  EXPECT_TRUE(reference::same_bits(ef::masked_softmax(scores, lengths), before));
}

TEST(MaskedSoftmax, RefusesWrongLengths) {
  const Tensor<float, 3> scores({2, 3, 4});
  for (const std::vector<int>& bad : {std::vector<int>{}, std::vector<int>{1, 2, 3},
                                      std::vector<int>{5, 1}, std::vector<int>{-1, 1}}) {
    EXPECT_ERROR(ef::masked_softmax(scores, bad), std::invalid_argument,
                 "masked_softmax: lengths must be");
  }
}

}  // namespace softmax_test
