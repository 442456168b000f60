// SPDX-License-Identifier: MIT
#pragma once

// The matrix product of the library: C (M, N) = start + A (M, K) B (N, K)^T.
//
// Every element is accumulated in one order, whatever the shapes, blocks and threads:
//
//   c = start;  for k = 0 ... K - 1:  c = fma(A(m, k), B(n, k), c)
//
// so a row's result is the same bits alone or among others. The tile in registers is `tile_rows` x
// `panel_width`; blocks of k continue from the partial sum stored in C, which changes nothing,
// since storing does not round.
//
// One panel of B at a time is packed into 16 KB on the stack and used by up to 384 rows of A, whose
// block of k stays in the second-level cache.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/packing.hpp"
#include "eigenformer/kernels/single_row.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Rows of the tile: with two registers a row, 12 accumulators, as many as 16 registers allow.
inline constexpr Index tile_rows = 6;

/// Steps of k for which a panel fits into 16 KB.
template <class T>
inline constexpr Index depth_block = std::max<Index>(16, 16384 / (panel_width<T> *
                                                                  static_cast<Index>(sizeof(T))));

inline constexpr Index row_block = 384;

/// Multiply-adds below which splitting work over threads costs more than it saves.
inline constexpr Index smallest_parallel_work = 1 << 17;

/// What the accumulators start from.
enum class Start { zero, bias, stored };

namespace internal {

/// One tile: c (Rows, columns) from a (Rows, depth) and one panel. `bias` holds `columns` elements
/// and is read for Start::bias.
template <class T, int Rows>
void multiply_tile(const T* a, Index a_stride, const T* panel, Index depth, T* c, Index c_stride,
                   Index columns, Start start, const T* bias) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr Index width = S::width;
  const Index left = (std::min)(columns, width), right = columns - left;

  Vector sum[Rows][2];
  if (start == Start::stored) {
    EIGENFORMER_UNROLL
    for (int row = 0; row < Rows; ++row) {
      sum[row][0] = S::load_partial(c + row * c_stride, left);
      sum[row][1] = S::load_partial(c + row * c_stride + width, right);
    }
  } else {
    const Vector first = start == Start::bias ? S::load_partial(bias, left) : S::zero();
    const Vector second = start == Start::bias ? S::load_partial(bias + width, right) : S::zero();
    EIGENFORMER_UNROLL
    for (int row = 0; row < Rows; ++row) {
      sum[row][0] = first;
      sum[row][1] = second;
    }
  }

  for (Index k = 0; k < depth; ++k) {
    const Vector first = S::load(panel + k * panel_width<T>);
    const Vector second = S::load(panel + k * panel_width<T> + width);
    EIGENFORMER_UNROLL
    for (int row = 0; row < Rows; ++row) {
      const Vector left_factor = S::set(a[row * a_stride + k]);
      sum[row][0] = S::fma(left_factor, first, sum[row][0]);
      sum[row][1] = S::fma(left_factor, second, sum[row][1]);
    }
  }

  EIGENFORMER_UNROLL
  for (int row = 0; row < Rows; ++row) {
    S::store_partial(c + row * c_stride, sum[row][0], left);
    S::store_partial(c + row * c_stride + width, sum[row][1], right);
  }
}

template <class T>
using TileFunction = void (*)(const T*, Index, const T*, Index, T*, Index, Index, Start, const T*);

template <class T>
inline constexpr TileFunction<T> tile_functions[tile_rows] = {
    multiply_tile<T, 1>, multiply_tile<T, 2>, multiply_tile<T, 3>,
    multiply_tile<T, 4>, multiply_tile<T, 5>, multiply_tile<T, 6>};

}  // namespace internal

/// c (rows, columns) from a (rows, depth) and one packed panel; rows are shared out evenly among
/// tiles, 8 as 4 + 4.
template <class T>
void multiply_panel(const T* a, Index a_stride, Index rows, const T* panel, Index depth, T* c,
                    Index c_stride, Index columns, Start start, const T* bias) {
  for (Index row = 0; row < rows;) {
    const Index tiles_left = (rows - row + tile_rows - 1) / tile_rows;
    const Index height = (rows - row + tiles_left - 1) / tiles_left;
    internal::tile_functions<T>[height - 1](a + row * a_stride, a_stride, panel, depth,
                                            c + row * c_stride, c_stride, columns, start, bias);
    row += height;
  }
}

/// One matrix product and what is done to its result. Strides are those of rows. A, B and C must
/// not overlap.
template <class T>
struct MatrixProduct {
  Index rows, columns, depth;  // M, N, K
  const T* a;
  Index a_stride;
  RightFactor<T> b;
  const T* bias;  // N elements, or null
  T* c;
  Index c_stride;
};

namespace internal {

template <class T, class Finish>
void multiply_block(const MatrixProduct<T>& p, Index row, Index row_end, Index column,
                    Index column_end, const Finish& finish) {
  if (row_end - row == 1 && p.b.k_stride == 1) {
    multiply_single_row(p.a + row * p.a_stride, p.b, column, column_end, p.depth, p.bias,
                        p.c + row * p.c_stride);
    finish(row, Index{1}, column, column_end - column);
    return;
  }
  alignas(64) T panel[static_cast<std::size_t>(depth_block<T> * panel_width<T>)];
  for (; row < row_end; row += row_block) {
    const Index rows = (std::min)(row_block, row_end - row);
    Index k = 0;
    do {  // once even for K = 0, where the result is the bias
      const Index depth = (std::min)(depth_block<T>, p.depth - k);
      const Start start = k > 0 ? Start::stored : p.bias != nullptr ? Start::bias : Start::zero;
      const bool last = k + depth == p.depth;
      for (Index n = column; n < column_end; n += panel_width<T>) {
        const Index columns = (std::min)(panel_width<T>, column_end - n);
        pack_panel(p.b, n, columns, k, depth, panel);
        T* c = p.c + row * p.c_stride + n;
        multiply_panel(p.a + row * p.a_stride + k, p.a_stride, rows, panel, depth, c, p.c_stride,
                       columns, start, p.bias == nullptr ? nullptr : p.bias + n);
        if (last) finish(row, rows, n, columns);
      }
      k += depth;
    } while (k < p.depth);
  }
}

}  // namespace internal

/// Computes the product. `finish(row, rows, column, columns)` is called once for each part of C as
/// soon as it is complete and still in the first-level cache; together the parts cover C.
template <class T, class Finish>
void multiply(const MatrixProduct<T>& p, const Finish& finish, Workspace& workspace) {
  if (p.rows == 0 || p.columns == 0) return;
  const Index threads = workspace.concurrency();
  if (threads == 1 || p.rows * p.columns * std::max<Index>(1, p.depth) < smallest_parallel_work) {
    internal::multiply_block(p, 0, p.rows, 0, p.columns, finish);
    return;
  }
  // Rows are split while every thread gets enough of them to pay for packing, columns otherwise.
  const bool by_rows = p.rows >= 48 * threads;
  const Index unit = by_rows ? tile_rows : panel_width<T>;
  const Index extent = by_rows ? p.rows : p.columns;
  const Index units = (extent + unit - 1) / unit;
  const Index tasks =
      (std::min)(units, by_rows ? (p.rows + row_block - 1) / row_block * threads : 2 * threads);
  workspace.parallel_for(tasks, [&](Index task, Arena&) {
    const Index begin = units * task / tasks * unit;
    const Index end = (std::min)(extent, units * (task + 1) / tasks * unit);
    if (by_rows) {
      internal::multiply_block(p, begin, end, 0, p.columns, finish);
    } else {
      internal::multiply_block(p, 0, p.rows, begin, end, finish);
    }
  });
}

template <class T>
void multiply(const MatrixProduct<T>& p, Workspace& workspace) {
  multiply(
      p, [](Index, Index, Index, Index) {}, workspace);
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
