// SPDX-License-Identifier: MIT
#pragma once

// Layer norm, RMS norm and softmax over the last axis in plain loops.

#include <algorithm>
#include <cmath>

#include "tests/reference/numbers.hpp"

namespace reference {

/// weight, bias: (C); an empty bias is none.
template <int Rank>
Reals<Rank> layer_norm(const Reals<Rank>& x, const Reals<1>& weight, const Reals<1>& bias,
                       Real eps) {
  Reals<Rank> y(x.shape());
  const Index n = x.dim(Rank - 1);
  for (Index first = 0; first < x.size(); first += n) {
    // Distances from the first element: a common offset, however large, costs no digits.
    const auto distance = [&](Index i) { return x.data()[first + i] - x.data()[first]; };
    Real mean = 0, variance = 0;
    for (Index i = 0; i < n; ++i) mean += distance(i) / Real(n);
    for (Index i = 0; i < n; ++i) variance += (distance(i) - mean) * (distance(i) - mean) / Real(n);
    for (Index i = 0; i < n; ++i) {
      y.data()[first + i] = (distance(i) - mean) / std::sqrt(variance + eps) * weight(i) +
                            (bias.empty() ? 0 : bias(i));
    }
  }
  return y;
}

template <int Rank>
Reals<Rank> rms_norm(const Reals<Rank>& x, const Reals<1>& weight, Real offset, Real eps) {
  Reals<Rank> y(x.shape());
  const Index n = x.dim(Rank - 1);
  for (Index first = 0; first < x.size(); first += n) {
    Real mean_square = 0;
    for (Index i = 0; i < n; ++i) {
      mean_square += x.data()[first + i] * x.data()[first + i] / Real(n);
    }
    for (Index i = 0; i < n; ++i) {
      y.data()[first + i] =
          x.data()[first + i] / std::sqrt(mean_square + eps) * (offset + weight(i));
    }
  }
  return y;
}

/// A row of -infinity alone gives zeros.
template <int Rank>
Reals<Rank> softmax(const Reals<Rank>& x) {
  Reals<Rank> y(x.shape());
  const Index n = x.dim(Rank - 1);
  for (Index first = 0; first < x.size(); first += n) {
    const Real maximum = *std::max_element(x.data() + first, x.data() + first + n);
    if (maximum == -std::numeric_limits<Real>::infinity()) continue;
    Real sum = 0;
    for (Index i = first; i < first + n; ++i) sum += std::exp(x.data()[i] - maximum);
    for (Index i = first; i < first + n; ++i) {
      y.data()[i] = std::exp(x.data()[i] - maximum) / sum;
    }
  }
  return y;
}

/// The norm module's own formula, by its fields: LayerNorm has a bias, RMSNorm an offset.
template <int Rank, class Norm>
Reals<Rank> norm(const Reals<Rank>& x, const Norm& module) {
  const Real eps = module.config.eps;
  if constexpr (requires { module.bias; }) {
    return layer_norm(x, widen(module.weight), widen(module.bias), eps);
  } else {
    return rms_norm(x, widen(module.weight), module.config.unit_offset ? 1 : 0, eps);
  }
}

}  // namespace reference
