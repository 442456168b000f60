// SPDX-License-Identifier: MIT
#pragma once

// Small tensors written out, random ones, comparisons that say where they differ, and attention as
// a plain loop in double.

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/eigenformer.hpp"

namespace values {

using eigenformer::Index;
using eigenformer::Key;
using eigenformer::Shape;
using eigenformer::Tensor;

template <class T, int Rank>
Tensor<T, Rank> tensor(const Shape<Rank>& shape, const std::vector<double>& numbers) {
  Tensor<T, Rank> result(shape);
  EXPECT_EQ(result.size(), static_cast<Index>(numbers.size()));
  for (Index i = 0; i < result.size(); ++i) {
    result.data()[i] = static_cast<T>(numbers.at(static_cast<std::size_t>(i)));
  }
  return result;
}

/// A matrix written as its rows.
template <class T>
Tensor<T, 2> rows(std::initializer_list<std::initializer_list<double>> numbers) {
  std::vector<double> flat;
  for (const auto& row : numbers) flat.insert(flat.end(), row);
  const Index count = static_cast<Index>(numbers.size());
  return tensor<T>(Shape<2>{count, static_cast<Index>(numbers.begin()->size())}, flat);
}

/// The same elements under another shape.
template <int Rank, class T, int OldRank>
Tensor<T, Rank> reshaped(const Tensor<T, OldRank>& x, const Shape<Rank>& shape) {
  return Tensor<T, Rank>(x.view().template reshaped<Rank>(shape));
}

template <class T, int Rank>
Tensor<T, Rank> filled(const Shape<Rank>& shape, double value) {
  Tensor<T, Rank> result(shape);
  std::fill(result.begin(), result.end(), static_cast<T>(value));
  return result;
}

/// Normal numbers times `scale`.
template <class T, int Rank>
Tensor<T, Rank> random(const Shape<Rank>& shape, std::uint64_t seed, double scale = 1) {
  Tensor<T, Rank> result(shape);
  for (Index i = 0; i < result.size(); ++i) {
    result.data()[i] = static_cast<T>(scale * Key{seed}.normal(static_cast<std::uint64_t>(i)));
  }
  return result;
}

/// Every parameter random, biases and norms too, so that none of them can be left out unnoticed.
template <class M>
void randomize(M& module, std::uint64_t seed, double scale = 0.3) {
  std::uint64_t number = 0;
  for_each_parameter(module, [&](const std::string&, auto& parameter) {
    const Key key = Key{seed}.fold_in(number++);
    for (Index i = 0; i < parameter.size(); ++i) {
      using T = typename std::remove_reference_t<decltype(parameter)>::Scalar;
      parameter.data()[i] = static_cast<T>(scale * key.normal(static_cast<std::uint64_t>(i)));
    }
  });
}

/// Overwrites the elements, keeping the shape.
template <class T, int Rank>
void set(Tensor<T, Rank>& parameter, const std::vector<double>& numbers) {
  parameter = tensor<T>(parameter.shape(), numbers);
}

/// y = x.
template <class T>
void set_identity(eigenformer::Linear<T>& linear) {
  linear.weight.matrix().setIdentity();
  std::fill(linear.bias.begin(), linear.bias.end(), T(0));
}

/// Multi-head attention without projections: all four are the identity.
template <class T>
eigenformer::MultiHeadAttention<T> attention_identity(Index hidden_size, Index heads) {
  eigenformer::MultiHeadAttention<T> attention(
      {.hidden_size = hidden_size, .num_attention_heads = heads});
  set_identity(attention.query);
  set_identity(attention.key);
  set_identity(attention.value);
  set_identity(attention.output);
  return attention;
}

template <class T, int Rank>
Tensor<T, Rank> sum(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  Tensor<T, Rank> result(a);
  result.vector() += b.vector();
  return result;
}

/// The largest |a - b|; NaN if there is one in either.
template <class T, class U, int Rank>
double largest_difference(const Tensor<T, Rank>& a, const Tensor<U, Rank>& b) {
  EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
  double largest = 0;
  for (Index i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference =
        std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i]));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

template <class T, int Rank>
bool all_finite(const Tensor<T, Rank>& a) {
  return std::all_of(a.begin(), a.end(), [](T x) { return std::isfinite(x); });
}

/// Element by element within `tolerance`.
template <class T, int Rank>
void expect_values(const Tensor<T, Rank>& actual, const std::vector<double>& expected,
                   double tolerance) {
  ASSERT_EQ(actual.size(), static_cast<Index>(expected.size()));
  for (Index i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual.data()[i]), expected[static_cast<std::size_t>(i)],
                tolerance)
        << "element " << i << " of " << to_string(actual.shape());
  }
}

/// Attention as a plain loop: q (B, H, T, D), k (B, K, S, D), v (B, K, S, E); key j takes part for
/// query t of head h if visible(b, h, t, j), with bias(b, h, t, j) added to its score. A query that
/// sees nothing gets zeros.
struct PlainAttention {
  Tensor<double, 4> y, weights;
};

template <class T, class Visible, class Bias>
PlainAttention plain_attention(const Tensor<T, 4>& q, const Tensor<T, 4>& k, const Tensor<T, 4>& v,
                               double scale, Visible&& visible, Bias&& bias) {
  const Index batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), keys = k.dim(2);
  const Index group = heads / k.dim(1);
  PlainAttention result{Tensor<double, 4>({batch, heads, queries, v.dim(3)}),
                        Tensor<double, 4>({batch, heads, queries, keys})};
  for (Index b = 0; b < batch; ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index t = 0; t < queries; ++t) {
        std::vector<double> scores(static_cast<std::size_t>(keys),
                                   -std::numeric_limits<double>::infinity());
        double largest = -std::numeric_limits<double>::infinity();
        for (Index j = 0; j < keys; ++j) {
          if (!visible(b, h, t, j)) continue;
          double product = 0;
          for (Index d = 0; d < q.dim(3); ++d)
            product +=
                static_cast<double>(q(b, h, t, d)) * static_cast<double>(k(b, h / group, j, d));
          double& score = scores[static_cast<std::size_t>(j)];
          score = product * scale + static_cast<double>(bias(b, h, t, j));
          largest = std::max(largest, score);
        }
        if (largest == -std::numeric_limits<double>::infinity()) continue;
        double total = 0;
        for (double score : scores) total += std::exp(score - largest);
        for (Index j = 0; j < keys; ++j) {
          const double p = std::exp(scores[static_cast<std::size_t>(j)] - largest) / total;
          if (p == 0) continue;
          result.weights(b, h, t, j) = p;
          for (Index e = 0; e < v.dim(3); ++e)
            result.y(b, h, t, e) += p * static_cast<double>(v(b, h / group, j, e));
        }
      }
  return result;
}

inline constexpr auto everything_visible = [](Index, Index, Index, Index) { return true; };
inline constexpr auto causally_visible = [](Index, Index, Index t, Index j) { return j <= t; };
inline constexpr auto no_bias = [](Index, Index, Index, Index) { return 0.0; };

}  // namespace values
