// SPDX-License-Identifier: MIT
#pragma once

// The inside of attention: one block of queries walks over the keys of one key/value head, tile by
// tile. What is computed and promised stands in kernels/attention.hpp.
//
// For each tile: scores = q k^T (a matrix product over packed keys), masked; the running maximum
// and sum of every row are brought up to date; result += e^{scores - maximum} v (the same product
// over packed values). At the end every row is divided by its sum.

#include <limits>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/matrix_product.hpp"
#include "eigenformer/kernels/softmax.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Vectors of heads in memory: element i of head `head` of token `token` of batch row `b` is at(b,
/// token, head)[i].
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
  Index batch, queries, keys;    // B, T, S
  Index heads, key_value_heads;  // H, K; K divides H
  Index head_size, value_size;   // D, E
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
  AttentionBlock(const Attention<T>& a, const Mask<T>& mask, Index b, Index key_value_head,
                 Index t_begin, Index t_end, Arena& arena)
      : a_(a),
        mask_(mask),
        b_(b),
        key_value_head_(key_value_head),
        t_begin_(t_begin),
        rows_((t_end - t_begin) * a.group()),
        scratch_(arena) {
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
      const Index n = (std::min)(key_tile, a_.keys - j);
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
      keys_begin_ = (std::min)(keys_begin_, visible_[row].begin);
      keys_end_ = (std::max)(keys_end_, visible_[row].end);
    }
  }

  /// scores (rows, n) of keys j ... j + n - 1, -infinity where a key may not be seen.
  void compute_scores(Index j, Index n) {
    const auto k = RightFactor<T>::from_rows(a_.k.at(b_, j, key_value_head_), a_.k.token_stride);
    for (Index column = 0; column < n; column += panel_width<T>) {
      T* panel = key_panels_ + column * a_.head_size;
      pack_panel(k, column, (std::min)(panel_width<T>, n - column), 0, a_.head_size, panel);
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
    if (mask_.key_allowed) {
      const bool* allowed = mask_.key_allowed->data() + b_ * a_.keys + j;
      for (Index i = begin; i < end; ++i) s[i] = allowed[i] ? s[i] : minus_infinity;
    }
    if (mask_.allowed.given()) {
      const bool* allowed = mask_.allowed.keys(b_, h, t);
      const Index stride = mask_.allowed.key_stride();
      for (Index i = begin; i < end; ++i) s[i] = allowed[(j + i) * stride] ? s[i] : minus_infinity;
    }
  }

  /// Turns a row of scores into e^{s - maximum} and brings the row's sum and result to the new
  /// maximum.
  void update_softmax(Index row, Index n) {
    using S = Simd<T>;
    T* s = scores_ + row * key_tile;
    const T largest = (std::max)(maximum_[row], row_maximum(s, n));
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
      const Index columns = (std::min)(panel_width<T>, a_.value_size - column);
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

  /// The same sums in the same order, but keys of weight zero are left out instead of multiplied by
  /// zero.
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
                [&](auto r) { return S::fma(r, inverse, S::zero()); });  // -0 becomes 0
    }
  }

  /// A second walk over the keys with the final maximum and sum.
  void store_weights() {
    using S = Simd<T>;
    for (Index row = 0; row < rows_; ++row) std::fill_n(weights(row), a_.keys, T(0));
    for (Index j = first_tile(); j < keys_end_; j += key_tile) {
      const Index n = (std::min)(key_tile, a_.keys - j);
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

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
