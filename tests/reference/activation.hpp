// SPDX-License-Identifier: MIT
#pragma once

// Activations from the C library's long double functions.

#include <cmath>

#include "eigenformer/kernels/activation.hpp"
#include "tests/reference/numbers.hpp"

namespace reference {

inline Real activation(ef::Activation kind, Real x) {
  const auto sigmoid = [](Real a) { return 1 / (1 + std::exp(-a)); };
  const Real pi = std::acos(Real(-1));
  switch (kind) {
    case ef::Activation::identity:
      return x;
    case ef::Activation::relu:
      return x < 0 ? 0 : x;
    case ef::Activation::gelu:
      return x * std::erfc(-x / std::sqrt(Real(2))) / 2;
    case ef::Activation::gelu_tanh:
      // (1 + tanh u) / 2 = sigmoid(2 u), without its cancellation
      return x * sigmoid(2 * std::sqrt(2 / pi) * (x + 0.044715L * x * x * x));
    case ef::Activation::silu:
      return x * sigmoid(x);
    case ef::Activation::quick_gelu:
      return x * sigmoid(1.702L * x);
    case ef::Activation::sigmoid:
      return sigmoid(x);
    case ef::Activation::tanh:
      return std::tanh(x);
  }
  return std::numeric_limits<Real>::quiet_NaN();
}

template <int Rank>
Reals<Rank> activate(ef::Activation kind, const Reals<Rank>& x) {
  Reals<Rank> y(x.shape());
  for (Index i = 0; i < x.size(); ++i) y.data()[i] = activation(kind, x.data()[i]);
  return y;
}

}  // namespace reference
