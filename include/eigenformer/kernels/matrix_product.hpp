// SPDX-License-Identifier: MIT
#pragma once

// The matrix product of the library: C (M, N) = start + A (M, K) B (N, K)^T.
//
// Every element is accumulated in one order, whatever the shapes, blocks, threads and the layout of
// B:
//
//   c = start;  for k = 0 ... K - 1:  c = fma(A(m, k), B(n, k), c)
//
// so a row's result is the same bits alone or among others. Blocks of k continue from the partial
// sum stored in C, which changes nothing, since storing does not round.
//
// B is read in panels (kernels/panels.hpp): where it lies, if it is packed; otherwise as many panels
// as a tile has are packed on the stack, at most two of 16 KB, and used by a block of rows of A. The
// blocks are chosen so that this part of A stays in the second-level cache.

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/packing.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Multiply-adds below which splitting work over threads costs more than it saves.
inline constexpr Index smallest_parallel_work = 1 << 17;

/// Rows of A that use a panel one after the other: more if the panel must be packed for them.
inline constexpr Index rows_per_panel = 96, rows_per_packing = 384;

template <class T>
Index row_block(const RightFactor<T>& b) {
  return b.panel_stride != 0 ? rows_per_panel : rows_per_packing;
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
    return bias != nullptr && b.scales == nullptr ? Start::bias : Start::zero;
  }
};

/// A thread reads all the weights when rows are split; that pays from so many rows a thread on.
inline constexpr Index rows_per_thread = 48;

/// Rows are split while every thread gets enough of them, columns otherwise.
inline bool splits_rows(Index rows, const Workspace& workspace) {
  return rows >= rows_per_thread * workspace.concurrency();
}

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
  for (Index r = row; p.b.scales != nullptr && r < row + rows; ++r) {
    p.b.compressed->scale_columns(p.b.scales + column,
                                  p.bias == nullptr ? nullptr : p.bias + column,
                                  p.c + r * p.c_stride + column, columns);
  }
  epilogue(row, rows, column, columns);
}

/// Calls f(panels of B), pointer to whatever they hold; nothing if B isn't in panels.
template <class T, class F>
bool with_panels(const RightFactor<T>& b, F&& f) {
  if (b.bfloat16_panels != nullptr) return f(b.bfloat16_panels), true;
  if (b.int8_panels != nullptr) return f(b.int8_panels), true;
  return b.packed() ? (f(b.data), true) : false;
}

template <class T, class E>
void run_macrokernel(const RightFactor<T>& b, const PanelProduct<T, E>& p) {
  if constexpr (std::is_same_v<E, BFloat16>) {
    b.compressed->macrokernel_bfloat16(p);
  } else if constexpr (std::is_same_v<E, std::int8_t>) {
    b.compressed->macrokernel_int8_weights(p);
  } else {
    target<T>().macrokernel(p);
  }
}

/// Steps k ... k + depth - 1 of a part of the product.
template <class T, class E>
PanelProduct<T, E> part_of(const MatrixProduct<T>& p, Index row, Index rows, Index column,
                           Index columns, Index k, Index depth, const E* panels) {
  return {.rows = rows,
          .columns = columns,
          .depth = depth,
          .a = p.a + row * p.a_stride + k,
          .a_stride = p.a_stride,
          .panels = panels,
          .panel_stride = p.b.panel_stride,
          .c = p.c + row * p.c_stride + column,
          .c_stride = p.c_stride,
          .start = p.start(k),
          .bias = p.bias == nullptr ? nullptr : p.bias + column};
}

/// Steps begin <= k < end of the product, for a part of it, continuing from C if begin > 0.
template <class T>
void multiply_block(const MatrixProduct<T>& p, Index row, Index rows, Index column,
                    Index column_end, Index begin, Index end, EpilogueFunction epilogue) {
  const Index step = target<T>().tile_columns;
  alignas(64) T packed[static_cast<std::size_t>(depth_block<T> * widest_tile<T>)];
  Index finished = column;
  for (Index n = column; n < column_end; n += step) {
    const Index columns = (std::min)(step, column_end - n);
    Index k = begin;
    do {  // once even for K = 0, where the result is the bias
      const Index depth = (std::min)(depth_block<T>, end - k);
      const bool in_panels = with_panels(p.b, [&](const auto* panels) {
        auto part = part_of(p, row, rows, n, columns, k, depth, panels + p.b.panel_offset(n, k));
        part.prefetched = panels + (k + depth < end ? p.b.panel_offset(n, k + depth)
                                                    : p.b.panel_offset(n + step, begin));
        run_macrokernel(p.b, part);
      });
      if (!in_panels) {
        // The next rows lie one after the other if all of K is used at once.
        const bool in_order = begin == 0 && end == p.depth && p.b.k_stride == 1;
        for (Index i = 0; i < columns; i += panel_width<T>) {
          pack_panel(p.b, n + i, (std::min)(panel_width<T>, columns - i), k, depth,
                     packed + i * depth,
                     in_order ? p.b.at(n + step + i, 0) + k * panel_width<T> : nullptr);
        }
        auto part = part_of<T, T>(p, row, rows, n, columns, k, depth, packed);
        part.panel_stride = depth * panel_width<T>;
        run_macrokernel(p.b, part);
      }
      k += depth;
    } while (k < end);
    const Index done = n + columns;
    if (end == p.depth && (done - finished >= epilogue_columns || done == column_end)) {
      run_epilogue(p, row, rows, finished, done - finished, epilogue);
      finished = done;
    }
  }
}

/// For a single row or few rows: computes the whole range in one pass over B and returns true. Returns
/// false, and computes nothing, for more rows.
template <class T>
bool multiply_at_once(const MatrixProduct<T>& p, Index row, Index rows, Index column,
                      Index columns) {
  if (rows == 1 && p.b.k_stride == 1 && !p.accumulates) {
    target<T>().single_row_macrokernel(p.a + row * p.a_stride, p.b, column, column + columns,
                                       p.depth, p.bias, p.c + row * p.c_stride);
    return true;
  }
  return rows <= target<T>().tile_rows && with_panels(p.b, [&](const auto* panels) {
           run_macrokernel(p.b, part_of(p, row, rows, column, columns, 0, p.depth,
                                        panels + p.b.panel_offset(column, 0)));
         });
}

/// The rows and columns of the product in these ranges.
template <class T>
void multiply_range(const MatrixProduct<T>& p, Index row, Index row_end, Index column,
                    Index column_end, EpilogueFunction epilogue) {
  if (multiply_at_once(p, row, row_end - row, column, column_end - column)) {
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
      multiply_block(p, row, part, column, column_end, k, end, epilogue);
      k = end;
    } while (k < p.depth);
  }
}

}  // namespace internal

/// How a product is shared out as tasks: by rows of C, or by columns, in whole units.
struct Division {
  bool by_rows;
  Index extent, unit, tasks;

  template <class T>
  static Division of_rows(Index rows, const RightFactor<T>& b, const Workspace& workspace) {
    const Index blocks = (rows + row_block(b) - 1) / row_block(b);
    return of_units(true, rows, row_unit, blocks * workspace.concurrency());
  }

  template <class T>
  static Division of(const MatrixProduct<T>& p, const Workspace& workspace) {
    const Index threads = workspace.concurrency();
    if (threads == 1 || p.work() < smallest_parallel_work) return {true, p.rows, p.rows, 1};
    return splits_rows(p.rows, workspace) ? of_rows(p.rows, p.b, workspace)
                                          : of_units(false, p.columns, panel_width<T>, 2 * threads);
  }

  Index begin(Index task) const { return (std::min)(extent, units() * task / tasks * unit); }
  Index end(Index task) const { return begin(task + 1); }

  /// Calls f(row, row_end, column, column_end) for one task.
  template <class T, class F>
  void run(const MatrixProduct<T>& p, Index task, F&& f) const {
    by_rows ? f(begin(task), end(task), Index{0}, p.columns)
            : f(Index{0}, p.rows, begin(task), end(task));
  }

 private:
  static Division of_units(bool by_rows, Index extent, Index unit, Index tasks) {
    Division d{by_rows, extent, unit, tasks};
    d.tasks = (std::min)(tasks, d.units());
    return d;
  }

  Index units() const { return (extent + unit - 1) / unit; }
};

/// Calls f(row, row_end, column, column_end) so that together the calls cover C, in parallel where
/// there is enough to do.
template <class T, class F>
void for_each_range(const MatrixProduct<T>& p, Workspace& workspace, F&& f) {
  const auto division = Division::of(p, workspace);
  if (division.tasks <= 1) return f(Index{0}, p.rows, Index{0}, p.columns);
  workspace.parallel_for(division.tasks, [&](Index task, Arena&) { division.run(p, task, f); });
}

/// The product with A quantized to int8 row by row, with a scale for each row, and sums of int8 products,
/// which are exact:
///
///   q_mk = round(A(m, k) / s_m), s_m = max_k |A(m, k)| / 127
///   C(m, n) = s_m * scale_n * sum_k q_mk B(n, k) + bias_n
template <class T>
void multiply_quantizing_rows(const MatrixProduct<T>& p, EpilogueFunction epilogue,
                              Workspace& workspace) {
  Scratch scratch(workspace);
  const Index stride = whole_groups(p.depth);
  auto* quantized = scratch.array<std::int8_t>(p.rows * stride);
  auto* scales = scratch.array<T>(p.rows);
  for_each_row_block(p.rows, p.depth, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      scales[row] =
          p.b.compressed->quantize(p.a + row * p.a_stride, p.depth, quantized + row * stride);
    }
  });
  for_each_range(p, workspace, [&](Index row, Index row_end, Index column, Index column_end) {
    for (; row < row_end; row += rows_per_packing) {
      const Index rows = (std::min)(rows_per_packing, row_end - row);
      for (Index n = column; n < column_end; n += epilogue_columns) {
        const Index columns = (std::min)(epilogue_columns, column_end - n);
        p.b.compressed->macrokernel_int8({.rows = rows,
                                          .columns = columns,
                                          .depth = p.depth,
                                          .a = quantized + row * stride,
                                          .a_stride = stride,
                                          .a_scales = scales + row,
                                          .panels = p.b.int8_panels + p.b.panel_offset(n, 0),
                                          .panel_stride = p.b.panel_stride,
                                          .b_scales = p.b.scales + n,
                                          .bias = p.bias == nullptr ? nullptr : p.bias + n,
                                          .c = p.c + row * p.c_stride + n,
                                          .c_stride = p.c_stride});
        epilogue(row, rows, n, columns);
      }
    }
  });
}

/// Computes the product. `epilogue(row, rows, column, columns)` is called once for each part of C as
/// soon as it is complete and still in the first-level cache; together the parts cover C.
template <class T>
void multiply(const MatrixProduct<T>& p, EpilogueFunction epilogue, Workspace& workspace) {
  if (p.empty()) return;
  if (p.b.quantizes_rows) return multiply_quantizing_rows(p, epilogue, workspace);
  for_each_range(p, workspace, [&](Index row, Index row_end, Index column, Index column_end) {
    internal::multiply_range(p, row, row_end, column, column_end, epilogue);
  });
}

template <class T>
void multiply(const MatrixProduct<T>& p, Workspace& workspace) {
  multiply<T>(p, no_epilogue, workspace);
}

/// Several products that don't depend on each other, shared out as one piece of work.
template <class T, std::size_t Count>
void multiply_together(const std::array<MatrixProduct<T>, Count>& products, Workspace& workspace) {
  std::array<Division, Count> divisions;
  Index tasks = 0;
  bool in_turn = workspace.concurrency() == 1;
  for (std::size_t i = 0; i < Count; ++i) {
    divisions[i] = Division::of(products[i], workspace);
    tasks += divisions[i].tasks;
    in_turn |= products[i].empty() || products[i].b.quantizes_rows || divisions[i].tasks == 1;
  }
  if (in_turn) {
    for (const auto& p : products) multiply(p, workspace);
    return;
  }
  workspace.parallel_for(tasks, [&](Index task, Arena&) {
    std::size_t i = 0;
    for (; task >= divisions[i].tasks; ++i) task -= divisions[i].tasks;
    divisions[i].run(products[i], task, [&](Index row, Index row_end, Index column, Index end) {
      internal::multiply_range<T>(products[i], row, row_end, column, end, no_epilogue);
    });
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
