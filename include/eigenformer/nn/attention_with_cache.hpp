// SPDX-License-Identifier: MIT
#pragma once

// Multi-head attention with a cache of keys and values: nn/multi_head_attention.hpp. Arguments must
// have been checked.

#include "eigenformer/nn/attention_projections.hpp"
#include "eigenformer/nn/attention_scores.hpp"
#include "eigenformer/nn/key_value_cache.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// Attention of placed queries q to the first key_counts[b] tokens in the cache, of row b; the query at
/// index 0 has position query_offsets[b] (null: 0).
template <class Attention, class T = typename Attention::Scalar>
void attend_to_panels(const Attention& attention, TensorView<T, 2> q, const KeyValueCache<T>& cache,
                      const Index* query_offsets, const Index* key_counts, Index keys,
                      const Mask<T>& mask, TensorView<T, 3> y,
                      const std::optional<TensorView<T, 4>>& attention_weights,
                      Workspace& workspace) {
  Scratch scratch(workspace);
  const auto attended = scratch.tensor<T, 2>(q.shape());
  auto a = kernel_arguments<Attention, T>(attention, q, attended, y.dim(0), keys, scratch);
  a.query_offsets = query_offsets;
  a.key_counts = key_counts;
  if (attention_weights) a.attention_weights = attention_weights->data();
  kernels::attend(a, cache.panels(), mask_for(attention, mask, scratch), workspace);
  attention.output.forward(attended, y.folded(), workspace);
}

/// Self-attention of the tokens x, of row b the first counts[b], that follow those in the cache. Their
/// keys and values are written to the cache; `cache.commit` adds them.
template <class Attention, class T = typename Attention::Scalar>
void attend_with_cache(const Attention& attention, TensorView<const T, 3> x,
                       const std::optional<IntegerSequence>& counts, KeyValueCache<T>& cache,
                       const Mask<T>& mask, TensorView<T, 3> y,
                       const std::optional<TensorView<T, 4>>& attention_weights,
                       Workspace& workspace) {
  const Index batch = x.dim(0), tokens = x.dim(1);
  const Index* lengths = cache.lengths().data();
  Scratch scratch(workspace);
  Index* lengths_after = scratch.array<Index>(batch);
  for (Index b = 0; b < batch; ++b) lengths_after[b] = lengths[b] + token_count(counts, b, tokens);

  const Projections<T> p = project(attention, x, x, x, scratch, workspace);
  const TokenPositions positions{.batch = batch, .first = lengths};
  place_queries(attention, positions, p.q, workspace);
  place_keys(attention, positions, p.k, workspace);

  const kernels::KeysAndValues<T> heads = heads_of(attention, p, tokens);
  cache.write(heads.k, heads.v, tokens, counts, workspace);
  attend_to_panels(attention, p.q, cache, lengths, lengths_after,
                   cache.longest_after(tokens, counts), mask, y, attention_weights, workspace);
}

/// Attention of x to what the cache holds.
template <class Attention, class T = typename Attention::Scalar>
void attend_to_cache(const Attention& attention, TensorView<const T, 3> x,
                     const KeyValueCache<T>& cache, const Mask<T>& mask, TensorView<T, 3> y,
                     const std::optional<TensorView<T, 4>>& attention_weights,
                     Workspace& workspace) {
  Scratch scratch(workspace);
  const auto q = scratch.tensor<T, 2>({x.rows(), attention.query.config.out_features});
  attention.query.forward(x.folded(), q, workspace);
  place_queries(attention, {.batch = x.dim(0), .offset = mask.query_offset}, q, workspace);
  attend_to_panels(attention, q, cache, nullptr, cache.lengths().data(), cache.longest(), mask, y,
                   attention_weights, workspace);
}

/// Calls use(keys and values) with those of memories (B, S, ...), whose tokens begin at `first`
/// (null: 0).
template <class Attention, class Use, class T = typename Attention::Scalar>
void project_memories(const Attention& attention, TensorView<const T, 3> key_memory,
                      TensorView<const T, 3> value_memory, const Index* first, Workspace& workspace,
                      Use&& use) {
  Scratch scratch(workspace);
  const Projections<T> p =
      project<Attention, T>(attention, {}, key_memory, value_memory, scratch, workspace);
  place_keys(attention, {.batch = key_memory.dim(0), .first = first}, p.k, workspace);
  use(heads_of(attention, p, key_memory.dim(1)));
}

/// Appends the keys and values of memories (B, S, ...) to the cache.
template <class Attention, class T = typename Attention::Scalar>
void append_memories(const Attention& attention, TensorView<const T, 3> key_memory,
                     TensorView<const T, 3> value_memory,
                     const std::optional<IntegerSequence>& token_counts, KeyValueCache<T>& cache,
                     Workspace& workspace) {
  const Index tokens = key_memory.dim(1);
  cache.require_room(tokens, token_counts);
  project_memories(attention, key_memory, value_memory, cache.lengths().data(), workspace,
                   [&](const kernels::KeysAndValues<T>& heads) {
                     cache.append(heads.k, heads.v, tokens, token_counts, workspace);
                   });
}

/// Makes a cache of `capacity` tokens with the keys and values of memories beside the old one.
template <class Attention, class T = typename Attention::Scalar>
void stage_memories(const Attention& attention, TensorView<const T, 3> key_memory,
                    TensorView<const T, 3> value_memory,
                    const std::optional<IntegerSequence>& token_counts, Index capacity,
                    KeyValueCache<T>& cache, Workspace& workspace) {
  project_memories(attention, key_memory, value_memory, nullptr, workspace,
                   [&](const kernels::KeysAndValues<T>& heads) {
                     cache.stage_replacement(key_memory.dim(0), capacity, heads.k, heads.v,
                                             key_memory.dim(1), token_counts, workspace);
                   });
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
