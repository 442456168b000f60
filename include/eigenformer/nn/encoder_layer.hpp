// SPDX-License-Identifier: MIT
#pragma once

// A layer of a transformer's encoder: self-attention and a feed-forward network, each a branch
// beside a residual connection.
//
//   pre:   h = x + attention(attention_norm(x))   y = h + feed_forward(feed_forward_norm(h))
//   post:  h = attention_norm(x + attention(x))   y = feed_forward_norm(h + feed_forward(h))
//
// pre: GPT-2, ViT (Xiong et al. 2020). post: BERT (Vaswani et al. 2017).
//
//   x, y: (B, T, hidden_size)
//
// Norms are named after the branch that they guard, in either order; with the same parameters the
// two orders differ only in where the norms stand. Norm and feed-forward are template parameters:
// EncoderLayer<float, RMSNorm, GatedFeedForward>.

#include <optional>

#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "eigenformer/nn/residual_branch.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct EncoderLayerConfig {
  Index hidden_size = 0;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  NormPlacement norm_placement = NormPlacement::post;
  double layer_norm_eps = 1e-5;
  double rms_norm_eps = 1e-5;
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool norm_bias = true;
  std::optional<double> attention_scale = {};  // default 1 / sqrt(head size)
  AttentionPositions attention_positions = {};
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;        // 0: none
  Index sliding_window = 0;                 // 0: none
  double attention_probs_dropout_prob = 0;  // training: on the attention weights
  double activation_dropout_prob = 0;       // training: inside the feed-forward
  double hidden_dropout_prob = 0;           // training: on the result of each branch

  /// The layers of a model with these fields.
  template <class ModelConfig>
  static EncoderLayerConfig from(const ModelConfig& c) {
    return {.hidden_size = c.hidden_size,
            .num_attention_heads = c.num_attention_heads,
            .num_key_value_heads = c.num_key_value_heads,
            .head_size = c.head_size,
            .intermediate_size = c.intermediate_size,
            .activation = c.activation,
            .norm_placement = c.norm_placement,
            .layer_norm_eps = c.layer_norm_eps,
            .rms_norm_eps = c.rms_norm_eps,
            .query_bias = c.query_bias,
            .key_bias = c.key_bias,
            .value_bias = c.value_bias,
            .output_bias = c.output_bias,
            .feed_forward_bias = c.feed_forward_bias,
            .norm_bias = c.norm_bias,
            .attention_scale = c.attention_scale,
            .attention_positions = c.attention_positions,
            .query_key_norm = c.query_key_norm,
            .attn_logit_softcapping = c.attn_logit_softcapping,
            .sliding_window = c.sliding_window,
            .attention_probs_dropout_prob = c.attention_probs_dropout_prob,
            .activation_dropout_prob = c.activation_dropout_prob,
            .hidden_dropout_prob = c.hidden_dropout_prob};
  }
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct EncoderLayer {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = EncoderLayer<F, Norm, FeedForwardNetwork>;

  EncoderLayerConfig config;
  Norm<Format> attention_norm;
  MultiHeadAttention<Format> attention;
  Norm<Format> feed_forward_norm;
  FeedForwardNetwork<Format> feed_forward;

  explicit EncoderLayer(const EncoderLayerConfig& config_)
      : config(config_),
        attention_norm(Norm<Format>::config_from(config)),
        attention(MultiHeadAttention<Format>::config_from(config)),
        feed_forward_norm(Norm<Format>::config_from(config)),
        feed_forward(FeedForwardNetwork<Format>::config_from(config)) {}

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("attention_norm", layer.attention_norm...);
    f("attention", layer.attention...);
    f("feed_forward_norm", layer.feed_forward_norm...);
    f("feed_forward", layer.feed_forward...);
  }

  /// y must not overlap x. `weights`, when it views something, receives the attention's
  /// probabilities (B, H, T, T).
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace, TensorView<Scalar, 4> weights = {}) const {
    require_shape("EncoderLayer: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("EncoderLayer: y", y.shape(), x.shape());
    require_disjoint("EncoderLayer", y, x);
    require_disjoint("EncoderLayer: weights", weights, x);
    require_disjoint("EncoderLayer: weights", weights, y);
    Scratch scratch(workspace);
    const auto h = scratch.tensor<Scalar, 3>(x.shape());
    using Input = TensorView<const Scalar, 3>;
    using Result = TensorView<Scalar, 3>;
    add_branch<Scalar>(config.norm_placement, attention_norm, x, h, workspace,
                       [&](Input from, Result to) {
                         attention.forward(from, from, from, mask, to, workspace, weights);
                       });
    add_branch<Scalar>(config.norm_placement, feed_forward_norm, h, y, workspace,
                       [&](Input from, Result to) { feed_forward.forward(from, to, workspace); });
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
