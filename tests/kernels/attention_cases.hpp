// SPDX-License-Identifier: MIT
#pragma once

// Random masks, as the library takes them and as the plain loops do.

#include <vector>

#include "eigenformer/kernels/attention.hpp"
#include "tests/reference/attention.hpp"

namespace reference {

struct AttentionSize {
  Index batch, heads, key_value_heads, queries, keys, head_size, value_size;

  ef::Shape<4> scores() const { return {batch, heads, queries, keys}; }
};

template <class T>
struct AttentionInputs {
  ef::Tensor<T, 4> q, k, v;

  explicit AttentionInputs(const AttentionSize& s, std::uint64_t seed = 1)
      : q(random_tensor<T, 4>({s.batch, s.heads, s.queries, s.head_size}, seed, 2)),
        k(random_tensor<T, 4>({s.batch, s.key_value_heads, s.keys, s.head_size}, seed + 1, 2)),
        v(random_tensor<T, 4>({s.batch, s.key_value_heads, s.keys, s.value_size}, seed + 2)) {}
};

/// Which fields of a mask are given, and what shape the broadcast ones have (0: the full extent, 1:
/// one for all).
struct MaskKind {
  const char* name;
  bool causal = false;
  Index query_offset = 0;
  bool lengths = false, key_allowed = false, allowed = false, bias = false;
  Index window = 0;
  ef::Shape<4> broadcast = {0, 0, 0, 0};
};

inline constexpr MaskKind mask_kinds[] = {
    {.name = "none"},
    {.name = "causal", .causal = true},
    {.name = "causal with an offset", .causal = true, .query_offset = 7},
    {.name = "causal with a negative offset", .causal = true, .query_offset = -3},
    {.name = "lengths", .lengths = true},
    {.name = "key_allowed", .key_allowed = true},
    {.name = "allowed (B, H, T, S)", .allowed = true},
    {.name = "allowed (1, 1, T, S)", .allowed = true, .broadcast = {1, 1, 0, 0}},
    {.name = "allowed (B, 1, T, S)", .allowed = true, .broadcast = {0, 1, 0, 0}},
    {.name = "allowed (1, H, T, S)", .allowed = true, .broadcast = {1, 0, 0, 0}},
    {.name = "allowed (B, 1, 1, S)", .allowed = true, .broadcast = {0, 1, 1, 0}},
    {.name = "allowed (1, 1, T, 1)", .allowed = true, .broadcast = {1, 1, 0, 1}},
    {.name = "bias (B, H, T, S)", .bias = true},
    {.name = "bias (1, H, 1, S)", .bias = true, .broadcast = {1, 0, 1, 0}},
    {.name = "bias (B, 1, T, 1)", .bias = true, .broadcast = {0, 1, 0, 1}},
    {.name = "window", .window = 5},
    {.name = "window of one", .window = 1},
    {.name = "window with an offset", .query_offset = 11, .window = 3},
    {.name = "causal window", .causal = true, .window = 4},
    {.name = "causal and lengths", .causal = true, .lengths = true},
    {.name = "causal and key_allowed", .causal = true, .key_allowed = true},
    {.name = "everything",
     .causal = true,
     .query_offset = 2,
     .lengths = true,
     .key_allowed = true,
     .allowed = true,
     .bias = true,
     .window = 9,
     .broadcast = {1, 0, 0, 0}},
};

/// A random mask of the kind. `mask()` views what this object holds.
template <class T>
class RandomMask {
 public:
  RandomMask(const MaskKind& kind, const AttentionSize& s, std::uint64_t seed) : kind_(kind) {
    const ef::Key key(seed);
    ef::Shape<4> shape = s.scores();
    for (int axis = 0; axis < 4; ++axis) {
      if (kind.broadcast[axis] == 1) shape[axis] = 1;
    }
    if (kind.lengths) {
      for (Index b = 0; b < s.batch; ++b) {
        // From no key to all of them.
        lengths_.push_back(b == 0 ? s.keys : (b == 1 ? 0 : s.keys - s.keys / 3));
      }
    }
    if (kind.key_allowed) key_allowed_ = coins<2>({s.batch, s.keys}, key.fold_in(1));
    if (kind.allowed) allowed_ = coins<4>(shape, key.fold_in(2));
    if (kind.bias) {
      bias_ = random_tensor<T, 4>(shape, seed + 3, 3);
      for (Index i = 0; i < bias_.size(); i += 7) {
        bias_.data()[i] = -std::numeric_limits<T>::infinity();
      }
    }
    plain_ = {
        .causal = kind.causal,
        .query_offset = kind.query_offset,
        .key_lengths = lengths_,
        .key_allowed = key_allowed_,
        .allowed = kind.allowed ? broadcast<bool>(allowed_, s.scores()) : ef::Tensor<bool, 4>(),
        .bias = kind.bias ? broadcast<Real>(bias_, s.scores()) : Reals<4>(),
        .window = kind.window};
  }

  ef::Mask<T> mask() const {
    ef::Mask<T> mask;
    mask.causal = kind_.causal;
    mask.query_offset = kind_.query_offset;
    if (kind_.lengths) mask.key_lengths = lengths_;
    if (kind_.key_allowed) mask.key_allowed = key_allowed_;
    if (kind_.allowed) mask.allowed = allowed_;
    if (kind_.bias) mask.bias = bias_;
    mask.window = kind_.window;
    return mask;
  }

  const Visibility& plain() const { return plain_; }

 private:
  template <int Rank>
  static ef::Tensor<bool, Rank> coins(const ef::Shape<Rank>& shape, ef::Key key) {
    ef::Tensor<bool, Rank> x(shape);
    for (Index i = 0; i < x.size(); ++i) {
      x.data()[i] = key.uniform(static_cast<std::uint64_t>(i)) < 0.6;
    }
    return x;
  }

  MaskKind kind_;
  std::vector<Index> lengths_;
  ef::Tensor<bool, 2> key_allowed_;
  ef::Tensor<bool, 4> allowed_;
  ef::Tensor<T, 4> bias_;
  Visibility plain_;
};

}  // namespace reference
