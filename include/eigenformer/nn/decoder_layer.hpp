// SPDX-License-Identifier: MIT
#pragma once

// A layer of a transformer's decoder: causal self-attention, attention to a memory (by option), and
// a feed-forward network, each a branch beside a residual connection (nn/residual_branch.hpp):
//
//   h = self_attention(x)   g = cross_attention(h, memory)   y = feed_forward(g)
//
//   x, y: (B, T, hidden_size)   memory: (B, S, key_value_size), an encoder's result
//
// Self-attention is causal whatever the mask says; a mask.query_offset > 0, with which it wouldn't
// be, is refused. The memory isn't normalized by the layer. Norms are named after the branch that
// they guard, in either order. Norm and feed-forward are template parameters: DecoderLayer<float,
// RMSNorm, GatedFeedForward>.

#include <optional>

#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "eigenformer/nn/residual_branch.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct DecoderLayerConfig {
  Index hidden_size = 0;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  bool cross_attention = false;
  Index key_value_size = 0;  // width of the memory; 0: hidden_size
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
  std::optional<double> attention_scale = {};   // default 1 / sqrt(head size)
  AttentionPositions attention_positions = {};  // of the self-attention
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;        // 0: none
  Index sliding_window = 0;                 // of the self-attention; 0: none
  double attention_probs_dropout_prob = 0;  // training: on the attention weights
  double activation_dropout_prob = 0;       // training: inside the feed-forward
  double hidden_dropout_prob = 0;           // training: on the result of each branch

  /// The layers of a model with these fields.
  template <class ModelConfig>
  static DecoderLayerConfig from(const ModelConfig& c) {
    return {.hidden_size = c.hidden_size,
            .num_attention_heads = c.num_attention_heads,
            .num_key_value_heads = c.num_key_value_heads,
            .head_size = c.head_size,
            .intermediate_size = c.intermediate_size,
            .cross_attention = c.cross_attention,
            .key_value_size = c.key_value_size,
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

  MultiHeadAttentionConfig self_attention_config() const {
    auto c = MultiHeadAttentionConfig::from(*this);
    c.bidirectional = false;
    return c;
  }
  MultiHeadAttentionConfig cross_attention_config() const {
    auto c = MultiHeadAttentionConfig::from(*this);
    c.key_value_size = key_value_size;
    c.attention_positions = {};
    c.sliding_window = 0;
    return c;
  }
};

/// What a layer keeps of the tokens so far, and of the memory.
template <class T>
struct DecoderLayerCache {
  KeyValueCache<T> self;
  KeyValueCache<T> memory;
  bool has_memory = false;
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct DecoderLayer {
  using Scalar = ScalarOf<Format>;
  using Cache = DecoderLayerCache<Scalar>;
  template <class F>
  using WithFormat = DecoderLayer<F, Norm, FeedForwardNetwork>;

  DecoderLayerConfig config;
  Norm<Format> self_attention_norm;
  MultiHeadAttention<Format> self_attention;
  std::optional<Norm<Format>> cross_attention_norm;
  std::optional<MultiHeadAttention<Format>> cross_attention;
  Norm<Format> feed_forward_norm;
  FeedForwardNetwork<Format> feed_forward;

  explicit DecoderLayer(const DecoderLayerConfig& config_)
      : config(config_),
        self_attention_norm(Norm<Format>::config_from(config)),
        self_attention(config.self_attention_config()),
        feed_forward_norm(Norm<Format>::config_from(config)),
        feed_forward(FeedForwardNetwork<Format>::config_from(config)) {
    if (!config.cross_attention) return;
    cross_attention_norm.emplace(Norm<Format>::config_from(config));
    cross_attention.emplace(config.cross_attention_config());
  }

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("self_attention_norm", layer.self_attention_norm...);
    f("self_attention", layer.self_attention...);
    f("cross_attention_norm", layer.cross_attention_norm...);
    f("cross_attention", layer.cross_attention...);
    f("feed_forward_norm", layer.feed_forward_norm...);
    f("feed_forward", layer.feed_forward...);
  }

  /// Without memory. y must not overlap x.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require(!config.cross_attention,
            "DecoderLayer: cross_attention is true, but no memory is given");
    require_causal(mask);
    run(x, y, workspace, attend_to_self(mask, workspace), [](Input, Result) {});
  }

  /// With memory (B, S, key_value_size), which `memory_mask` is for.
  void forward(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> memory,
               const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderLayer: a memory is given, but cross_attention is false");
    require_disjoint("DecoderLayer", y, memory);
    require_causal(mask);
    const auto attend = [&](Input from, Result to) {
      cross_attention->forward(from, memory, memory, memory_mask, to, workspace);
    };
    run(x, y, workspace, attend_to_self(mask, workspace), attend);
  }

  /// With a cache, to which the tokens are appended (of batch row b the first counts[b], default
  /// all), after `remember` if there is cross-attention.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Cache& cache, TensorView<Scalar, 3> y,
               Workspace& workspace, const IntegerSequence& counts = {}) const {
    require_x_and_y(x, y);
    if (cross_attention) {
      require(cache.has_memory,
              "DecoderLayer: cross_attention is true, but the cache has no memory: call remember "
              "first");
      cross_attention->require_attendable(x, memory_mask, cache.memory);
    }
    const auto attend_to_past = [&](Input from, Result to) {
      self_attention.forward(from, causal(mask), cache.self, to, workspace, counts);
    };
    const auto attend_to_memory = [&](Input from, Result to) {
      cross_attention->attend(from, memory_mask, cache.memory, nullptr, to, workspace);
    };
    run(x, y, workspace, attend_to_past, attend_to_memory);
  }

  /// Room for `capacity` tokens of each batch row and a memory of `memory_capacity` tokens.
  Cache make_cache(Index batch, Index capacity, Index memory_capacity = 0) const {
    Cache cache{self_attention.make_cache(batch, capacity), {}, false};
    if (cross_attention) cache.memory = cross_attention->make_cache(batch, memory_capacity);
    return cache;
  }

  /// Computes the keys and values of a memory (B, S, key_value_size), once for all tokens; of batch
  /// row b the first counts[b] (default: all) are real.
  void remember(TensorView<const Scalar, 3> memory, const IntegerSequence& counts, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderLayer: a memory is given, but cross_attention is false");
    cross_attention->replace(memory, memory, counts, cache.memory, workspace);
    cache.has_memory = true;
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, mask, y, workspace);
    return y;
  }
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                               const Mask<Scalar>& mask = {},
                               const Mask<Scalar>& memory_mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, memory, mask, memory_mask, y, workspace);
    return y;
  }

 private:
  using Input = TensorView<const Scalar, 3>;
  using Result = TensorView<Scalar, 3>;

  static Mask<Scalar> causal(Mask<Scalar> mask) {
    mask.causal = true;
    return mask;
  }

  auto attend_to_self(const Mask<Scalar>& mask, Workspace& workspace) const {
    return [this, mask = causal(mask), &workspace](Input from, Result to) {
      self_attention.forward(from, mask, to, workspace);
    };
  }

  static void require_causal(const Mask<Scalar>& mask) {
    require(mask.query_offset <= 0,
            "DecoderLayer: mask.query_offset must not be > 0, queries would see later tokens; got ",
            mask.query_offset);
  }

  void require_x_and_y(Input x, Result y) const {
    require_shape("DecoderLayer: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("DecoderLayer: y", y.shape(), x.shape());
    require_disjoint("DecoderLayer", y, x);
  }

  template <class SelfAttend, class CrossAttend>
  void run(Input x, Result y, Workspace& workspace, SelfAttend&& attend_to_self,
           CrossAttend&& attend_to_memory) const {
    require_x_and_y(x, y);
    const NormPlacement placement = config.norm_placement;
    Scratch scratch(workspace);
    Result h = scratch.tensor<Scalar, 3>(x.shape());
    add_branch<Scalar>(placement, self_attention_norm, x, h, workspace, attend_to_self);
    if (cross_attention) {
      const Result g = scratch.tensor<Scalar, 3>(x.shape());
      add_branch<Scalar>(placement, *cross_attention_norm, h, g, workspace, attend_to_memory);
      h = g;
    }
    add_branch<Scalar>(placement, feed_forward_norm, h, y, workspace,
                       [&](Input from, Result to) { feed_forward.forward(from, to, workspace); });
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
