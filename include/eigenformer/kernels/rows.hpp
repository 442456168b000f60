// SPDX-License-Identifier: MIT
#pragma once

// What kernels that work row by row share: sums over a row in one fixed order, and the split of
// rows over threads.

#include <algorithm>
#include <limits>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/simd.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Elements below which splitting row-wise work over threads costs more than it saves.
inline constexpr Index smallest_parallel_elements = 1 << 15;

/// Sum over i < n of part(i, count), which returns a register for elements i ... i + count - 1 and
/// is asked for whole registers and at the end for one of count < width. Lanes from `count` on are
/// dropped. Four running sums, always combined alike: the order of additions depends on n alone.
template <class T, class Part>
EIGENFORMER_ALWAYS_INLINE T row_sum(Index n, Part&& part) {
  using S = Simd<T>;
  constexpr Index width = S::width;
  typename S::Vector sum[4] = {S::zero(), S::zero(), S::zero(), S::zero()};
  Index i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    EIGENFORMER_UNROLL
    for (Index lane = 0; lane < 4; ++lane)
      sum[lane] = S::add(sum[lane], part(i + lane * width, width));
  }
  for (Index lane = 0; i < n; ++lane, i += width) {
    const Index count = (std::min)(width, n - i);
    sum[lane] = S::add(sum[lane], S::keep_first(part(i, count), count));
  }
  return S::sum(S::add(S::add(sum[0], sum[1]), S::add(sum[2], sum[3])));
}

/// The largest of n elements, passing over NaN; -infinity if there is none.
template <class T>
T row_maximum(const T* x, Index n) {
  using S = Simd<T>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  typename S::Vector largest = S::set(lowest);
  Index i = 0;
  for (; i + S::width <= n; i += S::width) largest = S::maximum(S::load(x + i), largest);
  T result = S::largest(largest);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// Calls f(begin, end) so that together the calls cover the rows; in parallel where there is enough
/// to do.
template <class F>
void for_each_row_block(Index rows, Index columns, Workspace& workspace, F&& f) {
  const Index threads = workspace.concurrency();
  if (threads == 1 || rows * columns < smallest_parallel_elements) {
    if (rows > 0) f(Index{0}, rows);
    return;
  }
  const Index tasks = (std::min)(rows, 2 * threads);
  workspace.parallel_for(
      tasks, [&](Index task, Arena&) { f(rows * task / tasks, rows * (task + 1) / tasks); });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
