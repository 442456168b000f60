// SPDX-License-Identifier: MIT
#pragma once

// numpy's legacy generator (np.random.seed, np.random.RandomState), so that examples seeded in
// Python need no data files. The integer seed is the standard's std::mt19937(seed); arrays are
// filled in row-major order. Formulas: numpy's random/src/legacy/legacy-distributions.c, whose
// streams are frozen.

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "eigenformer/base/tensor.hpp"

class NumpyRandom {
 public:
  using Index = eigenformer::Index;

  explicit NumpyRandom(std::uint32_t seed) : generator_(seed) {}

  /// [0, 1), 53 bits.
  double uniform() {
    const auto high = static_cast<std::uint32_t>(generator_()) >> 5;
    const auto low = static_cast<std::uint32_t>(generator_()) >> 6;
    return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) / 9007199254740992.0;
  }

  /// Standard normal: the polar method, whose second number is kept for the next call.
  double normal() {
    if (has_kept_) {
      has_kept_ = false;
      return kept_;
    }
    double x1, x2, square;
    do {
      x1 = 2.0 * uniform() - 1.0;
      x2 = 2.0 * uniform() - 1.0;
      square = x1 * x1 + x2 * x2;
    } while (square >= 1.0 || square == 0.0);
    const double factor = std::sqrt(-2.0 * std::log(square) / square);
    kept_ = factor * x1;
    has_kept_ = true;
    return factor * x2;
  }

  /// Uniform in [low, high): masked bits, tried again while too large.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(masked(static_cast<std::uint32_t>(high - low - 1)));
  }

  /// np.random.randn(shape...) * scale.
  template <class T, int Rank>
  eigenformer::Tensor<T, Rank> randn(const eigenformer::Shape<Rank>& shape, double scale = 1) {
    eigenformer::Tensor<T, Rank> result(shape);
    for (T& element : result) element = static_cast<T>(normal() * scale);
    return result;
  }

  /// np.random.permutation of 0 ... n - 1.
  std::vector<Index> permutation(Index n) {
    std::vector<Index> result(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<Index>(i);
    for (std::size_t i = result.size(); i-- > 1;)
      std::swap(result[i], result[masked(static_cast<std::uint32_t>(i))]);
    return result;
  }

 private:
  /// Uniform in [0, largest].
  std::uint32_t masked(std::uint32_t largest) {
    std::uint32_t mask = largest;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    std::uint32_t value;
    do {
      value = static_cast<std::uint32_t>(generator_()) & mask;
    } while (value > largest);
    return value;
  }

  std::mt19937 generator_;
  double kept_ = 0;
  bool has_kept_ = false;
};
