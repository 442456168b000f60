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
// Head h owns columns h D ... (h + 1) D - 1. Masks: kernels/mask.hpp. A query that sees no key gets
// the output projection's bias. One function computes y whether or not the weights are asked for,
// so asking changes nothing.

#include <cmath>
#include <optional>

#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct MultiHeadAttentionConfig {
  Index hidden_size = 0;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads; otherwise it must divide them
  Index head_size = 0;            // 0: hidden_size / num_attention_heads, which must divide
  Index key_value_size = 0;       // width of the memory; 0: hidden_size
  Index value_size = 0;  // width of the values' input if it isn't the keys'; 0: key_value_size
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  std::optional<double> scale = {};         // of the scores; default 1 / sqrt(head_size)
  double attention_probs_dropout_prob = 0;  // training: on the weights

  Index key_value_heads() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  Index size_of_head() const {
    return head_size == 0 ? hidden_size / num_attention_heads : head_size;
  }
  Index key_input_size() const { return key_value_size == 0 ? hidden_size : key_value_size; }
  Index value_input_size() const { return value_size == 0 ? key_input_size() : value_size; }
};

template <class Format>
struct MultiHeadAttention {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = MultiHeadAttention<F>;

  MultiHeadAttentionConfig config;
  Linear<Format> query;
  Linear<Format> key;
  Linear<Format> value;
  Linear<Format> output;

  /// The attention of a layer or model with these fields.
  template <class LayerConfig>
  static MultiHeadAttentionConfig config_from(const LayerConfig& c) {
    return {.hidden_size = c.hidden_size,
            .num_attention_heads = c.num_attention_heads,
            .num_key_value_heads = c.num_key_value_heads,
            .head_size = c.head_size,
            .query_bias = c.query_bias,
            .key_bias = c.key_bias,
            .value_bias = c.value_bias,
            .output_bias = c.output_bias,
            .scale = c.attention_scale,
            .attention_probs_dropout_prob = c.attention_probs_dropout_prob};
  }

  /// Throws std::invalid_argument with the numbers for heads that don't divide, zero or negative
  /// sizes.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config_)
      : config(checked(config_)),
        query({config.hidden_size, config.num_attention_heads * config.size_of_head(),
               config.query_bias}),
        key({config.key_input_size(), config.key_value_heads() * config.size_of_head(),
             config.key_bias}),
        value({config.value_input_size(), config.key_value_heads() * config.size_of_head(),
               config.value_bias}),
        output({config.num_attention_heads * config.size_of_head(), config.hidden_size,
                config.output_bias}) {}

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("query", layer.query...);
    f("key", layer.key...);
    f("value", layer.value...);
    f("output", layer.output...);
  }

  /// Queries from x (B, T, hidden_size), keys and values from memories (B, S, ...) of their own
  /// widths; y (B, T, hidden_size) must overlap none of them. `weights`, when it views something,
  /// receives the probabilities (B, H, T, S).
  void forward(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> key_memory,
               TensorView<const Scalar, 3> value_memory, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> y, Workspace& workspace,
               TensorView<Scalar, 4> weights = {}) const {
    const Index batch = x.dim(0), queries = x.dim(1), keys = key_memory.dim(1);
    const Index heads = config.num_attention_heads, size = config.size_of_head();
    const Index key_value_heads = config.key_value_heads();
    require_arguments(x, key_memory, value_memory, mask, y, weights);

    Scratch scratch(workspace);
    const auto q = scratch.tensor<Scalar, 2>({batch * queries, heads * size});
    const auto k = scratch.tensor<Scalar, 2>({batch * keys, key_value_heads * size});
    const auto v = scratch.tensor<Scalar, 2>(k.shape());
    const auto attended = scratch.tensor<Scalar, 2>(q.shape());
    query.forward(x.folded(), q, workspace);
    key.forward(key_memory.folded(), k, workspace);
    value.forward(value_memory.folded(), v, workspace);

    using std::sqrt;
    kernels::attend<Scalar>(
        {.batch = batch,
         .queries = queries,
         .keys = keys,
         .heads = heads,
         .key_value_heads = key_value_heads,
         .head_size = size,
         .value_size = size,
         .q = kernels::Heads<const Scalar>::token_major(q.data(), queries, heads, size),
         .k = kernels::Heads<const Scalar>::token_major(k.data(), keys, key_value_heads, size),
         .v = kernels::Heads<const Scalar>::token_major(v.data(), keys, key_value_heads, size),
         .y = kernels::Heads<Scalar>::token_major(attended.data(), queries, heads, size),
         .scale = config.scale ? static_cast<Scalar>(*config.scale)
                               : Scalar(1) / sqrt(static_cast<Scalar>(size)),
         .weights = weights.data()},
        mask, workspace);
    output.forward(attended, y.folded(), workspace);
  }

  /// Self-attention.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    forward(x, x, x, mask, y, workspace);
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
  static const MultiHeadAttentionConfig& checked(const MultiHeadAttentionConfig& c) {
    constexpr const char* who = "MultiHeadAttention";
    require(c.hidden_size > 0 && c.num_attention_heads > 0, who,
            ": hidden_size and num_attention_heads must be > 0; got ", c.hidden_size, " and ",
            c.num_attention_heads);
    require(c.head_size >= 0 && c.key_value_size >= 0 && c.value_size >= 0, who,
            ": head_size, key_value_size and value_size must be >= 0; got ", c.head_size, ", ",
            c.key_value_size, " and ", c.value_size);
    constexpr Index largest = Index{1} << 31;
    require(c.num_attention_heads <= largest && c.head_size <= largest, who,
            ": num_attention_heads and head_size must be at most ", largest, "; got ",
            c.num_attention_heads, " and ", c.head_size);
    require(c.head_size > 0 || c.hidden_size % c.num_attention_heads == 0, who,
            ": num_attention_heads must divide hidden_size; got ", c.num_attention_heads, " and ",
            c.hidden_size);
    require(c.num_key_value_heads >= 0 && c.num_attention_heads % c.key_value_heads() == 0, who,
            ": num_key_value_heads must divide num_attention_heads; got ", c.num_key_value_heads,
            " and ", c.num_attention_heads);
    require(!c.scale || std::isfinite(*c.scale), who, ": scale must be finite; got ",
            c.scale.value_or(0));
    require_probability("MultiHeadAttention: attention_probs_dropout_prob",
                        c.attention_probs_dropout_prob);
    return c;
  }

  void require_arguments(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> key_memory,
                         TensorView<const Scalar, 3> value_memory, const Mask<Scalar>& mask,
                         TensorView<const Scalar, 3> y, TensorView<const Scalar, 4> weights) const {
    const Index batch = x.dim(0), queries = x.dim(1), keys = key_memory.dim(1);
    require_shape("MultiHeadAttention: x", x.shape(), {batch, queries, config.hidden_size});
    require_shape("MultiHeadAttention: memory of the keys", key_memory.shape(),
                  {batch, keys, config.key_input_size()});
    require_shape("MultiHeadAttention: memory of the values", value_memory.shape(),
                  {batch, keys, config.value_input_size()});
    require_shape("MultiHeadAttention: y", y.shape(), x.shape());
    const Shape<4> scores{batch, config.num_attention_heads, queries, keys};
    if (weights.data() != nullptr) {
      require_shape("MultiHeadAttention: weights", weights.shape(), scores);
      require_disjoint("MultiHeadAttention: weights", y, weights);
      require_disjoint("MultiHeadAttention: weights", x, weights);
      require_disjoint("MultiHeadAttention: weights", key_memory, weights);
      require_disjoint("MultiHeadAttention: weights", value_memory, weights);
      require_disjoint("MultiHeadAttention: weights", mask.bias, weights);
    }
    kernels::require_valid_mask("MultiHeadAttention", mask, scores);
    require_disjoint("MultiHeadAttention", y, x);
    require_disjoint("MultiHeadAttention", y, key_memory);
    require_disjoint("MultiHeadAttention", y, value_memory);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
