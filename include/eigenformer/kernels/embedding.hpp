// SPDX-License-Identifier: MIT
#pragma once

// Rows of a table (V, C), looked up by id: y_i = table[id_i], or y_i += table[id_i].

#include <cstdint>
#include <string_view>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/packing.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Throws, naming the first bad id and the table's size, unless 0 <= id < rows for all.
inline void require_ids(std::string_view who, const std::int32_t* ids, Index count, Index rows) {
  for (Index i = 0; i < count; ++i) {
    require(ids[i] >= 0 && ids[i] < rows, who, ": id ", ids[i], " at index ", i,
            " is outside the table of ", rows, " rows");
  }
}

/// Rows of `table` for `y.rows()` ids, times `factor`; added to y if `add`. Ids must have been
/// checked.
template <class T>
void look_up(const RightFactor<T>& table, const std::int32_t* ids, T factor, bool add,
             TensorView<T, 2> y, Workspace& workspace) {
  const Index n = y.columns();
  for_each_row_block(y.rows(), n, workspace, [&](Index begin, Index end, Arena& arena) {
    Scratch scratch(arena);
    const StridedFactor<T>* strided = table.strided();
    T* row = strided != nullptr ? nullptr : scratch.array<T>(n);
    for (Index i = begin; i < end; ++i) {
      if (row != nullptr) table.copy_row(ids[i], n, row);
      const T* from = row != nullptr ? row : strided->at(ids[i], 0);
      T* to = y.data() + i * n;
      if (add) {
        target<T>().add_scaled(from, factor, to, n);
      } else {
        target<T>().scale(from, factor, to, n);
      }
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
