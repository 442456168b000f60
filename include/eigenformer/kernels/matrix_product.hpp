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

#include <array>
#include <cstddef>

#include "eigenformer/kernels/quantized_product.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Computes the product. `epilogue(row, rows, column, columns)` is called once for each part of C as
/// soon as it is complete and still in the first-level cache; together the parts cover C.
template <class T>
void multiply(const MatrixProduct<T>& p, EpilogueFunction epilogue, Workspace& workspace) {
  if (p.empty()) return;
  if (p.b.quantizes_rows()) {
    multiply_quantizing_rows(p, *p.b.int8(), epilogue, workspace);
    return;
  }
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
    in_turn |= products[i].empty() || products[i].b.quantizes_rows() || divisions[i].tasks == 1;
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
