// SPDX-License-Identifier: MIT
#include "eigenformer/models/transformer_decoder.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace transformer_decoder_laws_test {

ef::TransformerConfig small_decoder() {
  return {.vocab_size = 11,
          .hidden_size = 53,
          .num_hidden_layers = 2,
          .num_attention_heads = 5,
          .head_size = 7,
          .intermediate_size = 61,
          .max_position_embeddings = 151};
}

template <class T, class M>
struct AnyDecoderCase : OnIds<true> {
  using Module = M;
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 11}; }
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {.mask = in.mask}, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) {
    return module(in.ids, {.mask = in.mask()});
  }
};

/// As GPT-2: learned positions, tied head.
template <class T>
struct TiedCase : AnyDecoderCase<T, ef::TransformerDecoder<T>> {
  static ef::TransformerDecoder<T> make() { return ef::TransformerDecoder<T>(small_decoder()); }
  static Parameters parameters() {
    Parameters list = {{"embeddings.token.weight", "(11, 53)"},
                       {"embeddings.position.weight", "(151, 53)"}};
    add_decoder_layers(list, "layers", 2, 0);
    add_norm(list, "final_norm", 53);
    return list;
  }
};

template <class T>
using Gated = ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>;

/// As Llama and Qwen: rotary positions, grouped heads, norms of queries and keys, an own head.
template <class T>
struct GatedDecoderCase : AnyDecoderCase<T, Gated<T>> {
  static Gated<T> make() {
    auto config = small_decoder();
    config.num_attention_heads = 6;
    config.num_key_value_heads = 2;
    config.head_size = 10;
    config.activation = ef::Activation::silu;
    config.position_embedding = ef::PositionEmbedding::none;
    config.attention_positions.kind = ef::AttentionPosition::rotary;
    config.query_key_norm = true;
    config.sliding_window = 13;
    config.query_bias = config.key_bias = config.value_bias = false;
    config.output_bias = config.feed_forward_bias = false;
    config.tie_word_embeddings = false;
    config.head_bias = true;
    config.final_logit_softcapping = 9;
    return Gated<T>(config);
  }
  static Parameters parameters() {
    Parameters list = {{"embeddings.token.weight", "(11, 53)"}};
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      add_norm(list, layer + "self_attention_norm", 53, false);
      add_linear(list, layer + "self_attention.query", 60, 53, false);
      add_linear(list, layer + "self_attention.key", 20, 53, false);
      add_linear(list, layer + "self_attention.value", 20, 53, false);
      add_linear(list, layer + "self_attention.output", 53, 60, false);
      add_norm(list, layer + "self_attention.query_norm", 10, false);
      add_norm(list, layer + "self_attention.key_norm", 10, false);
      add_norm(list, layer + "feed_forward_norm", 53, false);
      add_linear(list, layer + "feed_forward.gate", 61, 53, false);
      add_linear(list, layer + "feed_forward.up", 61, 53, false);
      add_linear(list, layer + "feed_forward.down", 53, 61, false);
    }
    add_norm(list, "final_norm", 53, false);
    list.emplace_back("head.weight", "(11, 53)");
    list.emplace_back("head.bias", "(11)");
    return list;
  }
};

/// With a memory of another length and width, post-norm, one table of relative biases.
template <class T>
struct MemoryDecoderCase : OnIdsAndMemory {
  using Module = ef::TransformerDecoder<T>;
  static Module make() {
    auto config = small_decoder();
    config.cross_attention = true;
    config.key_value_size = 31;
    config.norm_placement = ef::NormPlacement::post;
    config.final_norm = false;
    config.position_embedding = ef::PositionEmbedding::sinusoidal;
    config.scale_embeddings = true;
    config.embedding_norm = true;
    config.attention_positions = {.kind = ef::AttentionPosition::relative_bias,
                                  .relative_attention_num_buckets = 14,
                                  .relative_attention_max_distance = 29};
    return Module(config);
  }
  static Parameters parameters() {
    Parameters list = {{"embeddings.token.weight", "(11, 53)"}};
    add_norm(list, "embeddings.norm", 53);
    list.emplace_back("relative_bias.weight", "(14, 5)");
    add_decoder_layers(list, "layers", 2, 31);
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 11}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {.memory = in.memory, .memory_mask = in.mask}, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.ids, {.memory = in.memory, .memory_mask = in.mask()});
  }
};

LAWS_HOLD_FOR(TiedDecoder, TiedCase);
LAWS_HOLD_FOR(GatedDecoder, GatedDecoderCase);
LAWS_HOLD_FOR(DecoderWithMemory, MemoryDecoderCase);

}  // namespace transformer_decoder_laws_test
}  // namespace laws
