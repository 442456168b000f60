// SPDX-License-Identifier: MIT
#pragma once

// ALiBi (Press, Smith, Lewis, "Train short, test long: attention with linear biases enables input
// length extrapolation", 2022): instead of position embeddings, a score is lowered in proportion to
// the distance of key and query,
//
//   bias_hij = -slope_h |i - j|
//
// For H = 2^n heads slope_h = 2^{-8 (h + 1) / H}. For other H the authors' rule: the slopes of the
// largest power of two below, then every second slope of the next power of two.

#include <cmath>

#include "eigenformer/base/config.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// The slope of head `head` of `heads`.
inline double alibi_slope(Index head, Index heads) {
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  const double exponent =
      head < power ? static_cast<double>(head + 1) / static_cast<double>(power)
                   : static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power);
  return std::exp2(-8.0 * exponent);
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
