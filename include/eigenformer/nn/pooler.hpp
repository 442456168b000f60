// SPDX-License-Identifier: MIT
#pragma once

// One vector for a sequence, as BERT makes it: y = activation(dense(x_0)), from the first token.
//
//   x: (B, T, hidden_size), T >= 1   y: (B, hidden_size)

#include "eigenformer/kernels/pooling.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// x_b0 of each batch row: (B, T, C) to (B, C). Throws if there is no token.
template <class T>
void first_tokens(TensorView<const T, 3> x, TensorView<T, 2> y) {
  require_shape("first_tokens: y", y.shape(), {x.dim(0), x.dim(2)});
  require(x.dim(1) >= 1 || x.dim(0) == 0, "first_tokens: x must hold at least one token; got ",
          x.shape());
  for (Index b = 0; b < x.dim(0); ++b) {
    std::copy_n(x.data() + b * x.dim(1) * x.dim(2), x.dim(2), y.data() + b * x.dim(2));
  }
}

struct PoolerConfig {
  Index hidden_size = 0;
  Activation activation = Activation::tanh;

  friend bool operator==(const PoolerConfig&, const PoolerConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("activation", c.activation...);
  }
};

template <class Format>
struct Pooler {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = Pooler<F>;

  PoolerConfig config;
  Linear<Format> dense;

  explicit Pooler(const PoolerConfig& config_)
      : config(config_), dense({config.hidden_size, config.hidden_size}) {}
  EIGENFORMER_STRONG_COPIES(Pooler)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("dense", layer.dense...);
  }

  void forward(TensorView<const Scalar, 3> x, TensorView<Scalar, 2> y, Workspace& workspace) const {
    require_shape("Pooler: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    Scratch scratch(workspace);
    const auto first = scratch.tensor<Scalar, 2>({x.dim(0), config.hidden_size});
    first_tokens(x, first);
    dense.forward(first, y, workspace, {.activation = config.activation});
  }

  Tensor<Scalar, 2> operator()(const Tensor<Scalar, 3>& x) const {
    Tensor<Scalar, 2> y({x.dim(0), config.hidden_size});
    Workspace workspace;
    forward(x, y, workspace);
    return y;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
