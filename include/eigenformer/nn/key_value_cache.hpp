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
#include "eigenformer/nn/key_value_storage.hpp"
#include "eigenformer/nn/token_counts.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T>
class KeyValueCache {
 public:
  /// Holds nothing and has room for nothing.
  KeyValueCache() = default;
  EIGENFORMER_STRONG_COPIES(KeyValueCache)

  /// Throws std::invalid_argument for negative sizes.
  explicit KeyValueCache(const KeyValueCacheConfig& config)
      : storage_(config), lengths_(static_cast<std::size_t>(config.batch), 0) {}

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
  using Storage = KeyValueStorage<T>;

  /// The spare storage gets this configuration.
  void stage(const KeyValueCacheConfig& config) {
    if (spare_.config != config) spare_ = Storage(config);
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
