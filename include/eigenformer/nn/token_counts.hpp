// SPDX-License-Identifier: MIT
#pragma once

// Batch rows that get different numbers of tokens in one call: row b the first counts[b] of `tokens`,
// all of them where no counts are given.

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "eigenformer/kernels/mask.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// How many of `tokens` new tokens batch row b has.
inline Index token_count(const std::optional<IntegerSequence>& counts, Index b, Index tokens) {
  return counts ? (*counts)[b] : tokens;
}

namespace internal {

/// Throws unless `counts` is empty or one number of at most `tokens` for each batch row.
inline void require_counts(std::string_view who, Index batch, Index tokens,
                           const std::optional<IntegerSequence>& counts) {
  if (!counts) return;
  require(counts->size() == batch, who, ": token counts must be one for each of ", batch,
          " batch rows; got ", counts->size());
  for (Index b = 0; b < batch; ++b) {
    require((*counts)[b] >= 0 && (*counts)[b] <= tokens, who, ": token counts must be in [0, ",
            tokens, "]; got ", (*counts)[b], " for batch row ", b);
  }
}

/// Throws unless rows that hold `lengths` of at most `capacity` tokens have room for the new ones.
inline void require_room(std::string_view who, std::span<const Index> lengths, Index capacity,
                         Index tokens, const std::optional<IntegerSequence>& counts) {
  const auto batch = static_cast<Index>(lengths.size());
  require_counts(who, batch, tokens, counts);
  for (Index b = 0; b < batch; ++b) {
    const Index count = token_count(counts, b, tokens);
    const Index length = lengths[static_cast<std::size_t>(b)];
    require(count <= capacity - length, who, ": batch row ", b, " holds ", length, " of at most ",
            capacity, " tokens; ", count, " more don't fit");
  }
}

inline Index longest_after(std::span<const Index> lengths, Index tokens,
                           const std::optional<IntegerSequence>& counts) {
  Index longest = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    longest = (std::max)(longest, lengths[b] + token_count(counts, static_cast<Index>(b), tokens));
  }
  return longest;
}

}  // namespace internal

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
