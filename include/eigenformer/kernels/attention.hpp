// SPDX-License-Identifier: MIT
#pragma once

// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017) with grouped
// key/value heads (Ainslie et al., "GQA", 2023), tiled so that the scores (T, S) are never stored
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022):
//
//   y_t = sum_j p_tj v_j,   p_t = softmax over the visible j of (cap(scale * q_t . k_j) + bias_tj)
//
// where cap(s) = c tanh(s / c), if there is a cap (Gemma 2), and relative embeddings (kernels/
// relative_keys.hpp) join the products before it.
//
//   q: (B, T, H, D)   k: (B, S, K, D)   v: (B, S, K, E)   y: (B, T, H, E)   strides of their own
//
// Query head h reads key/value head h / (H / K). Keys are walked in tiles of `key_tile`, counted
// from key 0, and every tile adds in one fixed order; a key that takes no part adds an exact zero.
// So the bits of a query's result depend neither on the other queries, nor on padding, nor on
// threads. A query that sees no key gets zeros; NaN or infinity in a key or value that it may not
// see doesn't reach it.

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "eigenformer/kernels/attention_block.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Computes y, and the attention weights unless their pointer is null. Scratch memory doesn't depend
/// on T or S. The mask must have been checked.
template <class T>
void attend(const Attention<T>& a, const KeyValuePanels<const T>& panels, const Mask<T>& mask,
            Workspace& workspace) {
  const Index tokens = std::max<Index>(1, query_rows / a.group());
  const Index blocks = (a.queries + tokens - 1) / tokens;
  const Index tasks = a.batch * a.key_value_heads * blocks;
  const auto run = [&](Index task, Arena& arena) {
    const Index block = task % blocks, rest = task / blocks;
    const Index b = rest / a.key_value_heads, head = rest % a.key_value_heads;
    const Index queries = a.query_counts != nullptr ? a.query_counts[b] : a.queries;
    const Index begin = block * tokens, end = (std::min)(queries, begin + tokens);
    if (begin >= end) return;
    internal::AttentionBlock<T>(a, panels, mask, b, head, begin, end, arena).run();
  };
  const Index work = a.batch * a.heads * a.queries * a.keys * (a.head_size + a.value_size);
  workspace.run_tasks(tasks, work, smallest_parallel_work, run);
}

/// Keys (B, S, K, D) and values (B, S, K, E) in memory.
template <class T>
struct KeysAndValues {
  Heads<const T> k, v;
};

namespace internal {

/// Copies keys and values into panels, then attends.
template <class T>
void attend_through_panels(const Attention<T>& a, const KeysAndValues<T>& from, const Mask<T>& mask,
                           Workspace& workspace) {
  Scratch scratch(workspace);
  const auto panels = scratch_panels<T>({.batch = a.batch,
                                         .heads = a.key_value_heads,
                                         .slots = a.keys,
                                         .head_size = a.head_size,
                                         .value_size = a.value_size},
                                        scratch);
  write_keys_and_values(panels, from.k, from.v, a.keys, nullptr, a.key_counts, workspace);
  attend<T>(a, panels, mask, workspace);
}

/// `a` over x (1, T, ...): the sequences in it as batches. A batch has room for its longest sequence
/// in every row; it ends before that would take more than four times its tokens.
template <class T>
void attend_in_sequences(Attention<T> a, KeysAndValues<T> from, const Mask<T>& mask,
                         Workspace& workspace) {
  const IntegerSequence& lengths = *mask.sequence_lengths;
  Scratch scratch(workspace);
  auto* counts = scratch.array<Index>(lengths.size());
  auto* starts = scratch.array<Index>(lengths.size());
  a.query_counts = a.key_counts = counts;
  a.q.starts = from.k.starts = from.v.starts = a.y.starts = starts;
  const auto attend_to_batch = [&] {
    a.keys = a.queries;
    if (a.queries > 0) attend_through_panels(a, from, mask, workspace);
  };
  Index tokens = 0;
  a.batch = a.queries = 0;
  for (Index i = 0, start = 0; i < lengths.size(); start += lengths[i++]) {
    const Index longest = (std::max)(a.queries, lengths[i]);
    if ((a.batch + 1) * longest > 4 * (tokens + lengths[i])) {
      attend_to_batch();
      tokens = a.batch = 0;
      a.queries = lengths[i];
    } else {
      a.queries = longest;
    }
    counts[a.batch] = lengths[i];
    starts[a.batch++] = start;
    tokens += lengths[i];
  }
  attend_to_batch();
}

}  // namespace internal

/// The same with keys and values from memory, which are copied into panels first. Scratch memory grows
/// in proportion to S.
template <class T>
void attend(const Attention<T>& a, const KeysAndValues<T>& from, const Mask<T>& mask,
            Workspace& workspace) {
  if (mask.sequence_lengths) {
    internal::attend_in_sequences(a, from, mask, workspace);
  } else {
    internal::attend_through_panels(a, from, mask, workspace);
  }
}

}  // namespace kernels

/// Attention over given queries (B, H, T, D), keys (B, K, S, D) and values (B, K, S, E): the result
/// (B, H, T, E). The shapes are those of PyTorch's scaled_dot_product_attention, with K dividing H
/// (its enable_gqa). `scale` defaults to 1 / sqrt(D). `attention_weights`, when not null, receives
/// the probabilities (B, H, T, S).
template <class T>
Tensor<T, 4> scaled_dot_product_attention(const Tensor<T, 4>& q, const Tensor<T, 4>& k,
                                          const Tensor<T, 4>& v, const Mask<T>& mask = {},
                                          std::optional<double> scale = {},
                                          Tensor<T, 4>* attention_weights = nullptr) {
  constexpr const char* who = "scaled_dot_product_attention";
  const Index batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), head_size = q.dim(3);
  const Index key_value_heads = k.dim(1), keys = k.dim(2), value_size = v.dim(3);
  require_shape(std::string(who) + ": k", k.shape(),
                Shape<4>{batch, key_value_heads, keys, head_size});
  require_shape(std::string(who) + ": v", v.shape(),
                Shape<4>{batch, key_value_heads, keys, value_size});
  require(key_value_heads > 0 ? heads % key_value_heads == 0 : heads == 0, who,
          ": the heads of k and v must divide those of q; got ", key_value_heads, " and ", heads);
  const Shape<4> scores{batch, heads, queries, keys};
  kernels::require_valid_mask(who, mask, scores);
  if (attention_weights != nullptr) kernels::require_no_sequences(who, mask);

  Tensor<T, 4> y({batch, heads, queries, value_size});
  Tensor<T, 4> probabilities(attention_weights != nullptr ? scores : Shape<4>{});
  if (heads == 0) {
    if (attention_weights != nullptr) *attention_weights = std::move(probabilities);
    return y;
  }
  using std::sqrt;
  Workspace workspace;
  kernels::attend<T>(
      {.batch = batch,
       .queries = queries,
       .keys = keys,
       .heads = heads,
       .key_value_heads = key_value_heads,
       .head_size = head_size,
       .value_size = value_size,
       .q = kernels::Heads<const T>::head_major(q.data(), heads, queries, head_size),
       .y = kernels::Heads<T>::head_major(y.data(), heads, queries, value_size),
       .scale = scale ? static_cast<T>(*scale) : T(1) / sqrt(static_cast<T>(head_size)),
       .attention_weights = attention_weights == nullptr ? nullptr : probabilities.data()},
      {.k = kernels::Heads<const T>::head_major(k.data(), key_value_heads, keys, head_size),
       .v = kernels::Heads<const T>::head_major(v.data(), key_value_heads, keys, value_size)},
      mask, workspace);
  if (attention_weights != nullptr) *attention_weights = std::move(probabilities);
  return y;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
