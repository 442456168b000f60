// SPDX-License-Identifier: MIT
#pragma once

// Rotary position embeddings (Su et al., "RoFormer", 2021): queries and keys are rotated, pair by
// pair, by an angle in proportion to their position, so that their product depends on the
// difference of positions alone.
//
//   (x_a, x_b)  ->  (x_a cos - x_b sin, x_b cos + x_a sin)
//
// Angles, cosines and sines are made in double and then rounded, so position 100,000 is as exact as
// position 1.

#include "eigenformer/kernels/rotary_frequencies.hpp"
#include "eigenformer/kernels/rows.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Cosines and sines for the tokens of a call: (rows, T, r / 2), where rows is 1 if all batch rows
/// have the same positions.
template <class T>
class RotaryTable {
 public:
  /// The first token of batch row b has position offset + first[b] (null: offset).
  RotaryTable(const RotaryConfig& config, Index head_size, Index batch, Index tokens, Index offset,
              const Index* first, Scratch& scratch, Workspace& workspace)
      : layout_(config.layout), tokens_(tokens), size_(rotary_size(config, head_size)) {
    same_ = first == nullptr ||
            std::all_of(first, first + batch, [&](Index position) { return position == first[0]; });
    const Index rows = (same_ ? (std::min)(batch, Index{1}) : batch) * tokens, half = size_ / 2;
    cosine_ = scratch.array<T>(rows * half);
    sine_ = scratch.array<T>(rows * half);
    auto* frequencies = scratch.array<double>(half);
    rotary_frequencies(config, head_size, frequencies);
    const double amplitude = rotary_amplitude(config);
    for_each_row_block(rows, 16 * half, workspace, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const Index position = offset + row % tokens + (first == nullptr ? 0 : first[row / tokens]);
        for (Index i = 0; i < half; ++i) {
          const double angle = static_cast<double>(position) * frequencies[i];
          cosine_[row * half + i] = static_cast<T>(amplitude * std::cos(angle));
          sine_[row * half + i] = static_cast<T>(amplitude * std::sin(angle));
        }
      }
    });
  }

  /// Rotates all heads of x (B T, heads head_size) in place.
  void rotate(TensorView<T, 2> x, Index head_size, Workspace& workspace) const {
    const Index heads = x.columns() / head_size;
    for_each_row_block(x.rows(), x.columns(), workspace, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const Index at = (same_ ? row % tokens_ : row) * (size_ / 2);
        for (Index head = 0; head < heads; ++head) {
          target<T>().rotate(layout_, cosine_ + at, sine_ + at,
                             x.data() + row * x.columns() + head * head_size, size_);
        }
      }
    });
  }

 private:
  RotaryLayout layout_;
  Index tokens_, size_;
  bool same_;
  T *cosine_, *sine_;
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
