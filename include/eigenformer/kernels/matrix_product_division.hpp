// SPDX-License-Identifier: MIT
#pragma once

// How a matrix product is shared out over threads: by rows or columns of C, never over k.

#include <algorithm>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/matrix_product_range.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Multiply-adds below which splitting work over threads costs more than it saves.
inline constexpr Index smallest_parallel_work = 1 << 17;

/// A thread reads all the weights when rows are split; that pays from so many rows a thread on.
inline constexpr Index rows_per_thread = 48;

/// Rows are split while every thread gets enough of them, columns otherwise.
inline bool splits_rows(Index rows, const Workspace& workspace) {
  return rows >= rows_per_thread * workspace.concurrency();
}

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

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
