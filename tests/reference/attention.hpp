// SPDX-License-Identifier: MIT
#pragma once

// Attention in plain loops, with every kind of mask and grouped heads, and multi-head attention
// around it.

#include <cmath>
#include <vector>

#include "eigenformer/kernels/mask.hpp"
#include "tests/reference/matrix_product.hpp"

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

  bool visible(Index b, Index h, Index t, Index j) const {
    const Index position = query_offset + t;
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

struct Attended {
  Reals<4> y;        // (B, H, T, E)
  Reals<4> weights;  // (B, H, T, S)
};

/// q: (B, H, T, D)   k: (B, K, S, D)   v: (B, K, S, E)
inline Attended attention(const Reals<4>& q, const Reals<4>& k, const Reals<4>& v,
                          const Visibility& mask, Real scale) {
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
          for (Index d = 0; d < q.dim(3); ++d) score += q(b, h, t, d) * k(b, g, j, d);
          score = score * scale + (mask.bias.empty() ? 0 : mask.bias(b, h, t, j));
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

/// x: (B, T, hidden_size)   memories: (B, S, ...)
template <class Module>
Reals<3> multi_head_attention(const Module& module, const Reals<3>& x, const Reals<3>& key_memory,
                              const Reals<3>& value_memory, const Visibility& mask = {}) {
  const auto& c = module.config;
  const Index groups = c.num_key_value_heads == 0 ? c.num_attention_heads : c.num_key_value_heads;
  const Reals<4> q = split_heads(linear(x, module.query), c.num_attention_heads);
  const Reals<4> k = split_heads(linear(key_memory, module.key), groups);
  const Reals<4> v = split_heads(linear(value_memory, module.value), groups);
  const Real scale = c.scale ? Real(*c.scale) : 1 / std::sqrt(Real(q.dim(3)));
  return linear(join_heads(attention(q, k, v, mask, scale).y), module.output);
}

}  // namespace reference
