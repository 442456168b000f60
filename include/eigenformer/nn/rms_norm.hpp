// SPDX-License-Identifier: MIT
#pragma once

// y = x / sqrt(mean(x^2) + eps) * weight over the last axis, eps inside the root (PyTorch's
// nn.RMSNorm, T5, Llama). With `unit_offset` the factor is 1 + weight, for checkpoints that store
// weight - 1 (Gemma).
//
//   x, y: (..., hidden_size)   weight: (hidden_size)

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/rms_norm.hpp"
#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct RMSNormConfig {
  Index hidden_size = 0;
  double eps = 1e-5;
  bool unit_offset = false;

  friend bool operator==(const RMSNormConfig&, const RMSNormConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("eps", c.eps...);
    f("unit_offset", c.unit_offset...);
  }
};

template <class Format>
struct RMSNorm {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = RMSNorm<F>;

  RMSNormConfig config;
  Parameter<Format, 1> weight;

  /// The norm of a layer or model.
  static RMSNormConfig config_from(const TransformerConfig& c) {
    return {.hidden_size = c.hidden_size, .eps = c.rms_norm_eps};
  }

  /// A factor of 1 for every element. Throws std::invalid_argument for a negative size or eps.
  explicit RMSNorm(const RMSNormConfig& config_)
      : config(checked(config_)), weight({config.hidden_size}) {
    if constexpr (requires { weight.data(); }) init_own(Key{0});
  }
  EIGENFORMER_STRONG_COPIES(RMSNorm)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
  }

  void init_own(Key) {
    std::fill(weight.begin(), weight.end(), Scalar(config.unit_offset ? 0 : 1));
  }

  /// y may be x itself; it must not overlap x otherwise.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("RMSNorm", x, config.hidden_size, y, config.hidden_size);
    if (x.data() != y.data()) require_disjoint("RMSNorm", {y}, {x});
    normalize(x, nullptr, y, workspace);
  }

  /// Of x + y, in place of y; they must not overlap. The bits of adding first.
  void forward_sum(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("RMSNorm", x, config.hidden_size, y, config.hidden_size);
    require_disjoint("RMSNorm", {y}, {x});
    normalize(x, y.data(), y, workspace);
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return forward_to_new(*this, x, config.hidden_size);
  }

 private:
  void normalize(RowsView<const Scalar> x, const Scalar* z, RowsView<Scalar> y,
                 Workspace& workspace) const {
    require_shape("RMSNorm: weight", weight.shape(), {config.hidden_size});
    kernels::rms_norm<Scalar>(x.view(), z, weight.data(), Scalar(config.unit_offset ? 1 : 0),
                              static_cast<Scalar>(config.eps), y.view(), workspace);
  }

  static const RMSNormConfig& checked(const RMSNormConfig& c) {
    require(c.hidden_size >= 0, "RMSNorm: hidden_size must be >= 0; got ", c.hidden_size);
    require(c.eps >= 0 && std::isfinite(c.eps), "RMSNorm: eps must be finite and >= 0; got ",
            c.eps);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
