// SPDX-License-Identifier: MIT
#pragma once

// What a decoder keeps of the tokens so far and of its memory, for each layer: a value that the
// caller owns and lends to each call.
//
//   auto cache = decoder.make_cache(batch, capacity);
//   decoder.remember(memory, lengths, cache, workspace);             // with cross-attention, once
//   decoder.forward(prompt, cache, inputs, logits, workspace);       // T tokens
//   decoder.forward(next, cache, inputs, logits, workspace);         // one more
//
// Each row of the batch has its length. A call that throws leaves the cache as it was.

#include <span>
#include <vector>

#include "eigenformer/nn/decoder_layer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T>
class DecoderCache {
 public:
  DecoderCache() = default;
  EIGENFORMER_STRONG_COPIES(DecoderCache)

  /// With room for `capacity` tokens of each row, for these layers.
  template <class Layer>
  DecoderCache(const std::vector<Layer>& layers, Index batch, Index capacity)
      : capacity_(KeyValueCache<T>({.batch = batch, .capacity = capacity}).capacity()),
        lengths_(static_cast<std::size_t>(batch), 0) {
    layers_.reserve(layers.size());
    for (const Layer& layer : layers) layers_.push_back(layer.make_cache(batch, capacity));
  }

  Index batch() const { return static_cast<Index>(lengths_.size()); }
  Index capacity() const { return capacity_; }
  std::span<const Index> lengths() const { return lengths_; }
  Index length(Index b) const {
    require_row(b);
    return lengths_[static_cast<std::size_t>(b)];
  }

  /// Whether a memory is there, whose keys and values were computed.
  bool has_memory() const { return has_memory_; }

  /// Bytes held.
  Index bytes() const {
    Index sum = 0;
    for (const auto& layer : layers_) sum += layer.self.bytes() + layer.memory.bytes();
    return sum;
  }

  /// Forgets tokens and memory; the storage stays.
  void clear() {
    forget_tokens();
    for (auto& layer : layers_) {
      layer.memory.clear();
      layer.has_memory = false;
    }
    has_memory_ = false;
  }

  /// Forgets the tokens; the memory stays.
  void forget_tokens() { std::fill(lengths_.begin(), lengths_.end(), Index{0}); }

  /// Forgets the tokens of row b from `length` on. Throws unless 0 <= length <= length(b).
  void truncate(Index b, Index length) {
    require_row(b);
    Index& held = lengths_[static_cast<std::size_t>(b)];
    require(length >= 0 && length <= held, "DecoderCache: batch row ", b, " holds ", held,
            " tokens and can't be truncated to ", length);
    held = length;
  }

  /// Row b becomes a copy of what row rows[b] was, tokens and memory; there may be more or fewer
  /// rows than before. Beam search.
  void reorder(std::span<const Index> rows) {
    for (Index b : rows) require_row(b);
    truncate_layers();
    spare_lengths_.resize(rows.size());
    for (std::size_t b = 0; b < rows.size(); ++b) {
      spare_lengths_[b] = lengths_[static_cast<std::size_t>(rows[b])];
    }
    bool moved = false;
    for (auto& layer : layers_) {
      moved = layer.self.stage_reorder(rows);
      if (layer.memory.batch() > 0) layer.memory.stage_reorder(rows);
    }
    if (moved) commit_staged_layers();
    lengths_.swap(spare_lengths_);
  }

  /// The longest row after so many more tokens, and the longest of the memory.
  Index longest_after(Index tokens, const std::optional<IntegerSequence>& counts) const {
    return internal::longest_after(lengths_, tokens, counts);
  }
  Index longest_memory() const { return layers_.empty() ? 0 : layers_.front().memory.longest(); }

  /// Throws unless `tokens` more (of row b: counts[b] more) fit.
  void require_room(Index tokens, const std::optional<IntegerSequence>& counts) const {
    internal::require_room("DecoderCache", lengths_, capacity_, tokens, counts);
  }

  /// For decoders: runs `append(caches of the layers)`, which writes the keys and values of new
  /// tokens, of row b the first counts[b] (default: all), and does everything else that may throw.
  /// Then the tokens are added.
  template <class Append>
  void extend(Index tokens, const std::optional<IntegerSequence>& counts, Append&& append) {
    require_room(tokens, counts);
    truncate_layers();
    append(layers_);
    for (auto& layer : layers_) layer.self.commit(tokens, counts);
    for (Index b = 0; b < batch(); ++b) {
      lengths_[static_cast<std::size_t>(b)] += token_count(counts, b, tokens);
    }
  }

  /// For decoders: replaces the memory (B, S, width), of row b the first counts[b] tokens (default:
  /// all). The new keys and values are made beside the old ones.
  template <class Layer>
  void remember(const std::vector<Layer>& layers, Index width, TensorView<const T, 3> memory,
                const std::optional<IntegerSequence>& counts, Workspace& workspace) {
    const Index tokens = memory.dim(1);
    require(layers.size() == layers_.size(), "DecoderCache: the cache must be for ", layers.size(),
            " layers; got ", layers_.size());
    require_shape("DecoderCache: memory", memory.shape(), {batch(), tokens, width});
    require_layers(layers);
    internal::require_counts("DecoderCache", batch(), tokens, counts);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      KeyValueCache<T>& cache = layers_[i].memory;
      const Index capacity =
          cache.batch() == batch() ? (std::max)(cache.capacity(), tokens) : tokens;
      layers[i].cross_attention->stage_replacement(memory, memory, counts, capacity, cache,
                                                   workspace);
    }
    for (auto& layer : layers_) {
      layer.memory.commit_staged();
      layer.has_memory = true;
    }
    has_memory_ = true;
  }

  /// Throws unless the cache is for layers with these heads.
  template <class Layer>
  void require_layers(const std::vector<Layer>& layers) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      internal::require_cache(layers[i].self_attention, batch(), layers_[i].self);
  }

  /// Number of layers that it is for.
  std::size_t layers() const { return layers_.size(); }

 private:
  // A layer's cache is ahead of `lengths_` after a truncation.
  void truncate_layers() {
    for (auto& layer : layers_) {
      for (Index b = 0; b < batch(); ++b) {
        layer.self.truncate(b, lengths_[static_cast<std::size_t>(b)]);
      }
    }
  }

  void commit_staged_layers() noexcept {
    for (auto& layer : layers_) {
      layer.self.commit_staged();
      if (layer.memory.batch() > 0) layer.memory.commit_staged();
    }
  }

  void require_row(Index b) const {
    require(b >= 0 && b < batch(), "DecoderCache: there is no batch row ", b, " among ", batch());
  }

  std::vector<DecoderLayerCache<T>> layers_;
  Index capacity_ = 0;
  std::vector<Index> lengths_, spare_lengths_;
  bool has_memory_ = false;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
