// SPDX-License-Identifier: MIT
#pragma once

// Panels: the layout from which the matrix product reads its right factor. A panel holds
// `panel_width<T>` columns of B (N, K) for a range of k, as [k][column], so that one step of the
// product loads whole registers:
//
//   panel[k * panel_width + j] = B(n0 + j, k0 + k)
//
// Columns beyond N repeat the last one; their results are never stored.

#include <algorithm>

#include "eigenformer/kernels/simd.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Columns in a panel: two vector registers.
template <class T>
inline constexpr Index panel_width = 2 * Simd<T>::width;

/// The right factor of a product, somewhere in memory: element (n, k) at data[n * n_stride + k *
/// k_stride], where one of the strides is 1.
template <class T>
struct RightFactor {
  const T* data;
  Index n_stride;
  Index k_stride;

  /// Rows of weights (N, K), as a Linear stores them.
  static RightFactor from_rows(const T* data, Index stride) { return {data, stride, 1}; }
  /// A matrix (K, N), such as the values of attention.
  static RightFactor from_columns(const T* data, Index stride) { return {data, 1, stride}; }

  const T* at(Index n, Index k) const { return data + n * n_stride + k * k_stride; }
};

namespace internal {

/// A square of B in registers: columns[i] holds element k + i of `width` rows.
template <class T>
struct Square {
  typename Simd<T>::Vector columns[static_cast<std::size_t>(Simd<T>::width)];
};

template <class T>
EIGENFORMER_ALWAYS_INLINE Square<T> load_transposed(const T* const* rows, Index k) {
  using S = Simd<T>;
  Square<T> square;
  if constexpr (S::width == 1) {
    square.columns[0] = rows[0][k];
  } else {
    Eigen::internal::PacketBlock<typename S::Vector, static_cast<int>(S::width)> block;
    EIGENFORMER_UNROLL
    for (Index i = 0; i < S::width; ++i) block.packet[i] = S::load(rows[i] + k);
    Eigen::internal::ptranspose(block);
    EIGENFORMER_UNROLL
    for (Index i = 0; i < S::width; ++i) square.columns[i] = block.packet[i];
  }
  return square;
}

template <class T>
void pack_rows(const RightFactor<T>& b, Index n0, Index columns, Index k0, Index depth, T* panel) {
  constexpr Index width = Simd<T>::width;
  for (Index half = 0; half < panel_width<T>; half += width) {
    const T* rows[static_cast<std::size_t>(width)];
    for (Index i = 0; i < width; ++i) rows[i] = b.at(n0 + (std::min)(half + i, columns - 1), k0);
    Index k = 0;
    for (; k + width <= depth; k += width) {
      const Square<T> square = load_transposed(rows, k);
      EIGENFORMER_UNROLL
      for (Index i = 0; i < width; ++i) {
        Simd<T>::store(panel + (k + i) * panel_width<T> + half, square.columns[i]);
      }
    }
    for (; k < depth; ++k) {
      for (Index i = 0; i < width; ++i) panel[k * panel_width<T> + half + i] = rows[i][k];
    }
  }
}

template <class T>
void pack_columns(const RightFactor<T>& b, Index n0, Index columns, Index k0, Index depth,
                  T* panel) {
  for (Index k = 0; k < depth; ++k) {
    const T* from = b.at(n0, k0 + k);
    T* to = panel + k * panel_width<T>;
    std::copy_n(from, columns, to);
    std::fill(to + columns, to + panel_width<T>, from[columns - 1]);
  }
}

}  // namespace internal

/// Packs k0 <= k < k0 + depth of columns n0 <= n < n0 + columns; 1 <= columns <= panel_width.
template <class T>
void pack_panel(const RightFactor<T>& b, Index n0, Index columns, Index k0, Index depth, T* panel) {
  if (b.k_stride == 1) {
    internal::pack_rows(b, n0, columns, k0, depth, panel);
  } else {
    internal::pack_columns(b, n0, columns, k0, depth, panel);
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
