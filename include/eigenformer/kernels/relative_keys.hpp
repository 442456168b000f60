// SPDX-License-Identifier: MIT
#pragma once

// Learned relative embeddings inside attention's scores (Shaw, Uszkoreit, Vaswani, "Self-attention
// with relative position representations", 2018; BERT's position_embedding_type relative_key and
// relative_key_query):
//
//   relative_key:        s_ij = scale * (q_i . k_j + q_i . e_{i-j})
//   relative_key_query:  s_ij = scale * (q_i . k_j + q_i . e_{i-j} + k_j . e_{i-j})
//
// The table (2 R + 1, D) holds e_{-R} ... e_R and is shared by all heads; offsets beyond are those
// of its ends.

#include <algorithm>

#include "eigenformer/kernels/key_value_panels.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct RelativeKeys {
  const T* table = nullptr;  // null: none
  Index reach = 0;           // R
  bool with_keys = false;    // k_j . e_{i-j} too
};

namespace internal {

/// The additional scores of one block of queries with one tile of keys. Row r of the block is token
/// first_position + r / group; the offsets of a row are consecutive, so a product with all
/// embeddings that the block needs holds the scores of every row as a slice.
template <class T>
class RelativeScores {
 public:
  RelativeScores(const RelativeKeys<T>& relative, Index tokens, Index rows, Index head_size,
                 Arena& arena)
      : relative_(relative), tokens_(tokens), rows_(rows), size_(head_size), scratch_(arena) {
    stride_ = whole_panels<T>(tokens + key_tile - 1);
    embeddings_ = scratch_.array<T>(panel_width<T> * size_);
    panel_ = scratch_.array<T>(panel_width<T> * size_);
    of_queries_ = scratch_.array<T>(rows_ * stride_);
    if (relative.with_keys) {
      of_keys_ = scratch_.array<T>(key_tile * stride_);
      keys_ = scratch_.array<T>(key_tile * size_);
    }
  }

  /// Adds to scores (rows, n), whose rows are key_tile apart. q (rows, D) and the scores are scaled
  /// already; the tile's n keys have the positions from `key_position` on, in panels.
  void add(const T* q, const T* key_panels, T scale, Index first_position, Index key_position,
           Index n, T* scores) {
    if (relative_.with_keys) unpack_keys(key_panels, scale, n);
    const Index columns = tokens_ + n - 1;
    for (Index column = 0; column < columns; column += panel_width<T>) {
      const Index width = (std::min)(panel_width<T>, columns - column);
      // Column c is for the offset that the last token has to key c of the tile.
      for (Index i = 0; i < width; ++i) {
        const Index offset = first_position + tokens_ - 1 - key_position - (column + i);
        const Index row = std::clamp(offset, -relative_.reach, relative_.reach) + relative_.reach;
        std::copy_n(relative_.table + row * size_, size_, embeddings_ + i * size_);
      }
      pack_panel(StridedFactor<T>{embeddings_, size_}, 0, width, 0, size_, panel_);
      multiply(q, rows_, of_queries_ + column);
      if (relative_.with_keys) multiply(keys_, n, of_keys_ + column);
    }
    const Index group = rows_ / tokens_;
    for (Index row = 0; row < rows_; ++row) {
      const Index begin = tokens_ - 1 - row / group;  // the row's first column
      T* s = scores + row * key_tile;
      for (Index i = 0; i < n; ++i) s[i] += of_queries_[row * stride_ + begin + i];
      if (!relative_.with_keys) continue;
      for (Index i = 0; i < n; ++i) s[i] += of_keys_[i * stride_ + begin + i];
    }
  }

 private:
  /// One panel of embeddings times `rows` vectors.
  void multiply(const T* vectors, Index rows, T* scores) const {
    target<T>().macrokernel({.rows = rows,
                             .columns = panel_width<T>,
                             .depth = size_,
                             .a = vectors,
                             .a_stride = size_,
                             .panels = panel_,
                             .panel_stride = 0,
                             .c = scores,
                             .c_stride = stride_});
  }

  void unpack_keys(const T* panels, T scale, Index n) {
    for (Index i = 0; i < n; ++i) {
      const T* panel = panels + i / panel_width<T> * panel_width<T> * size_ + i % panel_width<T>;
      for (Index d = 0; d < size_; ++d) keys_[i * size_ + d] = panel[d * panel_width<T>] * scale;
    }
  }

  const RelativeKeys<T>& relative_;
  Index tokens_, rows_, size_, stride_;
  Scratch scratch_;
  T *embeddings_, *panel_, *of_queries_, *of_keys_ = nullptr, *keys_ = nullptr;
};

}  // namespace internal
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
