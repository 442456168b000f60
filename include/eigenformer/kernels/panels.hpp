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

/// Where step k of column j lies in a panel of E, in elements. Numbers: [k][column]. bfloat16: each
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
  // simd/microkernel.inl
  void (*macrokernel_bfloat16)(const PanelProduct<T, BFloat16>& product);
  void (*macrokernel_int8_weights)(const PanelProduct<T, std::int8_t>& product);
  // simd/quantized.inl
  void (*scale_columns)(const T* scales, const T* bias, T* y, Index n);
  T (*quantize)(const T* x, Index n, std::int8_t* q);
  std::int8_t quantized_zero;  // what `quantize` writes for 0
  void (*macrokernel_int8)(const QuantizedProduct<T>& product);
};

/// The right factor of a product, somewhere in memory: element (n, k) at data[n * n_stride + k *
/// k_stride], where one of the strides is 1; or in panels of all k, one after the other: of T, of
/// bfloat16, or of int8 with a scale for each n.
template <class T>
struct RightFactor {
  const T* data = nullptr;
  Index n_stride = 0;
  Index k_stride = 0;
  Index panel_stride = 0;  // elements; 0: not in panels
  const BFloat16* bfloat16_panels = nullptr;
  const std::int8_t* int8_panels = nullptr;
  const CompressedTarget<T>* compressed = nullptr;  // what multiplies these two
  const T* scales = nullptr;                        // of int8
  bool quantizes_rows = false;                      // with int8: A is quantized too

  /// Rows of weights (N, K), as a Linear stores them.
  static RightFactor from_rows(const T* data, Index stride) {
    return {.data = data, .n_stride = stride, .k_stride = 1};
  }
  /// A matrix (K, N), such as the values of attention.
  static RightFactor from_columns(const T* data, Index stride) {
    return {.data = data, .n_stride = 1, .k_stride = stride};
  }
  /// Panels of a depth of K.
  static RightFactor from_panels(const T* data, Index depth) {
    return {.data = data, .panel_stride = depth * panel_width<T>};
  }
  static RightFactor from_panels(const BFloat16* panels, Index depth,
                                 const CompressedTarget<T>& compressed) {
    return {.panel_stride = depth * panel_width<T>,
            .bfloat16_panels = panels,
            .compressed = &compressed};
  }
  static RightFactor from_panels(const std::int8_t* panels, Index depth, const T* scales,
                                 bool quantizes_rows, const CompressedTarget<T>& compressed) {
    return {.panel_stride = whole_groups(depth) * panel_width<T>,
            .int8_panels = panels,
            .compressed = &compressed,
            .scales = scales,
            .quantizes_rows = quantizes_rows};
  }

  /// Panels that hold numbers of T.
  bool packed() const { return panel_stride != 0 && data != nullptr; }

  /// Element (n, k) of a factor that isn't in panels.
  const T* at(Index n, Index k) const { return data + n * n_stride + k * k_stride; }
  /// Offset of the panel of columns n ... at step k; for int8 k is a multiple of 4.
  Index panel_offset(Index n, Index k) const {
    return n / panel_width<T> * panel_stride + k * panel_width<T>;
  }
  const T* panel(Index n, Index k) const { return data + panel_offset(n, k); }

  /// The same factor without the first n0 columns or k0 steps; in panels n0 is a multiple of
  /// panel_width, k0 of 4.
  RightFactor part(Index n0, Index k0) const {
    RightFactor result = *this;
    const Index offset = panel_stride != 0 ? panel_offset(n0, k0) : n0 * n_stride + k0 * k_stride;
    if (data != nullptr) result.data += offset;
    if (bfloat16_panels != nullptr) result.bfloat16_panels += offset;
    if (int8_panels != nullptr) result.int8_panels += offset;
    if (scales != nullptr) result.scales += n0;
    return result;
  }

  /// B(n, k) for k < depth.
  void copy_row(Index n, Index depth, T* to) const {
    const Index first = n / panel_width<T> * panel_stride, j = n % panel_width<T>;
    for (Index k = 0; k < depth; ++k) {
      if (bfloat16_panels != nullptr) {
        to[k] =
            static_cast<T>(to_float(bfloat16_panels[first + place_in_panel<T, BFloat16>(j, k)]));
      } else if (int8_panels != nullptr) {
        to[k] =
            scales[n] * static_cast<T>(int8_panels[first + place_in_panel<T, std::int8_t>(j, k)]);
      } else {
        to[k] = packed() ? data[first + place_in_panel<T, T>(j, k)] : *at(n, k);
      }
    }
  }
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
