// SPDX-License-Identifier: MIT
#pragma once

// Which keys a query may see. `Mask<T>` is an aggregate of optional constraints; a key takes part
// only if every given one allows it. True means *takes part*, everywhere (PyTorch's
// scaled_dot_product_attention has the same sense, its MultiheadAttention the opposite). Boolean
// and additive masks are different fields of different types.
//
//   layer(x, {.causal = true});                       // key position <= query position
//   layer(x, {.causal = true, .query_offset = 7});    // the first query has position 7
//   layer(x, {.key_lengths = lengths});               // (B): keys j < lengths[b]
//   layer(x, {.key_allowed = keep});                  // (B, S) bool
//   layer(x, {.allowed = pairs});                     // (T, S) to (B, H, T, S), bool
//   layer(x, {.bias = scores});                       // added to the scaled scores; likewise
//   layer(x, {.window = 128});                        // keys later than query position - 128
//   layer(x, {.offset_bias = table});                 // (H or 1, 2 R + 1), added by offset
//   layer(x, {.sequence_lengths = lengths});          // x (1, T, C) holds several sequences
//
// `offset_bias` holds what is added to the score of a key `offset` = key position - query position
// away, for offsets -R ... R; those beyond get the ends' bias.
//
// `sequence_lengths` is for batches of texts that differ in length, without padding: sequences follow
// each other in x, and each sees itself alone, from position 0 on; the lengths add up to T. The
// bits are those of each sequence by itself. For self-attention without a cache; beside it only
// `causal`, `window` and `offset_bias` may be given.
//
// A query that may see no key gets exactly zero from attention. In biases only -infinity blocks a
// key; a very negative finite number merely weighs against it. A mask holds views: what it points
// to must live as long as the call.

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <ranges>
#include <string_view>

#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A view of integers of 32 or 64 bits, so that lengths may be a std::vector<int>, a
/// Tensor<std::int32_t, 1>, indices of Eigen ...
class IntegerSequence {
 public:
  template <std::ranges::contiguous_range Range>
  requires(
      std::ranges::sized_range<Range>&& std::signed_integral<std::ranges::range_value_t<Range>> &&
      (sizeof(std::ranges::range_value_t<Range>) == 4 ||
       sizeof(std::ranges::range_value_t<Range>) == 8)) IntegerSequence(const Range& range)
      : data_(std::ranges::data(range)),
        size_(static_cast<Index>(std::ranges::size(range))),
        wide_(sizeof(std::ranges::range_value_t<Range>) == 8) {}

  Index size() const { return size_; }

  Index operator[](Index i) const {
    EIGENFORMER_ASSERT(i >= 0 && i < size_);
    return wide_ ? static_cast<Index>(static_cast<const std::int64_t*>(data_)[i])
                 : static_cast<Index>(static_cast<const std::int32_t*>(data_)[i]);
  }

  friend bool operator==(const IntegerSequence& a, const IntegerSequence& b) {
    if (a.size_ != b.size_) return false;
    for (Index i = 0; i < a.size_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  const void* data_ = nullptr;
  Index size_ = 0;
  bool wide_ = false;
};

/// A read-only view that represents (B, H, T, S) by repeating axes of extent 1; axes that are
/// missing in front count as 1.
template <class T>
class Broadcast {
 public:
  template <int Rank>
  requires(Rank <= 4) Broadcast(TensorView<const T, Rank> view) : data_(view.data()) {
    Index stride = 1;
    for (int axis = 3; axis >= 0; --axis) {
      const int own = axis - (4 - Rank);
      shape_[axis] = own >= 0 ? view.dim(own) : 1;
      strides_[axis] = shape_[axis] == 1 ? 0 : stride;
      stride *= shape_[axis];
    }
  }
  template <int Rank>
  Broadcast(const Tensor<T, Rank>& tensor) : Broadcast(TensorView<const T, Rank>(tensor)) {}
  template <int Rank>
  Broadcast(TensorView<T, Rank> view) : Broadcast(TensorView<const T, Rank>(view)) {}

  /// Catches the classic mistake of a boolean mask in the place of an additive one, and the
  /// reverse.
  template <class Other, int Rank>
  requires(!std::is_same_v<Other, T>) Broadcast(const Tensor<Other, Rank>&) {
    static_assert(std::is_same_v<Other, T>,
                  "a boolean mask belongs in Mask::allowed, an additive one of the layer's number "
                  "type in Mask::bias");
  }

  const T* data() const { return data_; }
  Index size() const { return shape_.size(); }
  const Shape<4>& shape() const { return shape_; }

  /// The elements for keys 0, 1, ... of one query, `key_stride()` apart.
  const T* keys(Index b, Index h, Index t) const {
    return data_ + b * strides_[0] + h * strides_[1] + t * strides_[2];
  }
  Index key_stride() const { return strides_[3]; }

  /// Throws unless every extent is 1 or that of `full`.
  void require_broadcastable(std::string_view who, std::string_view field,
                             const Shape<4>& full) const {
    for (int axis = 0; axis < 4; ++axis) {
      require(shape_[axis] == 1 || shape_[axis] == full[axis], who, ": ", field,
              ": shape must broadcast to ", full, "; got ", shape_);
    }
  }

 private:
  const T* data_ = nullptr;
  Shape<4> shape_{};
  Shape<4> strides_{};
};

template <class T>
struct Mask {
  bool causal = false;
  Index query_offset = 0;
  std::optional<IntegerSequence> key_lengths = {};
  std::optional<TensorView<const bool, 2>> key_allowed = {};
  std::optional<Broadcast<bool>> allowed = {};
  std::optional<Broadcast<T>> bias = {};
  Index window = 0;
  std::optional<TensorView<const T, 2>> offset_bias = {};
  std::optional<IntegerSequence> sequence_lengths = {};
};

namespace kernels {

/// Throws unless the lengths add up to the rows of x (1, T, ...).
inline void require_sequences(std::string_view who, const IntegerSequence& lengths, Index batch,
                              Index tokens) {
  Index sum = 0;
  for (Index i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0 && lengths[i] <= tokens, who, ": sequence_lengths must be in [0, ",
            tokens, "]; got ", lengths[i]);
    sum += lengths[i];
  }
  require(
      batch == 1 && sum == tokens, who,
      ": sequence_lengths are those of the sequences in x (1, T, ...) and must add up to T; got "
      "a batch of ",
      batch, ", T = ", tokens, " and a sum of ", sum);
}

/// Throws if the mask has sequence_lengths, for those that can't follow them.
template <class T>
void require_no_sequences(std::string_view who, const Mask<T>& mask) {
  require(!mask.sequence_lengths, who,
          ": mask.sequence_lengths is for self-attention without a cache");
}

/// Throws unless the mask fits scores of shape `scores`, (B, H, T, S).
template <class T>
void require_valid_mask(std::string_view who, const Mask<T>& mask, const Shape<4>& scores) {
  const Index batch = scores[0], keys = scores[3];
  constexpr Index furthest = (std::numeric_limits<Index>::max)() / 4;
  require(
      mask.window <= furthest && mask.query_offset >= -furthest && mask.query_offset <= furthest,
      who, ": mask.window and mask.query_offset must be within +-", furthest, "; got ", mask.window,
      " and ", mask.query_offset);
  require(mask.window >= 0, who, ": mask.window must be >= 0 (0: none); got ", mask.window);
  if (mask.key_lengths) {
    const IntegerSequence& lengths = *mask.key_lengths;
    require(lengths.size() == batch, who, ": mask.key_lengths must hold one length for each of ",
            batch, " batch rows; got ", lengths.size());
    for (Index b = 0; b < batch; ++b) {
      require(lengths[b] >= 0 && lengths[b] <= keys, who, ": mask.key_lengths must be in [0, ",
              keys, "]; got ", lengths[b], " for batch row ", b);
    }
  }
  if (mask.key_allowed) {
    require(mask.key_allowed->shape() == Shape<2>{batch, keys}, who, ": mask.key_allowed must be ",
            Shape<2>{batch, keys}, "; got ", mask.key_allowed->shape());
  }
  if (mask.offset_bias) {
    const Index heads = mask.offset_bias->dim(0), offsets = mask.offset_bias->dim(1);
    require((heads == 1 || heads == scores[1]) && offsets % 2 == 1, who,
            ": mask.offset_bias must be (1 or ", scores[1], ", 2 R + 1); got ",
            mask.offset_bias->shape());
  }
  if (mask.sequence_lengths) {
    require_sequences(who, *mask.sequence_lengths, batch, scores[2]);
    require(keys == scores[2] && !mask.key_lengths && !mask.key_allowed && !mask.allowed &&
                !mask.bias && mask.query_offset == 0,
            who,
            ": beside mask.sequence_lengths only causal, window and offset_bias may be given, in "
            "self-attention");
  }
  if (mask.allowed) mask.allowed->require_broadcastable(who, "mask.allowed", scores);
  if (mask.bias) mask.bias->require_broadcastable(who, "mask.bias", scores);
}

/// Keys begin <= j < end; empty if begin >= end.
struct KeyRange {
  Index begin, end;
};

/// The keys that causality, the window and the lengths leave to a query of batch row b at
/// `position`, out of `keys`.
template <class T>
KeyRange visible_range(const Mask<T>& mask, Index b, Index position, Index keys) {
  KeyRange range{0, keys};
  if (mask.causal) range.end = std::clamp<Index>(position + 1, 0, keys);
  if (mask.key_lengths) range.end = (std::min)(range.end, (*mask.key_lengths)[b]);
  if (mask.window > 0) range.begin = std::clamp<Index>(position + 1 - mask.window, 0, keys);
  return range;
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
