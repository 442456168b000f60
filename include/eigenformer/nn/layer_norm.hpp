// SPDX-License-Identifier: MIT
#pragma once

// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, population variance,
// eps inside the root (PyTorch's nn.LayerNorm). Accurate for rows such as 1e4 +- 1e-3; a constant
// row gives exactly the bias.
//
//   x, y: (..., hidden_size)   weight, bias: (hidden_size)

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/layer_norm.hpp"
#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct LayerNormConfig {
  Index hidden_size = 0;
  double eps = 1e-5;
  bool bias = true;

  friend bool operator==(const LayerNormConfig&, const LayerNormConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("eps", c.eps...);
    f("bias", c.bias...);
  }
};

template <class Format>
struct LayerNorm {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = LayerNorm<F>;

  LayerNormConfig config;
  Parameter<Format, 1> weight;
  Parameter<Format, 1> bias;  // empty without bias

  /// The norm of a layer or model.
  static LayerNormConfig config_from(const TransformerConfig& c) {
    return {.hidden_size = c.hidden_size, .eps = c.layer_norm_eps, .bias = c.norm_bias};
  }

  /// Weight 1, bias 0. Throws std::invalid_argument for a negative size or eps.
  explicit LayerNorm(const LayerNormConfig& config_)
      : config(checked(config_)),
        weight({config.hidden_size}),
        bias({config.bias ? config.hidden_size : 0}) {
    if constexpr (requires { weight.data(); }) init_own(Key{0});
  }
  EIGENFORMER_STRONG_COPIES(LayerNorm)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
    if ((layer.config.bias && ...)) f("bias", layer.bias...);
  }

  void init_own(Key) {
    std::fill(weight.begin(), weight.end(), Scalar(1));
    std::fill(bias.begin(), bias.end(), Scalar(0));
  }

  /// y may be x itself; it must not overlap x otherwise.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("LayerNorm", x, config.hidden_size, y, config.hidden_size);
    if (x.data() != y.data()) require_disjoint("LayerNorm", {y}, {x});
    normalize(x, nullptr, y, workspace);
  }

  /// Of x + y, in place of y; they must not overlap. The bits of adding first.
  void forward_sum(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("LayerNorm", x, config.hidden_size, y, config.hidden_size);
    require_disjoint("LayerNorm", {y}, {x});
    normalize(x, y.data(), y, workspace);
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return forward_to_new(*this, x, config.hidden_size);
  }

 private:
  void normalize(RowsView<const Scalar> x, const Scalar* z, RowsView<Scalar> y,
                 Workspace& workspace) const {
    require_shape("LayerNorm: weight", weight.shape(), {config.hidden_size});
    require_shape("LayerNorm: bias", bias.shape(), {config.bias ? config.hidden_size : 0});
    kernels::layer_norm<Scalar>(x.view(), z, weight.data(), config.bias ? bias.data() : nullptr,
                                static_cast<Scalar>(config.eps), y.view(), workspace);
  }

  static const LayerNormConfig& checked(const LayerNormConfig& c) {
    require(c.hidden_size >= 0, "LayerNorm: hidden_size must be >= 0; got ", c.hidden_size);
    require(c.eps >= 0 && std::isfinite(c.eps), "LayerNorm: eps must be finite and >= 0; got ",
            c.eps);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
