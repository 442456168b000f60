// SPDX-License-Identifier: MIT
#pragma once

// The matrix product whose left factor is quantized to int8 as well: exact sums of int8 products.

#include <algorithm>
#include <cstdint>

#include "eigenformer/kernels/matrix_product_division.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Rows that hold infinity or NaN can't be quantized: they are multiplied as they are, as with
/// int8_weights.
template <class T>
void multiply_unquantized_rows(const MatrixProduct<T>& p, const Int8Panels<T>& b, const T* scales,
                               Index row, Index rows, Index column, Index columns) {
  for (Index r = row; r < row + rows; ++r) {
    if (scales[r] == scales[r]) continue;
    internal::run_macrokernel(b, internal::part_of(p, r, 1, column, columns, 0, p.depth,
                                                   b.panels + b.offset(column, 0), b.panel_stride));
    internal::run_epilogue(p, r, 1, column, columns, no_epilogue);
  }
}

/// The product with A quantized to int8 row by row, with a scale for each row, and sums of int8 products,
/// which are exact:
///
///   q_mk = round(A(m, k) / s_m), s_m = max_k |A(m, k)| / 127
///   C(m, n) = s_m * scale_n * sum_k q_mk B(n, k) + bias_n
template <class T>
void multiply_quantizing_rows(const MatrixProduct<T>& p, const Int8Panels<T>& b,
                              EpilogueFunction epilogue, Workspace& workspace) {
  Scratch scratch(workspace);
  const Index stride = whole_groups(p.depth);
  auto* quantized = scratch.array<std::int8_t>(p.rows * stride);
  auto* scales = scratch.array<T>(p.rows);
  for_each_row_block(p.rows, p.depth, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      scales[row] = b.target->quantize(p.a + row * p.a_stride, p.depth, quantized + row * stride);
    }
  });
  for_each_range(p, workspace, [&](Index row, Index row_end, Index column, Index column_end) {
    for (; row < row_end; row += rows_per_packing) {
      const Index rows = (std::min)(rows_per_packing, row_end - row);
      for (Index n = column; n < column_end; n += epilogue_columns) {
        const Index columns = (std::min)(epilogue_columns, column_end - n);
        b.target->macrokernel_int8({.rows = rows,
                                    .columns = columns,
                                    .depth = p.depth,
                                    .a = quantized + row * stride,
                                    .a_stride = stride,
                                    .a_scales = scales + row,
                                    .panels = b.panels + b.offset(n, 0),
                                    .panel_stride = b.panel_stride,
                                    .b_scales = b.scales + n,
                                    .bias = p.bias == nullptr ? nullptr : p.bias + n,
                                    .c = p.c + row * p.c_stride + n,
                                    .c_stride = p.c_stride});
        multiply_unquantized_rows(p, b, scales, row, rows, n, columns);
        epilogue(row, rows, n, columns);
      }
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
