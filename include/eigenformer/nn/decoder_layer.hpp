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

#include "eigenformer/nn/decoder_layer_cache.hpp"
#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "eigenformer/nn/observer.hpp"
#include "eigenformer/nn/residual_branch.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct DecoderLayer {
  using Scalar = ScalarOf<Format>;
  using Cache = DecoderLayerCache<Scalar>;
  using Input = TensorView<const Scalar, 3>;
  using Result = TensorView<Scalar, 3>;
  using LayerNorms = internal::CheckedPart<Norm<Format>, LayerNorm<Format>>;
  using LayerFeedForward = internal::CheckedPart<FeedForwardNetwork<Format>, FeedForward<Format>>;
  using Counts = std::optional<IntegerSequence>;
  static constexpr LayerPlace::Half half = LayerPlace::Half::decoder;
  template <class F>
  using WithFormat = DecoderLayer<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  LayerNorms self_attention_norm;
  MultiHeadAttention<Format> self_attention;
  std::optional<LayerNorms> cross_attention_norm;
  std::optional<MultiHeadAttention<Format>> cross_attention;
  LayerNorms feed_forward_norm;
  LayerFeedForward feed_forward;

  explicit DecoderLayer(const TransformerConfig& config_)
      : config(config_.with_defaults(layer_defaults())),
        self_attention_norm(LayerNorms::config_from(config)),
        self_attention(MultiHeadAttentionConfig::self_attention(config, false)),
        feed_forward_norm(LayerNorms::config_from(config)),
        feed_forward(LayerFeedForward::config_from(config)) {
    if (!config.cross_attention) return;
    cross_attention_norm.emplace(LayerNorms::config_from(config));
    cross_attention.emplace(MultiHeadAttentionConfig::cross_attention(config));
  }
  EIGENFORMER_STRONG_COPIES(DecoderLayer)

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
  void forward(Input x, const Mask<Scalar>& mask, Result y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require(!config.cross_attention,
            "DecoderLayer: cross_attention is true, but no memory is given");
    require_call(x, mask, x.dim(1), y);
    run(x, std::nullopt, mask, {}, y, observer.in(half), workspace);
  }
  void forward(Input x, const Mask<Scalar>& mask, Result y, Workspace& workspace) const {
    forward(x, mask, y, Observer<Scalar>(), workspace);
  }

  /// With memory (B, S, key_value_size), which `memory_mask` is for.
  void forward(Input x, Input memory, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderLayer: a memory is given, but cross_attention is false");
    require_call(x, mask, x.dim(1), y);
    require_shape("DecoderLayer: memory", memory.shape(),
                  {x.dim(0), memory.dim(1), config.memory_size()});
    require_disjoint("DecoderLayer", {y}, {memory});
    require_memory_mask(x, memory_mask, memory.dim(1));
    run(x, memory, mask, memory_mask, y, observer.in(half), workspace);
  }
  void forward(Input x, Input memory, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, Workspace& workspace) const {
    forward(x, memory, mask, memory_mask, y, Observer<Scalar>(), workspace);
  }

  /// With a cache, to which the tokens are appended (of batch row b the first token_counts[b],
  /// default all), after `remember` if there is cross-attention. A call that throws changes nothing.
  void forward(Input x, const Counts& token_counts, Cache& cache, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Result y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    internal::require_cache(self_attention, x.dim(0), cache.self);
    cache.self.require_room(x.dim(1), token_counts);
    internal::require_no_offset(mask);
    require_call(x, mask, cache.self.longest_after(x.dim(1), token_counts), y);
    if (cross_attention) {
      require(cache.has_memory,
              "DecoderLayer: cross_attention is true, but the cache has no memory: call remember "
              "first");
      internal::require_cache(*cross_attention, x.dim(0), cache.memory);
      require_memory_mask(x, memory_mask, cache.memory.longest());
    }
    run(x, token_counts, cache, mask, memory_mask, y, observer.in(half), workspace);
    cache.self.commit(x.dim(1), token_counts);
  }
  void forward(Input x, const Counts& token_counts, Cache& cache, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Result y, Workspace& workspace) const {
    forward(x, token_counts, cache, mask, memory_mask, y, Observer<Scalar>(), workspace);
  }
  void forward(Input x, Cache& cache, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, Workspace& workspace) const {
    forward(x, std::nullopt, cache, mask, memory_mask, y, workspace);
  }

  /// The first two for stacks, which have checked the arguments.
  void run(Input x, const std::optional<Input>& memory, const Mask<Scalar>& mask,
           const Mask<Scalar>& memory_mask, Result y, const LayerObserver<Scalar>& observer,
           Workspace& workspace) const {
    run_branches(
        x, x.dim(1), memory ? memory->dim(1) : 0, y, observer, workspace,
        [&](Input from, Result to, const Weights& attention_weights) {
          self_attention.run(from, from, from, causal(mask), to, attention_weights, workspace);
        },
        [&](Input from, Result to, const Weights& attention_weights) {
          cross_attention->run(from, *memory, *memory, memory_mask, to, attention_weights,
                               workspace);
        });
  }

  /// The third likewise; stacks commit the tokens to the cache when all is done.
  void run(Input x, const Counts& token_counts, Cache& cache, const Mask<Scalar>& mask,
           const Mask<Scalar>& memory_mask, Result y, const LayerObserver<Scalar>& observer,
           Workspace& workspace) const {
    run_branches(
        x, cache.self.longest_after(x.dim(1), token_counts), cache.memory.longest(), y, observer,
        workspace,
        [&](Input from, Result to, const Weights& attention_weights) {
          self_attention.run_uncommitted(from, token_counts, cache.self, causal(mask), to,
                                         attention_weights, workspace);
        },
        [&](Input from, Result to, const Weights& attention_weights) {
          cross_attention->run(from, cache.memory, memory_mask, to, attention_weights, workspace);
        });
  }

  /// Room for `capacity` tokens of each batch row and a memory of `memory_capacity` tokens.
  Cache make_cache(Index batch, Index capacity, Index memory_capacity = 0) const {
    Cache cache{self_attention.make_cache(batch, capacity), {}, false};
    if (cross_attention) cache.memory = cross_attention->make_cache(batch, memory_capacity);
    return cache;
  }

  /// Computes the keys and values of a memory (B, S, key_value_size), once for all tokens; of batch
  /// row b the first token_counts[b] (default: all) are real.
  void remember(Input memory, const Counts& token_counts, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderLayer: a memory is given, but cross_attention is false");
    cross_attention->replace(memory, memory, token_counts, cache.memory, workspace);
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
  using Weights = std::optional<TensorView<Scalar, 4>>;

  static Mask<Scalar> causal(Mask<Scalar> mask) {
    mask.causal = true;
    return mask;
  }

  /// `keys`: how many keys self-attention sees.
  void require_call(Input x, const Mask<Scalar>& mask, Index keys, Result y) const {
    require_shape("DecoderLayer: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("DecoderLayer: y", y.shape(), x.shape());
    require_disjoint("DecoderLayer", {y}, {x});
    require(mask.query_offset <= 0,
            "DecoderLayer: mask.query_offset must not be > 0, queries would see later tokens; got ",
            mask.query_offset);
    kernels::require_valid_mask("DecoderLayer", mask, self_attention.scores_shape(x, keys));
    require(cross_attention.has_value() == config.cross_attention,
            "DecoderLayer: the parameters don't fit the configuration's cross_attention");
  }

  void require_memory_mask(Input x, const Mask<Scalar>& memory_mask, Index keys) const {
    kernels::require_no_sequences("DecoderLayer: memory", memory_mask);
    kernels::require_valid_mask("DecoderLayer: memory", memory_mask,
                                cross_attention->scores_shape(x, keys));
  }

  /// `keys`, `memory_keys`: how many there are for the attention weights.
  template <class SelfAttend, class CrossAttend>
  void run_branches(Input x, Index keys, Index memory_keys, Result y,
                    const LayerObserver<Scalar>& observer, Workspace& workspace,
                    SelfAttend&& attend_to_self, CrossAttend&& attend_to_memory) const {
    const auto observed = [&](LayerPlace::Attention which, const auto& attention, Index count,
                              auto& attend) {
      return [&, which, count](Input from, Result to) {
        observe_attention(observer, which, attention.scores_shape(from, count), workspace,
                          [&](const Weights& weights) { attend(from, to, weights); });
      };
    };
    const NormPlacement placement = config.norm_placement;
    Scratch scratch(workspace);
    Result h = scratch.tensor<Scalar, 3>(x.shape());
    observer.see_hidden_states(x);
    add_branch<Scalar>(placement, self_attention_norm, x, h, workspace,
                       observed(LayerPlace::Attention::self, self_attention, keys, attend_to_self));
    if (cross_attention) {
      const Result g = scratch.tensor<Scalar, 3>(x.shape());
      add_branch<Scalar>(
          placement, *cross_attention_norm, h, g, workspace,
          observed(LayerPlace::Attention::cross, *cross_attention, memory_keys, attend_to_memory));
      h = g;
    }
    add_branch<Scalar>(placement, feed_forward_norm, h, y, workspace,
                       [&](Input from, Result to) { feed_forward.forward(from, to, workspace); });
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
