// SPDX-License-Identifier: MIT
#pragma once

// Additive attention (Bahdanau, Cho, Bengio 2014; Dive into Deep Learning's AdditiveAttention,
// without biases):
//
//   s_tj = score . tanh(query(q_t) + key(k_j))   y_t = sum_j p_tj v_j, p_t = softmax of s_t, masked
//
//   q: (B, T, query_size)   k: (B, S, key_size)   v: (B, S, E)   y: (B, T, E)

#include "eigenformer/kernels/additive_attention.hpp"
#include "eigenformer/kernels/softmax.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct AdditiveAttentionConfig {
  Index query_size = 0;
  Index key_size = 0;
  Index hidden_size = 0;
  double attention_probs_dropout_prob = 0;  // training: on the weights

  friend bool operator==(const AdditiveAttentionConfig&, const AdditiveAttentionConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("query_size", c.query_size...);
    f("key_size", c.key_size...);
    f("hidden_size", c.hidden_size...);
    f("attention_probs_dropout_prob", c.attention_probs_dropout_prob...);
  }
};

template <class Format>
struct AdditiveAttention {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = AdditiveAttention<F>;

  AdditiveAttentionConfig config;
  Linear<Format> query;
  Linear<Format> key;
  Linear<Format> score;

  explicit AdditiveAttention(const AdditiveAttentionConfig& config_)
      : config(checked(config_)),
        query({config.query_size, config.hidden_size, false}),
        key({config.key_size, config.hidden_size, false}),
        score({config.hidden_size, 1, false}) {}
  EIGENFORMER_STRONG_COPIES(AdditiveAttention)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("query", layer.query...);
    f("key", layer.key...);
    f("score", layer.score...);
  }

  /// `lengths`, one for each batch row or each query, when given limit the keys to j < length;
  /// length 0 gives zeros. y must not overlap an input. `attention_weights`, when given, receives the
  /// probabilities (B, T, S).
  void forward(TensorView<const Scalar, 3> q, TensorView<const Scalar, 3> k,
               TensorView<const Scalar, 3> v, const std::optional<IntegerSequence>& lengths,
               TensorView<Scalar, 3> y,
               const std::optional<TensorView<Scalar, 3>>& attention_weights,
               Workspace& workspace) const {
    require_arguments(q, k, v, lengths, y, attention_weights);
    Scratch scratch(workspace);
    const Index width = config.hidden_size;
    const auto projected_q = scratch.tensor<Scalar, 2>({q.rows(), width});
    const auto projected_k = scratch.tensor<Scalar, 2>({k.rows(), width});
    query.forward(q.folded(), projected_q, workspace);
    key.forward(k.folded(), projected_k, workspace);
    auto* score_weight = scratch.array<Scalar>(width);
    score.map().weight.copy_row(0, width, score_weight);
    kernels::additive_attention<Scalar>(projected_q, projected_k, score_weight, v, lengths, y,
                                        attention_weights, workspace);
  }
  void forward(TensorView<const Scalar, 3> q, TensorView<const Scalar, 3> k,
               TensorView<const Scalar, 3> v, const std::optional<IntegerSequence>& lengths,
               TensorView<Scalar, 3> y, Workspace& workspace) const {
    forward(q, k, v, lengths, y, std::nullopt, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& q, const Tensor<Scalar, 3>& k,
                               const Tensor<Scalar, 3>& v,
                               const std::optional<IntegerSequence>& lengths = {}) const {
    Tensor<Scalar, 3> y({q.dim(0), q.dim(1), v.dim(2)});
    Workspace workspace;
    forward(q, k, v, lengths, y, workspace);
    return y;
  }

  /// The probabilities (B, T, S).
  Tensor<Scalar, 3> attention_weights(const Tensor<Scalar, 3>& q, const Tensor<Scalar, 3>& k,
                                      const std::optional<IntegerSequence>& lengths = {}) const {
    const Tensor<Scalar, 3> v({k.dim(0), k.dim(1), 0});
    Tensor<Scalar, 3> y({q.dim(0), q.dim(1), 0}), weights({q.dim(0), q.dim(1), k.dim(1)});
    Workspace workspace;
    forward(q, k, v, lengths, y, weights, workspace);
    return weights;
  }

 private:
  static const AdditiveAttentionConfig& checked(const AdditiveAttentionConfig& c) {
    require(c.query_size > 0 && c.key_size > 0 && c.hidden_size > 0,
            "AdditiveAttention: query_size, key_size and hidden_size must be > 0; got ",
            c.query_size, ", ", c.key_size, " and ", c.hidden_size);
    return c;
  }

  void require_arguments(TensorView<const Scalar, 3> q, TensorView<const Scalar, 3> k,
                         TensorView<const Scalar, 3> v,
                         const std::optional<IntegerSequence>& lengths, TensorView<Scalar, 3> y,
                         const std::optional<TensorView<Scalar, 3>>& attention_weights) const {
    const Index batch = q.dim(0), queries = q.dim(1), keys = k.dim(1);
    require_shape("AdditiveAttention: q", q.shape(), {batch, queries, config.query_size});
    require_shape("AdditiveAttention: k", k.shape(), {batch, keys, config.key_size});
    require_shape("AdditiveAttention: v", v.shape(), {batch, keys, v.dim(2)});
    require_shape("AdditiveAttention: y", y.shape(), {batch, queries, v.dim(2)});
    if (attention_weights)
      require_shape("AdditiveAttention: attention_weights", attention_weights->shape(),
                    {batch, queries, keys});
    if (lengths) kernels::require_lengths("AdditiveAttention", *lengths, batch, queries, keys);
    require_disjoint("AdditiveAttention", {y, attention_weights}, {q, k, v});
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
