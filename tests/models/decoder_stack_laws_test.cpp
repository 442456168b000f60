// SPDX-License-Identifier: MIT
// The laws for stacks without embeddings and head: a decoder's, an encoder's and decoder's.
#include "eigenformer/models/transformer_stack.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace decoder_stack_laws_test {

ef::TransformerConfig small_stack(ef::NormPlacement placement) {
  return {.hidden_size = 53,
          .num_hidden_layers = 2,
          .num_attention_heads = 5,
          .head_size = 7,
          .intermediate_size = 61,
          .norm_placement = placement,
          .final_norm = placement == ef::NormPlacement::pre};
}

template <class T>
struct SelfStackCase : OnTokens<53, true> {
  using Module = ef::DecoderStack<T>;
  static Module make() {
    auto config = small_stack(ef::NormPlacement::pre);
    config.attention_positions = {.kind = ef::AttentionPosition::relative_bias,
                                  .relative_attention_num_buckets = 14,
                                  .relative_attention_max_distance = 29};
    return Module(config);
  }
  static Parameters parameters() {
    Parameters list = {{"relative_bias.weight", "(14, 5)"}};
    add_decoder_layers(list, "layers", 2, 0);
    add_norm(list, "final_norm", 53);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.mask());
  }
};

template <class T, ef::NormPlacement placement>
struct CrossStackCase : OnTwoSequences {
  using Module = ef::DecoderStack<T>;
  static Module make() {
    auto config = small_stack(placement);
    config.cross_attention = true;
    config.key_value_size = 31;
    return Module(config);
  }
  static Parameters parameters() {
    Parameters list;
    add_decoder_layers(list, "layers", 2, 31);
    if (placement == ef::NormPlacement::pre) add_norm(list, "final_norm", 53);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.memory, {}, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.memory, {}, in.mask());
  }
};

template <class T>
using PreCrossStackCase = CrossStackCase<T, ef::NormPlacement::pre>;
template <class T>
using PostCrossStackCase = CrossStackCase<T, ef::NormPlacement::post>;

/// The source is as wide as the encoder, 31; the lengths are the source's.
template <class T>
struct TransformerStackCase : OnTwoSequences {
  using Module = ef::TransformerStack<T>;
  static Module make() {
    return Module({.encoder = {.hidden_size = 31,
                               .num_attention_heads = 3,
                               .head_size = 11,
                               .intermediate_size = 37,
                               .final_norm = true},
                   .decoder = small_stack(ef::NormPlacement::post)});
  }
  static Parameters parameters() {
    Parameters list;
    add_norm(list, "encoder.layers.0.attention_norm", 31);
    for (const std::string part : {"query", "key", "value"})
      add_linear(list, "encoder.layers.0.attention." + part, 33, 31);
    add_linear(list, "encoder.layers.0.attention.output", 31, 33);
    add_norm(list, "encoder.layers.0.feed_forward_norm", 31);
    add_linear(list, "encoder.layers.0.feed_forward.linear_1", 37, 31);
    add_linear(list, "encoder.layers.0.feed_forward.linear_2", 31, 37);
    add_norm(list, "encoder.final_norm", 31);
    add_decoder_layers(list, "decoder.layers", 2, 31);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.memory, in.x, {.source = in.mask, .memory = in.mask}, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.memory, in.x, {.source = in.mask(), .memory = in.mask()});
  }
};

LAWS_HOLD_FOR(DecoderStackWithRelativeBias, SelfStackCase);
LAWS_HOLD_FOR(PreNormDecoderStackWithMemory, PreCrossStackCase);
LAWS_HOLD_FOR(PostNormDecoderStackWithMemory, PostCrossStackCase);
LAWS_HOLD_FOR(TransformerStack, TransformerStackCase);

}  // namespace decoder_stack_laws_test
}  // namespace laws
