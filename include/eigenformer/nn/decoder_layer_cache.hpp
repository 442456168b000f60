// SPDX-License-Identifier: MIT
#pragma once

// The cache of one decoder layer: nn/decoder_layer.hpp.

#include "eigenformer/nn/key_value_cache.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What a layer keeps of the tokens so far, and of the memory.
template <class T>
struct DecoderLayerCache {
  KeyValueCache<T> self;
  KeyValueCache<T> memory;
  bool has_memory = false;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
