// SPDX-License-Identifier: MIT
#pragma once

// The inside of attention: one block of queries walks over the keys of one key/value head, tile by
// tile. What is computed and promised is in kernels/attention.hpp.
//
// For each tile: scores = q k^T (a matrix product over panels of keys), capped, biased and masked;
// the running maximum and sum of every row are brought up to date; result += e^{scores - maximum} v
// (the same product over panels of values). At the end every row is divided by its sum.

#include <cstdlib>
#include <limits>
#include <optional>

#include "eigenformer/kernels/attention_arguments.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/softmax.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Query rows (tokens times grouped heads) that share a key tile.
inline constexpr Index query_rows = 72;

namespace internal {

/// One block of queries against all the keys of one key/value head.
template <class T>
class AttentionBlock {
  static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
  static constexpr Index lanes = SoftmaxTile<T>::lanes;

 public:
  AttentionBlock(const Attention<T>& a, const KeyValuePanels<const T>& panels, const Mask<T>& mask,
                 Index b, Index key_value_head, Index t_begin, Index t_end, Arena& arena)
      : a_(a),
        panels_(panels),
        mask_(mask),
        b_(b),
        key_value_head_(key_value_head),
        t_begin_(t_begin),
        rows_((t_end - t_begin) * a.group()),
        first_position_(mask.query_offset + (a.query_offsets ? a.query_offsets[b] : 0) + t_begin),
        keys_(a.key_counts ? a.key_counts[b] : a.keys),
        scratch_(arena) {
    q_ = scratch_.array<T>(rows_ * a.head_size);
    sum_ = scratch_.array<T>(rows_);
    sums_ = scratch_.array<T>(rows_ * lanes);
    maximum_ = scratch_.array<T>(rows_);
    result_ = scratch_.array<T>(rows_ * a.value_size);
    scores_ = scratch_.array<T>(rows_ * key_tile);
    visible_ = scratch_.array<KeyRange>(rows_);
    seen_ = scratch_.array<Index>(rows_);
    if (a.relative_keys.table != nullptr) {
      relative_scores_.emplace(a.relative_keys, t_end - t_begin, rows_, a.head_size, arena);
    }
  }

  void run() {
    load_queries();
    std::fill_n(sums_, rows_ * lanes, T(0));
    std::fill_n(maximum_, rows_, minus_infinity);
    std::fill_n(result_, rows_ * a_.value_size, T(0));
    for (Index j = first_tile(); j < keys_end_; j += key_tile) {
      const Index n = (std::min)(key_tile, keys_end_ - j);
      compute_scores(j, n);
      target<T>().softmax_step({.scores = scores_,
                                .stride = key_tile,
                                .rows = rows_,
                                .columns = n,
                                .seen = seen_,
                                .maximum = maximum_,
                                .sums = sums_,
                                .result = result_,
                                .size = a_.value_size});
      add_values(j, n);
    }
    for (Index row = 0; row < rows_; ++row) sum_[row] = target<T>().sum(sums_ + row * lanes, lanes);
    store_result();
    if (a_.attention_weights != nullptr) store_weights();
  }

 private:
  Index token(Index row) const { return t_begin_ + row / a_.group(); }
  Index position(Index row) const { return first_position_ + row / a_.group(); }
  Index head(Index row) const { return key_value_head_ * a_.group() + row % a_.group(); }
  Index first_tile() const { return keys_begin_ / key_tile * key_tile; }

  void load_queries() {
    keys_begin_ = keys_;
    keys_end_ = 0;
    for (Index row = 0; row < rows_; ++row) {
      target<T>().scale(a_.q.at(b_, token(row), head(row)), a_.scale, q_ + row * a_.head_size,
                        a_.head_size);
      visible_[row] = visible_range(mask_, b_, position(row), keys_);
      if (visible_[row].begin >= visible_[row].end) continue;
      keys_begin_ = (std::min)(keys_begin_, visible_[row].begin);
      keys_end_ = (std::max)(keys_end_, visible_[row].end);
    }
  }

  /// scores (rows, n) of keys j ... j + n - 1, for each row those up to the last that it may see,
  /// -infinity where a key may not be seen.
  void compute_scores(Index j, Index n) {
    const T* panels = panels_.key_panel(b_, key_value_head_, j);
    target<T>().macrokernel({.rows = rows_,
                             .columns = whole_panels<T>(n),
                             .depth = a_.head_size,
                             .a = q_,
                             .a_stride = a_.head_size,
                             .panels = panels,
                             .panel_stride = a_.head_size * panel_width<T>,
                             .c = scores_,
                             .c_stride = key_tile});
    if (relative_scores_)
      relative_scores_->add(q_, panels, a_.scale, first_position_, j, n, scores_);
    for (Index row = 0; row < rows_; ++row) {
      T* s = scores_ + row * key_tile;
      // Keys beyond would add zeros, which changes no bit.
      const Index seen = seen_[row] = std::clamp<Index>(visible_[row].end - j, 0, n);
      if (a_.soft_cap > 0) target<T>().soft_cap(s, seen, a_.soft_cap);
      if (a_.alibi_slopes != nullptr) add_alibi(row, j, seen, s);
      if (mask_.offset_bias) add_offset_bias(row, j, seen, s);
      if (mask_.bias) add_bias(row, j, seen, s);
      mask_scores(row, j, seen, s);
    }
  }

  void add_alibi(Index row, Index j, Index n, T* s) const {
    T distances[static_cast<std::size_t>(key_tile)];
    for (Index i = 0; i < n; ++i) distances[i] = static_cast<T>(std::abs(position(row) - (j + i)));
    target<T>().add_scaled(distances, -a_.alibi_slopes[head(row)], s, n);
  }

  /// A bias of -infinity blocks the key, whatever its score is.
  static T biased(T score, T bias) { return bias == minus_infinity ? bias : score + bias; }

  void add_offset_bias(Index row, Index j, Index n, T* s) const {
    const TensorView<const T, 2>& bias = *mask_.offset_bias;
    const Index reach = bias.dim(1) / 2, first = j - position(row);
    const T* values = bias.data() + (bias.dim(0) == 1 ? 0 : head(row)) * bias.dim(1) + reach;
    for (Index i = 0; i < n; ++i) s[i] = biased(s[i], values[std::clamp(first + i, -reach, reach)]);
  }

  void add_bias(Index row, Index j, Index n, T* s) const {
    const T* bias = mask_.bias->keys(b_, head(row), token(row));
    const Index stride = mask_.bias->key_stride();
    for (Index i = 0; i < n; ++i) s[i] = biased(s[i], bias[(j + i) * stride]);
  }

  void mask_scores(Index row, Index j, Index n, T* s) const {
    const Index begin = std::clamp<Index>(visible_[row].begin - j, 0, n);
    std::fill(s, s + begin, minus_infinity);
    if (mask_.key_allowed) {
      const bool* allowed = mask_.key_allowed->data() + b_ * a_.keys + j;
      for (Index i = begin; i < n; ++i) s[i] = allowed[i] ? s[i] : minus_infinity;
    }
    if (mask_.allowed) {
      const bool* allowed = mask_.allowed->keys(b_, head(row), token(row));
      const Index stride = mask_.allowed->key_stride();
      for (Index i = begin; i < n; ++i) s[i] = allowed[(j + i) * stride] ? s[i] : minus_infinity;
    }
  }

  /// result (rows, E) += probabilities (rows, n) v (n, E).
  void add_values(Index j, Index n) {
    if (panels_.tile_is_finite(b_, key_value_head_, j)) {
      target<T>().macrokernel({.rows = rows_,
                               .columns = a_.value_size,
                               .depth = n,
                               .a = scores_,
                               .a_stride = key_tile,
                               .panels = panels_.value_panel(b_, key_value_head_, 0, j),
                               .panel_stride = panels_.slots * panel_width<T>,
                               .c = result_,
                               .c_stride = a_.value_size,
                               .start = Start::stored});
      return;
    }
    for (Index feature = 0; feature < a_.value_size; feature += panel_width<T>) {
      const Index columns = (std::min)(panel_width<T>, a_.value_size - feature);
      add_values_seen(panels_.value_panel(b_, key_value_head_, feature, j), n, result_ + feature,
                      columns);
    }
  }

  /// The same sums in the same order, but keys of weight zero are left out instead of multiplied by
  /// zero.
  void add_values_seen(const T* panel, Index n, T* result, Index columns) const {
    for (Index row = 0; row < rows_; ++row) {
      T* r = result + row * a_.value_size;
      for (Index i = 0; i < n; ++i) {
        const T p = scores_[row * key_tile + i];
        if (p != T(0)) target<T>().add_scaled(panel + i * panel_width<T>, p, r, columns);
      }
    }
  }

  void store_result() {
    for (Index row = 0; row < rows_; ++row) {
      target<T>().scale_unsigned_zero(result_ + row * a_.value_size,
                                      sum_[row] == T(0) ? T(0) : T(1) / sum_[row],
                                      a_.y.at(b_, token(row), head(row)), a_.value_size);
    }
  }

  /// A second walk over the keys with the final maximum and sum.
  void store_weights() {
    for (Index row = 0; row < rows_; ++row) std::fill_n(weights(row), a_.keys, T(0));
    for (Index j = first_tile(); j < keys_end_; j += key_tile) {
      const Index n = (std::min)(key_tile, keys_end_ - j);
      compute_scores(j, n);
      for (Index row = 0; row < rows_; ++row) {
        if (sum_[row] == T(0)) continue;
        T* p = weights(row) + j;
        const Index seen = seen_[row];
        target<T>().exponentials(scores_ + row * key_tile, maximum_[row], p, seen);
        target<T>().scale(p, T(1) / sum_[row], p, seen);
      }
    }
  }

  T* weights(Index row) const {
    return a_.attention_weights + ((b_ * a_.heads + head(row)) * a_.queries + token(row)) * a_.keys;
  }

  const Attention<T>& a_;
  const KeyValuePanels<const T>& panels_;
  const Mask<T>& mask_;
  Index b_, key_value_head_, t_begin_, rows_;
  Index first_position_, keys_;
  Index keys_begin_ = 0, keys_end_ = 0;
  Scratch scratch_;
  T *q_, *sum_, *sums_, *maximum_, *result_, *scores_;
  KeyRange* visible_;
  Index* seen_;  // of the tile's keys, those before the end of what the row may see
  std::optional<RelativeScores<T>> relative_scores_;
};

}  // namespace internal

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
