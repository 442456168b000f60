// SPDX-License-Identifier: MIT
#pragma once

// The first two steps of multi-head attention (nn/multi_head_attention.hpp): project queries, keys and
// values, then place queries and keys, that is normalize each head and rotate it by its position.
//
//   q: (B T, H D)   k, v: (B S, K D)

#include <algorithm>
#include <optional>

#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/kernels/rotary.hpp"
#include "eigenformer/nn/attention_config.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

template <class T>
struct Projections {
  TensorView<T, 2> q, k, v;
};

/// Which positions the tokens of B batch rows have: the first of row b is at offset + first[b] (null:
/// offset). Or one row holds sequences, each from position 0 on.
struct TokenPositions {
  Index batch;
  Index offset = 0;
  const Index* first = nullptr;
  std::optional<IntegerSequence> sequences = {};

  /// Tokens of the longest row or sequence.
  Index longest(Index rows) const {
    if (!sequences) return rows / batch;
    Index longest = 0;
    for (Index i = 0; i < sequences->size(); ++i) longest = (std::max)(longest, (*sequences)[i]);
    return longest;
  }
};

/// x may have no tokens.
template <class Attention, class T = typename Attention::Scalar>
Projections<T> project(const Attention& attention, TensorView<const T, 3> x,
                       TensorView<const T, 3> key_memory, TensorView<const T, 3> value_memory,
                       Scratch& scratch, Workspace& workspace) {
  const Projections<T> p{
      scratch.tensor<T, 2>({x.rows(), attention.query.config.out_features}),
      scratch.tensor<T, 2>({key_memory.rows(), attention.key.config.out_features}),
      scratch.tensor<T, 2>({value_memory.rows(), attention.value.config.out_features})};
  kernels::multiply_together<T, 3>(
      {kernels::product_of(x.folded(), attention.query.map(), p.q),
       kernels::product_of(key_memory.folded(), attention.key.map(), p.k),
       kernels::product_of(value_memory.folded(), attention.value.map(), p.v)},
      workspace);
  return p;
}

/// Normalizes (unless `norm` is null) and rotates the heads of x (B T, heads D) in place.
template <class Attention, class Norm, class T = typename Attention::Scalar>
void place(const Attention& attention, const Norm* norm, const TokenPositions& positions,
           TensorView<T, 2> x, Workspace& workspace) {
  const Index size = attention.config.size_of_head();
  if (norm != nullptr) {
    const auto heads = x.reshaped(Shape<2>{x.size() / size, size});
    norm->forward(heads, heads, workspace);
  }
  const AttentionPositions& kind = attention.config.attention_positions;
  if (kind.kind != AttentionPosition::rotary || x.rows() == 0) return;
  Scratch scratch(workspace);
  const kernels::RotaryTable<T> table(kind.rotary, size, positions.batch,
                                      positions.longest(x.rows()), positions.offset,
                                      positions.first, scratch, workspace);
  if (!positions.sequences) return table.rotate(x, size, workspace);
  T* rows = x.data();
  for (Index i = 0; i < positions.sequences->size(); ++i) {
    const TensorView<T, 2> sequence(rows, {(*positions.sequences)[i], x.columns()});
    table.rotate(sequence, size, workspace);
    rows += sequence.size();
  }
}

template <class Attention, class T = typename Attention::Scalar>
void place_queries(const Attention& attention, const TokenPositions& positions, TensorView<T, 2> q,
                   Workspace& workspace) {
  place(attention, attention.query_norm ? &*attention.query_norm : nullptr, positions, q,
        workspace);
}

template <class Attention, class T = typename Attention::Scalar>
void place_keys(const Attention& attention, const TokenPositions& positions, TensorView<T, 2> k,
                Workspace& workspace) {
  place(attention, attention.key_norm ? &*attention.key_norm : nullptr, positions, k, workspace);
}

/// Keys and values as kernels take them.
template <class Attention, class T = typename Attention::Scalar>
kernels::KeysAndValues<T> heads_of(const Attention& attention, const Projections<T>& p,
                                   Index tokens) {
  const Index heads = attention.config.key_value_heads(), size = attention.config.size_of_head();
  return {.k = kernels::Heads<const T>::token_major(p.k.data(), tokens, heads, size),
          .v = kernels::Heads<const T>::token_major(p.v.data(), tokens, heads, size)};
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
