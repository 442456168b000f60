// SPDX-License-Identifier: MIT
// The laws for what a language model has besides its layers: the head, T5's relative biases.
#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/nn/language_model_head.hpp"
#include "eigenformer/nn/relative_bias.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace language_model_laws_test {

template <class T>
struct AnyHeadCase : OnTokens<53> {
  using Module = ef::LanguageModelHead<T>;
  static ef::Shape<3> output_shape(const Input& in) { return {in.x.dim(0), in.x.dim(1), 29}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    static const auto table = reference::random_tensor<T, 2>({29, 53}, 77);
    static const ef::Tensor<T, 2> none;
    module.forward(in.x, module.config.tie_word_embeddings ? table : none, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    ef::Tensor<T, 3> y({in.x.dim(0), in.x.dim(1), 29});
    ef::Workspace workspace;
    call(module, Views<T>(in), y, workspace);
    return y;
  }
};

template <class T>
struct TiedHeadCase : AnyHeadCase<T> {
  static ef::LanguageModelHead<T> make() {
    return ef::LanguageModelHead<T>({.hidden_size = 53, .vocab_size = 29, .logit_scale = 0.3});
  }
  static Parameters parameters() { return {}; }
};

template <class T>
struct OwnHeadCase : AnyHeadCase<T> {
  static ef::LanguageModelHead<T> make() {
    return ef::LanguageModelHead<T>({.hidden_size = 53,
                                     .vocab_size = 29,
                                     .tie_word_embeddings = false,
                                     .bias = true,
                                     .final_logit_softcapping = 7});
  }
  static Parameters parameters() { return {{"weight", "(29, 53)"}, {"bias", "(29)"}}; }
};

/// A table is seen through the attention of x to itself, in which nothing else is learned: 5 heads
/// of 11.
template <class T>
struct RelativeBiasCase : OnTokens<55, true> {
  using Module = ef::RelativeBias<T>;
  static Module make() {
    return Module({.num_attention_heads = 5,
                   .relative_attention_num_buckets = 14,
                   .relative_attention_max_distance = 29});
  }
  static Parameters parameters() { return {{"weight", "(14, 5)"}}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    const Index batch = in.x.dim(0), tokens = in.x.dim(1);
    ef::require_shape("x", in.x.shape(), {batch, tokens, 55});
    ef::require_shape("y", y.shape(), in.x.shape());
    ef::require_disjoint("RelativeBiasCase", {y}, {in.x});
    ef::kernels::require_valid_mask("RelativeBiasCase", in.mask, {batch, 5, tokens, tokens});
    ef::Scratch scratch(workspace);
    const auto x = ef::kernels::Heads<const T>::token_major(in.x.data(), tokens, 5, 11);
    ef::kernels::attend<T>({.batch = batch,
                            .queries = tokens,
                            .keys = tokens,
                            .heads = 5,
                            .key_value_heads = 5,
                            .head_size = 11,
                            .value_size = 11,
                            .q = x,
                            .y = ef::kernels::Heads<T>::token_major(y.data(), tokens, 5, 11),
                            .scale = T(0.3)},
                           {.k = x, .v = x}, module.add_to(in.mask, scratch), workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    ef::Tensor<T, 3> y(in.x.shape());
    ef::Workspace workspace;
    call(module, Views<T>(in), y, workspace);
    return y;
  }
};

LAWS_HOLD_FOR(TiedLanguageModelHead, TiedHeadCase);
LAWS_HOLD_FOR(OwnLanguageModelHead, OwnHeadCase);
LAWS_HOLD_FOR(RelativeBias, RelativeBiasCase);

}  // namespace language_model_laws_test
}  // namespace laws
