// SPDX-License-Identifier: MIT
#pragma once

// A stack of encoder layers without embeddings (PyTorch's nn.TransformerEncoder, the encoders of
// Dive into Deep Learning):
//
//   y = final_norm(layer_{L-1}(... layer_0(x)))      x, y: (B, T, hidden_size)
//
// The final norm is an option: pre-norm stacks usually have one, post-norm stacks end with their
// last layer's own (PyTorch's nn.Transformer has both). No layers: the identity, or the final norm
// alone.

#include <optional>
#include <vector>

#include "eigenformer/nn/encoder_layer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct EncoderStackConfig {
  Index hidden_size = 0;
  Index num_hidden_layers = 1;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  NormPlacement norm_placement = NormPlacement::post;
  bool final_norm = false;
  double layer_norm_eps = 1e-5;
  double rms_norm_eps = 1e-5;
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool norm_bias = true;
  std::optional<double> attention_scale = {};
  AttentionPositions attention_positions = {};
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;  // 0: none
  Index sliding_window = 0;           // 0: none
  double attention_probs_dropout_prob = 0;
  double activation_dropout_prob = 0;
  double hidden_dropout_prob = 0;
};

/// Layers of a model with these fields, all alike. A table of relative biases is the model's.
/// Throws for a negative number of layers.
template <class Layer, class LayerConfig, class ModelConfig>
std::vector<Layer> make_layers(const ModelConfig& config) {
  constexpr Index most = 1'000'000;
  require(config.num_hidden_layers >= 0 && config.num_hidden_layers <= most,
          "num_hidden_layers must be in [0, ", most, "]; got ", config.num_hidden_layers);
  LayerConfig layer = LayerConfig::from(config);
  layer.attention_positions = layer.attention_positions.without_table();
  std::vector<Layer> layers;
  layers.reserve(static_cast<std::size_t>(config.num_hidden_layers));
  for (Index i = 0; i < config.num_hidden_layers; ++i) layers.emplace_back(layer);
  return layers;
}

template <class Layer, class ModelConfig>
std::vector<Layer> make_encoder_layers(const ModelConfig& config) {
  return make_layers<Layer, EncoderLayerConfig>(config);
}

/// The final norm of a model with these fields, if it has one.
template <class Norm, class ModelConfig>
std::optional<Norm> make_final_norm(const ModelConfig& config) {
  if (!config.final_norm) return std::nullopt;
  return Norm(Norm::config_from(config));
}

/// Throws unless the mask is one for T tokens of B rows that see S keys in the layers of a stack.
template <class Stack, class T>
void require_stack_mask(std::string_view who, const Stack& stack, const Mask<T>& mask, Index batch,
                        Index tokens, Index keys) {
  std::remove_cvref_t<decltype(*stack.relative_bias)>::require_place(who, stack.relative_bias,
                                                                     mask);
  kernels::require_valid_mask(who, mask, {batch, stack.config.num_attention_heads, tokens, keys});
}

/// Sends `y` through the layers and the norm, in place. `run(layer, i, from, to)` runs one layer.
template <class Layer, class Norm, class T, class Run>
void run_layers(const std::vector<Layer>& layers, const std::optional<Norm>& final_norm,
                TensorView<T, 3> y, Workspace& workspace, Run&& run) {
  if (!layers.empty()) {
    Scratch scratch(workspace);
    TensorView<T, 3> from = y, to = scratch.tensor<T, 3>(y.shape());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      run(layers[i], i, TensorView<const T, 3>(from), to);
      std::swap(from, to);
    }
    if (from.data() != y.data()) std::copy(from.begin(), from.end(), y.begin());
  }
  if (final_norm) final_norm->forward(y, y, workspace);
}

/// Sends `y` through the layers and the norm of an encoder, in place.
template <class Encoder, class T>
void run_encoder(const Encoder& encoder, Mask<T> mask, TensorView<T, 3> y, Workspace& workspace) {
  Scratch scratch(workspace);
  if (encoder.relative_bias) mask = encoder.relative_bias->add_to(mask, scratch);
  run_layers(encoder.layers, encoder.final_norm, y, workspace,
             [&](const auto& layer, std::size_t, TensorView<const T, 3> from, TensorView<T, 3> to) {
               layer.forward(from, mask, to, workspace);
             });
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct EncoderStack {
  using Scalar = ScalarOf<Format>;
  using Layer = EncoderLayer<Format, Norm, FeedForwardNetwork>;
  template <class F>
  using WithFormat = EncoderStack<F, Norm, FeedForwardNetwork>;

  EncoderStackConfig config;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit EncoderStack(const EncoderStackConfig& config_)
      : config(config_),
        layers(make_encoder_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {
    if (config.attention_positions.has_relative_bias())
      relative_bias.emplace(RelativeBias<Format>::config_from(config, true));
  }

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("relative_bias", stack.relative_bias...);
    f("layers", stack.layers...);
    f("final_norm", stack.final_norm...);
  }

  /// y must not overlap x.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require_shape("EncoderStack: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("EncoderStack: y", y.shape(), x.shape());
    require_disjoint("EncoderStack", y, x);
    require_stack_mask("EncoderStack", *this, mask, x.dim(0), x.dim(1), x.dim(1));
    std::copy(x.begin(), x.end(), y.begin());
    run_encoder(*this, mask, y, workspace);
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
