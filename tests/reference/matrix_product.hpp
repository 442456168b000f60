// SPDX-License-Identifier: MIT
#pragma once

// y = x W^T + b in plain loops.

#include "tests/reference/numbers.hpp"

namespace reference {

/// x: (M, K)   weight: (N, K)   bias: (N), or empty for none   result: (M, N)
inline Reals<2> linear(const Reals<2>& x, const Reals<2>& weight, const Reals<1>& bias = {}) {
  Reals<2> y({x.dim(0), weight.dim(0)});
  for (Index m = 0; m < y.dim(0); ++m) {
    for (Index n = 0; n < y.dim(1); ++n) {
      Real sum = bias.empty() ? 0 : bias(n);
      for (Index k = 0; k < x.dim(1); ++k) sum += x(m, k) * weight(n, k);
      y(m, n) = sum;
    }
  }
  return y;
}

/// The same for (B, T, K).
inline Reals<3> linear(const Reals<3>& x, const Reals<2>& weight, const Reals<1>& bias = {}) {
  const Reals<2> rows(x.view().folded());
  return Reals<3>(
      linear(rows, weight, bias).view().reshaped<3>({x.dim(0), x.dim(1), weight.dim(0)}));
}

/// The same with the parameters of a Linear.
template <int Rank, class Module>
requires requires(const Module& m) {
  m.weight;
  m.bias;
}
Reals<Rank> linear(const Reals<Rank>& x, const Module& module) {
  return linear(x, widen(module.weight), widen(module.bias));
}

}  // namespace reference
