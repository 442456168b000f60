// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "eigenformer/kernels/target.hpp"
#include "tests/reference/fused.hpp"
#include "tests/reference/numbers.hpp"

namespace elementary_test {

namespace ef = eigenformer;
using ef::Index;
using reference::Real;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();

using Function = ef::kernels::Elementary;

template <class T>
std::vector<T> evaluate(Function function, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  ef::kernels::target<T>().evaluate(function, x.data(), y.data(), static_cast<Index>(x.size()));
  return y;
}

Real exact(Function function, Real x) {
  switch (function) {
    case Function::exponential:
      return std::exp(x);
    case Function::hyperbolic_tangent:
      return std::tanh(x);
    case Function::logistic:
      return 1 / (1 + std::exp(-x));
    case Function::normal_cumulative:
      return std::erfc(-x / std::sqrt(Real(2))) / 2;
    case Function::normal_bell:
      return std::exp(-x * x / 2);
  }
  return 0;
}

/// The largest error over `count` points of [low, high], in units of the last place.
template <class T>
Real largest_error(Function function, double low, double high, int count = 20000) {
  std::vector<T> x;
  for (int i = 0; i <= count; ++i) {
    x.push_back(static_cast<T>(low + (high - low) * static_cast<double>(i) / count));
  }
  const std::vector<T> y = evaluate(function, x);
  Real largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real error = reference::units_in_last_place(y[i], exact(function, Real(x[i])));
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

template <class T>
class ElementaryTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ElementaryTest, Scalars);

// Without hardware fma the square of x in e^{-x^2/2} is rounded, which costs x^2/2 units at x.
Real cost_of_square(double x) {
  return reference::has_fused_multiply_add() ? 0 : static_cast<Real>(x * x / 2);
}

TYPED_TEST(ElementaryTest, UnitsInTheLastPlace) {
  using T = TypeParam;
  constexpr bool is_float = std::is_same_v<T, float>;
  const double lowest = is_float ? -86.9 : -707.5, highest = is_float ? 88.7 : 709.7;
  const double far = is_float ? 13 : 37;  // where the left tail of the normal distribution ends
  EXPECT_LE(largest_error<T>(Function::exponential, lowest, highest), 1.5L);
  EXPECT_LE(largest_error<T>(Function::exponential, -1, 1), 1.2L);
  EXPECT_LE(largest_error<T>(Function::exponential, -1e-3, 1e-3), 0.6L);
  EXPECT_LE(largest_error<T>(Function::hyperbolic_tangent, -25, 25), 3);
  EXPECT_LE(largest_error<T>(Function::hyperbolic_tangent, -1, 1), 3);
  EXPECT_LE(largest_error<T>(Function::hyperbolic_tangent, -1e-4, 1e-4), 2);
  EXPECT_LE(largest_error<T>(Function::logistic, lowest, 40), 3);
  EXPECT_LE(largest_error<T>(Function::normal_cumulative, -2, 9), 7 + cost_of_square(2));
  EXPECT_LE(largest_error<T>(Function::normal_cumulative, -far, -2), 7 + cost_of_square(far));
  EXPECT_LE(largest_error<T>(Function::normal_bell, -far, far), 1.5L + cost_of_square(far));
}

TYPED_TEST(ElementaryTest, Extremes) {
  using T = TypeParam;
  constexpr T huge = std::numeric_limits<T>::max();
  const std::vector<T> x = {-infinity<T>, -huge, T(-800), T(-0.0), T(0), T(800), huge, infinity<T>};
  const auto expect = [&](Function function, const std::vector<T>& expected) {
    const std::vector<T> y = evaluate(function, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (function == Function::normal_cumulative && x[i] == 0)
        continue;  // 1/2 within the bound above
      EXPECT_EQ(y[i], expected[i]) << "function " << static_cast<int>(function) << " at " << x[i];
    }
    EXPECT_TRUE(std::isnan(evaluate(function, std::vector<T>{not_a_number<T>})[0]));
  };
  const T inf = infinity<T>;
  expect(Function::exponential, {0, 0, 0, 1, 1, inf, inf, inf});
  expect(Function::hyperbolic_tangent, {-1, -1, -1, 0, 0, 1, 1, 1});
  expect(Function::logistic, {0, 0, 0, 0.5, 0.5, 1, 1, 1});
  expect(Function::normal_cumulative, {0, 0, 0, 0.5, 0.5, 1, 1, 1});
  expect(Function::normal_bell, {0, 0, 0, 1, 1, 0, 0, 0});
}

TYPED_TEST(ElementaryTest, ExponentialReachesTheLargestNumberAndThenInfinity) {
  using T = TypeParam;
  const T last =
      std::nextafter(static_cast<T>(std::log(Real(std::numeric_limits<T>::max()))), T(0));
  const std::vector<T> y = evaluate(Function::exponential, std::vector<T>{last, last * T(1.001)});
  EXPECT_LE(reference::units_in_last_place(y[0], std::exp(Real(last))), 1.5L);
  EXPECT_EQ(y[1], infinity<T>);
}

TYPED_TEST(ElementaryTest, ANumbersResultDoesNotDependOnItsPlace) {
  using T = TypeParam;
  const std::vector<T> numbers = {T(-3.25), T(0.125), T(7), T(-60), T(0), T(1.5), T(-0.75)};
  for (Function function : {Function::exponential, Function::hyperbolic_tangent, Function::logistic,
                            Function::normal_cumulative, Function::normal_bell}) {
    for (T number : numbers) {
      const T alone = evaluate(function, std::vector<T>{number})[0];
      for (std::size_t length = 1; length <= 33; ++length) {
        for (std::size_t place = 0; place < length; ++place) {
          std::vector<T> x(length, not_a_number<T>);
          x[place] = number;
          const std::vector<T> y = evaluate(function, x);
          ASSERT_TRUE(reference::same_bits(y[place], alone)) << number << " at " << place;
          for (std::size_t i = 0; i < length; ++i) ASSERT_TRUE(i == place || std::isnan(y[i]));
        }
      }
    }
  }
}

TEST(Elementary, OtherNumberTypesTakeTheirOwnFunctions) {
  const std::vector<long double> x = {-5.5L, 0.25L, 3};
  for (Function function : {Function::exponential, Function::hyperbolic_tangent, Function::logistic,
                            Function::normal_cumulative, Function::normal_bell}) {
    const std::vector<long double> y = evaluate(function, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(reference::units_in_last_place(y[i], exact(function, x[i])), 4);
    }
  }
}

}  // namespace elementary_test
