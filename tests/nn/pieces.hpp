// SPDX-License-Identifier: MIT
#pragma once

// Sequences that are sent through a decoder in pieces, with a cache: cut into pieces, ragged or
// not, and put together again.

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "eigenformer/nn/attention_positions.hpp"
#include "eigenformer/nn/key_value_cache.hpp"
#include "tests/reference/numbers.hpp"

namespace pieces {

namespace ef = eigenformer;
using ef::Index;
using Counts = std::vector<Index>;

/// One piece: of batch row b it holds counts[b] tokens, and padding up to `tokens`.
struct Piece {
  Counts counts;
  Index tokens = 0;

  /// For decoders; not given if all rows have all tokens.
  std::optional<ef::IntegerSequence> token_counts() const {
    const bool all =
        std::all_of(counts.begin(), counts.end(), [&](Index count) { return count == tokens; });
    if (all) return std::nullopt;
    return ef::IntegerSequence(counts);
  }
};

/// Pieces of `size` tokens of each row, and the rest.
inline std::vector<Piece> equal_pieces(Index batch, Index begin, Index end, Index size) {
  std::vector<Piece> list;
  for (; begin < end; begin += size) {
    const Index tokens = std::min(size, end - begin);
    list.push_back({Counts(static_cast<std::size_t>(batch), tokens), tokens});
  }
  return list;
}

/// Pieces of 1 to `largest` tokens, the same for each row.
inline std::vector<Piece> random_pieces(Index batch, Index begin, Index end, Index largest,
                                        std::uint64_t seed) {
  std::vector<Piece> list;
  const ef::Key key(seed);
  for (std::uint64_t i = 0; begin < end; ++i) {
    const Index count = 1 + static_cast<Index>(key.bits(i) % static_cast<std::uint64_t>(largest));
    const Index tokens = std::min(count, end - begin);
    list.push_back({Counts(static_cast<std::size_t>(batch), tokens), tokens});
    begin += tokens;
  }
  return list;
}

/// Pieces of 0 to `largest` tokens, of each row another number, with some padding behind.
inline std::vector<Piece> ragged_pieces(Counts begin, const Counts& end, Index largest,
                                        std::uint64_t seed) {
  std::vector<Piece> list;
  ef::Key key(seed);
  while (begin != end) {
    key = key.fold_in(1);
    Piece piece;
    for (std::size_t b = 0; b < begin.size(); ++b) {
      const auto count =
          static_cast<Index>(key.bits(b) % (static_cast<std::uint64_t>(largest) + 1));
      piece.counts.push_back(std::min(count, end[b] - begin[b]));
      begin[b] += piece.counts.back();
      piece.tokens = std::max(piece.tokens, piece.counts.back());
    }
    piece.tokens += static_cast<Index>(key.bits(99) % 3);
    list.push_back(piece);
  }
  return list;
}

/// Tokens begin[b] ... of whole (B, T, ...), padded with `filling`.
template <class T, int Rank>
ef::Tensor<T, Rank> cut(const ef::Tensor<T, Rank>& whole, std::span<const Index> begin,
                        const Piece& piece, T filling) {
  ef::Shape<Rank> shape = whole.shape();
  shape[1] = piece.tokens;
  ef::Tensor<T, Rank> part(shape);
  std::fill(part.begin(), part.end(), filling);
  const Index inner = Rank == 2 ? 1 : whole.dim(Rank - 1);
  for (Index b = 0; b < whole.dim(0); ++b) {
    const auto row = static_cast<std::size_t>(b);
    std::copy_n(whole.data() + (b * whole.dim(1) + begin[row]) * inner, piece.counts[row] * inner,
                part.data() + b * piece.tokens * inner);
  }
  return part;
}

/// What padding holds.
template <class T>
constexpr T padding() {
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) return std::numeric_limits<T>::quiet_NaN();
  return T(3);  // an id
}

/// Sends x (B, T, ...) through `step(piece, part, result)` piece by piece, the first tokens being
/// begin[b]. The result is (B, T, width) with zeros where no token was sent.
template <class T, class In, int Rank, class Step>
ef::Tensor<T, 3> in_pieces(const ef::Tensor<In, Rank>& x, Index width, Counts begin,
                           const std::vector<Piece>& list, Step&& step) {
  ef::Tensor<T, 3> whole({x.dim(0), x.dim(1), width});
  for (const Piece& piece : list) {
    const ef::Tensor<In, Rank> part = cut(x, begin, piece, padding<In>());
    ef::Tensor<T, 3> result({x.dim(0), piece.tokens, width});
    step(piece, part, result);
    for (Index b = 0; b < x.dim(0); ++b) {
      const auto row = static_cast<std::size_t>(b);
      std::copy_n(result.data() + b * piece.tokens * width, piece.counts[row] * width,
                  whole.data() + (b * x.dim(1) + begin[row]) * width);
      begin[row] += piece.counts[row];
    }
  }
  return whole;
}

/// Tokens begin[b] <= t < end[b] of every row b have the same bits.
template <class T>
::testing::AssertionResult same_tokens(const ef::Tensor<T, 3>& a, const ef::Tensor<T, 3>& b,
                                       const Counts& begin, const Counts& end) {
  for (Index row = 0; row < a.dim(0); ++row) {
    const Index first = begin[static_cast<std::size_t>(row)];
    const Index last = end[static_cast<std::size_t>(row)], width = a.dim(2);
    const auto same =
        reference::same_bits(a.data() + (row * a.dim(1) + first) * width,
                             b.data() + (row * b.dim(1) + first) * width, (last - first) * width);
    if (!same) {
      return ::testing::AssertionFailure() << "row " << row << ": " << same.message();
    }
  }
  return ::testing::AssertionSuccess();
}

/// NaN into every slot behind the lengths.
template <class T>
void poison(ef::KeyValueCache<T>& cache) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto panels = cache.panels();
  const Index width = ef::kernels::panel_width<T>;
  for (Index b = 0; b < panels.batch; ++b) {
    for (Index head = 0; head < panels.heads; ++head) {
      for (Index slot = cache.length(b); slot < ef::kernels::whole_panels<T>(panels.slots);
           ++slot) {
        T* keys = panels.key_panel(b, head, slot / width * width) + slot % width;
        for (Index d = 0; d < panels.head_size; ++d) keys[d * width] = nan;
      }
      for (Index slot = cache.length(b); slot < panels.slots; ++slot) {
        for (Index e = 0; e < panels.value_size; e += width)
          std::fill_n(panels.value_panel(b, head, e, slot), width, nan);
      }
    }
  }
}

/// Every kind of positions, for heads of 10.
struct NamedPositions {
  const char* name;
  ef::AttentionPositions positions;
};

inline std::vector<NamedPositions> all_positions() {
  using Kind = ef::AttentionPosition;
  return {{"none", {}},
          {"rotary", {.kind = Kind::rotary, .rotary = {.partial_rotary_factor = 0.6}}},
          {"rotary, interleaved, llama3",
           {.kind = Kind::rotary,
            .rotary = {.layout = ef::RotaryLayout::interleaved,
                       .rope_scaling = {.type = ef::RotaryScalingType::llama3,
                                        .factor = 8,
                                        .original_max_position_embeddings = 43}}}},
          {"alibi", {.kind = Kind::alibi}},
          {"relative_bias",
           {.kind = Kind::relative_bias,
            .relative_attention_num_buckets = 14,
            .relative_attention_max_distance = 151}},
          {"relative_key", {.kind = Kind::relative_key, .max_position_embeddings = 137}},
          {"relative_key_query", {.kind = Kind::relative_key_query, .max_position_embeddings = 7}}};
}

}  // namespace pieces
