// SPDX-License-Identifier: MIT
#include "eigenformer/nn/additive_attention.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace attention_laws_test {

Parameters attention_parameters(Index hidden, Index query, Index key_value, Index memory) {
  Parameters list;
  add_linear(list, "query", query, hidden);
  add_linear(list, "key", key_value, memory);
  add_linear(list, "value", key_value, memory);
  add_linear(list, "output", hidden, query);
  return list;
}

template <class T>
struct SelfAttentionCase : OnTokens<53, true> {
  using Module = ef::MultiHeadAttention<T>;
  static Module make() {
    return Module({.hidden_size = 53, .num_attention_heads = 5, .head_size = 7});
  }
  static Parameters parameters() { return attention_parameters(53, 35, 35, 53); }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.mask());
  }
};

template <class T>
struct GroupedCausalAttentionCase : SelfAttentionCase<T> {
  using Module = ef::MultiHeadAttention<T>;
  static Module make() {
    return Module({.hidden_size = 53,
                   .num_attention_heads = 6,
                   .num_key_value_heads = 2,
                   .head_size = 5,
                   .key_bias = false});
  }
  static Parameters parameters() {
    Parameters list = attention_parameters(53, 30, 10, 53);
    list.erase(list.begin() + 3);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    ef::Mask<T> mask = in.mask;
    mask.causal = true;
    module.forward(in.x, mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    ef::Mask<T> mask = in.mask();
    mask.causal = true;
    return module(in.x, mask);
  }
};

template <class T>
struct CrossAttentionCase : OnTwoSequences {
  using Module = ef::MultiHeadAttention<T>;
  static Module make() {
    return Module(
        {.hidden_size = 53, .num_attention_heads = 5, .head_size = 7, .key_value_size = 31});
  }
  static Parameters parameters() { return attention_parameters(53, 35, 35, 31); }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.memory, in.memory, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.memory, in.mask());
  }
};

template <class T>
struct AdditiveAttentionCase : OnTwoSequences {
  using Module = ef::AdditiveAttention<T>;
  static Traits traits() { return {.splits_work = false}; }
  static Module make() { return Module({.query_size = 53, .key_size = 31, .hidden_size = 13}); }
  static Parameters parameters() {
    return {{"query.weight", "(13, 53)"}, {"key.weight", "(13, 31)"}, {"score.weight", "(1, 13)"}};
  }
  static Input large_input() { return input(5, 19, 9); }
  static ef::Shape<3> output_shape(const Input& in) { return {in.x.dim(0), in.x.dim(1), 31}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.memory, in.memory, in.mask.key_lengths, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.memory, in.memory, in.lengths);
  }
};

LAWS_HOLD_FOR(SelfAttention, SelfAttentionCase);
LAWS_HOLD_FOR(GroupedCausalAttention, GroupedCausalAttentionCase);
LAWS_HOLD_FOR(CrossAttention, CrossAttentionCase);
LAWS_HOLD_FOR(AdditiveAttention, AdditiveAttentionCase);

}  // namespace attention_laws_test
}  // namespace laws
