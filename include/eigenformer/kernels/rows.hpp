// SPDX-License-Identifier: MIT
#pragma once

// Work on rows, shared out among threads.

#include <algorithm>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/machine.hpp"

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

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
