// SPDX-License-Identifier: MIT
#pragma once

// The keys and values that one attention has seen: a value that the caller owns and lends to each
// call.
//
//   auto cache = attention.make_cache(batch, capacity);
//   attention.forward(prompt, cache, {.causal = true}, y, workspace);       // T tokens
//   attention.forward(next_token, cache, {.causal = true}, z, workspace);   // one more
//
// Each batch row has its length. Storage is allocated once, for `capacity` tokens a row, in the layout
// that attention reads (kernels/key_value_panels.hpp). A call that throws leaves the cache as it was:
// changes are written where nobody reads yet, and take effect by a last step that can't fail. Not
// thread-safe: one call at a time.

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/key_value_panels.hpp"
#include "eigenformer/kernels/mask.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct KeyValueCacheConfig {
  Index batch = 0;
  Index capacity = 0;  // tokens of each row
  Index num_key_value_heads = 0;
  Index head_size = 0;

  friend bool operator==(const KeyValueCacheConfig&, const KeyValueCacheConfig&) = default;
};

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

template <class T>
class KeyValueCache {
 public:
  /// Holds nothing and has room for nothing.
  KeyValueCache() = default;
  EIGENFORMER_STRONG_COPIES(KeyValueCache)

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
    if (stage_reorder(rows)) commit_staged();
  }

  /// The first half of `reorder`, which may throw: the new state is made beside the old one. False if
  /// the rows stay as they are.
  bool stage_reorder(std::span<const Index> rows) {
    for (Index from : rows) row(from);
    const auto wanted = static_cast<Index>(rows.size());
    bool same = wanted == batch();
    for (Index b = 0; b < wanted && same; ++b) same = rows[static_cast<std::size_t>(b)] == b;
    if (same) return false;
    KeyValueCacheConfig config = storage_.config;
    config.batch = wanted;
    stage(config);
    for (std::size_t b = 0; b < rows.size(); ++b) {
      spare_lengths_[b] = length(rows[b]);
      spare_.copy_row(static_cast<Index>(b), storage_, rows[b], spare_lengths_[b]);
    }
    return true;
  }

  /// Makes a cache beside this one, of another size if `batch` and `capacity` say so, that holds these
  /// tokens alone (of row b the first counts[b], default all). `commit_staged` puts it in place.
  void stage_replacement(Index batch, Index capacity, const kernels::Heads<const T>& k,
                         const kernels::Heads<const T>& v, Index tokens,
                         const std::optional<IntegerSequence>& counts, Workspace& workspace) {
    internal::require_counts("KeyValueCache", batch, tokens, counts);
    for (Index b = 0; b < batch; ++b) {
      const Index count = token_count(counts, b, tokens);
      require(count <= capacity, "KeyValueCache: batch row ", b, " holds at most ", capacity,
              " tokens; ", count, " don't fit");
    }
    KeyValueCacheConfig config = storage_.config;
    config.batch = batch;
    config.capacity = capacity;
    stage(config);
    if (longest() == 0 && storage_.config != config) {  // nothing to lose: room for the next time
      Storage empty(config);
      std::vector<Index> lengths(static_cast<std::size_t>(batch), 0);
      storage_.swap(empty);
      lengths_.swap(lengths);
    }
    for (std::size_t b = 0; b < spare_lengths_.size(); ++b)
      spare_lengths_[b] = token_count(counts, static_cast<Index>(b), tokens);
    kernels::write_keys_and_values(spare_.panels(), k, v, tokens, nullptr, spare_lengths_.data(),
                                   workspace);
  }

  /// What was staged takes the place of what was there.
  void commit_staged() noexcept {
    storage_.swap(spare_);
    lengths_.swap(spare_lengths_);
  }

  /// Throws std::invalid_argument unless `tokens` more (of row b: counts[b] more) fit.
  void require_room(Index tokens, const std::optional<IntegerSequence>& counts) const {
    internal::require_room("KeyValueCache", lengths_, capacity(), tokens, counts);
  }

  /// The longest row after so many more tokens.
  Index longest_after(Index tokens, const std::optional<IntegerSequence>& counts) const {
    return internal::longest_after(lengths_, tokens, counts);
  }

  /// Writes tokens, given as for kernels::write_keys_and_values, behind those that the cache holds
  /// (of row b the first counts[b], default all), without adding them: that is `commit`.
  void write(const kernels::Heads<const T>& k, const kernels::Heads<const T>& v, Index tokens,
             const std::optional<IntegerSequence>& counts, Workspace& workspace) {
    require_room(tokens, counts);
    Scratch scratch(workspace);
    auto* added = scratch.array<Index>(batch());
    for (Index b = 0; b < batch(); ++b) added[b] = token_count(counts, b, tokens);
    kernels::write_keys_and_values(storage_.panels(), k, v, tokens, lengths_.data(), added,
                                   workspace);
  }

  /// Adds the tokens that were written.
  void commit(Index tokens, const std::optional<IntegerSequence>& counts) noexcept {
    for (std::size_t b = 0; b < lengths_.size(); ++b)
      lengths_[b] += token_count(counts, static_cast<Index>(b), tokens);
  }

  /// Both at once.
  void append(const kernels::Heads<const T>& k, const kernels::Heads<const T>& v, Index tokens,
              const std::optional<IntegerSequence>& counts, Workspace& workspace) {
    write(k, v, tokens, counts, workspace);
    commit(tokens, counts);
  }

  /// What attention reads: a view of the storage until the next reorder.
  kernels::KeyValuePanels<const T> panels() const { return storage_.panels(); }
  kernels::KeyValuePanels<T> panels() { return storage_.panels(); }

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

    kernels::KeyValuePanels<T> panels() { return panels_of<T>(*this); }
    kernels::KeyValuePanels<const T> panels() const { return panels_of<const T>(*this); }

    template <class Element, class Self>
    static kernels::KeyValuePanels<Element> panels_of(Self& self) {
      return {.batch = self.config.batch,
              .heads = self.config.num_key_value_heads,
              .slots = self.config.capacity,
              .head_size = self.config.head_size,
              .value_size = self.config.head_size,
              .keys = self.keys.data(),
              .values = self.values.data(),
              .finite = self.finite.data()};
    }

    Index bytes() const {
      return (keys.size() + values.size()) * static_cast<Index>(sizeof(T)) + finite.size();
    }

    void copy_row(Index to, const Storage& other, Index from, Index length) {
      if (length == 0) return;
      const auto target = panels();
      const auto source = other.panels();
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

  /// The spare storage gets this configuration.
  void stage(const KeyValueCacheConfig& config) {
    if (spare_.config != config) spare_ = Storage(checked(config));
    spare_lengths_.resize(static_cast<std::size_t>(config.batch));
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
