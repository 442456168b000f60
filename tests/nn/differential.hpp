// SPDX-License-Identifier: MIT
#pragma once

// Modules against plain loops in long double.

#include <algorithm>
#include <cmath>

#include "tests/reference/numbers.hpp"

namespace reference {

/// Agreement within `roundings` epsilons of the largest number: what a chain of that many
/// operations on numbers of that size may lose. 300 for one module, in which sums have up to 61
/// terms and numbers pass 3 or 4 of them.
template <class T, int Rank>
::testing::AssertionResult agrees(const ef::Tensor<T, Rank>& actual, const Reals<Rank>& expected,
                                  Real roundings = 300) {
  Real largest = 1;
  for (Real value : expected) largest = std::max(largest, std::abs(value));
  return near(actual, expected, roundings * largest * Real(std::numeric_limits<T>::epsilon()));
}

/// A module whose parameters are all random.
template <class M, class Config>
M random_module(const Config& config, std::uint64_t seed = 1, double scale = 0.5) {
  M module(config);
  randomize(module, seed, scale);
  return module;
}

}  // namespace reference
