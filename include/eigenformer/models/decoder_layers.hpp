// SPDX-License-Identifier: MIT
#pragma once

// What stacks of decoder layers have in common: checking a call once, running through the layers
// without and with a cache.

#include "eigenformer/models/decoder_cache.hpp"
#include "eigenformer/models/layers.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Throws unless B rows of T tokens can pass through a decoder, with this memory if it attends to
/// one.
template <class Decoder, class T>
void require_decoder_call(std::string_view who, const Decoder& decoder, Index batch, Index tokens,
                          const std::optional<TensorView<const T, 3>>& memory, const Mask<T>& mask,
                          const Mask<T>& memory_mask) {
  const TransformerConfig& config = decoder.config;
  require(memory.has_value() == config.cross_attention, who,
          ": a memory must be given if and only if cross_attention is true");
  require_stack_call(who, decoder, batch, tokens, tokens, mask);
  require(mask.query_offset <= 0, who,
          ": mask.query_offset must not be > 0, queries would see later tokens; got ",
          mask.query_offset);
  if (!memory) return;
  const Index keys = memory->dim(1);
  const Shape<3> wanted{batch, keys, config.memory_size()};  // no text is made for calls that fit
  require(memory->shape() == wanted, who, ": memory: shape must be ", wanted, "; got ",
          memory->shape());
  kernels::require_no_sequences(who, memory_mask);
  kernels::require_valid_mask(who, memory_mask, {batch, config.num_attention_heads, tokens, keys});
}

/// The same with a cache, which must have a memory if the decoder attends to one.
template <class Decoder, class T>
void require_decoder_call(std::string_view who, const Decoder& decoder, Index batch, Index tokens,
                          const std::optional<IntegerSequence>& token_counts,
                          const DecoderCache<T>& cache, const Mask<T>& mask,
                          const Mask<T>& memory_mask) {
  const TransformerConfig& config = decoder.config;
  require(cache.batch() == batch && cache.layers() == decoder.layers.size(), who,
          ": the cache must be for ", decoder.layers.size(), " layers and ", batch,
          " batch rows; got ", cache.layers(), " and ", cache.batch());
  require(!config.cross_attention || cache.has_memory(), who,
          ": cross_attention is true, but the cache has no memory: call remember (Transformer: "
          "start) first");
  cache.require_room(tokens, token_counts);
  cache.require_layers(decoder.layers);
  kernels::require_no_sequences(who, mask);
  require_stack_call(who, decoder, batch, tokens, cache.longest_after(tokens, token_counts), mask);
  require(mask.query_offset == 0, who,
          ": with a cache, which knows the positions, mask.query_offset must be 0; got ",
          mask.query_offset);
  if (config.cross_attention) {
    kernels::require_no_sequences(who, memory_mask);
    kernels::require_valid_mask(
        who, memory_mask, {batch, config.num_attention_heads, tokens, cache.longest_memory()});
  }
}

/// Sends `y` through the layers and the norm of a decoder, in place. `memory` may be none.
template <class Decoder, class T>
void run_decoder(const Decoder& decoder, const std::optional<TensorView<const T, 3>>& memory,
                 const Mask<T>& mask, const Mask<T>& memory_mask, TensorView<T, 3> y,
                 const LayerObserver<T>& observer, Workspace& workspace) {
  Scratch scratch(workspace);
  const Mask<T> whole = mask_of(decoder, mask, scratch);
  run_layers(
      decoder, y, observer, workspace,
      [&](const auto& layer, std::size_t i, TensorView<const T, 3> from, TensorView<T, 3> to) {
        layer.run(from, memory, whole, memory_mask, to,
                  observer.at(layer.half, static_cast<Index>(i)), workspace);
      });
}

/// The same for tokens that follow those in the caches of the layers, to which they are written:
/// inside DecoderCache::extend.
template <class Decoder, class T>
void run_decoder(const Decoder& decoder, const std::optional<IntegerSequence>& token_counts,
                 std::vector<DecoderLayerCache<T>>& caches, const Mask<T>& mask,
                 const Mask<T>& memory_mask, TensorView<T, 3> y, const LayerObserver<T>& observer,
                 Workspace& workspace) {
  Scratch scratch(workspace);
  const Mask<T> whole = mask_of(decoder, mask, scratch);
  run_layers(
      decoder, y, observer, workspace,
      [&](const auto& layer, std::size_t i, TensorView<const T, 3> from, TensorView<T, 3> to) {
        layer.run(from, token_counts, caches[i], whole, memory_mask, to,
                  observer.at(layer.half, static_cast<Index>(i)), workspace);
      });
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
