// SPDX-License-Identifier: MIT
#include "tests/reference/activation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/nn/gelu.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/fused.hpp"

namespace activation_test {

namespace ef = eigenformer;
using ef::Activation;
using ef::Index;
using reference::Real;

template <class T>
std::vector<T> activate(Activation kind, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  ef::kernels::target<T>().activate(kind, x.data(), y.data(), static_cast<Index>(x.size()));
  return y;
}

template <class T>
T activate(Activation kind, T x) {
  return activate(kind, std::vector<T>{x})[0];
}

/// Largest error in [low, high] in units of the last place.
template <class T>
Real largest_error(Activation kind, double low, double high) {
  std::vector<T> x;
  for (int i = 0; i <= 20000; ++i) {
    x.push_back(static_cast<T>(low + (high - low) * static_cast<double>(i) / 20000));
  }
  const std::vector<T> y = activate(kind, x);
  Real largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real error =
        reference::units_in_last_place(y[i], reference::activation(kind, Real(x[i])));
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

template <class T>
class ActivationTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationTest, Scalars);

TYPED_TEST(ActivationTest, UnitsInTheLastPlace) {
  using T = TypeParam;
  const double low = std::is_same_v<T, float> ? -80 : -600;
  const bool has_fma = reference::has_fused_multiply_add();
  EXPECT_EQ(largest_error<T>(Activation::identity, -10, 10), 0);
  EXPECT_EQ(largest_error<T>(Activation::relu, -10, 10), 0);
  EXPECT_LE(largest_error<T>(Activation::silu, low, 90), 4);
  EXPECT_LE(largest_error<T>(Activation::sigmoid, low, 90), 3);
  EXPECT_LE(largest_error<T>(Activation::tanh, -20, 20), 3);
  EXPECT_LE(largest_error<T>(Activation::gelu, -3, 20), has_fma ? 8 : 12);
  EXPECT_LE(largest_error<T>(Activation::gelu, -12, -3), has_fma ? 8 : 80);
  // The argument of the logistic function is rounded: relative error |argument| * a few units.
  EXPECT_LE(largest_error<T>(Activation::gelu_tanh, -2, 20), 16);
  EXPECT_LE(largest_error<T>(Activation::gelu_tanh, -7, -2), 4 + 4 * 37);
  EXPECT_LE(largest_error<T>(Activation::quick_gelu, -2, 20), 10);
  EXPECT_LE(largest_error<T>(Activation::quick_gelu, low / 2, -2), 4 - low);
}

// The two forms of GELU and how far they are apart.
TEST(Gelu, HasTwoForms) {
  const double x[] = {-3, -1, 0.5, 1, 2.2, 3};
  const double exact[] = {-0.00404969, -0.15865525, 0.34573123, 0.84134475, 2.16941242, 2.99595031};
  const double tanh_form[] = {-0.00363739, -0.15880801, 0.34571401,
                              0.84119199,  2.16967853,  2.99636261};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(activate(Activation::gelu, x[i]), exact[i], 1e-8);
    EXPECT_NEAR(activate(Activation::gelu_tanh, x[i]), tanh_form[i], 1e-8);
    EXPECT_NEAR(activate(Activation::gelu, static_cast<float>(x[i])), exact[i], 2e-6);
    EXPECT_NEAR(activate(Activation::gelu_tanh, static_cast<float>(x[i])), tanh_form[i], 2e-6);
  }
  double widest = 0, at = 0;
  for (double v = 0; v < 6; v += 1e-4) {
    const double gap = std::abs(activate(Activation::gelu, v) - activate(Activation::gelu_tanh, v));
    if (gap > widest) widest = gap, at = v;
  }
  EXPECT_NEAR(widest, 4.732e-4, 1e-7);
  EXPECT_NEAR(at, 2.699, 1e-3);
}

TYPED_TEST(ActivationTest, Extremes) {
  using T = TypeParam;
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr T huge = std::numeric_limits<T>::max();
  for (const int size : {1, 7, 8, 9, 17}) {
    const auto at = [&](Activation kind, T x) {
      // The last place of the vector, which is the tail's; neighbours must not matter.
      std::vector<T> numbers(static_cast<std::size_t>(size), T(1));
      numbers.back() = x;
      return activate(kind, numbers).back();
    };
    for (Activation kind :
         {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::quick_gelu}) {
      const std::string name = to_string(kind) + " in " + std::to_string(size);
      const bool wide = kind == Activation::gelu || kind == Activation::gelu_tanh;
      if (wide) {
        EXPECT_EQ(at(kind, T(13.24)), T(13.24)) << name;
        EXPECT_LE(std::abs(at(kind, T(-13.24))), T(1e-30)) << name;
      }
      EXPECT_EQ(at(kind, T(40)), T(40)) << name;
      EXPECT_EQ(at(kind, T(1e20)), T(1e20)) << name;
      EXPECT_EQ(at(kind, T(-1e20)), T(0)) << name;
      EXPECT_EQ(at(kind, T(3e38)), T(3e38)) << name;
      EXPECT_EQ(at(kind, T(-3e38)), T(0)) << name;
      EXPECT_EQ(at(kind, huge), huge) << name;
      EXPECT_EQ(at(kind, -huge), T(0)) << name;
      EXPECT_EQ(at(kind, inf), inf) << name;
      EXPECT_EQ(at(kind, -inf), T(0)) << name;
      EXPECT_EQ(at(kind, T(0)), T(0)) << name;
      EXPECT_TRUE(std::isnan(at(kind, std::numeric_limits<T>::quiet_NaN()))) << name;
    }
    EXPECT_EQ(at(Activation::relu, -inf), T(0));
    EXPECT_EQ(at(Activation::relu, inf), inf);
    EXPECT_TRUE(std::isnan(at(Activation::relu, std::numeric_limits<T>::quiet_NaN())));
    EXPECT_EQ(at(Activation::sigmoid, -inf), T(0));
    EXPECT_EQ(at(Activation::sigmoid, inf), T(1));
    EXPECT_EQ(at(Activation::tanh, -inf), T(-1));
    EXPECT_EQ(at(Activation::tanh, huge), T(1));
    EXPECT_TRUE(std::isnan(at(Activation::tanh, std::numeric_limits<T>::quiet_NaN())));
  }
  // The left tails keep their digits.
  EXPECT_NEAR(activate(Activation::gelu_tanh, T(-5)) / T(-2.29180e-7), 1, 1e-3);
  EXPECT_NEAR(activate(Activation::gelu_tanh, T(-6)) / T(-8.43965e-11), 1, 1e-3);
  EXPECT_NEAR(activate(Activation::gelu, T(-5)) / T(-1.43325786e-6), 1, 1e-4);
  EXPECT_NEAR(activate(Activation::gelu, T(-8)) / T(-4.97687663e-15), 1, 1e-4);
}

TYPED_TEST(ActivationTest, LengthPlaceAndBeingInPlaceDoNotMatter) {
  using T = TypeParam;
  for (const auto& [kind, name_of_kind] : ef::Enumeration<ef::Activation>::all) {
    static_cast<void>(name_of_kind);
    std::vector<T> numbers, alone;
    for (int i = 0; i < 33; ++i) {
      numbers.push_back(static_cast<T>(std::sin(i) * 5));
      alone.push_back(activate(kind, numbers.back()));
    }
    for (std::size_t length = 0; length <= 33; ++length) {
      std::vector<T> x(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(length));
      x.push_back(T(-777));
      std::vector<T> y = x;
      const auto n = static_cast<Index>(length);
      ef::kernels::target<T>().activate(kind, x.data(), y.data(), n);
      ASSERT_TRUE(reference::same_bits(y.data(), alone.data(), n)) << to_string(kind);
      EXPECT_EQ(y[length], T(-777)) << "written beyond the end";
      ef::kernels::target<T>().activate(kind, x.data(), x.data(), n);
      ASSERT_TRUE(reference::same_bits(x.data(), alone.data(), n)) << to_string(kind);
    }
  }
}

TEST(Activation, FreeFunctionsAndModule) {
  const ef::Tensor<float, 3> x = reference::random_tensor<float, 3>({2, 3, 5}, 1, 3);
  const auto expect = [&](Activation kind, const ef::Tensor<float, 3>& y) {
    EXPECT_TRUE(reference::same_bits(y, ef::activate(kind, x))) << to_string(kind);
    EXPECT_TRUE(reference::near(y, reference::activate(kind, reference::widen(x)), 1e-6L))
        << to_string(kind);
  };
  expect(Activation::relu, ef::relu(x));
  expect(Activation::gelu, ef::gelu(x));
  expect(Activation::gelu_tanh, ef::gelu_tanh(x));
  expect(Activation::silu, ef::silu(x));
  expect(Activation::quick_gelu, ef::quick_gelu(x));
  expect(Activation::sigmoid, ef::sigmoid(x));
  expect(Activation::tanh, ef::tanh(x));
  expect(Activation::gelu, ef::GELU<float>()(x));
  expect(Activation::gelu_tanh, ef::GELU<float>({.approximate = ef::GELUApproximation::tanh})(x));
}

TEST(Activation, RefusesWhatItIsNot) {
  std::vector<float> x(3);
  EXPECT_ERROR(activate(static_cast<Activation>(99), x), std::invalid_argument,
               "activation: must be one of the enumeration; got 99 (unknown)");
  ef::Tensor<float, 2> a({2, 3}), b({3, 2});
  ef::Workspace workspace;
  EXPECT_ERROR(ef::kernels::activate<float>(Activation::relu, a, b, workspace),
               std::invalid_argument, "activate: y: shape must be (2, 3); got (3, 2)");
}

// Central differences of the reference, in long double; limits at infinity; NaN.
TYPED_TEST(ActivationTest, DerivativesAreThoseOfTheValues) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const double tolerance = sizeof(T) == 4 ? 2e-6 : 1e-9;
  for (const auto& [kind, name] : ef::Enumeration<Activation>::all) {
    const auto derivative = [kind = kind](std::vector<T> x) {
      ef::kernels::target<T>().activation_derivative(kind, x.data(), x.data(),
                                                     static_cast<Index>(x.size()));
      return x;
    };
    std::vector<T> x;
    for (int i = -400; i <= 400; ++i)
      if (i != 0) x.push_back(static_cast<T>(i) / 37);
    const std::vector<T> found = derivative(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real h = 1e-5L, at = Real(x[i]);
      const Real expected =
          (reference::activation(kind, at + h) - reference::activation(kind, at - h)) / (2 * h);
      EXPECT_NEAR(double(found[i]), double(expected), tolerance) << name << " at " << x[i];
    }
    const std::vector<T> ends =
        derivative({-infinity, infinity, std::numeric_limits<T>::quiet_NaN()});
    if (kind == Activation::identity) {
      EXPECT_EQ(ends, std::vector<T>(3, T(1)));
      continue;
    }
    const bool bounded = kind == Activation::sigmoid || kind == Activation::tanh;
    EXPECT_EQ(ends[0], T(0)) << name;
    EXPECT_EQ(ends[1], bounded ? T(0) : T(1)) << name;
    EXPECT_TRUE(std::isnan(ends[2])) << name;
  }
  std::vector<T> zero = {T(0)};
  ef::kernels::target<T>().activation_derivative(Activation::relu, zero.data(), zero.data(), 1);
  EXPECT_EQ(zero[0], T(0));
}

/// What begins a row of the README's table, and what ends it.
struct TableRow {
  std::string begin, end;
};

TableRow table_row(const std::string& name, const std::vector<std::string>& names_in_files) {
  std::string end;
  for (const std::string& in_file : names_in_files)
    end += (end.empty() ? "`" : ", `") + in_file + "`";
  return {"| `" + name + "` |", "| " + end + " |"};
}

TEST(Activation, EachHasItsRowInTheReadme) {
  std::vector<TableRow> expected;
#define EIGENFORMER_ACTIVATION(name, ...) expected.push_back(table_row(#name, {__VA_ARGS__}));
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION
  std::ifstream readme(EIGENFORMER_TESTS "/../README.md");
  std::string line;
  while (line.rfind("| `ef::Activation` |", 0) != 0) ASSERT_TRUE(std::getline(readme, line));
  std::getline(readme, line);
  for (const TableRow& row : expected) {
    ASSERT_TRUE(std::getline(readme, line));
    EXPECT_EQ(line.substr(0, row.begin.size()), row.begin);
    EXPECT_EQ(line.substr(std::min(line.size(), line.rfind("| `"))), row.end);
  }
  std::getline(readme, line);
  EXPECT_EQ(line, "") << "and no other rows";
}

}  // namespace activation_test
