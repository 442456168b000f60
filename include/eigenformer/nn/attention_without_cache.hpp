// SPDX-License-Identifier: MIT
#pragma once

// Multi-head attention of whole sequences: nn/multi_head_attention.hpp.

#include "eigenformer/nn/attention_projections.hpp"
#include "eigenformer/nn/attention_scores.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// Projects, places, attends, projects again. Arguments must have been checked.
template <class Attention, class T = typename Attention::Scalar>
void attend_without_cache(const Attention& attention, TensorView<const T, 3> x,
                          TensorView<const T, 3> key_memory, TensorView<const T, 3> value_memory,
                          const Mask<T>& mask, TensorView<T, 3> y,
                          const std::optional<TensorView<T, 4>>& attention_weights,
                          Workspace& workspace) {
  const Index batch = x.dim(0), keys = key_memory.dim(1);
  const auto& sequences = mask.sequence_lengths;
  Scratch scratch(workspace);

  const Projections<T> p = project(attention, x, key_memory, value_memory, scratch, workspace);
  place_queries(attention, {.batch = batch, .offset = mask.query_offset, .sequences = sequences},
                p.q, workspace);
  place_keys(attention, {.batch = batch, .sequences = sequences}, p.k, workspace);

  const auto attended = scratch.tensor<T, 2>(p.q.shape());
  auto a = kernel_arguments<Attention, T>(attention, p.q, attended, batch, keys, scratch);
  if (attention_weights) a.attention_weights = attention_weights->data();
  kernels::attend(a, heads_of(attention, p, keys), mask_for(attention, mask, scratch), workspace);

  attention.output.forward(attended, y.folded(), workspace);
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
