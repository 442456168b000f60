// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/linear.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/activation.hpp"
#include "tests/reference/matrix_product.hpp"

namespace linear_test {

namespace ef = eigenformer;
using ef::Activation;
using ef::Index;
using ef::Tensor;
using reference::Real;
using reference::widen;

template <class T>
class LinearKernelTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(LinearKernelTest, Scalars);

// A single row is divided over threads by columns; a long sum is cut into blocks, each of which goes
// on from the sums before it.
TYPED_TEST(LinearKernelTest, OneRowHasTheSameBitsOnAnyNumberOfThreads) {
  using T = TypeParam;
  for (Index k : {1, 257, 701, 3001}) {
    for (Index n : {1, 255, 257, 523, 1031}) {
      const auto x = reference::random_tensor<T, 2>({1, k}, 1);
      const auto weight = reference::random_tensor<T, 2>({n, k}, 2);
      const auto bias = reference::random_tensor<T, 1>({n}, 3);
      const auto result = [&](ef::Workspace workspace) {
        Tensor<T, 2> y({1, n});
        ef::kernels::linear<T>(x, {ef::kernels::right_factor(weight), bias.data()}, y, {},
                               workspace);
        return y;
      };
      const auto y = result(ef::Workspace());
      const auto expected = reference::linear(widen(x), widen(weight), widen(bias));
      for (Index j = 0; j < n; ++j) {
        // |sum| <= K with K + 1 roundings.
        ASSERT_NEAR(static_cast<double>(y(0, j)), static_cast<double>(expected(0, j)),
                    static_cast<double>(k * (k + 1)) * double(std::numeric_limits<T>::epsilon()));
      }
      for (Index threads : {2, 3, 7}) {
        ef::ThreadPool pool(threads);
        EXPECT_EQ(result(ef::Workspace(pool)), y) << k << ", " << n << ", " << threads;
      }
    }
  }
}

TYPED_TEST(LinearKernelTest, ActivationAndMultiplierAfterTheProduct) {
  using T = TypeParam;
  const Index k = 23;
  // |sum| <= K with K + 1 roundings, then the activation's slope (at most 1.2) and its own error.
  const Real tolerance = Real(k) * (Real(k) + 20) * Real(std::numeric_limits<T>::epsilon());
  for (const auto& [activation, name_of_activation] : ef::Enumeration<ef::Activation>::all) {
    static_cast<void>(name_of_activation);
    for (const auto& [multiplied, packed] :
         {std::array{false, false}, std::array{true, true}, std::array{true, false}}) {
      for (Index threads : {1, 3}) {
        ef::ThreadPool pool(threads);
        ef::Workspace workspace(pool);
        for (Index m : {1, 7, 211}) {
          for (Index n : {1, 13, 37}) {
            const auto x = reference::random_tensor<T, 2>({m, k}, 1);
            const auto weight = reference::random_tensor<T, 2>({n, k}, 2);
            const auto bias = reference::random_tensor<T, 1>({n}, 3);
            const auto multiplier = reference::random_tensor<T, 2>({m, n}, 4);
            Tensor<T, 1> panels({ef::kernels::whole_panels<T>(n) * k});
            const auto rows = ef::kernels::right_factor(weight);
            ef::kernels::pack_panels(*rows.strided(), n, k, panels.data());
            Tensor<T, 2> y({m, n});
            ef::kernels::linear<T>(
                x,
                {packed ? ef::kernels::RightFactor<T>::from_panels(panels.data(), k) : rows,
                 bias.data()},
                y,
                {.activation = activation, .multiplier = multiplied ? multiplier.data() : nullptr},
                workspace);
            reference::Reals<2> expected = reference::activate(
                activation, reference::linear(widen(x), widen(weight), widen(bias)));
            for (Index i = 0; multiplied && i < y.size(); ++i) {
              expected.data()[i] *= Real(multiplier.data()[i]);
            }
            ASSERT_TRUE(reference::near(y, expected, tolerance))
                << to_string(activation) << " " << m << " " << n;
          }
        }
      }
    }
  }
}

TEST(Add, AddsInPlaceToo) {
  ef::Workspace workspace;
  for (Index n : {0, 1, 7, 16, 33}) {
    const auto a = reference::random_tensor<float, 2>({3, n}, 1);
    const auto b = reference::random_tensor<float, 2>({3, n}, 2);
    Tensor<float, 2> y(b);
    ef::kernels::add<float>(a, y, y, workspace);
    for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], a.data()[i] + b.data()[i]);
  }
}

}  // namespace linear_test
