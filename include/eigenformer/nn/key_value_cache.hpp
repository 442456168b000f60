// SPDX-License-Identifier: MIT
#pragma once

// The keys and values that one attention has seen: a value that the caller owns and lends to each
// call.
//
//   auto cache = attention.make_cache(batch, capacity);
//   attention.forward(prompt, {.causal = true}, cache, y, workspace);       // T tokens
//   attention.forward(next_token, {.causal = true}, cache, z, workspace);   // one more
//
// Every batch row has a length of its own, so rows of a batch may be of different lengths. Storage
// is allocated once, for `capacity` tokens a row, in the layout that attention reads
// (kernels/key_value_panels.hpp). What doesn't fit is an error that changes nothing. Not
// thread-safe: one call at a time.

#include <algorithm>
#include <span>
#include <vector>

#include "eigenformer/kernels/key_value_panels.hpp"
#include "eigenformer/kernels/mask.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct KeyValueCacheConfig {
  Index batch = 0;
  Index capacity = 0;  // tokens of each row
  Index num_key_value_heads = 0;
  Index head_size = 0;
};

namespace internal {

/// Throws unless `counts` is not given or one number of at most `tokens` for each batch row.
inline void require_counts(std::string_view who, Index batch, Index tokens,
                           const IntegerSequence& counts) {
  if (!counts.given()) return;
  require(counts.size() == batch, who, ": token counts must be one for each of ", batch,
          " batch rows; got ", counts.size());
  for (Index b = 0; b < batch; ++b) {
    require(counts[b] >= 0 && counts[b] <= tokens, who, ": token counts must be in [0, ", tokens,
            "]; got ", counts[b], " for batch row ", b);
  }
}

/// Throws unless rows that hold `lengths` of at most `capacity` tokens have room for the new ones.
inline void require_room(std::string_view who, std::span<const Index> lengths, Index capacity,
                         Index tokens, const IntegerSequence& counts) {
  const auto batch = static_cast<Index>(lengths.size());
  require_counts(who, batch, tokens, counts);
  for (Index b = 0; b < batch; ++b) {
    const Index count = counts.given() ? counts[b] : tokens;
    const Index length = lengths[static_cast<std::size_t>(b)];
    require(count <= capacity - length, who, ": batch row ", b, " holds ", length, " of at most ",
            capacity, " tokens; ", count, " more don't fit");
  }
}

inline Index longest_after(std::span<const Index> lengths, Index tokens,
                           const IntegerSequence& counts) {
  Index longest = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const Index count = counts.given() ? counts[static_cast<Index>(b)] : tokens;
    longest = (std::max)(longest, lengths[b] + count);
  }
  return longest;
}

}  // namespace internal

template <class T>
class KeyValueCache {
 public:
  /// Holds nothing and has room for nothing.
  KeyValueCache() = default;

  /// Throws std::invalid_argument for negative sizes.
  explicit KeyValueCache(const KeyValueCacheConfig& config)
      : storage_(checked(config)), lengths_(static_cast<std::size_t>(config.batch), 0) {}

  Index batch() const { return static_cast<Index>(lengths_.size()); }
  Index capacity() const { return storage_.config.capacity; }
  std::span<const Index> lengths() const { return lengths_; }
  Index length(Index b) const { return lengths_[row(b)]; }
  Index longest() const {
    return lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
  }

  /// (batch, key/value heads, head size).
  Shape<3> sizes() const {
    return {batch(), storage_.config.num_key_value_heads, storage_.config.head_size};
  }

  /// Bytes held.
  Index bytes() const { return storage_.bytes() + spare_.bytes(); }

  /// Forgets everything; the storage stays.
  void clear() { std::fill(lengths_.begin(), lengths_.end(), Index{0}); }

  /// Forgets the tokens of row b from `length` on. Throws unless 0 <= length <= length(b).
  void truncate(Index b, Index length) {
    require(length >= 0 && length <= lengths_[row(b)], "KeyValueCache: batch row ", b, " holds ",
            lengths_[row(b)], " tokens and can't be truncated to ", length);
    lengths_[row(b)] = length;
  }

  /// Row b becomes a copy of what row rows[b] was; there may be more or fewer rows than before.
  /// Beam search.
  void reorder(std::span<const Index> rows) {
    for (Index from : rows) row(from);
    const auto wanted = static_cast<Index>(rows.size());
    bool same = wanted == batch();
    for (Index b = 0; b < wanted && same; ++b) same = rows[static_cast<std::size_t>(b)] == b;
    if (same) return;
    KeyValueCacheConfig config = storage_.config;
    config.batch = wanted;
    if (spare_.config.batch != wanted || spare_.config.capacity != config.capacity) {
      spare_ = Storage(config);
    }
    spare_.config = config;  // a spare that was never used may have no heads
    std::vector<Index>& lengths = spare_lengths_;
    lengths.resize(rows.size());
    for (std::size_t b = 0; b < rows.size(); ++b) {
      lengths[b] = length(rows[b]);
      spare_.copy_row(static_cast<Index>(b), storage_, rows[b], lengths[b]);
    }
    storage_.swap(spare_);
    lengths_.swap(lengths);
  }

  /// Throws std::invalid_argument unless `tokens` more (of row b: counts[b] more) fit. `counts` may
  /// be not given.
  void require_room(Index tokens, const IntegerSequence& counts) const {
    internal::require_room("KeyValueCache", lengths_, capacity(), tokens, counts);
  }

  /// The same for a cache that is cleared first.
  void require_room_when_empty(Index tokens, const IntegerSequence& counts) const {
    internal::require_counts("KeyValueCache", batch(), tokens, counts);
    for (Index b = 0; b < batch(); ++b) {
      const Index count = counts.given() ? counts[b] : tokens;
      require(count <= capacity(), "KeyValueCache: batch row ", b, " holds at most ", capacity(),
              " tokens; ", count, " don't fit");
    }
  }

  /// The longest row after so many more tokens.
  Index longest_after(Index tokens, const IntegerSequence& counts) const {
    return internal::longest_after(lengths_, tokens, counts);
  }

  /// Appends tokens, given as for kernels::write_keys_and_values. Nothing is changed if they don't
  /// fit.
  void append(const kernels::Heads<const T>& k, const kernels::Heads<const T>& v, Index tokens,
              const IntegerSequence& counts, Workspace& workspace) {
    require_room(tokens, counts);
    Scratch scratch(workspace);
    auto* added = scratch.array<Index>(batch());
    for (Index b = 0; b < batch(); ++b) added[b] = counts.given() ? counts[b] : tokens;
    kernels::write_keys_and_values(storage_.panels(), k, v, tokens, lengths_.data(), added,
                                   workspace);
    for (Index b = 0; b < batch(); ++b) lengths_[row(b)] += added[b];
  }

  /// What attention reads: a view of the storage until the next reorder. To be read only.
  kernels::KeyValuePanels<T> panels() const { return storage_.panels(); }

  /// The key (D) of a token that the cache holds.
  Tensor<T, 1> key(Index b, Index head, Index token) const {
    require_token(b, head, token);
    const Index place = token % kernels::panel_width<T>;
    const T* panel = panels().key_panel(b, head, token - place);
    Tensor<T, 1> key({storage_.config.head_size});
    for (Index d = 0; d < key.size(); ++d) key(d) = panel[d * kernels::panel_width<T> + place];
    return key;
  }

  /// The value (D) of a token that the cache holds.
  Tensor<T, 1> value(Index b, Index head, Index token) const {
    require_token(b, head, token);
    Tensor<T, 1> value({storage_.config.head_size});
    for (Index e = 0; e < value.size(); ++e) {
      const Index place = e % kernels::panel_width<T>;
      value(e) = panels().value_panel(b, head, e - place, token)[place];
    }
    return value;
  }

 private:
  struct Storage {
    KeyValueCacheConfig config;
    Tensor<T, 1> keys, values;
    Tensor<bool, 1> finite;

    Storage() = default;
    Storage(const Storage&) = default;
    Storage(Storage&& other) noexcept { swap(other); }
    Storage& operator=(Storage other) noexcept {
      swap(other);
      return *this;
    }
    void swap(Storage& other) noexcept {
      std::swap(config, other.config);
      keys.swap(other.keys);
      values.swap(other.values);
      finite.swap(other.finite);
    }
    explicit Storage(const KeyValueCacheConfig& config_)
        : config(config_),
          keys({sizes().key_elements()}),
          values({sizes().value_elements()}),
          finite({sizes().tile_count()}) {}

    kernels::KeyValuePanels<T> sizes() const {
      return {.batch = config.batch,
              .heads = config.num_key_value_heads,
              .slots = config.capacity,
              .head_size = config.head_size,
              .value_size = config.head_size};
    }

    kernels::KeyValuePanels<T> panels() const {
      kernels::KeyValuePanels<T> panels = sizes();
      panels.keys = const_cast<T*>(keys.data());
      panels.values = const_cast<T*>(values.data());
      panels.finite = const_cast<bool*>(finite.data());
      return panels;
    }

    Index bytes() const {
      return (keys.size() + values.size()) * static_cast<Index>(sizeof(T)) + finite.size();
    }

    void copy_row(Index to, const Storage& other, Index from, Index length) {
      if (length == 0) return;
      const auto target = panels(), source = other.panels();
      for (Index head = 0; head < config.num_key_value_heads; ++head) {
        std::copy_n(source.key_panel(from, head, 0),
                    kernels::whole_panels<T>(length) * config.head_size,
                    target.key_panel(to, head, 0));
        for (Index e = 0; e < config.head_size; e += kernels::panel_width<T>) {
          std::copy_n(source.value_panel(from, head, e, 0), length * kernels::panel_width<T>,
                      target.value_panel(to, head, e, 0));
        }
        std::copy_n(&source.tile_is_finite(from, head, 0), source.tiles(),
                    &target.tile_is_finite(to, head, 0));
      }
    }
  };

  static const KeyValueCacheConfig& checked(const KeyValueCacheConfig& c) {
    require(c.batch >= 0 && c.capacity >= 0 && c.num_key_value_heads >= 0 && c.head_size >= 0,
            "KeyValueCache: batch, capacity, num_key_value_heads and head_size must be >= 0; got ",
            c.batch, ", ", c.capacity, ", ", c.num_key_value_heads, " and ", c.head_size);
    constexpr Index most = Index{1} << 31;
    require(c.batch <= most && c.capacity <= most && c.num_key_value_heads <= most &&
                c.head_size <= most,
            "KeyValueCache: batch, capacity, num_key_value_heads and head_size must be at most ",
            most, "; got ", c.batch, ", ", c.capacity, ", ", c.num_key_value_heads, " and ",
            c.head_size);
    require_valid(Shape<4>{c.batch, c.capacity + kernels::key_tile, c.num_key_value_heads,
                           c.head_size + kernels::key_tile},
                  sizeof(T));
    return c;
  }

  std::size_t row(Index b) const {
    require(b >= 0 && b < batch(), "KeyValueCache: there is no batch row ", b, " among ", batch());
    return static_cast<std::size_t>(b);
  }

  void require_token(Index b, Index head, Index token) const {
    require(token >= 0 && token < length(b), "KeyValueCache: batch row ", b, " holds ", length(b),
            " tokens; there is no token ", token);
    require(head >= 0 && head < storage_.config.num_key_value_heads,
            "KeyValueCache: there is no head ", head, " among ",
            storage_.config.num_key_value_heads);
  }

  Storage storage_, spare_;
  std::vector<Index> lengths_, spare_lengths_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
