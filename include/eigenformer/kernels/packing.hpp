// SPDX-License-Identifier: MIT
#pragma once

// Panels from a right factor in memory: kernels/panels.hpp says what they look like.

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/target.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Weights (N, K) as a factor of a product: a tensor, or what knows its factor itself
/// (nn/packed.hpp).
template <class Weight>
auto right_factor(const Weight& weight) {
  if constexpr (requires { weight.factor(); }) {
    return weight.factor();
  } else {
    using T = std::remove_cvref_t<decltype(*weight.data())>;
    return RightFactor<T>::from_rows(weight.data(), weight.dim(1));
  }
}

/// Panels of a depth of K in bfloat16, or in int8 with a scale for each row; `quantizes_rows`: the left
/// factor is quantized too.
template <class T>
RightFactor<T> compressed_factor(const BFloat16* panels, Index depth) {
  return RightFactor<T>::from_panels(panels, depth, compressed_target<T>());
}
template <class T>
RightFactor<T> compressed_factor(const std::int8_t* panels, Index depth, const T* scales,
                                 bool quantizes_rows) {
  return RightFactor<T>::from_panels(panels, depth, scales, quantizes_rows, compressed_target<T>());
}

/// Packs k0 <= k < k0 + depth of columns n0 <= n < n0 + columns; 1 <= columns <= panel_width.
/// `prefetched`: see simd/packing.inl.
template <class T>
void pack_panel(const StridedFactor<T>& b, Index n0, Index columns, Index k0, Index depth, T* panel,
                const T* prefetched = nullptr) {
  if (b.k_stride == 1) {
    target<T>().pack_rows(b, n0, columns, k0, depth, prefetched, panel);
    return;
  }
  for (Index k = 0; k < depth; ++k) {
    const T* from = b.at(n0, k0 + k);
    T* to = panel + k * panel_width<T>;
    if (columns == panel_width<T>) {  // of a size that the compiler knows
      std::copy_n(from, panel_width<T>, to);
    } else {
      std::copy_n(from, columns, to);
      std::fill(to + columns, to + panel_width<T>, from[columns - 1]);
    }
  }
}

/// All of B (N, K): whole_panels(N) * K elements, as RightFactor::from_panels takes them.
template <class T>
void pack_panels(const StridedFactor<T>& b, Index columns, Index depth, T* panels) {
  for (Index n = 0; n < columns; n += panel_width<T>) {
    pack_panel(b, n, (std::min)(panel_width<T>, columns - n), 0, depth, panels + n * depth);
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
