// SPDX-License-Identifier: MIT
#pragma once

// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017) with grouped key/value heads (Ainslie et al.,
// "GQA", 2023), tiled so that the scores (T, S) are never stored (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018; Dao et al., "FlashAttention", 2022):
//
//   y_t = sum_j p_tj v_j,   p_t = softmax over the visible j of (scale * q_t . k_j + bias_tj)
//
//   q: (B, T, H, D)   k: (B, S, K, D)   v: (B, S, K, E)   y: (B, T, H, E)   each with strides of its own
//
// Query head h reads key/value head h / (H / K). Keys are walked in tiles of `key_tile`, counted from key 0, and every tile adds in
// one fixed order; a key that takes no part adds an exact zero. So the bits of a query's result depend neither on the other queries,
// nor on padding, nor on threads. A query that sees no key gets zeros; NaN or infinity in a key or value that it may not
// see doesn't reach it.

#include <cmath>
#include <limits>
#include <optional>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/matrix_product.hpp"
#include "eigenformer/kernels/softmax.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Vectors of heads in memory: element i of head `head` of token `token` of batch row `b` is at(b, token, head)[i].
template <class T>
struct Heads {
  T* data;
  Index batch_stride, token_stride, head_stride;

  T* at(Index b, Index token, Index head) const {
    return data + b * batch_stride + token * token_stride + head * head_stride;
  }

  /// (B, T, H, D), as projections write it.
  static Heads token_major(T* data, Index tokens, Index heads, Index size) {
    return {data, tokens * heads * size, heads * size, size};
  }
  /// (B, H, T, D), as PyTorch's scaled_dot_product_attention takes it.
  static Heads head_major(T* data, Index heads, Index tokens, Index size) {
    return {data, heads * tokens * size, size, tokens * size};
  }
};

template <class T>
struct Attention {
  Index batch, queries, keys;               // B, T, S
  Index heads, key_value_heads;             // H, K; K divides H
  Index head_size, value_size;              // D, E
  Heads<const T> q, k, v;
  Heads<T> y;
  T scale;
  T* weights = nullptr;  // (B, H, T, S) probabilities, when asked for

  Index group() const { return heads / key_value_heads; }
};

/// Keys in a tile. Part of the promised order of additions: changing it changes bits.
inline constexpr Index key_tile = 128;

/// Query rows (tokens times grouped heads) that share a key tile.
inline constexpr Index query_rows = 96;

namespace internal {

template <class T>
Index whole_panels(Index columns) {
  return (columns + panel_width<T> - 1) / panel_width<T> * panel_width<T>;
}

/// One block of queries against all the keys of one key/value head.
template <class T>
class AttentionBlock {
  static_assert(key_tile % panel_width<T> == 0);
  static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

 public:
  AttentionBlock(const Attention<T>& a, const Mask<T>& mask, Index b, Index key_value_head, Index t_begin,
                 Index t_end, Arena& arena)
      : a_(a), mask_(mask), b_(b), key_value_head_(key_value_head), t_begin_(t_begin),
        rows_((t_end - t_begin) * a.group()), scratch_(arena) {
    q_ = scratch_.array<T>(rows_ * a.head_size);
    sum_ = scratch_.array<T>(rows_);
    maximum_ = scratch_.array<T>(rows_);
    result_ = scratch_.array<T>(rows_ * a.value_size);
    scores_ = scratch_.array<T>(rows_ * key_tile);
    key_panels_ = scratch_.array<T>(key_tile * a.head_size);
    value_panels_ = scratch_.array<T>(whole_panels<T>(a.value_size) * key_tile);
    visible_ = scratch_.array<KeyRange>(rows_);
  }

  void run() {
    load_queries();
    std::fill_n(sum_, rows_, T(0));
    std::fill_n(maximum_, rows_, minus_infinity);
    std::fill_n(result_, rows_ * a_.value_size, T(0));
    for (Index j = first_tile(); j < keys_end_; j += key_tile) {
      const Index n = std::min(key_tile, a_.keys - j);
      compute_scores(j, n);
      for (Index row = 0; row < rows_; ++row) update_softmax(row, n);
      add_values(j, n);
    }
    store_result();
    if (a_.weights != nullptr) store_weights();
  }

 private:
  Index token(Index row) const { return t_begin_ + row / a_.group(); }
  Index head(Index row) const { return key_value_head_ * a_.group() + row % a_.group(); }
  Index first_tile() const { return keys_begin_ / key_tile * key_tile; }

  void load_queries() {
    using S = Simd<T>;
    const auto scale = S::set(a_.scale);
    keys_begin_ = a_.keys;
    keys_end_ = 0;
    for (Index row = 0; row < rows_; ++row) {
      transform(a_.q.at(b_, token(row), head(row)), q_ + row * a_.head_size, a_.head_size,
                [&](auto q) { return S::multiply(q, scale); });
      visible_[row] = visible_range(mask_, b_, token(row), a_.keys);
      if (visible_[row].begin >= visible_[row].end) continue;
      keys_begin_ = std::min(keys_begin_, visible_[row].begin);
      keys_end_ = std::max(keys_end_, visible_[row].end);
    }
  }

  /// scores (rows, n) of keys j ... j + n - 1, -infinity where a key may not be seen.
  void compute_scores(Index j, Index n) {
    const auto k = RightFactor<T>::from_rows(a_.k.at(b_, j, key_value_head_), a_.k.token_stride);
    for (Index column = 0; column < n; column += panel_width<T>) {
      T* panel = key_panels_ + column * a_.head_size;
      pack_panel(k, column, std::min(panel_width<T>, n - column), 0, a_.head_size, panel);
      multiply_panel<T>(q_, a_.head_size, rows_, panel, a_.head_size, scores_ + column, key_tile,
                        panel_width<T>, Start::zero, nullptr);
    }
    for (Index row = 0; row < rows_; ++row) mask_scores(row, j, n);
  }

  void mask_scores(Index row, Index j, Index n) {
    T* s = scores_ + row * key_tile;
    const Index h = head(row), t = token(row);
    if (mask_.bias.given()) {
      const T* bias = mask_.bias.keys(b_, h, t);
      const Index stride = mask_.bias.key_stride();
      for (Index i = 0; i < n; ++i) {
        const T added = bias[(j + i) * stride];
        s[i] = added == minus_infinity ? added : s[i] + added;
      }
    }
    const Index begin = std::clamp<Index>(visible_[row].begin - j, 0, n);
    const Index end = std::clamp<Index>(visible_[row].end - j, begin, n);
    std::fill(s, s + begin, minus_infinity);
    std::fill(s + end, s + n, minus_infinity);
    if (mask_.key_allowed.data() != nullptr) {
      const bool* allowed = mask_.key_allowed.data() + b_ * a_.keys + j;
      for (Index i = begin; i < end; ++i) s[i] = allowed[i] ? s[i] : minus_infinity;
    }
    if (mask_.allowed.given()) {
      const bool* allowed = mask_.allowed.keys(b_, h, t);
      const Index stride = mask_.allowed.key_stride();
      for (Index i = begin; i < end; ++i) s[i] = allowed[(j + i) * stride] ? s[i] : minus_infinity;
    }
  }

  /// Turns a row of scores into e^{s - maximum} and brings the row's sum and result to the new maximum.
  void update_softmax(Index row, Index n) {
    using S = Simd<T>;
    T* s = scores_ + row * key_tile;
    const T largest = std::max(maximum_[row], row_maximum(s, n));
    const T added = exponentials(s, shift(largest), s, n);
    if (largest != maximum_[row]) {
      T shrink[static_cast<std::size_t>(S::width)];
      S::store(shrink, exponential<T>(S::set(maximum_[row] - largest)));
      sum_[row] *= shrink[0];
      const auto factor = S::set(shrink[0]);
      T* result = result_ + row * a_.value_size;
      transform(result, result, a_.value_size, [&](auto r) { return S::multiply(r, factor); });
      maximum_[row] = largest;
    }
    sum_[row] += added;
  }

  /// What is subtracted from the scores: the maximum, or nothing while no key has been seen.
  static T shift(T maximum) { return maximum == minus_infinity ? T(0) : maximum; }

  /// result (rows, E) += probabilities (rows, n) v (n, E).
  void add_values(Index j, Index n) {
    if (!values_are_finite(j, n)) return add_values_seen(j, n);
    const auto v = RightFactor<T>::from_columns(a_.v.at(b_, j, key_value_head_), a_.v.token_stride);
    for (Index column = 0; column < a_.value_size; column += panel_width<T>) {
      const Index columns = std::min(panel_width<T>, a_.value_size - column);
      pack_panel(v, column, columns, 0, n, value_panels_);
      multiply_panel<T>(scores_, key_tile, rows_, value_panels_, n, result_ + column, a_.value_size,
                        columns, Start::stored, nullptr);
    }
  }

  bool values_are_finite(Index j, Index n) const {
    using S = Simd<T>;
    T all(0);
    for (Index i = j; i < j + n; ++i) {
      const T* v = a_.v.at(b_, i, key_value_head_);
      all += row_sum<T>(a_.value_size, [&](Index e, Index part) {
        return S::multiply(S::load_partial(v + e, part), S::zero());
      });
    }
    return all == T(0);
  }

  /// The same sums in the same order, but keys of weight zero are left out instead of multiplied by zero.
  void add_values_seen(Index j, Index n) {
    using S = Simd<T>;
    for (Index row = 0; row < rows_; ++row) {
      T* result = result_ + row * a_.value_size;
      for (Index i = 0; i < n; ++i) {
        const T p = scores_[row * key_tile + i];
        if (p == T(0)) continue;
        const auto weight = S::set(p);
        transform(a_.v.at(b_, j + i, key_value_head_), result, result, a_.value_size,
                  [&](auto v, auto r) { return S::fma(weight, v, r); });
      }
    }
  }

  void store_result() {
    using S = Simd<T>;
    for (Index row = 0; row < rows_; ++row) {
      const auto inverse = S::set(sum_[row] == T(0) ? T(0) : T(1) / sum_[row]);
      transform(result_ + row * a_.value_size, a_.y.at(b_, token(row), head(row)), a_.value_size,
                [&](auto r) { return S::multiply(r, inverse); });
    }
  }

  /// A second walk over the keys with the final maximum and sum.
  void store_weights() {
    using S = Simd<T>;
    for (Index row = 0; row < rows_; ++row) std::fill_n(weights(row), a_.keys, T(0));
    for (Index j = first_tile(); j < keys_end_; j += key_tile) {
      const Index n = std::min(key_tile, a_.keys - j);
      compute_scores(j, n);
      for (Index row = 0; row < rows_; ++row) {
        if (sum_[row] == T(0)) continue;
        T* p = weights(row) + j;
        exponentials(scores_ + row * key_tile, shift(maximum_[row]), p, n);
        const auto inverse = S::set(T(1) / sum_[row]);
        transform(p, p, n, [&](auto e) { return S::multiply(e, inverse); });
      }
    }
  }

  T* weights(Index row) const {
    return a_.weights + ((b_ * a_.heads + head(row)) * a_.queries + token(row)) * a_.keys;
  }

  const Attention<T>& a_;
  const Mask<T>& mask_;
  Index b_, key_value_head_, t_begin_, rows_;
  Index keys_begin_ = 0, keys_end_ = 0;
  Scratch scratch_;
  T *q_, *sum_, *maximum_, *result_, *scores_, *key_panels_, *value_panels_;
  KeyRange* visible_;
};

}  // namespace internal

/// Computes y, and the weights if asked for. Scratch memory doesn't depend on T or S. The mask must have been checked.
template <class T>
void attend(const Attention<T>& a, const Mask<T>& mask, Workspace& workspace) {
  const Index tokens = std::max<Index>(1, query_rows / a.group());
  const Index blocks = (a.queries + tokens - 1) / tokens;
  const Index tasks = a.batch * a.key_value_heads * blocks;
  const auto run = [&](Index task, Arena& arena) {
    const Index block = task % blocks, rest = task / blocks;
    const Index begin = block * tokens, end = std::min(a.queries, begin + tokens);
    internal::AttentionBlock<T>(a, mask, rest / a.key_value_heads, rest % a.key_value_heads, begin, end,
                                arena)
        .run();
  };
  const Index work = a.batch * a.heads * a.queries * a.keys * (a.head_size + a.value_size);
  if (work < smallest_parallel_work) {
    for (Index task = 0; task < tasks; ++task) run(task, workspace.arena());
  } else {
    workspace.parallel_for(tasks, run);
  }
}

}  // namespace kernels

/// Attention over given queries (B, H, T, D), keys (B, K, S, D) and values (B, K, S, E): the result (B, H, T, E). The shapes are those of
/// PyTorch's scaled_dot_product_attention, with K dividing H (its enable_gqa). `scale` defaults to 1 / sqrt(D).
/// `weights`, when not null, receives the probabilities (B, H, T, S).
template <class T>
Tensor<T, 4> scaled_dot_product_attention(const Tensor<T, 4>& q, const Tensor<T, 4>& k, const Tensor<T, 4>& v,
                                          const Mask<T>& mask = {}, std::optional<double> scale = {},
                                          Tensor<T, 4>* weights = nullptr) {
  constexpr const char* who = "scaled_dot_product_attention";
  const Index batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), head_size = q.dim(3);
  const Index key_value_heads = k.dim(1), keys = k.dim(2), value_size = v.dim(3);
  require_shape(std::string(who) + ": k", k.shape(), Shape<4>{batch, key_value_heads, keys, head_size});
  require_shape(std::string(who) + ": v", v.shape(), Shape<4>{batch, key_value_heads, keys, value_size});
  require(key_value_heads > 0 ? heads % key_value_heads == 0 : heads == 0, who,
          ": the heads of k and v must divide those of q; got ", key_value_heads, " and ", heads);
  const Shape<4> scores{batch, heads, queries, keys};
  kernels::require_valid_mask(who, mask, scores);

  Tensor<T, 4> y({batch, heads, queries, value_size});
  if (weights != nullptr) *weights = Tensor<T, 4>(scores);
  if (heads == 0) return y;
  using std::sqrt;
  Workspace workspace;
  kernels::attend<T>({.batch = batch,
                      .queries = queries,
                      .keys = keys,
                      .heads = heads,
                      .key_value_heads = key_value_heads,
                      .head_size = head_size,
                      .value_size = value_size,
                      .q = kernels::Heads<const T>::head_major(q.data(), heads, queries, head_size),
                      .k = kernels::Heads<const T>::head_major(k.data(), key_value_heads, keys, head_size),
                      .v = kernels::Heads<const T>::head_major(v.data(), key_value_heads, keys, value_size),
                      .y = kernels::Heads<T>::head_major(y.data(), heads, queries, value_size),
                      .scale = scale ? static_cast<T>(*scale) : T(1) / sqrt(static_cast<T>(head_size)),
                      .weights = weights == nullptr ? nullptr : weights->data()},
                     mask, workspace);
  return y;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
