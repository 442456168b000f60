// SPDX-License-Identifier: MIT
#pragma once

// Inputs of modules for ModuleLaws, in double, and what the laws do to them: take one batch row,
// pad, spoil a row.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/reference/numbers.hpp"

namespace laws {

namespace ef = eigenformer;
using ef::Index;
using Lengths = std::vector<Index>;

enum class Kind {
  tokens,          // x (B, T, C), of which lengths[b] tokens count
  two_sequences,   // x (B, T, C) and a memory (B, S, M), of which lengths[b] tokens count
  ids,             // ids (B, T), of which lengths[b] count
  ids_and_memory,  // ids (B, T) and a memory (B, S, M), of which lengths[b] tokens count
  two_ids,         // ids (B, T) and a source (B, S) of ids, of which lengths[b] count
  images           // images (B, channels, height, width)
};

struct Input {
  Kind kind;
  ef::Tensor<double, 3> x = {}, memory = {};
  ef::Tensor<std::int32_t, 2> ids = {}, source = {};
  ef::Tensor<double, 4> images = {};
  Lengths lengths = {};

  /// Whether lengths are those of a second sequence; then all tokens of the first count.
  bool has_second() const {
    return kind == Kind::two_sequences || kind == Kind::ids_and_memory || kind == Kind::two_ids;
  }
  bool has_ids() const {
    return kind == Kind::ids || kind == Kind::ids_and_memory || kind == Kind::two_ids;
  }
  Index batch() const;
  /// How many of the result's tokens count in batch row b.
  Index valid_tokens(Index b) const;
  /// Batch row b alone, without what doesn't count.
  Input row(Index b) const;
  /// With `extra` more tokens in each row, which hold NaN (or some id).
  Input padded(Index extra) const;
  /// NaN in batch row b; other ids.
  void spoil(Index b);
};

/// All tokens for row 0, fewer for every further row; one at least if there are any.
inline Lengths falling_lengths(Index batch, Index tokens) {
  Lengths lengths;
  for (Index b = 0; b < batch; ++b) {
    lengths.push_back(std::max(std::min<Index>(1, tokens), tokens - 2 * b));
  }
  return lengths;
}

namespace internal {

/// Batch row b of x (B, T, ...), up to token `count`.
template <class T, int Rank>
ef::Tensor<T, Rank> row_of(const ef::Tensor<T, Rank>& x, Index b, Index count) {
  ef::Shape<Rank> shape = x.shape();
  const Index inner = shape.size() / std::max<Index>(1, shape[0] * shape[1]);
  shape[0] = 1;
  shape[1] = count;
  ef::Tensor<T, Rank> y(shape);
  std::copy_n(x.data() + b * x.dim(1) * inner, count * inner, y.data());
  return y;
}

template <class T, int Rank>
ef::Tensor<T, Rank> with_more_tokens(const ef::Tensor<T, Rank>& x, Index extra, T filling) {
  ef::Shape<Rank> shape = x.shape();
  const Index inner = shape.size() / (shape[0] * shape[1]), old = shape[1];
  shape[1] += extra;
  ef::Tensor<T, Rank> y(shape);
  std::fill(y.begin(), y.end(), filling);
  for (Index b = 0; b < shape[0]; ++b) {
    std::copy_n(x.data() + b * old * inner, old * inner, y.data() + b * shape[1] * inner);
  }
  return y;
}

template <class T, int Rank>
void fill_row(ef::Tensor<T, Rank>& x, Index b, T value) {
  if (x.empty()) return;
  const Index row = x.size() / x.dim(0);
  std::fill_n(x.data() + b * row, row, value);
}

}  // namespace internal

inline Index Input::batch() const {
  if (kind == Kind::images) return images.dim(0);
  return has_ids() ? ids.dim(0) : x.dim(0);
}

inline Index Input::valid_tokens(Index b) const {
  if (has_second()) return has_ids() ? ids.dim(1) : x.dim(1);
  return kind == Kind::images ? std::numeric_limits<Index>::max()
                              : lengths[static_cast<std::size_t>(b)];
}

inline Input Input::row(Index b) const {
  Input one{kind};
  if (kind == Kind::images) {
    one.images = internal::row_of(images, b, images.dim(1));
    return one;
  }
  const Index length = lengths[static_cast<std::size_t>(b)];
  one.lengths = {length};
  const Index tokens = valid_tokens(b);
  if (has_ids()) {
    one.ids = internal::row_of(ids, b, tokens);
  } else {
    one.x = internal::row_of(x, b, tokens);
  }
  if (!memory.empty()) one.memory = internal::row_of(memory, b, length);
  if (!source.empty()) one.source = internal::row_of(source, b, length);
  return one;
}

inline Input Input::padded(Index extra) const {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Input more{kind};
  more.lengths = lengths;
  if (has_ids()) {
    more.ids = internal::with_more_tokens(ids, extra, std::int32_t{3});
  } else {
    more.x = internal::with_more_tokens(x, extra, nan);
  }
  if (!memory.empty()) more.memory = internal::with_more_tokens(memory, 2 * extra, nan);
  if (!source.empty()) more.source = internal::with_more_tokens(source, 2 * extra, std::int32_t{3});
  return more;
}

inline void Input::spoil(Index b) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  internal::fill_row(x, b, nan);
  internal::fill_row(memory, b, nan);
  internal::fill_row(images, b, nan);
  for (auto* sequence : {&ids, &source}) {
    for (Index t = 0; t < sequence->dim(1); ++t) {
      (*sequence)(b, t) = ((*sequence)(b, t) + 1) % 11;
    }
  }
}

}  // namespace laws
