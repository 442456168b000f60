// SPDX-License-Identifier: MIT
#pragma once

// Activations on whole tensors: a free function for each, and the module GELU. Formulas:
// kernels/activation.hpp.
//
//   ef::GELU<float> gelu({.approximate = ef::GELUApproximation::tanh});
//   y = gelu(x);
//   y = ef::silu(x);

#include <string>

#include "eigenformer/kernels/elementwise.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T, int Rank>
Tensor<T, Rank> activate(Activation activation, const Tensor<T, Rank>& x) {
  Tensor<T, Rank> y(x.shape());
  kernels::machine<T>().activate(activation, x.data(), y.data(), x.size());
  return y;
}

template <class T, int Rank>
Tensor<T, Rank> relu(const Tensor<T, Rank>& x) {
  return activate(Activation::relu, x);
}
template <class T, int Rank>
Tensor<T, Rank> gelu(const Tensor<T, Rank>& x) {
  return activate(Activation::gelu, x);
}
template <class T, int Rank>
Tensor<T, Rank> gelu_tanh(const Tensor<T, Rank>& x) {
  return activate(Activation::gelu_tanh, x);
}
template <class T, int Rank>
Tensor<T, Rank> silu(const Tensor<T, Rank>& x) {
  return activate(Activation::silu, x);
}
template <class T, int Rank>
Tensor<T, Rank> quick_gelu(const Tensor<T, Rank>& x) {
  return activate(Activation::quick_gelu, x);
}
template <class T, int Rank>
Tensor<T, Rank> sigmoid(const Tensor<T, Rank>& x) {
  return activate(Activation::sigmoid, x);
}
template <class T, int Rank>
Tensor<T, Rank> tanh(const Tensor<T, Rank>& x) {
  return activate(Activation::tanh, x);
}

enum class GELUApproximation { none, tanh };

inline std::string to_string(GELUApproximation approximation) {
  return approximation == GELUApproximation::none ? "none" : "tanh";
}

struct GELUConfig {
  GELUApproximation approximate = GELUApproximation::none;

  friend bool operator==(const GELUConfig&, const GELUConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("approximate", c.approximate...);
  }
};

template <class Format>
struct GELU {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = GELU<F>;

  GELUConfig config;

  explicit GELU(const GELUConfig& config_ = {}) : config(config_) {}

  template <class F, class... Layer>
  static void visit(F&&, Layer&...) {}

  Activation activation() const {
    return config.approximate == GELUApproximation::none ? Activation::gelu : Activation::gelu_tanh;
  }

  /// y may be x itself; it must not overlap x otherwise.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace&) const {
    require_rows("GELU", x, x.columns(), y, x.columns());
    if (x.data() != y.data()) require_disjoint("GELU", {y}, {x});
    kernels::machine<Scalar>().activate(activation(), x.data(), y.data(), x.size());
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return activate(activation(), x);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
