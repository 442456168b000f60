// SPDX-License-Identifier: MIT
#pragma once

// Multi-head attention (Vaswani et al. 2017), self and cross, with grouped key/value heads (Ainslie
// et al. 2023):
//
//   y = output(concat over h of softmax(scale * q_h k_g^T + bias, masked) v_g)
//   q = query(x) (B, T, H D)   k = key(m) (B, S, K D)   v = value(m) (B, S, K D)   g = h / (H / K)
//
//   x, y: (B, T, hidden_size)   m, the memory: (B, S, key_value_size); x itself in self-attention
//
// Head h has columns h D ... (h + 1) D - 1. By configuration queries and keys are normalized head by
// head, then rotated by their positions, or positions enter the scores (nn/attention_positions.hpp).
// Query t has position mask.query_offset + t, key j position j.
//
// Masks: kernels/mask.hpp. A query that sees no key gets the output projection's bias.
//
// `attention_weights`, when given, receives the probabilities (B, H, T, S); y has the same bits with
// and without.
//
// With a cache (nn/key_value_cache.hpp) the keys and values of earlier calls are seen as well: the
// results are the bits of one call with all tokens.

#include <optional>

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/nn/attention_checks.hpp"
#include "eigenformer/nn/attention_with_cache.hpp"
#include "eigenformer/nn/attention_without_cache.hpp"
#include "eigenformer/nn/distance_embedding.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/relative_bias.hpp"
#include "eigenformer/nn/rms_norm.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format>
struct MultiHeadAttention {
  using Scalar = ScalarOf<Format>;
  using Cache = KeyValueCache<Scalar>;
  using Input = TensorView<const Scalar, 3>;
  using Result = TensorView<Scalar, 3>;
  using Weights = std::optional<TensorView<Scalar, 4>>;
  template <class F>
  using WithFormat = MultiHeadAttention<F>;

  MultiHeadAttentionConfig config;
  Linear<Format> query;
  Linear<Format> key;
  Linear<Format> value;
  Linear<Format> output;
  std::optional<RMSNorm<Format>> query_norm;                    // over head_size, if query_key_norm
  std::optional<RMSNorm<Format>> key_norm;                      // likewise
  std::optional<RelativeBias<Format>> relative_bias;            // if attention_positions has one
  std::optional<DistanceEmbedding<Format>> distance_embedding;  // for relative_key*

  /// Throws std::invalid_argument with the numbers for heads that don't divide, zero or negative
  /// sizes.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config_)
      : config(internal::checked(config_)),
        query({config.hidden_size, config.query_features(), config.query_bias}),
        key({config.key_input_size(), config.key_value_features(), config.key_bias}),
        value({config.value_input_size(), config.key_value_features(), config.value_bias}),
        output({config.query_features(), config.hidden_size, config.output_bias}) {
    if (config.attention_positions.has_relative_bias()) {
      relative_bias.emplace(RelativeBiasConfig::from(
          config.attention_positions, config.num_attention_heads, config.bidirectional));
    }
    if (config.query_key_norm) {
      query_norm.emplace(RMSNormConfig{config.size_of_head(), config.rms_norm_eps});
      key_norm.emplace(query_norm->config);
    }
    if (config.attention_positions.embeds_offsets()) {
      distance_embedding.emplace(DistanceEmbeddingConfig{
          config.attention_positions.max_position_embeddings, config.size_of_head()});
    }
  }
  EIGENFORMER_STRONG_COPIES(MultiHeadAttention)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("query", layer.query...);
    f("key", layer.key...);
    f("value", layer.value...);
    f("output", layer.output...);
    f("query_norm", layer.query_norm...);
    f("key_norm", layer.key_norm...);
    f("relative_bias", layer.relative_bias...);
    f("distance_embedding", layer.distance_embedding...);
  }

  /// Queries from x (B, T, hidden_size), keys and values from memories (B, S, ...) that may differ;
  /// y (B, T, hidden_size) must overlap none of them.
  void forward(Input x, Input key_memory, Input value_memory, const Mask<Scalar>& mask, Result y,
               const Weights& attention_weights, Workspace& workspace) const {
    internal::require_memories(*this, x.dim(0), key_memory, value_memory);
    internal::require_queries(*this, x, key_memory.dim(1), mask, y, attention_weights);
    if (key_memory.data() != x.data() || value_memory.data() != x.data())
      kernels::require_no_sequences("MultiHeadAttention", mask);
    require_disjoint("MultiHeadAttention", {y, attention_weights},
                     {x, key_memory, value_memory, mask.bias});
    run(x, key_memory, value_memory, mask, y, attention_weights, workspace);
  }
  void forward(Input x, Input key_memory, Input value_memory, const Mask<Scalar>& mask, Result y,
               Workspace& workspace) const {
    forward(x, key_memory, value_memory, mask, y, std::nullopt, workspace);
  }
  /// Keys and values from one memory.
  void forward(Input x, Input memory, const Mask<Scalar>& mask, Result y,
               Workspace& workspace) const {
    forward(x, memory, memory, mask, y, std::nullopt, workspace);
  }
  /// Self-attention.
  void forward(Input x, const Mask<Scalar>& mask, Result y, Workspace& workspace) const {
    forward(x, x, x, mask, y, std::nullopt, workspace);
  }

  /// The same for layers, which have checked the arguments.
  void run(Input x, Input key_memory, Input value_memory, const Mask<Scalar>& mask, Result y,
           const Weights& attention_weights, Workspace& workspace) const {
    internal::require_attention_parameters(*this);
    internal::attend_without_cache(*this, x, key_memory, value_memory, mask, y, attention_weights,
                                   workspace);
  }

  /// An empty cache for this attention.
  Cache make_cache(Index batch, Index capacity) const {
    return Cache({batch, capacity, config.key_value_heads(), config.size_of_head()});
  }

  /// Self-attention of tokens that follow those in the cache: their keys and values are appended,
  /// and they see what the cache then holds, as far as the mask allows. Token t of batch row b
  /// has position cache.length(b) + t, so mask.query_offset must be 0; the mask's S is the length of
  /// the longest row. Of row b only the first token_counts[b] tokens (default: all) are appended; the
  /// others are padding and get no meaningful y. A call that throws changes nothing.
  void forward(Input x, const std::optional<IntegerSequence>& token_counts, Cache& cache,
               const Mask<Scalar>& mask, Result y, const Weights& attention_weights,
               Workspace& workspace) const {
    internal::require_cache(*this, x.dim(0), cache);
    internal::require_memories(*this, x.dim(0), x, x);
    internal::require_no_offset(mask);
    cache.require_room(x.dim(1), token_counts);
    internal::require_queries(*this, x, cache.longest_after(x.dim(1), token_counts), mask, y,
                              attention_weights);
    require_disjoint("MultiHeadAttention", {y, attention_weights}, {x, mask.bias});
    run_uncommitted(x, token_counts, cache, mask, y, attention_weights, workspace);
    cache.commit(x.dim(1), token_counts);
  }
  void forward(Input x, const std::optional<IntegerSequence>& token_counts, Cache& cache,
               const Mask<Scalar>& mask, Result y, Workspace& workspace) const {
    forward(x, token_counts, cache, mask, y, std::nullopt, workspace);
  }
  void forward(Input x, Cache& cache, const Mask<Scalar>& mask, Result y,
               Workspace& workspace) const {
    forward(x, std::nullopt, cache, mask, y, std::nullopt, workspace);
  }

  /// The same for layers, which have checked the arguments and commit the tokens to the cache at the end.
  void run_uncommitted(Input x, const std::optional<IntegerSequence>& token_counts, Cache& cache,
                       const Mask<Scalar>& mask, Result y, const Weights& attention_weights,
                       Workspace& workspace) const {
    internal::require_attention_parameters(*this);
    internal::attend_with_cache(*this, x, token_counts, cache, mask, y, attention_weights,
                                workspace);
  }

  /// Appends the keys and values of memories (B, S, ...) to the cache, of row b the first
  /// token_counts[b] (default: all). For cross-attention, which needs them once: a memory whose rows
  /// differ in length needs no mask then. A call that throws changes nothing.
  void append(Input key_memory, Input value_memory,
              const std::optional<IntegerSequence>& token_counts, Cache& cache,
              Workspace& workspace) const {
    internal::require_memories_for(*this, key_memory, value_memory, cache);
    internal::append_memories(*this, key_memory, value_memory, token_counts, cache, workspace);
  }

  /// The same in place of what the cache holds: another memory. It is made beside the old one.
  void replace(Input key_memory, Input value_memory,
               const std::optional<IntegerSequence>& token_counts, Cache& cache,
               Workspace& workspace) const {
    internal::require_memories_for(*this, key_memory, value_memory, cache);
    stage_replacement(key_memory, value_memory, token_counts, cache.capacity(), cache, workspace);
    cache.commit_staged();
  }

  /// The first half of `replace`, which may throw, with a new capacity.
  void stage_replacement(Input key_memory, Input value_memory,
                         const std::optional<IntegerSequence>& token_counts, Index capacity,
                         Cache& cache, Workspace& workspace) const {
    internal::stage_memories(*this, key_memory, value_memory, token_counts, capacity, cache,
                             workspace);
  }

  /// Attention of x to what the cache holds.
  void attend(Input x, const Cache& cache, const Mask<Scalar>& mask, Result y,
              const Weights& attention_weights, Workspace& workspace) const {
    internal::require_cache(*this, x.dim(0), cache);
    kernels::require_no_sequences("MultiHeadAttention", mask);
    internal::require_queries(*this, x, cache.longest(), mask, y, attention_weights);
    require_disjoint("MultiHeadAttention", {y, attention_weights}, {x, mask.bias});
    run(x, cache, mask, y, attention_weights, workspace);
  }
  void attend(Input x, const Cache& cache, const Mask<Scalar>& mask, Result y,
              Workspace& workspace) const {
    attend(x, cache, mask, y, std::nullopt, workspace);
  }

  /// The same for layers, which have checked the arguments.
  void run(Input x, const Cache& cache, const Mask<Scalar>& mask, Result y,
           const Weights& attention_weights, Workspace& workspace) const {
    internal::require_attention_parameters(*this);
    internal::attend_to_cache(*this, x, cache, mask, y, attention_weights, workspace);
  }

  /// Self-attention, then cross-attention with one memory and with two.
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    return (*this)(x, x, x, mask);
  }
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                               const Mask<Scalar>& mask = {}) const {
    return (*this)(x, memory, memory, mask);
  }
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& key_memory,
                               const Tensor<Scalar, 3>& value_memory,
                               const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, key_memory, value_memory, mask, y, workspace);
    return y;
  }

  /// (B, H, T, S) for x (B, T, ...) and S keys.
  Shape<4> scores_shape(Input x, Index keys) const {
    return {x.dim(0), config.num_attention_heads, x.dim(1), keys};
  }

  /// The probabilities (B, H, T, S) with which the queries of x see the keys of the memory.
  Tensor<Scalar, 4> attention_weights(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                                      const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Tensor<Scalar, 4> result(scores_shape(x, memory.dim(1)));
    Workspace workspace;
    forward(x, memory, memory, mask, y, result, workspace);
    return result;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
