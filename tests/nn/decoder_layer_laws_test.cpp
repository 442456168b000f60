// SPDX-License-Identifier: MIT
#include "eigenformer/nn/decoder_layer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace decoder_layer_laws_test {

ef::TransformerConfig small_layer(ef::NormPlacement placement) {
  return {.hidden_size = 53,
          .num_attention_heads = 5,
          .head_size = 7,
          .intermediate_size = 61,
          .norm_placement = placement};
}

void add_attention(Parameters& list, const std::string& name, Index query, Index key_value,
                   Index memory, bool bias = true) {
  add_linear(list, name + ".query", query, 53, bias);
  add_linear(list, name + ".key", key_value, memory, bias);
  add_linear(list, name + ".value", key_value, memory, bias);
  add_linear(list, name + ".output", 53, query, bias);
}

/// Without memory.
template <class T, ef::NormPlacement placement>
struct SelfCase : OnTokens<53, true> {
  using Module = ef::DecoderLayer<T>;
  static Module make() { return Module(small_layer(placement)); }
  static Parameters parameters() {
    Parameters list;
    add_norm(list, "self_attention_norm", 53);
    add_attention(list, "self_attention", 35, 35, 53);
    add_norm(list, "feed_forward_norm", 53);
    add_linear(list, "feed_forward.linear_1", 61, 53);
    add_linear(list, "feed_forward.linear_2", 53, 61);
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

/// With a memory of another length and width, whose rows have lengths of their own.
template <class T, class M>
struct AnyCrossCase : OnTwoSequences {
  using Module = M;
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.memory, {}, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) {
    return module(in.x, in.memory, {}, in.mask());
  }
};

template <class T, ef::NormPlacement placement>
struct CrossCase : AnyCrossCase<T, ef::DecoderLayer<T>> {
  static ef::DecoderLayer<T> make() {
    auto config = small_layer(placement);
    config.cross_attention = true;
    config.key_value_size = 31;
    return ef::DecoderLayer<T>(config);
  }
  static Parameters parameters() {
    Parameters list;
    add_norm(list, "self_attention_norm", 53);
    add_attention(list, "self_attention", 35, 35, 53);
    add_norm(list, "cross_attention_norm", 53);
    add_attention(list, "cross_attention", 35, 35, 31);
    add_norm(list, "feed_forward_norm", 53);
    add_linear(list, "feed_forward.linear_1", 61, 53);
    add_linear(list, "feed_forward.linear_2", 53, 61);
    return list;
  }
};

template <class T>
using GatedLayer = ef::DecoderLayer<T, ef::RMSNorm, ef::GatedFeedForward>;

/// Everything at once: grouped heads, rotary positions, a window, norms of queries and keys.
template <class T>
struct GatedCrossCase : AnyCrossCase<T, GatedLayer<T>> {
  static GatedLayer<T> make() {
    return GatedLayer<T>({.hidden_size = 53,
                          .num_attention_heads = 6,
                          .num_key_value_heads = 3,
                          .head_size = 10,
                          .intermediate_size = 61,
                          .cross_attention = true,
                          .key_value_size = 31,
                          .activation = ef::Activation::silu,
                          .norm_placement = ef::NormPlacement::pre,
                          .query_bias = false,
                          .key_bias = false,
                          .value_bias = false,
                          .output_bias = false,
                          .feed_forward_bias = false,
                          .attention_positions = {.kind = ef::AttentionPosition::rotary},
                          .query_key_norm = true,
                          .sliding_window = 11});
  }
  static Parameters parameters() {
    Parameters list;
    for (const auto& [name, memory] :
         {std::pair<std::string, Index>{"self_attention", 53}, {"cross_attention", 31}}) {
      add_norm(list, name + "_norm", 53, false);
      add_attention(list, name, 60, 30, memory, false);
      add_norm(list, name + ".query_norm", 10, false);
      add_norm(list, name + ".key_norm", 10, false);
    }
    add_norm(list, "feed_forward_norm", 53, false);
    add_linear(list, "feed_forward.gate", 61, 53, false);
    add_linear(list, "feed_forward.up", 61, 53, false);
    add_linear(list, "feed_forward.down", 53, 61, false);
    return list;
  }
};

template <class T>
using PreSelfCase = SelfCase<T, ef::NormPlacement::pre>;
template <class T>
using PostSelfCase = SelfCase<T, ef::NormPlacement::post>;
template <class T>
using PreCrossCase = CrossCase<T, ef::NormPlacement::pre>;
template <class T>
using PostCrossCase = CrossCase<T, ef::NormPlacement::post>;

LAWS_HOLD_FOR(PreNormDecoderLayer, PreSelfCase);
LAWS_HOLD_FOR(PostNormDecoderLayer, PostSelfCase);
LAWS_HOLD_FOR(PreNormDecoderLayerWithMemory, PreCrossCase);
LAWS_HOLD_FOR(PostNormDecoderLayerWithMemory, PostCrossCase);
LAWS_HOLD_FOR(GatedDecoderLayerWithMemory, GatedCrossCase);

}  // namespace decoder_layer_laws_test
}  // namespace laws
