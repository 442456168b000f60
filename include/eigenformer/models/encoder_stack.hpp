// SPDX-License-Identifier: MIT
#pragma once

// A stack of encoder layers without embeddings (PyTorch's nn.TransformerEncoder, the encoders of
// Dive into Deep Learning):
//
//   y = final_norm(layer_{L-1}(... layer_0(x)))      x, y: (B, T, hidden_size)
//
// The final norm is an option: pre-norm stacks usually have one, post-norm stacks end with their
// last layer's norm (PyTorch's nn.Transformer has both). No layers: the identity, or the final norm
// alone.

#include "eigenformer/models/layers.hpp"
#include "eigenformer/nn/encoder_layer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct EncoderStack {
  using Scalar = ScalarOf<Format>;
  using Layer = EncoderLayer<Format, Norm, FeedForwardNetwork>;
  template <class F>
  using WithFormat = EncoderStack<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit EncoderStack(const TransformerConfig& config_)
      : config(config_.with_defaults(layer_defaults())),
        relative_bias(make_relative_bias<Format>(config, true)),
        layers(make_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {}
  EIGENFORMER_STRONG_COPIES(EncoderStack)

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("relative_bias", stack.relative_bias...);
    f("layers", stack.layers...);
    f("final_norm", stack.final_norm...);
  }

  /// y must not overlap x.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require_shape("EncoderStack: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("EncoderStack: y", y.shape(), x.shape());
    require_disjoint("EncoderStack", {y}, {x});
    require_stack_call("EncoderStack", *this, x.dim(0), x.dim(1), x.dim(1), mask);
    std::copy(x.begin(), x.end(), y.begin());
    run_encoder(*this, mask, y, observer, workspace);
  }
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    forward(x, mask, y, Observer<Scalar>(), workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, mask, y, workspace);
    return y;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
