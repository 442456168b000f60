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
// Head h owns columns h D ... (h + 1) D - 1. By configuration queries and keys are normalized head
// by head, then turned by their positions, or positions enter the scores
// (nn/attention_positions.hpp). Query t stands at position mask.query_offset + t, key j at j.
//
// Masks: kernels/mask.hpp. A query that sees no key gets the output projection's bias. One function
// computes y whether or not the weights are asked for, so asking changes nothing.
//
// With a cache (nn/key_value_cache.hpp) the keys and values of earlier calls count as well: the
// results are the bits of one call with all tokens.

#include <cmath>
#include <optional>
#include <span>

#include "eigenformer/kernels/alibi.hpp"
#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/kernels/rotary.hpp"
#include "eigenformer/nn/attention_config.hpp"
#include "eigenformer/nn/distance_embedding.hpp"
#include "eigenformer/nn/key_value_cache.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/relative_bias.hpp"
#include "eigenformer/nn/rms_norm.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format>
struct MultiHeadAttention {
  using Scalar = ScalarOf<Format>;
  using Cache = KeyValueCache<Scalar>;
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

  /// The attention of a layer or model with these fields.
  template <class LayerConfig>
  static MultiHeadAttentionConfig config_from(const LayerConfig& c) {
    return MultiHeadAttentionConfig::from(c);
  }

  /// Throws std::invalid_argument with the numbers for heads that don't divide, zero or negative
  /// sizes.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config_)
      : config(internal::checked(config_)),
        query({config.hidden_size, config.num_attention_heads * config.size_of_head(),
               config.query_bias}),
        key({config.key_input_size(), config.key_value_heads() * config.size_of_head(),
             config.key_bias}),
        value({config.value_input_size(), config.key_value_heads() * config.size_of_head(),
               config.value_bias}),
        output({config.num_attention_heads * config.size_of_head(), config.hidden_size,
                config.output_bias}) {
    if (config.attention_positions.has_relative_bias())
      relative_bias.emplace(RelativeBias<Format>::config_from(config, config.bidirectional));
    if (config.query_key_norm) {
      query_norm.emplace(RMSNormConfig{config.size_of_head(), config.rms_norm_eps});
      key_norm.emplace(query_norm->config);
    }
    if (config.attention_positions.embeds_offsets()) {
      distance_embedding.emplace(DistanceEmbeddingConfig{
          config.attention_positions.max_position_embeddings, config.size_of_head()});
    }
  }

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

  /// Queries from x (B, T, hidden_size), keys and values from memories (B, S, ...) of their own
  /// widths; y (B, T, hidden_size) must overlap none of them. `weights`, when it views something,
  /// receives the probabilities (B, H, T, S).
  void forward(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> key_memory,
               TensorView<const Scalar, 3> value_memory, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> y, Workspace& workspace,
               TensorView<Scalar, 4> weights = {}) const {
    require_memories(key_memory, value_memory, x.dim(0));
    require_arguments(x, key_memory.dim(1), mask, y);
    require_disjoint("MultiHeadAttention", y, key_memory);
    require_disjoint("MultiHeadAttention", y, value_memory);
    if (weights.data() != nullptr || key_memory.data() != x.data() ||
        value_memory.data() != x.data())
      kernels::require_no_sequences("MultiHeadAttention", mask);
    if (weights.data() != nullptr) {
      require_shape("MultiHeadAttention: weights", weights.shape(),
                    scores_shape(x, key_memory.dim(1)));
      require_disjoint("MultiHeadAttention: weights", y, weights);
      require_disjoint("MultiHeadAttention: weights", x, weights);
      require_disjoint("MultiHeadAttention: weights", key_memory, weights);
      require_disjoint("MultiHeadAttention: weights", value_memory, weights);
      require_disjoint("MultiHeadAttention: weights", mask.bias, weights);
    }
    Scratch scratch(workspace);
    const Projected p =
        project(x, key_memory, value_memory, nullptr, mask.sequence_lengths, scratch, workspace);
    kernels::Attention<Scalar> a = attention(key_memory.dim(1));
    a.k = p.keys;
    a.v = p.values;
    a.weights = weights.data();
    run(a, x.dim(1), p.queries, mask, y, workspace,
        [&](const auto& attention, const Mask<Scalar>& whole_mask) {
          kernels::attend(attention, whole_mask, workspace);
        });
  }

  /// Self-attention.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    forward(x, x, x, mask, y, workspace);
  }

  /// An empty cache for this attention.
  Cache make_cache(Index batch, Index capacity) const {
    return Cache({batch, capacity, config.key_value_heads(), config.size_of_head()});
  }

  /// Self-attention of tokens that follow those in the cache: their keys and values are appended,
  /// and they see what the cache then holds, as far as the mask allows. Token t of batch row b
  /// stands at position cache.length(b) + t, so mask.query_offset must be 0; the mask's S is the
  /// length of the longest row. Of row b only the first `counts[b]` tokens (default: all) count;
  /// the others are padding and get no meaningful y. Wrong arguments change nothing.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, Cache& cache,
               TensorView<Scalar, 3> y, Workspace& workspace,
               const IntegerSequence& counts = {}) const {
    require_cache(cache, x.dim(0));
    require_memories(x, x, x.dim(0));
    require_no_offset(mask);
    cache.require_room(x.dim(1), counts);
    Scratch scratch(workspace);
    auto* positions = scratch.array<Index>(cache.batch());
    std::copy(cache.lengths().begin(), cache.lengths().end(), positions);
    require_arguments(x, cache.longest_after(x.dim(1), counts), mask, y);
    Mask<Scalar> own = mask;
    if (mask.key_lengths.given()) {  // they may be the cache's own lengths, which grow
      auto* lengths = scratch.array<Index>(cache.batch());
      for (Index b = 0; b < cache.batch(); ++b) lengths[b] = mask.key_lengths[b];
      own.key_lengths = std::span<const Index>(lengths, static_cast<std::size_t>(cache.batch()));
    }
    const Projected p = project(x, x, x, positions, {}, scratch, workspace);
    cache.append(p.keys, p.values, x.dim(1), counts, workspace);
    attend_projected(x.dim(1), p.queries, own, cache, positions, y, workspace);
  }

  /// Appends the keys and values of memories (B, S, ...) to the cache, of row b the first counts[b]
  /// (default: all). For cross-attention, which needs them once: a memory whose rows have lengths
  /// of their own needs no mask then. Wrong arguments change nothing.
  void append(TensorView<const Scalar, 3> key_memory, TensorView<const Scalar, 3> value_memory,
              const IntegerSequence& counts, Cache& cache, Workspace& workspace) const {
    require_cache(cache, key_memory.dim(0));
    require_memories(key_memory, value_memory, key_memory.dim(0));
    cache.require_room(key_memory.dim(1), counts);
    Scratch scratch(workspace);
    const Projected p =
        project({}, key_memory, value_memory, cache.lengths().data(), {}, scratch, workspace);
    cache.append(p.keys, p.values, key_memory.dim(1), counts, workspace);
  }

  /// The same in place of what the cache holds, from slot 0 on: another memory. Wrong arguments
  /// change nothing.
  void replace(TensorView<const Scalar, 3> key_memory, TensorView<const Scalar, 3> value_memory,
               const IntegerSequence& counts, Cache& cache, Workspace& workspace) const {
    require_cache(cache, key_memory.dim(0));
    require_memories(key_memory, value_memory, key_memory.dim(0));
    cache.require_room_when_empty(key_memory.dim(1), counts);
    cache.clear();
    append(key_memory, value_memory, counts, cache, workspace);
  }

  /// Attention of x to what the cache holds. `positions`, when not null, holds the position of the
  /// first query of each batch row, added to mask.query_offset.
  void attend(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, const Cache& cache,
              const Index* positions, TensorView<Scalar, 3> y, Workspace& workspace) const {
    require_attendable(x, mask, cache);
    require_arguments(x, cache.longest(), mask, y);
    Scratch scratch(workspace);
    const auto q = scratch.tensor<Scalar, 2>({x.rows(), query.config.out_features});
    query.forward(x.folded(), q, workspace);
    attend_projected(x.dim(1), q, mask, cache, positions, y, workspace);
  }

  /// Throws unless the cache is one that this attention makes for `batch` rows.
  void require_cache(const Cache& cache, Index batch) const {
    const Shape<3> own{batch, config.key_value_heads(), config.size_of_head()};
    require_shape("MultiHeadAttention: cache (batch, key/value heads, head size)", cache.sizes(),
                  own);
  }

  /// Throws unless `attend` can run with these.
  void require_attendable(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask,
                          const Cache& cache) const {
    require_cache(cache, x.dim(0));
    kernels::require_no_sequences("MultiHeadAttention", mask);
    kernels::require_valid_mask("MultiHeadAttention", mask, scores_shape(x, cache.longest()));
  }

  /// Self-attention.
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    return (*this)(x, x, x, mask);
  }
  /// Cross-attention with a memory.
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                               const Mask<Scalar>& mask = {}) const {
    return (*this)(x, memory, memory, mask);
  }
  /// Cross-attention with keys and values from different memories.
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& key_memory,
                               const Tensor<Scalar, 3>& value_memory,
                               const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, key_memory, value_memory, mask, y, workspace);
    return y;
  }

  /// The probabilities (B, H, T, S) with which the queries of x see the keys of the memory.
  Tensor<Scalar, 4> weights(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                            const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Tensor<Scalar, 4> result({x.dim(0), config.num_attention_heads, x.dim(1), memory.dim(1)});
    Workspace workspace;
    forward(x, memory, memory, mask, y, workspace, result);
    return result;
  }

 private:
  using Heads = kernels::Heads<const Scalar>;

  /// What doesn't depend on the call, but for S.
  kernels::Attention<Scalar> attention(Index keys) const {
    using std::sqrt;
    kernels::Attention<Scalar> a{};
    a.keys = keys;
    a.heads = config.num_attention_heads;
    a.key_value_heads = config.key_value_heads();
    a.head_size = a.value_size = config.size_of_head();
    a.scale = config.scale ? static_cast<Scalar>(*config.scale)
                           : Scalar(1) / sqrt(static_cast<Scalar>(a.head_size));
    a.soft_cap = static_cast<Scalar>(config.attn_logit_softcapping);
    if (distance_embedding) {
      a.relative_keys = distance_embedding->table(config.attention_positions.kind ==
                                                  AttentionPosition::relative_key_query);
    }
    return a;
  }

  /// The way of projected queries (B T, H D): normalized, turned, through `attend(attention, mask)`,
  /// and projected again.
  template <class Attend>
  void run(kernels::Attention<Scalar> a, Index tokens, TensorView<Scalar, 2> q, Mask<Scalar> mask,
           TensorView<Scalar, 3> y, Workspace& workspace, Attend&& attend) const {
    a.batch = y.dim(0);
    a.queries = tokens;
    Scratch scratch(workspace);
    const auto attended = scratch.tensor<Scalar, 2>(q.shape());
    place(q, query_norm, a.batch, mask.query_offset, a.query_offsets, mask.sequence_lengths,
          workspace);
    a.q = Heads::token_major(q.data(), a.queries, a.heads, a.head_size);
    a.y = kernels::Heads<Scalar>::token_major(attended.data(), a.queries, a.heads, a.head_size);

    if (relative_bias) mask = relative_bias->add_to(mask, scratch);
    if (config.sliding_window > 0) {
      mask.window =
          mask.window > 0 ? (std::min)(mask.window, config.sliding_window) : config.sliding_window;
    }
    if (config.attention_positions.kind == AttentionPosition::alibi) {
      auto* slopes = scratch.array<Scalar>(a.heads);
      for (Index h = 0; h < a.heads; ++h)
        slopes[h] = static_cast<Scalar>(kernels::alibi_slope(h, a.heads));
      a.alibi_slopes = slopes;
    }
    attend(a, mask);
    output.forward(attended, y.folded(), workspace);
  }

  void attend_projected(Index tokens, TensorView<Scalar, 2> q, const Mask<Scalar>& mask,
                        const Cache& cache, const Index* positions, TensorView<Scalar, 3> y,
                        Workspace& workspace) const {
    kernels::Attention<Scalar> a = attention(cache.longest());
    a.query_offsets = positions;
    a.key_counts = cache.lengths().data();
    run(a, tokens, q, mask, y, workspace,
        [&](const auto& attention, const Mask<Scalar>& whole_mask) {
          kernels::attend(attention, cache.panels(), whole_mask, workspace);
        });
  }

  /// Queries as they come from the projection, keys normalized and turned, values.
  struct Projected {
    TensorView<Scalar, 2> queries;
    Heads keys, values;
  };

  /// x may be empty. The first key of batch row b stands at position first[b] (null: 0).
  Projected project(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> key_memory,
                    TensorView<const Scalar, 3> value_memory, const Index* first,
                    const IntegerSequence& sequence_lengths, Scratch& scratch,
                    Workspace& workspace) const {
    const Index tokens = key_memory.dim(1), heads = config.key_value_heads();
    const Index size = config.size_of_head();
    const auto q = scratch.tensor<Scalar, 2>({x.rows(), query.config.out_features});
    const auto k = scratch.tensor<Scalar, 2>({key_memory.rows(), heads * size});
    const auto v = scratch.tensor<Scalar, 2>(k.shape());
    kernels::multiply_together<Scalar, 3>(
        {kernels::product_of(x.folded(), query.map(), q),
         kernels::product_of(key_memory.folded(), key.map(), k),
         kernels::product_of(value_memory.folded(), value.map(), v)},
        workspace);
    place(k, key_norm, key_memory.dim(0), 0, first, sequence_lengths, workspace);
    return {q, Heads::token_major(k.data(), tokens, heads, size),
            Heads::token_major(v.data(), tokens, heads, size)};
  }

  /// Normalizes and turns queries or keys (B T, heads D) in place.
  void place(TensorView<Scalar, 2> x, const std::optional<RMSNorm<Format>>& norm, Index batch,
             Index offset, const Index* first, const IntegerSequence& sequence_lengths,
             Workspace& workspace) const {
    const Index size = config.size_of_head();
    if (norm) {
      const auto heads = x.reshaped(Shape<2>{x.size() / size, size});
      norm->forward(heads, heads, workspace);
    }
    if (config.attention_positions.kind == AttentionPosition::rotary && x.rows() > 0) {
      Scratch scratch(workspace);
      Index tokens = x.rows() / batch;
      if (sequence_lengths.given()) {
        tokens = 0;
        for (Index i = 0; i < sequence_lengths.size(); ++i)
          tokens = (std::max)(tokens, sequence_lengths[i]);
      }
      const kernels::RotaryTable<Scalar> table(config.attention_positions.rotary, size, batch,
                                               tokens, offset, first, scratch, workspace);
      if (!sequence_lengths.given()) return table.rotate(x, size, workspace);
      Scalar* rows = x.data();
      for (Index i = 0; i < sequence_lengths.size(); ++i) {
        const TensorView<Scalar, 2> sequence(rows, {sequence_lengths[i], x.columns()});
        table.rotate(sequence, size, workspace);
        rows += sequence.size();
      }
    }
  }

  Shape<4> scores_shape(TensorView<const Scalar, 3> x, Index keys) const {
    return {x.dim(0), config.num_attention_heads, x.dim(1), keys};
  }

  void require_memories(TensorView<const Scalar, 3> key_memory,
                        TensorView<const Scalar, 3> value_memory, Index batch) const {
    const Index keys = key_memory.dim(1);
    require_shape("MultiHeadAttention: memory of the keys", key_memory.shape(),
                  {batch, keys, config.key_input_size()});
    require_shape("MultiHeadAttention: memory of the values", value_memory.shape(),
                  {batch, keys, config.value_input_size()});
  }

  void require_arguments(TensorView<const Scalar, 3> x, Index keys, const Mask<Scalar>& mask,
                         TensorView<const Scalar, 3> y) const {
    require_shape("MultiHeadAttention: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("MultiHeadAttention: y", y.shape(), x.shape());
    RelativeBias<Format>::require_place("MultiHeadAttention", relative_bias, mask);
    kernels::require_valid_mask("MultiHeadAttention", mask, scores_shape(x, keys));
    require_disjoint("MultiHeadAttention", y, x);
  }

  static void require_no_offset(const Mask<Scalar>& mask) {
    kernels::require_no_sequences("MultiHeadAttention", mask);
    require(mask.query_offset == 0,
            "MultiHeadAttention: with a cache, which knows the positions, mask.query_offset must "
            "be 0; got ",
            mask.query_offset);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
