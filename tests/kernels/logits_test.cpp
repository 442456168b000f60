// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/logits.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/numbers.hpp"

namespace logits_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::Real;

template <class T>
class LogitsTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(LogitsTest, Scalars);

TYPED_TEST(LogitsTest, SoftCapOfEveryLength) {
  using T = TypeParam;
  for (const T cap : {T(30), T(0.7), T(1)}) {
    for (Index n = 0; n <= 37; ++n) {
      const auto s = reference::random_tensor<T, 1>({n + 2}, static_cast<std::uint64_t>(n), 100);
      Tensor<T, 1> capped = s;
      ef::kernels::target<T>().soft_cap(capped.data() + 1, n, cap);
      for (Index i = 1; i <= n; ++i) {
        const Real expected = Real(cap) * std::tanh(Real(s(i)) / Real(cap));
        // s / cap is rounded twice, which weighs most where tanh is steep.
        const Real tolerance =
            8 * Real(std::numeric_limits<T>::epsilon()) * (std::abs(expected) + Real(cap) * 1e-3L);
        ASSERT_NEAR(double(capped(i)), double(expected), double(tolerance)) << i << " of " << n;
        ASSERT_LE(std::abs(capped(i)), cap);
      }
      EXPECT_EQ(capped(0), s(0)) << "written before the row";
      EXPECT_EQ(capped(n + 1), s(n + 1)) << "written behind the row";
    }
  }
}

TYPED_TEST(LogitsTest, SoftCapAtTheEnds) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  T s[] = {
      0, T(1e-3), inf, -inf, std::numeric_limits<T>::max(), std::numeric_limits<T>::quiet_NaN()};
  ef::kernels::target<T>().soft_cap(s, 6, T(50));
  EXPECT_EQ(s[0], 0);
  EXPECT_NEAR(double(s[1]), 1e-3, 1e-9);
  EXPECT_EQ(s[2], 50);
  EXPECT_EQ(s[3], -50);
  EXPECT_EQ(s[4], 50);
  EXPECT_TRUE(std::isnan(s[5]));
}

TYPED_TEST(LogitsTest, ScaleThenBiasThenCap) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 2>({7, 29}, 3, 10);
  const auto bias = reference::random_tensor<T, 1>({29}, 4, 3);
  ef::Workspace workspace;
  for (const T scale : {T(1), T(0.25), T(-3)}) {
    for (const bool biased : {false, true}) {
      for (const T cap : {T(0), T(5)}) {
        Tensor<T, 2> y = x;
        ef::kernels::scale_and_cap_logits<T>(y, scale, biased ? bias.data() : nullptr, cap,
                                             workspace);
        reference::Reals<2> expected(x.shape());
        for (Index i = 0; i < x.size(); ++i) {
          Real& e = expected.data()[i];
          e = Real(scale) * Real(x.data()[i]) + (biased ? Real(bias(i % 29)) : 0);
          if (cap > 0) e = Real(cap) * std::tanh(e / Real(cap));
        }
        EXPECT_TRUE(reference::near(y, expected, 200 * Real(std::numeric_limits<T>::epsilon())))
            << scale << biased << cap;
        if (scale == 1 && !biased && cap == 0) {
          EXPECT_TRUE(reference::same_bits(y, x));
        }
      }
    }
  }
}

TEST(Logits, ThreadsDoNotChangeBits) {
  const auto x = reference::random_tensor<float, 2>({211, 307}, 3, 10);
  const auto bias = reference::random_tensor<float, 1>({307}, 4, 3);
  Tensor<float, 2> alone = x;
  ef::Workspace serial;
  ef::kernels::scale_and_cap_logits<float>(alone, 0.3f, bias.data(), 5, serial);
  for (Index threads : {2, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    Tensor<float, 2> y = x;
    ef::kernels::scale_and_cap_logits<float>(y, 0.3f, bias.data(), 5, workspace);
    EXPECT_TRUE(reference::same_bits(y, alone)) << threads;
  }
}

}  // namespace logits_test
