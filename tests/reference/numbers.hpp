// SPDX-License-Identifier: MIT
#pragma once

// Numbers for tests: random tensors, wider copies of tensors, comparison by bits and in units of
// the last place.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "eigenformer/base/random.hpp"
#include "eigenformer/base/tensor.hpp"

namespace reference {

namespace ef = eigenformer;
using ef::Index;

/// The number type of every reference loop.
using Real = long double;

template <int Rank>
using Reals = ef::Tensor<Real, Rank>;

/// Uniform in [-scale, scale), the same for the same seed.
template <class T, int Rank>
ef::Tensor<T, Rank> random_tensor(const ef::Shape<Rank>& shape, std::uint64_t seed,
                                  double scale = 1) {
  ef::Tensor<T, Rank> x(shape);
  const ef::Key key(seed);
  for (Index i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<T>(scale * (2 * key.uniform(static_cast<std::uint64_t>(i)) - 1));
  }
  return x;
}

/// Adds random numbers of [-scale, scale) to n elements.
template <class T>
void add_noise(T* x, Index n, ef::Key key, double scale) {
  for (Index i = 0; i < n; ++i) {
    x[i] += static_cast<T>(scale * (2 * key.uniform(static_cast<std::uint64_t>(i)) - 1));
  }
}

inline auto noise(std::uint64_t& seed, double scale) {
  return [&seed, scale](const std::string&, auto& parameter) {
    add_noise(parameter.data(), parameter.size(), ef::Key(++seed), scale);
  };
}

/// Changes every parameter of a module, biases and norms too, by a random number of [-scale, scale).
template <class M>
void randomize(M& module, std::uint64_t seed, double scale = 0.5) {
  for_each_parameter(module, noise(seed, scale));
}

template <class T, int Rank>
Reals<Rank> widen(const ef::Tensor<T, Rank>& x) {
  Reals<Rank> y(x.shape());
  for (Index i = 0; i < x.size(); ++i) y.data()[i] = static_cast<Real>(x.data()[i]);
  return y;
}

/// Equal bits; a long double's padding bytes don't count.
template <class T>
bool same_bits(T a, T b) {
  if constexpr (std::is_same_v<T, long double>) {
    return a == b && std::signbit(a) == std::signbit(b);
  } else {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
}

template <class T>
::testing::AssertionResult same_bits(const T* a, const T* b, Index count) {
  for (Index i = 0; i < count; ++i) {
    if (!same_bits(a[i], b[i])) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << count << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

template <class T, int Rank>
::testing::AssertionResult same_bits(const ef::Tensor<T, Rank>& a, const ef::Tensor<T, Rank>& b) {
  if (a.shape() != b.shape()) {
    return ::testing::AssertionFailure() << to_string(a.shape()) << " and " << to_string(b.shape());
  }
  return same_bits(a.data(), b.data(), a.size());
}

/// |actual - expected| <= tolerance for every element; NaN is never near.
template <class T, int Rank>
::testing::AssertionResult near(const ef::Tensor<T, Rank>& actual, const Reals<Rank>& expected,
                                Real tolerance) {
  if (actual.shape() != expected.shape()) {
    return ::testing::AssertionFailure()
           << to_string(actual.shape()) << " instead of " << to_string(expected.shape());
  }
  for (Index i = 0; i < actual.size(); ++i) {
    const Real error = std::abs(static_cast<Real>(actual.data()[i]) - expected.data()[i]);
    if (!(error <= tolerance)) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << to_string(actual.shape()) << ": " << actual.data()[i]
             << " instead of " << expected.data()[i] << ", off by " << error << ", allowed "
             << tolerance;
    }
  }
  return ::testing::AssertionSuccess();
}

/// |actual - exact| in units of the last place of T at `exact`; those of the smallest normal number
/// below it.
template <class T>
Real units_in_last_place(T actual, Real exact) {
  const Real magnitude =
      std::max(std::abs(exact), static_cast<Real>(std::numeric_limits<T>::min()));
  const int exponent = std::ilogb(magnitude);
  const Real unit = std::ldexp(Real(1), exponent - std::numeric_limits<T>::digits + 1);
  return std::abs(static_cast<Real>(actual) - exact) / unit;
}

}  // namespace reference
