// SPDX-License-Identifier: MIT
#pragma once

// Work on rows, shared out among threads.

#include <algorithm>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/target.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Elements below which splitting row-wise work over threads costs more than it saves.
inline constexpr Index smallest_parallel_elements = 1 << 15;

/// Calls f(begin, end) or f(begin, end, arena) so that together the calls cover the rows; in
/// parallel where there is enough to do.
template <class F>
void for_each_row_block(Index rows, Index columns, Workspace& workspace, F&& f) {
  const auto call = [&](Index begin, Index end, Arena& arena) {
    if constexpr (std::is_invocable_v<F&, Index, Index, Arena&>) {
      f(begin, end, arena);
    } else {
      f(begin, end);
    }
  };
  const Index threads = workspace.concurrency();
  if (threads == 1 || rows * columns < smallest_parallel_elements) {
    if (rows > 0) call(Index{0}, rows, workspace.arena());
    return;
  }
  const Index tasks = (std::min)(rows, 2 * threads);
  workspace.parallel_for(tasks, [&](Index task, Arena& arena) {
    call(rows * task / tasks, rows * (task + 1) / tasks, arena);
  });
}

/// Calls f(row, arena) for each row, each a task; in parallel if `rows` times `columns` elements are
/// enough to do.
template <class F>
void for_each_row(Index rows, Index columns, Workspace& workspace, F&& f) {
  workspace.run_tasks(rows, rows * columns, smallest_parallel_elements, f);
}

/// y = norm(x + z), or norm(x) if z is null, row by row: a row is normalised while it is in the
/// first-level cache. x, z, y: (rows, C); y may be x or z. `norm(from, to)` takes one row.
template <class T, class Norm>
void normalize(TensorView<const T, 2> x, const T* z, TensorView<T, 2> y, Workspace& workspace,
               Norm&& norm) {
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index i = begin * n; i < end * n; i += n) {
      const T* from = x.data() + i;
      T* to = y.data() + i;
      if (z != nullptr) {
        target<T>().add(from, z + i, to, n);
        from = to;
      }
      norm(from, to);
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
