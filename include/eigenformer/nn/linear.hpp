// SPDX-License-Identifier: MIT
#pragma once

// y = x W^T + b on the last axis (PyTorch's nn.Linear).
//
//   x: (..., in_features)   y: (..., out_features)
//   weight: (out_features, in_features)   bias: (out_features)

#include <cmath>

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/linear.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct LinearConfig {
  Index in_features = 0;
  Index out_features = 0;
  bool bias = true;

  friend bool operator==(const LinearConfig&, const LinearConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("in_features", c.in_features...);
    f("out_features", c.out_features...);
    f("bias", c.bias...);
  }
};

template <class Format>
struct Linear {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = Linear<F>;

  LinearConfig config;
  Weight<Format> weight;
  Parameter<Format, 1> bias;  // empty without bias

  /// Zero weights; `init` makes them random, `load` reads them. Throws std::invalid_argument for negative
  /// sizes.
  explicit Linear(const LinearConfig& config_)
      : config(checked(config_)),
        weight({config.out_features, config.in_features}),
        bias({config.bias ? config.out_features : 0}) {}
  EIGENFORMER_STRONG_COPIES(Linear)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
    if ((layer.config.bias && ...)) f("bias", layer.bias...);
  }

  /// Glorot and Bengio 2010: uniform within +-sqrt(6 / (in + out)); zero bias.
  void init_own(Key key) {
    const double bound = std::sqrt(
        6.0 / static_cast<double>(std::max<Index>(1, config.in_features + config.out_features)));
    for (Index i = 0; i < weight.size(); ++i) {
      weight.data()[i] =
          static_cast<Scalar>(bound * (2.0 * key.uniform(static_cast<std::uint64_t>(i)) - 1.0));
    }
    std::fill(bias.begin(), bias.end(), Scalar(0));
  }

  /// y must not overlap x. `epilogue` is applied to each element of the result: see
  /// kernels/linear.hpp.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace,
               const kernels::Epilogue<Scalar>& epilogue = {}) const {
    require_rows("Linear", x, config.in_features, y, config.out_features);
    require_disjoint("Linear", {y}, {x});
    kernels::linear<Scalar>(x.view(), map(), y.view(), epilogue, workspace);
  }

  /// Weight and bias, as kernels take them. Throws if they don't fit the configuration.
  kernels::AffineMap<Scalar> map() const {
    require_shape("Linear: weight", weight.shape(), {config.out_features, config.in_features});
    require_shape("Linear: bias", bias.shape(), {config.bias ? config.out_features : 0});
    return {kernels::right_factor(weight), config.bias ? bias.data() : nullptr};
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return forward_to_new(*this, x, config.out_features);
  }

 private:
  static const LinearConfig& checked(const LinearConfig& c) {
    require(c.in_features >= 0 && c.out_features >= 0,
            "Linear: in_features and out_features must be >= 0; got ", c.in_features, " and ",
            c.out_features);
    return c;
  }
};

namespace internal {

/// Throws unless `linear`, the part `name` of `who`, has this configuration: it may have been changed.
template <class Format>
void require_linear(std::string_view who, std::string_view name, const Linear<Format>& linear,
                    Index in_features, Index out_features) {
  require(linear.config.in_features == in_features && linear.config.out_features == out_features,
          who, ": ", name, " must have ", in_features, " in_features and ", out_features,
          " out_features; got ", linear.config.in_features, " and ", linear.config.out_features);
}

}  // namespace internal

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
