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
  Workspace workspace;
  kernels::activate<T>(activation, x.view().folded(), y.view().folded(), workspace);
  return y;
}

/// relu(x), gelu(x), ...: one function for each activation.
#define EIGENFORMER_ACTIVATION(name, ...)          \
  template <class T, int Rank>                     \
  Tensor<T, Rank> name(const Tensor<T, Rank>& x) { \
    return activate(Activation::name, x);          \
  }
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION

enum class GELUApproximation { none, tanh };

template <>
struct Enumeration<GELUApproximation> {
  static constexpr Enumerator<GELUApproximation> all[] = {{GELUApproximation::none, "none"},
                                                          {GELUApproximation::tanh, "tanh"}};
};

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
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("GELU", x, x.columns(), y, x.columns());
    if (x.data() != y.data()) require_disjoint("GELU", {y}, {x});
    kernels::activate<Scalar>(activation(), x.view(), y.view(), workspace);
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return activate(activation(), x);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
