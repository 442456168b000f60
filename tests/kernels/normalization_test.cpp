// SPDX-License-Identifier: MIT
#include "tests/reference/normalization.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/kernels/layer_norm.hpp"
#include "eigenformer/kernels/rms_norm.hpp"

namespace normalization_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::Real;
using reference::widen;

template <class T>
constexpr Real epsilon = Real(std::numeric_limits<T>::epsilon());

template <class T>
Tensor<T, 2> layer_norm(const Tensor<T, 2>& x, const Tensor<T, 1>& weight, const Tensor<T, 1>& bias,
                        double eps, ef::Workspace& workspace) {
  Tensor<T, 2> y(x.shape());
  ef::kernels::layer_norm<T>(x, nullptr, weight.data(), bias.data(), static_cast<T>(eps), y,
                             workspace);
  return y;
}

template <class T>
Tensor<T, 2> layer_norm(const Tensor<T, 2>& x, const Tensor<T, 1>& weight, const Tensor<T, 1>& bias,
                        double eps) {
  ef::Workspace workspace;
  return layer_norm(x, weight, bias, eps, workspace);
}

/// Weight 1, no bias.
template <class T>
Tensor<T, 2> layer_norm(const std::vector<T>& row, double eps) {
  Tensor<T, 2> x({1, static_cast<Index>(row.size())});
  std::copy(row.begin(), row.end(), x.begin());
  Tensor<T, 1> ones({x.dim(1)});
  std::fill(ones.begin(), ones.end(), T(1));
  return layer_norm(x, ones, Tensor<T, 1>(), eps);
}

template <class T>
Tensor<T, 2> rms_norm(const Tensor<T, 2>& x, const Tensor<T, 1>& weight, double offset,
                      double eps) {
  Tensor<T, 2> y(x.shape());
  ef::Workspace workspace;
  ef::kernels::rms_norm<T>(x, nullptr, weight.data(), static_cast<T>(offset), static_cast<T>(eps),
                           y, workspace);
  return y;
}

template <class T>
class NormTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(NormTest, Scalars);

TYPED_TEST(NormTest, LayerNormOfEveryWidth) {
  using T = TypeParam;
  for (Index width = 1; width <= 67; ++width) {
    const auto x = reference::random_tensor<T, 2>({5, width}, 1, 3);
    const auto weight = reference::random_tensor<T, 1>({width}, 2);
    const auto bias = reference::random_tensor<T, 1>({width}, 3);
    // Sums of up to 67 terms in runs of 4 registers: at most 20 roundings in a row on numbers
    // whose normalised size is at most sqrt(width). A width of 1 gives the bias exactly.
    const Real tolerance = 40 * epsilon<T> * std::sqrt(Real(width));
    for (const double eps : {1e-5, 1e-12}) {
      EXPECT_TRUE(reference::near(
          layer_norm(x, weight, bias, eps),
          reference::layer_norm(widen(x), widen(weight), widen(bias), static_cast<T>(eps)),
          width == 1 ? 0 : tolerance))
          << width;
      EXPECT_TRUE(
          reference::near(layer_norm(x, weight, Tensor<T, 1>(), eps),
                          reference::layer_norm(widen(x), widen(weight), {}, static_cast<T>(eps)),
                          width == 1 ? 0 : tolerance))
          << width;
    }
  }
}

TYPED_TEST(NormTest, LayerNormOfALargeMeanAndASmallSpread) {
  using T = TypeParam;
  // Spread 1e-3 around 1e4: in float the inputs are whole multiples of 2^-10, and every digit
  // counts.
  for (Index width : {2, 3, 7, 64, 769}) {
    Tensor<T, 2> x = reference::random_tensor<T, 2>({5, width}, 4, 4e-3);
    for (T& value : x) value += T(1e4);
    Tensor<T, 1> ones({width});
    std::fill(ones.begin(), ones.end(), T(1));
    const auto expected = reference::layer_norm(widen(x), widen(ones), {}, static_cast<T>(1e-12));
    EXPECT_TRUE(reference::near(layer_norm(x, ones, Tensor<T, 1>(), 1e-12), expected,
                                100 * epsilon<T> * std::sqrt(Real(width))))
        << width;
  }
}

TEST(LayerNorm, ConstantRowsGiveExactlyTheBias) {
  for (Index width : {1, 4, 255, 256, 257}) {
    for (float value : {0.0f, 1234.0f, -0.1f, 3e7f}) {
      Tensor<float, 2> x({1, width});
      std::fill(x.begin(), x.end(), value);
      const auto weight = reference::random_tensor<float, 1>({width}, 5);
      const auto bias = reference::random_tensor<float, 1>({width}, 6);
      const auto y = layer_norm(x, weight, bias, 1e-12);
      EXPECT_TRUE(reference::same_bits(y.data(), bias.data(), width)) << width << " of " << value;
    }
  }
}

TEST(LayerNorm, NearlyConstantRows) {
  for (float first : {40000.0f, 80000.0f}) {
    const auto y = layer_norm<float>({first, first + 1, first + 2, first + 3}, 1e-5);
    const float expected[] = {-1.341635f, -0.447212f, 0.447212f, 1.341635f};
    for (Index i = 0; i < 4; ++i) EXPECT_NEAR(y(0, i), expected[i], 2e-6);
  }
}

TEST(LayerNorm, TakesThePopulationVariance) {
  const auto y = layer_norm<double>({1, 0, 0, 0}, 1e-5);
  EXPECT_NEAR(y(0, 0), 1.732005, 1e-6);
  EXPECT_NEAR(y(0, 3), -0.577335, 1e-6);
}

TEST(LayerNorm, EpsIsInsideTheRoot) {
  EXPECT_NEAR(layer_norm<double>({1e-3, -1e-3}, 1e-5)(0, 0), 0.301511, 1e-6);
  EXPECT_NEAR(layer_norm<double>({1e-3, -1e-3}, 1e-6)(0, 0), 0.707107, 1e-6);
  EXPECT_NEAR(layer_norm<double>({1e-3, -1e-3}, 1e-12)(0, 0), 1.000000, 1e-6);
}

TEST(LayerNorm, AHugeWeightDoesNotSwallowTheBias) {
  Tensor<double, 2> x({1, 1});
  Tensor<double, 1> weight({1}), bias({1});
  x(0, 0) = -3;
  weight(0) = 1e15;
  bias(0) = -1;
  EXPECT_EQ(layer_norm(x, weight, bias, 0.1)(0, 0), -1);
}

TEST(LayerNorm, NotANumberStaysInItsRow) {
  auto x = reference::random_tensor<float, 2>({3, 13}, 7);
  Tensor<float, 1> ones({13});
  std::fill(ones.begin(), ones.end(), 1.0f);
  const auto before = layer_norm(x, ones, Tensor<float, 1>(), 1e-5);
  x(1, 12) = std::numeric_limits<float>::quiet_NaN();
  const auto y = layer_norm(x, ones, Tensor<float, 1>(), 1e-5);
  for (Index i = 0; i < 13; ++i) {
    EXPECT_TRUE(std::isnan(y(1, i)));
    EXPECT_EQ(y(0, i), before(0, i));
    EXPECT_EQ(y(2, i), before(2, i));
  }
}

TYPED_TEST(NormTest, RmsNormOfEveryWidth) {
  using T = TypeParam;
  for (Index width = 1; width <= 67; ++width) {
    const auto x = reference::random_tensor<T, 2>({5, width}, 1, 3);
    const auto weight = reference::random_tensor<T, 1>({width}, 2);
    for (double offset : {0.0, 1.0}) {
      EXPECT_TRUE(reference::near(
          rms_norm(x, weight, offset, 1e-5),
          reference::rms_norm(widen(x), widen(weight), Real(offset), static_cast<T>(1e-5)),
          40 * epsilon<T> * std::sqrt(Real(width))))
          << width;
    }
  }
}

TEST(RmsNorm, PublishedNumbers) {
  Tensor<float, 2> x({1, 2});
  x(0, 0) = 3;
  x(0, 1) = 4;
  Tensor<float, 1> zeros({2}), ones({2});
  std::fill(ones.begin(), ones.end(), 1.0f);
  EXPECT_NEAR(rms_norm(x, ones, 0, 1e-6)(0, 0), 0.848528, 1e-6);
  EXPECT_NEAR(rms_norm(x, ones, 0, 1e-6)(0, 1), 1.131371, 1e-6);
  EXPECT_NEAR(rms_norm(x, zeros, 1, 1e-6)(0, 1), 1.131371, 1e-6);
  EXPECT_EQ(rms_norm(x, zeros, 0, 1e-6)(0, 1), 0);
}

TYPED_TEST(NormTest, RowsHaveTheSameBitsAloneInPlaceAndWithThreads) {
  using T = TypeParam;
  const Index rows = 601, width = 59;  // enough to be split
  const auto x = reference::random_tensor<T, 2>({rows, width}, 1, 3);
  const auto weight = reference::random_tensor<T, 1>({width}, 2);
  const auto bias = reference::random_tensor<T, 1>({width}, 3);
  const Tensor<T, 2> all = layer_norm(x, weight, bias, 1e-5);
  const Tensor<T, 2> all_rms = rms_norm(x, weight, 0, 1e-5);
  for (Index row : {0, 1, 300, 600}) {
    Tensor<T, 2> one({1, width});
    std::copy_n(&x(row, 0), width, one.data());
    EXPECT_TRUE(
        reference::same_bits(layer_norm(one, weight, bias, 1e-5).data(), &all(row, 0), width));
    EXPECT_TRUE(
        reference::same_bits(rms_norm(one, weight, 0, 1e-5).data(), &all_rms(row, 0), width));
  }
  for (Index threads : {2, 3, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    EXPECT_TRUE(reference::same_bits(layer_norm(x, weight, bias, 1e-5, workspace), all));
    Tensor<T, 2> in_place(x);
    ef::kernels::layer_norm<T>(in_place, nullptr, weight.data(), bias.data(), static_cast<T>(1e-5),
                               in_place, workspace);
    EXPECT_TRUE(reference::same_bits(in_place, all));
    in_place = x;
    ef::kernels::rms_norm<T>(in_place, nullptr, weight.data(), T(0), static_cast<T>(1e-5), in_place,
                             workspace);
    EXPECT_TRUE(reference::same_bits(in_place, all_rms));
  }
}

TYPED_TEST(NormTest, OfASumHasTheBitsOfAddingFirst) {
  using T = TypeParam;
  const Index rows = 601, width = 59;
  const auto x = reference::random_tensor<T, 2>({rows, width}, 1, 3);
  const auto z = reference::random_tensor<T, 2>({rows, width}, 2, 3);
  const auto weight = reference::random_tensor<T, 1>({width}, 3);
  const auto bias = reference::random_tensor<T, 1>({width}, 4);
  const auto eps = static_cast<T>(1e-5);
  Tensor<T, 2> sum(x.shape());
  for (Index i = 0; i < x.size(); ++i) sum.data()[i] = x.data()[i] + z.data()[i];

  for (Index threads : {1, 3}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    Tensor<T, 2> y(z);  // in place of z
    ef::kernels::layer_norm<T>(x, y.data(), weight.data(), bias.data(), eps, y, workspace);
    EXPECT_TRUE(reference::same_bits(y, layer_norm(sum, weight, bias, 1e-5)));
    y = z;
    ef::kernels::rms_norm<T>(x, y.data(), weight.data(), T(0), eps, y, workspace);
    EXPECT_TRUE(reference::same_bits(y, rms_norm(sum, weight, 0, 1e-5)));
    Tensor<T, 2> elsewhere(x.shape());
    ef::kernels::layer_norm<T>(x, z.data(), weight.data(), bias.data(), eps, elsewhere, workspace);
    EXPECT_TRUE(reference::same_bits(elsewhere, layer_norm(sum, weight, bias, 1e-5)));
  }
}

}  // namespace normalization_test
