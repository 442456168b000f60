// SPDX-License-Identifier: MIT
#pragma once

// The memory of a cache of keys and values (nn/key_value_cache.hpp), in the layout that attention
// reads (kernels/key_value_panels.hpp). It doesn't know how many tokens each row holds.

#include <algorithm>
#include <utility>

#include "eigenformer/kernels/key_value_panels.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct KeyValueCacheConfig {
  Index batch = 0;
  Index capacity = 0;  // tokens of each row
  Index num_key_value_heads = 0;
  Index head_size = 0;

  friend bool operator==(const KeyValueCacheConfig&, const KeyValueCacheConfig&) = default;
};

template <class T>
struct KeyValueStorage {
  KeyValueCacheConfig config;
  Tensor<T, 1> keys, values;
  Tensor<bool, 1> finite;

  KeyValueStorage() = default;
  KeyValueStorage(const KeyValueStorage&) = default;
  KeyValueStorage(KeyValueStorage&& other) noexcept { swap(other); }
  KeyValueStorage& operator=(KeyValueStorage other) noexcept {
    swap(other);
    return *this;
  }
  void swap(KeyValueStorage& other) noexcept {
    std::swap(config, other.config);
    keys.swap(other.keys);
    values.swap(other.values);
    finite.swap(other.finite);
  }
  explicit KeyValueStorage(const KeyValueCacheConfig& config_)
      : config(checked(config_)),
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

  void copy_row(Index to, const KeyValueStorage& other, Index from, Index length) {
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

 private:
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
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
