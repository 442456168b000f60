// SPDX-License-Identifier: MIT
#pragma once

// One thread's part of a matrix product: a range of rows and columns of C.
//
// B is read in panels (kernels/panels.hpp): where they are, if it is packed; otherwise as many
// panels as a tile has are packed on the stack, at most two of 16 KB, and used by a block of rows of
// A. The blocks are chosen so that this part of A stays in the second-level cache.

#include <algorithm>
#include <cstddef>

#include "eigenformer/base/executor.hpp"
#include "eigenformer/kernels/packing.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Rows of A that use a panel one after the other: more if the panel must be packed for them.
inline constexpr Index rows_per_panel = 96, rows_per_packing = 384;

template <class T>
Index row_block(const RightFactor<T>& b) {
  return b.in_panels() ? rows_per_panel : rows_per_packing;
}

/// Elements of A in a block, at most: 384 KB.
template <class T>
inline constexpr Index row_block_elements = 393216 / static_cast<Index>(sizeof(T));

/// One matrix product, or some steps of k of one. Strides are those of rows. A, B and C must not
/// overlap.
template <class T>
struct MatrixProduct {
  Index rows, columns, depth;  // M, N, K
  const T* a;
  Index a_stride;
  RightFactor<T> b;
  const T* bias = nullptr;  // N elements, or null
  T* c;
  Index c_stride;
  bool accumulates = false;  // onto partial sums in C
  bool ends = true;          // with results in C, not partial sums

  bool empty() const { return rows == 0 || columns == 0; }
  /// Multiply-adds.
  Index work() const { return rows * columns * (std::max)(Index{1}, depth); }

  /// What the accumulators start from at step k. Sums of int8 are scaled first, then the bias is
  /// added.
  Start start(Index k) const {
    if (k > 0 || accumulates) return Start::stored;
    return bias != nullptr && b.int8() == nullptr ? Start::bias : Start::zero;
  }
};

/// Called with (row, rows, column, columns) of a part of C.
using EpilogueFunction = FunctionReference<void(Index, Index, Index, Index)>;

inline constexpr auto no_epilogue = [](Index, Index, Index, Index) {};

/// Columns after which a part of C is finished: enough for long rows, few enough for the caches.
inline constexpr Index epilogue_columns = 256;

namespace internal {

/// The part of C in these ranges is summed up: the scales and bias of int8, then the epilogue.
template <class T>
void run_epilogue(const MatrixProduct<T>& p, Index row, Index rows, Index column, Index columns,
                  EpilogueFunction epilogue) {
  if (!p.ends) return;
  if (const Int8Panels<T>* b = p.b.int8()) {
    for (Index r = row; r < row + rows; ++r) {
      b->target->scale_columns(b->scales + column, p.bias == nullptr ? nullptr : p.bias + column,
                               p.c + r * p.c_stride + column, columns);
    }
  }
  epilogue(row, rows, column, columns);
}

template <class T>
void run_macrokernel(const PlainPanels<T>&, const PanelProduct<T>& p) {
  target<T>().macrokernel(p);
}
template <class T>
void run_macrokernel(const BFloat16Panels<T>& b, const PanelProduct<T, BFloat16>& p) {
  b.target->macrokernel_bfloat16(p);
}
template <class T>
void run_macrokernel(const Int8Panels<T>& b, const PanelProduct<T, std::int8_t>& p) {
  b.target->macrokernel_int8_weights(p);
}

/// Steps k ... k + depth - 1 of a part of the product.
template <class T, class E>
PanelProduct<T, E> part_of(const MatrixProduct<T>& p, Index row, Index rows, Index column,
                           Index columns, Index k, Index depth, const E* panels,
                           Index panel_stride) {
  return {.rows = rows,
          .columns = columns,
          .depth = depth,
          .a = p.a + row * p.a_stride + k,
          .a_stride = p.a_stride,
          .panels = panels,
          .panel_stride = panel_stride,
          .c = p.c + row * p.c_stride + column,
          .c_stride = p.c_stride,
          .start = p.start(k),
          .bias = p.bias == nullptr ? nullptr : p.bias + column};
}

/// Steps begin <= k < end of the product for a part of C, as many columns at a time as a tile has.
/// `multiply_tiles(column, columns, k, depth)` computes some steps of them.
template <class T, class F>
void for_each_tile(const MatrixProduct<T>& p, Index row, Index rows, Index column, Index column_end,
                   Index begin, Index end, EpilogueFunction epilogue, F&& multiply_tiles) {
  const Index step = target<T>().tile_columns;
  Index finished = column;
  for (Index n = column; n < column_end; n += step) {
    const Index columns = (std::min)(step, column_end - n);
    Index k = begin;
    do {  // once even for K = 0, where the result is the bias
      const Index depth = (std::min)(depth_block<T>, end - k);
      multiply_tiles(n, columns, k, depth);
      k += depth;
    } while (k < end);
    const Index done = n + columns;
    if (end == p.depth && (done - finished >= epilogue_columns || done == column_end)) {
      run_epilogue(p, row, rows, finished, done - finished, epilogue);
      finished = done;
    }
  }
}

/// With B in panels.
template <class T, class Panels>
void multiply_block(const MatrixProduct<T>& p, const Panels& b, Index row, Index rows, Index column,
                    Index column_end, Index begin, Index end, EpilogueFunction epilogue) {
  const auto multiply_tiles = [&](Index n, Index columns, Index k, Index depth) {
    auto part =
        part_of(p, row, rows, n, columns, k, depth, b.panels + b.offset(n, k), b.panel_stride);
    part.prefetched = b.panels + (k + depth < end ? b.offset(n, k + depth)
                                                  : b.offset(n + target<T>().tile_columns, begin));
    run_macrokernel(b, part);
  };
  for_each_tile(p, row, rows, column, column_end, begin, end, epilogue, multiply_tiles);
}

/// With B as it is in memory: packs the panels of a tile, then uses them for all rows.
template <class T>
void multiply_block(const MatrixProduct<T>& p, const StridedFactor<T>& b, Index row, Index rows,
                    Index column, Index column_end, Index begin, Index end,
                    EpilogueFunction epilogue) {
  alignas(64) T packed[static_cast<std::size_t>(depth_block<T> * widest_tile<T>)];
  // The next rows are consecutive if all of K is used at once.
  const bool in_order = begin == 0 && end == p.depth && b.k_stride == 1;
  const auto multiply_tiles = [&](Index n, Index columns, Index k, Index depth) {
    for (Index i = 0; i < columns; i += panel_width<T>) {
      const Index next = n + target<T>().tile_columns + i;
      pack_panel(b, n + i, (std::min)(panel_width<T>, columns - i), k, depth, packed + i * depth,
                 in_order ? b.at(next, 0) + k * panel_width<T> : nullptr);
    }
    run_macrokernel(PlainPanels<T>{}, part_of<T, T>(p, row, rows, n, columns, k, depth, packed,
                                                    depth * panel_width<T>));
  };
  for_each_tile(p, row, rows, column, column_end, begin, end, epilogue, multiply_tiles);
}

/// For a single row or few rows: computes the whole range in one pass over B and returns true. Returns
/// false, and computes nothing, for more rows.
template <class T>
bool multiply_at_once(const MatrixProduct<T>& p, const StridedFactor<T>& b, Index row, Index rows,
                      Index column, Index columns) {
  if (rows != 1 || b.k_stride != 1 || p.accumulates) return false;
  target<T>().single_row_macrokernel(p.a + row * p.a_stride, b, column, column + columns, p.depth,
                                     p.bias, p.c + row * p.c_stride);
  return true;
}
template <class T, class Panels>
bool multiply_at_once(const MatrixProduct<T>& p, const Panels& b, Index row, Index rows,
                      Index column, Index columns) {
  if (rows > target<T>().tile_rows) return false;
  run_macrokernel(b, part_of(p, row, rows, column, columns, 0, p.depth,
                             b.panels + b.offset(column, 0), b.panel_stride));
  return true;
}

/// The rows and columns of the product in these ranges, with B in one of its layouts.
template <class T, class Layout>
void multiply_range(const MatrixProduct<T>& p, const Layout& b, Index row, Index row_end,
                    Index column, Index column_end, EpilogueFunction epilogue) {
  if (multiply_at_once(p, b, row, row_end - row, column, column_end - column)) {
    run_epilogue(p, row, row_end - row, column, column_end - column, epilogue);
    return;
  }
  const Index block = row_block(p.b);
  for (; row < row_end; row += block) {
    const Index part = (std::min)(block, row_end - row);
    const Index depth =
        (std::max)(Index{1}, row_block_elements<T> / (part * depth_block<T>)) * depth_block<T>;
    Index k = 0;
    do {
      const Index end = (std::min)(p.depth, k + depth);
      multiply_block(p, b, row, part, column, column_end, k, end, epilogue);
      k = end;
    } while (k < p.depth);
  }
}

template <class T>
void multiply_range(const MatrixProduct<T>& p, Index row, Index row_end, Index column,
                    Index column_end, EpilogueFunction epilogue) {
  p.b.visit(
      [&](const auto& b) { multiply_range(p, b, row, row_end, column, column_end, epilogue); });
}

}  // namespace internal

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
