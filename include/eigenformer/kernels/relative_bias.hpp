// SPDX-License-Identifier: MIT
#pragma once

// T5's relative position biases (Raffel et al., "Exploring the limits of transfer learning with a
// unified text-to-text transformer", 2020): a learned number for each head and bucket of offsets,
// added to the scores. Buckets hold one offset each at first, then ranges that grow
// logarithmically; all offsets from `max_distance` on share the last one.
//
//   offset = key position - query position
//   n = |offset|, in the upper half of the buckets if offset > 0        (bidirectional)
//   n = max(-offset, 0)                                                 (looking back only)
//   n < exact:  bucket n         exact: half of the buckets of one direction, N
//   else:       min(N - 1, exact + floor(ln(n / exact) / ln(max_distance / exact) (N - exact)))

#include <algorithm>
#include <cmath>

#include "eigenformer/base/tensor.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

struct RelativeBuckets {
  Index count = 32;
  Index max_distance = 128;
  bool bidirectional = true;

  /// The bucket of an offset, in [0, count).
  Index of(Index offset) const {
    const Index one_way = bidirectional ? count / 2 : count;
    const Index begin = bidirectional && offset > 0 ? one_way : 0;
    const Index n = bidirectional ? std::abs(offset) : std::max<Index>(-offset, 0);
    const Index exact = one_way / 2;
    if (n < exact) return begin + n;
    const double part = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                        std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    const Index further = n >= max_distance
                              ? one_way
                              : static_cast<Index>(part * static_cast<double>(one_way - exact));
    return begin + (std::min)(one_way - 1, exact + further);
  }
};

/// bias (H, 2 max_distance + 1) for offsets -max_distance ... max_distance, from table (count, H).
template <class T>
void spread_relative_bias(const RelativeBuckets& buckets, TensorView<const T, 2> table,
                          TensorView<T, 2> bias) {
  for (Index i = 0; i < bias.dim(1); ++i) {
    const Index bucket = buckets.of(i - buckets.max_distance);
    for (Index h = 0; h < bias.dim(0); ++h) bias(h, i) = table(bucket, h);
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
