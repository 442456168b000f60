// SPDX-License-Identifier: MIT
#pragma once

// Additive attention (Bahdanau, Cho, Bengio 2014; Dive into Deep Learning's AdditiveAttention,
// without biases):
//
//   s_tj = score . tanh(query(q_t) + key(k_j))   y_t = sum_j p_tj v_j, p_t = softmax of s_t, masked
//
//   q: (B, T, query_size)   k: (B, S, key_size)   v: (B, S, E)   y: (B, T, E)

#include "eigenformer/kernels/softmax.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct AdditiveAttentionConfig {
  Index query_size = 0;
  Index key_size = 0;
  Index hidden_size = 0;
  double attention_probs_dropout_prob = 0;  // training: on the weights
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

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("query", layer.query...);
    f("key", layer.key...);
    f("score", layer.score...);
  }

  /// `lengths`, one for each batch row or each query, when given limit the keys to j < length;
  /// length 0 gives zeros. `weights`, when not null, receives the probabilities (B, T, S).
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& q, const Tensor<Scalar, 3>& k,
                               const Tensor<Scalar, 3>& v, IntegerSequence lengths = {},
                               Tensor<Scalar, 3>* weights = nullptr) const {
    using S = kernels::Simd<Scalar>;
    const Index batch = q.dim(0), queries = q.dim(1), keys = k.dim(1), width = config.hidden_size;
    require_shape("AdditiveAttention: q", q.shape(), {batch, queries, config.query_size});
    require_shape("AdditiveAttention: k", k.shape(), {batch, keys, config.key_size});
    require_shape("AdditiveAttention: v", v.shape(), {batch, keys, v.dim(2)});

    const Tensor<Scalar, 3> projected_q = query(q), projected_k = key(k);
    Tensor<Scalar, 3> scores({batch, queries, keys});
    Tensor<Scalar, 2> sums({keys, width}), row({keys, 1});
    for (Index b = 0; b < batch; ++b) {
      for (Index t = 0; t < queries; ++t) {
        for (Index j = 0; j < keys; ++j) {
          kernels::transform(projected_q.data() + (b * queries + t) * width,
                             projected_k.data() + (b * keys + j) * width, sums.data() + j * width,
                             width,
                             [](auto from_q, auto from_k) { return S::add(from_q, from_k); });
        }
        kernels::activate(Activation::tanh, sums.data(), sums.data(), sums.size());
        row = score(sums);
        std::copy(row.begin(), row.end(), scores.data() + (b * queries + t) * keys);
      }
    }
    const std::vector<Index> all(static_cast<std::size_t>(batch), keys);
    Tensor<Scalar, 3> probabilities =
        masked_softmax(scores, lengths.given() ? lengths : IntegerSequence(all));

    Tensor<Scalar, 3> y({batch, queries, v.dim(2)});
    for (Index b = 0; b < batch; ++b) {
      for (Index t = 0; t < queries; ++t) {
        for (Index j = 0; j < keys; ++j) {
          const Scalar p = probabilities(b, t, j);
          if (p == Scalar(0)) continue;  // a key that takes no part may hold anything
          Scalar* result = y.data() + (b * queries + t) * v.dim(2);
          kernels::transform(v.data() + (b * keys + j) * v.dim(2), result, result, v.dim(2),
                             [&](auto value, auto sum) { return S::fma(S::set(p), value, sum); });
        }
      }
    }
    if (weights != nullptr) *weights = std::move(probabilities);
    return y;
  }

 private:
  static const AdditiveAttentionConfig& checked(const AdditiveAttentionConfig& c) {
    require(c.query_size > 0 && c.key_size > 0 && c.hidden_size > 0,
            "AdditiveAttention: query_size, key_size and hidden_size must be > 0; got ",
            c.query_size, ", ", c.key_size, " and ", c.hidden_size);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
