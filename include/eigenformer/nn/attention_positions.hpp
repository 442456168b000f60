// SPDX-License-Identifier: MIT
#pragma once

// How attention knows the positions of queries and keys, if it isn't left to the embeddings.
//
//   rotary              queries and keys are rotated by their positions (kernels/rotary.hpp)
//   alibi               scores fall with the distance (kernels/alibi.hpp)
//   relative_bias       T5: a learned bias for each head and bucket of offsets, added to the scores
//                       (kernels/relative_bias.hpp); a stack has one table for all its layers
//   relative_key,       BERT: a learned embedding for each offset, multiplied with queries, or
//   relative_key_query  queries and keys (kernels/relative_keys.hpp)

#include "eigenformer/base/enumeration.hpp"
#include "eigenformer/kernels/relative_bias.hpp"
#include "eigenformer/kernels/rotary_frequencies.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class AttentionPosition {
  none,
  rotary,
  alibi,
  relative_bias,
  relative_key,
  relative_key_query
};

template <>
struct Enumeration<AttentionPosition> {
  static constexpr Enumerator<AttentionPosition> all[] = {
      {AttentionPosition::none, "none"},
      {AttentionPosition::rotary, "rotary"},
      {AttentionPosition::alibi, "alibi"},
      {AttentionPosition::relative_bias, "relative_bias"},
      {AttentionPosition::relative_key, "relative_key"},
      {AttentionPosition::relative_key_query, "relative_key_query"}};
};

struct AttentionPositions {
  AttentionPosition kind = AttentionPosition::none;
  RotaryConfig rotary = {};                     // rotary
  Index relative_attention_num_buckets = 32;    // relative_bias
  Index relative_attention_max_distance = 128;  // relative_bias
  Index max_position_embeddings = 512;          // relative_key*: M, for a table of 2 M - 1 rows

  bool has_relative_bias() const { return kind == AttentionPosition::relative_bias; }
  bool embeds_offsets() const {
    return kind == AttentionPosition::relative_key || kind == AttentionPosition::relative_key_query;
  }

  /// For the layers of a stack that has the table of relative biases itself.
  AttentionPositions without_table() const {
    AttentionPositions positions(*this);
    if (has_relative_bias()) positions.kind = AttentionPosition::none;
    return positions;
  }

  friend bool operator==(const AttentionPositions&, const AttentionPositions&) = default;

  template <class F, class... Positions>
  static void visit(F&& f, Positions&... p) {
    f("kind", p.kind...);
    f("rotary", p.rotary...);
    f("relative_attention_num_buckets", p.relative_attention_num_buckets...);
    f("relative_attention_max_distance", p.relative_attention_max_distance...);
    f("max_position_embeddings", p.max_position_embeddings...);
  }
};

namespace internal {

/// Throws std::invalid_argument for what makes no sense with heads of this size.
inline void require_valid_positions(const AttentionPositions& positions, Index head_size) {
  constexpr const char* who = "AttentionPositions";
  if (positions.kind == AttentionPosition::rotary) {
    kernels::require_valid_rotary(positions.rotary, head_size);
  }
  if (positions.embeds_offsets()) {
    constexpr Index most = Index{1} << 24;
    require(positions.max_position_embeddings > 0 && positions.max_position_embeddings <= most, who,
            ": max_position_embeddings must be in [1, ", most, "]; got ",
            positions.max_position_embeddings);
  }
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
