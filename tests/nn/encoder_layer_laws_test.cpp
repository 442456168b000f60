// SPDX-License-Identifier: MIT
#include "eigenformer/nn/encoder_layer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace encoder_layer_laws_test {

template <class T, class M>
struct AnyLayerCase : OnTokens<53, true> {
  using Module = M;
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) {
    return module(in.x, in.mask());
  }
};

template <class T>
struct PostNormCase : AnyLayerCase<T, ef::EncoderLayer<T>> {
  static ef::EncoderLayer<T> make() {
    return ef::EncoderLayer<T>({.hidden_size = 53,
                                .num_attention_heads = 5,
                                .head_size = 7,
                                .intermediate_size = 61,
                                .norm_placement = ef::NormPlacement::post});
  }
  static Parameters parameters() {
    Parameters list;
    add_norm(list, "attention_norm", 53);
    add_linear(list, "attention.query", 35, 53);
    add_linear(list, "attention.key", 35, 53);
    add_linear(list, "attention.value", 35, 53);
    add_linear(list, "attention.output", 53, 35);
    add_norm(list, "feed_forward_norm", 53);
    add_linear(list, "feed_forward.linear_1", 61, 53);
    add_linear(list, "feed_forward.linear_2", 53, 61);
    return list;
  }
};

template <class T>
struct PreNormCase : PostNormCase<T> {
  static ef::EncoderLayer<T> make() {
    return ef::EncoderLayer<T>({.hidden_size = 53,
                                .num_attention_heads = 5,
                                .head_size = 7,
                                .intermediate_size = 61,
                                .norm_placement = ef::NormPlacement::pre});
  }
};

template <class T>
using GatedLayer = ef::EncoderLayer<T, ef::RMSNorm, ef::GatedFeedForward>;

template <class T>
struct GatedCase : AnyLayerCase<T, GatedLayer<T>> {
  static GatedLayer<T> make() {
    return GatedLayer<T>({.hidden_size = 53,
                          .num_attention_heads = 6,
                          .num_key_value_heads = 3,
                          .head_size = 5,
                          .intermediate_size = 61,
                          .activation = ef::Activation::silu,
                          .norm_placement = ef::NormPlacement::pre,
                          .query_bias = false,
                          .key_bias = false,
                          .value_bias = false,
                          .output_bias = false,
                          .feed_forward_bias = false});
  }
  static Parameters parameters() {
    Parameters list;
    add_norm(list, "attention_norm", 53, false);
    add_linear(list, "attention.query", 30, 53, false);
    add_linear(list, "attention.key", 15, 53, false);
    add_linear(list, "attention.value", 15, 53, false);
    add_linear(list, "attention.output", 53, 30, false);
    add_norm(list, "feed_forward_norm", 53, false);
    add_linear(list, "feed_forward.gate", 61, 53, false);
    add_linear(list, "feed_forward.up", 61, 53, false);
    add_linear(list, "feed_forward.down", 53, 61, false);
    return list;
  }
};

LAWS_HOLD_FOR(PostNormLayer, PostNormCase);
LAWS_HOLD_FOR(PreNormLayer, PreNormCase);
LAWS_HOLD_FOR(GatedLayer, GatedCase);

}  // namespace encoder_layer_laws_test
}  // namespace laws
