// SPDX-License-Identifier: MIT
#pragma once

// Attention in plain loops, with every kind of mask, of positions and of grouped heads, and
// multi-head attention around it.

#include <algorithm>
#include <cmath>
#include <vector>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/nn/attention_positions.hpp"
#include "tests/reference/matrix_product.hpp"
#include "tests/reference/normalization.hpp"
#include "tests/reference/positions.hpp"

namespace reference {

/// A mask with nothing to broadcast: `allowed` and `bias` are (B, H, T, S), or empty for none.
struct Visibility {
  bool causal = false;
  Index query_offset = 0;
  std::vector<Index> key_lengths = {};
  ef::Tensor<bool, 2> key_allowed = {};
  ef::Tensor<bool, 4> allowed = {};
  Reals<4> bias = {};
  Index window = 0;
  std::vector<Index> query_offsets = {};  // (B), added to query_offset
  std::vector<Index> key_counts = {};     // (B), keys that are there

  /// Of query t.
  Index position(Index b, Index t) const {
    const Index own = query_offsets.empty() ? 0 : query_offsets[static_cast<std::size_t>(b)];
    return query_offset + own + t;
  }

  bool visible(Index b, Index h, Index t, Index j) const {
    const Index position = this->position(b, t);
    if (!key_counts.empty() && j >= key_counts[static_cast<std::size_t>(b)]) return false;
    if (causal && j > position) return false;
    if (window > 0 && j <= position - window) return false;
    if (!key_lengths.empty() && j >= key_lengths[static_cast<std::size_t>(b)]) return false;
    if (key_allowed.size() > 0 && !key_allowed(b, j)) return false;
    if (!allowed.empty() && !allowed(b, h, t, j)) return false;
    if (!bias.empty() && bias(b, h, t, j) == -std::numeric_limits<Real>::infinity()) return false;
    return true;
  }
};

/// Repeats axes of extent 1, and missing axes in front, as numpy does.
template <class To, class From, int Rank>
ef::Tensor<To, 4> broadcast(const ef::Tensor<From, Rank>& x, const ef::Shape<4>& shape) {
  ef::Tensor<To, 4> y(shape);
  for (Index i = 0; i < y.size(); ++i) {
    Index rest = i, offset = 0, stride = 1;
    for (int axis = 3; axis >= 4 - Rank; --axis) {
      const Index extent = x.dim(axis - (4 - Rank));
      offset += extent == 1 ? 0 : rest % shape[axis] * stride;
      stride *= extent;
      rest /= shape[axis];
    }
    y.data()[i] = static_cast<To>(x.data()[offset]);
  }
  return y;
}

/// What enters the scores besides products and biases; nothing by default.
struct ScoreTerms {
  Real soft_cap = 0;                    // c in c tanh(s / c)
  std::vector<Real> alibi_slopes = {};  // (H)
  Reals<2> relative_keys = {};          // (2 R + 1, D): e_{i - j}, times queries ...
  bool with_keys = false;               // ... and keys
  Reals<2> offset_bias = {};            // (H or 1, 2 R + 1), by j - i

  /// Row of a table with 2 R + 1 rows for an offset.
  static Index row(Index offset, Index rows) {
    const Index reach = rows / 2;
    return std::min(std::max(offset, -reach), reach) + reach;
  }
};

struct Attended {
  Reals<4> y;        // (B, H, T, E)
  Reals<4> weights;  // (B, H, T, S)
};

/// q: (B, H, T, D)   k: (B, K, S, D)   v: (B, K, S, E)
inline Attended attention(const Reals<4>& q, const Reals<4>& k, const Reals<4>& v,
                          const Visibility& mask, Real scale, const ScoreTerms& terms = {}) {
  const Index batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), keys = k.dim(2);
  Attended result{Reals<4>({batch, heads, queries, v.dim(3)}),
                  Reals<4>({batch, heads, queries, keys})};
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      const Index g = h / (heads / k.dim(1));
      for (Index t = 0; t < queries; ++t) {
        std::vector<Real> scores(static_cast<std::size_t>(keys));
        Real maximum = -std::numeric_limits<Real>::infinity(), sum = 0;
        for (Index j = 0; j < keys; ++j) {
          if (!mask.visible(b, h, t, j)) continue;
          Real& score = scores[static_cast<std::size_t>(j)];
          const Index i = mask.position(b, t);
          for (Index d = 0; d < q.dim(3); ++d) {
            score += q(b, h, t, d) * k(b, g, j, d);
            if (terms.relative_keys.empty()) continue;
            const Real e =
                terms.relative_keys(ScoreTerms::row(i - j, terms.relative_keys.dim(0)), d);
            score += q(b, h, t, d) * e + (terms.with_keys ? k(b, g, j, d) * e : 0);
          }
          score *= scale;
          if (terms.soft_cap > 0) score = terms.soft_cap * std::tanh(score / terms.soft_cap);
          if (!terms.alibi_slopes.empty())
            score -= terms.alibi_slopes[static_cast<std::size_t>(h)] * Real(std::abs(i - j));
          if (!terms.offset_bias.empty()) {
            score += terms.offset_bias(terms.offset_bias.dim(0) == 1 ? 0 : h,
                                       ScoreTerms::row(j - i, terms.offset_bias.dim(1)));
          }
          if (!mask.bias.empty()) score += mask.bias(b, h, t, j);
          maximum = std::max(maximum, score);
        }
        for (Index j = 0; j < keys; ++j) {
          if (!mask.visible(b, h, t, j)) continue;
          result.weights(b, h, t, j) = std::exp(scores[static_cast<std::size_t>(j)] - maximum);
          sum += result.weights(b, h, t, j);
        }
        for (Index j = 0; j < keys; ++j) {
          if (!mask.visible(b, h, t, j)) continue;
          result.weights(b, h, t, j) /= sum;
          for (Index e = 0; e < v.dim(3); ++e) {
            result.y(b, h, t, e) += result.weights(b, h, t, j) * v(b, g, j, e);
          }
        }
      }
    }
  }
  return result;
}

/// (B, T, heads * D) to (B, heads, T, D).
inline Reals<4> split_heads(const Reals<3>& x, Index heads) {
  Reals<4> y({x.dim(0), heads, x.dim(1), x.dim(2) / heads});
  for (Index b = 0; b < y.dim(0); ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < y.dim(2); ++t) {
        for (Index d = 0; d < y.dim(3); ++d) y(b, h, t, d) = x(b, t, h * y.dim(3) + d);
      }
    }
  }
  return y;
}

inline Reals<3> join_heads(const Reals<4>& x) {
  Reals<3> y({x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
  for (Index b = 0; b < x.dim(0); ++b) {
    for (Index h = 0; h < x.dim(1); ++h) {
      for (Index t = 0; t < x.dim(2); ++t) {
        for (Index d = 0; d < x.dim(3); ++d) y(b, t, h * x.dim(3) + d) = x(b, h, t, d);
      }
    }
  }
  return y;
}

/// Rotates heads (B, H, T, D) whose token t is at mask.position(b, t), or at t.
inline void rotate_heads(Reals<4>& x, const ef::RotaryConfig& config, const Visibility* mask) {
  for (Index b = 0; b < x.dim(0); ++b) {
    for (Index h = 0; h < x.dim(1); ++h) {
      for (Index t = 0; t < x.dim(2); ++t) {
        rotate(config, &x(b, h, t, 0), x.dim(3), mask == nullptr ? t : mask->position(b, t));
      }
    }
  }
}

/// T5's biases (H, 2 * max_distance + 1) by offset, from a table (buckets, H).
template <class Module>
Reals<2> spread_relative_bias(const Module& module) {
  const auto& c = module.config;
  const Index reach = c.relative_attention_max_distance;
  Reals<2> bias({c.num_attention_heads, 2 * reach + 1});
  for (Index i = 0; i < bias.dim(1); ++i) {
    const Index bucket =
        relative_bucket(i - reach, c.relative_attention_num_buckets, reach, c.bidirectional);
    for (Index h = 0; h < bias.dim(0); ++h) bias(h, i) = module.weight(bucket, h);
  }
  return bias;
}

/// x: (B, T, hidden_size)   memories: (B, S, ...)   `shared`: relative biases of a whole stack
template <class Module>
Reals<3> multi_head_attention(const Module& module, const Reals<3>& x, const Reals<3>& key_memory,
                              const Reals<3>& value_memory, Visibility mask = {},
                              const Reals<2>& shared = {}) {
  const auto& c = module.config;
  const Index groups = c.num_key_value_heads == 0 ? c.num_attention_heads : c.num_key_value_heads;
  Reals<4> q = split_heads(linear(x, module.query), c.num_attention_heads);
  Reals<4> k = split_heads(linear(key_memory, module.key), groups);
  const Reals<4> v = split_heads(linear(value_memory, module.value), groups);
  if (module.query_norm) {
    q = norm(q, *module.query_norm);
    k = norm(k, *module.key_norm);
  }
  ScoreTerms terms{.soft_cap = c.attn_logit_softcapping, .offset_bias = shared};
  switch (c.attention_positions.kind) {
    case ef::AttentionPosition::none:
      break;
    case ef::AttentionPosition::rotary:
      rotate_heads(q, c.attention_positions.rotary, &mask);
      rotate_heads(k, c.attention_positions.rotary, nullptr);
      break;
    case ef::AttentionPosition::alibi:
      terms.alibi_slopes = alibi_slopes(c.num_attention_heads);
      break;
    case ef::AttentionPosition::relative_bias:
      if (module.relative_bias) terms.offset_bias = spread_relative_bias(*module.relative_bias);
      break;
    case ef::AttentionPosition::relative_key:
    case ef::AttentionPosition::relative_key_query:
      terms.relative_keys = widen(module.distance_embedding->weight);
      terms.with_keys = c.attention_positions.kind == ef::AttentionPosition::relative_key_query;
      break;
  }
  if (c.sliding_window > 0)
    mask.window = mask.window > 0 ? std::min(mask.window, c.sliding_window) : c.sliding_window;
  const Real scale = c.scale ? Real(*c.scale) : 1 / std::sqrt(Real(q.dim(3)));
  return linear(join_heads(attention(q, k, v, mask, scale, terms).y), module.output);
}

}  // namespace reference
