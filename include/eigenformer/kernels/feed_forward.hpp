// SPDX-License-Identifier: MIT
#pragma once

// The two products of a feed-forward network, fused:
//
//   h = activation(x W1^T + b1)                       (M, F)
//   h = activation(x Wg^T + bg) * (x W1^T + b1)       with a gate
//   y = h W2^T + b2                                   (M, C)
//
// Many rows are taken in blocks, and for each block the hidden size in chunks: a chunk of h is made
// and used while it is in the second-level cache, so scratch memory grows neither with M nor with
// F. The second product continues from its partial sums, chunk after chunk, which is the order of
// additions of one product. Few rows, whose h is small, are split over threads by columns, one
// product after the other.

#include "eigenformer/kernels/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template <class T>
struct FeedForwardMaps {
  AffineMap<T> first, second;
  const AffineMap<T>* gate = nullptr;
  Activation activation;
  Index hidden_size, intermediate_size;  // C, F
};

namespace internal {

/// Elements of the hidden size in a chunk: whole panels, whole blocks of the second product's k.
template <class T>
inline constexpr Index feed_forward_chunk = depth_block<T>;

/// Rows begin ... end - 1.
template <class T>
void feed_forward_rows(TensorView<const T, 2> x, const FeedForwardMaps<T>& maps, TensorView<T, 2> y,
                       Index begin, Index end, Arena& arena) {
  const Index C = maps.hidden_size, F = maps.intermediate_size, rows = end - begin;
  const Index width = (std::min)(F, feed_forward_chunk<T>);
  Scratch scratch(arena);
  T* hidden = scratch.array<T>(rows * width);
  T* value = maps.gate == nullptr ? nullptr : scratch.array<T>(rows * width);
  Index f = 0;
  do {  // once even for F = 0, where y is the bias
    const Index chunk = (std::min)(width, F - f);
    const auto map_to = [&](const AffineMap<T>& map, T* to) {
      return MatrixProduct<T>{.rows = rows,
                              .columns = chunk,
                              .depth = C,
                              .a = x.data() + begin * C,
                              .a_stride = C,
                              .b = map.weight.part(f, 0),
                              .bias = map.bias == nullptr ? nullptr : map.bias + f,
                              .c = to,
                              .c_stride = width};
    };
    if (maps.gate != nullptr)
      multiply_range<T>(map_to(maps.first, value), 0, rows, 0, chunk, no_epilogue);
    const Epilogue<T> epilogue{.activation = maps.activation, .multiplier = value};
    const auto apply = [&](Index row, Index count, Index column, Index columns) {
      epilogue.apply(hidden, width, row, count, column, columns);
    };
    multiply_range<T>(map_to(maps.gate != nullptr ? *maps.gate : maps.first, hidden), 0, rows, 0,
                      chunk, apply);
    multiply_range<T>({.rows = rows,
                       .columns = C,
                       .depth = chunk,
                       .a = hidden,
                       .a_stride = width,
                       .b = maps.second.weight.part(0, f),
                       .bias = maps.second.bias,
                       .c = y.data() + begin * C,
                       .c_stride = C,
                       .accumulates = f > 0,
                       .ends = f + chunk == F},
                      0, rows, 0, C, no_epilogue);
    f += chunk;
  } while (f < F);
}

}  // namespace internal

/// h = activation(x Wg^T + bg) * value, value = x W1^T + b1: each part of both by one thread.
template <class T>
void gated_hidden(TensorView<const T, 2> x, const FeedForwardMaps<T>& maps, TensorView<T, 2> value,
                  TensorView<T, 2> hidden, Workspace& workspace) {
  const Epilogue<T> epilogue{.activation = maps.activation, .multiplier = value.data()};
  if (maps.gate->weight.quantizes_rows()) {
    linear<T>(x, maps.first, value, {}, workspace);
    linear<T>(x, *maps.gate, hidden, epilogue, workspace);
    return;
  }
  const auto up = product_of(x, maps.first, value), gate = product_of(x, *maps.gate, hidden);
  const auto apply = [&](Index row, Index rows, Index column, Index columns) {
    epilogue.apply(hidden.data(), hidden.columns(), row, rows, column, columns);
  };
  for_each_range(gate, workspace, [&](Index row, Index row_end, Index column, Index column_end) {
    internal::multiply_range<T>(up, row, row_end, column, column_end, no_epilogue);
    internal::multiply_range<T>(gate, row, row_end, column, column_end, apply);
  });
}

/// One product after the other.
template <class T>
void feed_forward_unfused(TensorView<const T, 2> x, const FeedForwardMaps<T>& maps,
                          TensorView<T, 2> y, Workspace& workspace) {
  Scratch scratch(workspace);
  const auto hidden = scratch.tensor<T, 2>({x.rows(), maps.intermediate_size});
  if (maps.gate != nullptr) {
    gated_hidden(x, maps, scratch.tensor<T, 2>(hidden.shape()), hidden, workspace);
  } else {
    linear<T>(x, maps.first, hidden, {.activation = maps.activation}, workspace);
  }
  linear<T>(hidden, maps.second, y, {}, workspace);
}

/// x, y: (M, C); y must not overlap the others.
template <class T>
void feed_forward(TensorView<const T, 2> x, const FeedForwardMaps<T>& maps, TensorView<T, 2> y,
                  Workspace& workspace) {
  if (maps.second.weight.quantizes_rows()) {  // needs whole rows of h
    const Index C = maps.hidden_size, block = rows_per_packing * workspace.concurrency();
    for (Index row = 0; row < x.rows(); row += block) {
      const Index rows = (std::min)(block, x.rows() - row);
      feed_forward_unfused<T>(TensorView<const T, 2>(x.data() + row * C, {rows, C}), maps,
                              TensorView<T, 2>(y.data() + row * C, {rows, C}), workspace);
    }
    return;
  }
  if (!splits_rows(x.rows(), workspace)) {
    feed_forward_unfused(x, maps, y, workspace);
    return;
  }
  const auto division = Division::of_rows(x.rows(), maps.second.weight, workspace);
  workspace.parallel_for(division.tasks, [&](Index task, Arena& arena) {
    internal::feed_forward_rows(x, maps, y, division.begin(task), division.end(task), arena);
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
