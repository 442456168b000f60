// SPDX-License-Identifier: MIT
#pragma once

// Panels: the layout from which the matrix product reads its right factor. A panel holds
// `panel_width<T>` columns of B (N, K) for a range of k, as [k][column], so that one step of the
// product loads whole registers:
//
//   panel[k * panel_width + j] = B(n0 + j, k0 + k)
//
// Columns beyond N may hold anything; their results are never stored.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "eigenformer/base/half.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Numbers in a register of the instruction set for which this translation unit is compiled.
template <class T>
inline constexpr Index native_width =
    Eigen::internal::packet_traits<T>::Vectorizable
        ? static_cast<Index>(Eigen::internal::packet_traits<T>::size)
        : 1;

/// Columns in a panel: two registers, but a cache line at most, which is two registers of AVX2 or one
/// of AVX-512. The same for every instruction set among which the program chooses.
template <class T>
inline constexpr Index panel_width = native_width<T> == 1 ? 2
                                     : EIGENFORMER_CHOOSES_AT_RUN_TIME
                                         ? 64 / static_cast<Index>(sizeof(T))
                                         : std::min<Index>(2 * native_width<T>,
                                                           64 / static_cast<Index>(sizeof(T)));

/// `columns` rounded up to whole panels.
template <class T>
constexpr Index whole_panels(Index columns) {
  return (columns + panel_width<T> - 1) / panel_width<T> * panel_width<T>;
}

/// Steps of k for which a panel fits into 16 KB, half of a small first-level cache.
template <class T>
inline constexpr Index depth_block = std::max<Index>(16, 16384 / (panel_width<T> *
                                                                  static_cast<Index>(sizeof(T))));

/// Columns of the product's tile of the most rows, at most.
template <class T>
inline constexpr Index widest_tile = 2 * panel_width<T>;

/// Rows are shared out among threads in multiples of this, which suits tiles of 6 and of 12 rows.
inline constexpr Index row_unit = 6;

/// Steps of k rounded up to groups of four, which int8 is read in.
constexpr Index whole_groups(Index depth) { return (depth + 3) / 4 * 4; }

/// The place of step k of column j in a panel of E, in elements. Numbers: [k][column]. bfloat16: each
/// 32 bits hold column j and column j + panel_width / 2, so that a register of floats is a shift or a
/// mask away. int8: each 32 bits hold four steps of one column.
template <class T, class E>
constexpr Index place_in_panel(Index j, Index k) {
  constexpr Index half = panel_width<T> / 2;
  if constexpr (std::is_same_v<E, BFloat16>) {
    return k * panel_width<T> + 2 * (j % half) + j / half;
  } else if constexpr (std::is_same_v<E, std::int8_t>) {
    return k / 4 * 4 * panel_width<T> + 4 * j + k % 4;
  } else {
    return k * panel_width<T> + j;
  }
}

/// Quantizes numbers up to `top` to +-127: round(x * enlarge * inverse). 127 / top alone would
/// overflow for tiny numbers, which are enlarged first.
template <class T>
struct Int8Factors {
  T enlarge, inverse;

  explicit Int8Factors(T top)
      : enlarge(top < T(0x1p-100) ? T(0x1p100) : T(1)),
        inverse(top == 0 ? T(0) : T(127) / (top * enlarge)) {}
};

/// What the accumulators of a product start from.
enum class Start { zero, bias, stored };

/// c (rows, columns) = start + a (rows, depth) B^T with B in panels, one after the other at
/// `panel_stride`. `bias` holds `columns` elements and is read for Start::bias. `prefetched` goes
/// to the second-level cache meanwhile: what will be read next, as much as one panel.
template <class T, class E = T>
struct PanelProduct {
  Index rows, columns, depth;
  const T* a;
  Index a_stride;
  const E* panels;
  Index panel_stride;
  T* c;
  Index c_stride;
  Start start = Start::zero;
  const T* bias = nullptr;
  const E* prefetched = nullptr;  // null: what follows in memory
};

/// c (rows, columns) = (a B^T) * a_scale * b_scale + bias with a (rows, depth) and B in int8, summed
/// exactly. Rows of a are those that `quantize` writes, `a_stride` apart.
template <class T>
struct QuantizedProduct {
  Index rows, columns, depth;
  const std::int8_t* a;
  Index a_stride;
  const T* a_scales;  // (rows)
  const std::int8_t* panels;
  Index panel_stride;
  const T* b_scales;  // (columns)
  const T* bias;      // (columns), or null
  T* c;
  Index c_stride;
};

/// The functions for weights in bfloat16 and int8, of one instruction set; T is float.
template <class T>
struct CompressedTarget {
  // simd/macrokernel.inl
  void (*macrokernel_bfloat16)(const PanelProduct<T, BFloat16>& product);
  void (*macrokernel_int8_weights)(const PanelProduct<T, std::int8_t>& product);
  // simd/quantized.inl
  void (*scale_columns)(const T* scales, const T* bias, T* y, Index n);
  T (*quantize)(const T* x, Index n, std::int8_t* q);
  std::int8_t zero_point;  // what `quantize` writes for 0
  void (*macrokernel_int8)(const QuantizedProduct<T>& product);
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
