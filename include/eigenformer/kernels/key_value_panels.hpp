// SPDX-License-Identifier: MIT
#pragma once

// Keys and values in the layout from which attention reads them: the panels of kernels/packing.hpp,
// for each batch row and key/value head. A slot is the place of one token.
//
//   keys:    panel_width slots side by side, [slot / width][d][slot % width]
//   values:  panel_width features side by side, [e / width][slot][e % width]
//
// A token is written once and never moved, so a cache of the past keeps its keys and values in this
// layout, and whole sequences are copied into it before attention. Slots that were never written
// may hold anything: their values are not read, the scores of their keys are discarded.

#include <algorithm>

#include "eigenformer/kernels/matrix_product.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Keys in a tile. Part of the promised order of additions: changing it changes bits.
inline constexpr Index key_tile = 128;

/// Vectors of heads in memory: element i of head `head` of token `token` of batch row `b` is at(b,
/// token, head)[i]. With `starts`, batch rows are sequences one after the other, b from token starts[b]
/// on.
template <class T>
struct Heads {
  T* data = nullptr;
  Index batch_stride = 0, token_stride = 0, head_stride = 0;
  const Index* starts = nullptr;

  T* at(Index b, Index token, Index head) const {
    const Index row = starts != nullptr ? starts[b] * token_stride : b * batch_stride;
    return data + row + token * token_stride + head * head_stride;
  }

  /// (B, T, H, D), as projections write it.
  static Heads token_major(T* data, Index tokens, Index heads, Index size) {
    return {data, tokens * heads * size, heads * size, size, nullptr};
  }
  /// (B, H, T, D), as PyTorch's scaled_dot_product_attention takes it.
  static Heads head_major(T* data, Index heads, Index tokens, Index size) {
    return {data, heads * tokens * size, size, tokens * size, nullptr};
  }
};

/// A view of panels; `T` may be const.
template <class T>
struct KeyValuePanels {
  using Scalar = std::remove_const_t<T>;
  using Flag = std::conditional_t<std::is_const_v<T>, const bool, bool>;
  static constexpr Index width = panel_width<Scalar>;
  static_assert(key_tile % width == 0);

  Index batch = 0, heads = 0, slots = 0;  // B, K, capacity
  Index head_size = 0, value_size = 0;    // D, E
  T* keys = nullptr;                      // key_elements()
  T* values = nullptr;                    // value_elements()
  Flag* finite = nullptr;                 // tile_count(): no value of the tile is NaN or infinite

  operator KeyValuePanels<const Scalar>() const {
    return {batch, heads, slots, head_size, value_size, keys, values, finite};
  }

  Index tiles() const { return (slots + key_tile - 1) / key_tile; }
  Index key_elements() const { return batch * heads * whole_panels<Scalar>(slots) * head_size; }
  Index value_elements() const { return batch * heads * whole_panels<Scalar>(value_size) * slots; }
  Index tile_count() const { return batch * heads * tiles(); }

  /// The panel of the slots from `slot` on, a multiple of panel_width.
  T* key_panel(Index b, Index head, Index slot) const {
    return keys + ((b * heads + head) * whole_panels<Scalar>(slots) + slot) * head_size;
  }
  /// The features from `feature` on, a multiple of panel_width, of the slots from `slot` on.
  T* value_panel(Index b, Index head, Index feature, Index slot) const {
    return values + ((b * heads + head) * whole_panels<Scalar>(value_size) + feature) * slots +
           slot * width;
  }
  Flag& tile_is_finite(Index b, Index head, Index slot) const {
    return finite[(b * heads + head) * tiles() + slot / key_tile];
  }
};

/// Panels in scratch memory. Only the sizes of `sizes` are read.
template <class T>
KeyValuePanels<T> scratch_panels(KeyValuePanels<T> sizes, Scratch& scratch) {
  sizes.keys = scratch.array<T>(sizes.key_elements());
  sizes.values = scratch.array<T>(sizes.value_elements());
  sizes.finite = scratch.array<bool>(sizes.tile_count());
  return sizes;
}

namespace internal {

template <class T>
void write_keys(const KeyValuePanels<T>& panels, Index b, Index head, Index first, Index count,
                const Heads<const T>& k) {
  const Index size = panels.head_size;
  for (Index token = 0; token < count;) {
    const Index slot = first + token, place = slot % panel_width<T>;
    const Index n = (std::min)(panel_width<T> - place, count - token);
    T* panel = panels.key_panel(b, head, slot - place);
    const T* from = k.at(b, token, head);
    if (n == panel_width<T>) {
      pack_panel(StridedFactor<T>{from, k.token_stride}, 0, n, 0, size, panel);
    } else {
      for (Index i = 0; i < n; ++i) {
        for (Index d = 0; d < size; ++d) {
          panel[d * panel_width<T> + place + i] = from[i * k.token_stride + d];
        }
      }
    }
    token += n;
  }
}

template <class T>
void write_values(const KeyValuePanels<T>& panels, Index b, Index head, Index first, Index count,
                  const Heads<const T>& v) {
  const StridedFactor<T> source{v.at(b, 0, head), 1, v.token_stride};
  for (Index feature = 0; feature < panels.value_size; feature += panel_width<T>) {
    const Index columns = (std::min)(panel_width<T>, panels.value_size - feature);
    pack_panel(source, feature, columns, 0, count, panels.value_panel(b, head, feature, first));
  }
  for (Index token = 0; token < count; ++token) {
    const Index slot = first + token;
    bool& finite = panels.tile_is_finite(b, head, slot);
    finite = (slot % key_tile == 0 || finite) &&
             target<T>().all_finite(v.at(b, token, head), panels.value_size);
  }
}

}  // namespace internal

/// Writes the keys and values of the first `counts[b]` (null: `tokens`) of `tokens` new tokens of
/// every batch row to the slots from `first[b]` (null: 0) on, which must exist.
template <class T>
void write_keys_and_values(const KeyValuePanels<T>& panels, const Heads<const T>& k,
                           const Heads<const T>& v, Index tokens, const Index* first,
                           const Index* counts, Workspace& workspace) {
  const Index columns = tokens * (panels.head_size + panels.value_size);
  for_each_row_block(panels.batch * panels.heads, columns, workspace, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index b = i / panels.heads, head = i % panels.heads;
      const Index slot = first == nullptr ? 0 : first[b];
      const Index count = counts == nullptr ? tokens : counts[b];
      if (count == 0) continue;
      internal::write_keys(panels, b, head, slot, count, k);
      internal::write_values(panels, b, head, slot, count, v);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
