// SPDX-License-Identifier: MIT
#include "eigenformer/models/transformer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace transformer_laws_test {

ef::TransformerConfig small_transformer() {
  return {.vocab_size = 11,
          .hidden_size = 53,
          .num_hidden_layers = 1,
          .num_decoder_layers = 2,
          .num_attention_heads = 5,
          .head_size = 7,
          .intermediate_size = 61};
}

template <class T, class M>
struct AnyTransformerCase : OnTwoIds {
  using Module = M;
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 11}; }
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.source, in.ids, in.mask, {}, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) {
    return module(in.source, in.ids, in.mask());
  }
};

/// As BART: one token table for both halves and the head, learned positions.
template <class T>
struct SharedCase : AnyTransformerCase<T, ef::Transformer<T>> {
  static ef::Transformer<T> make() {
    auto config = small_transformer();
    config.position_embedding = ef::PositionEmbedding::learned;
    config.max_position_embeddings = 307;
    config.position_offset = 2;
    config.embedding_norm = true;
    config.head_bias = true;
    return ef::Transformer<T>(config);
  }
  static Parameters parameters() {
    Parameters list = {{"encoder.embeddings.token.weight", "(11, 53)"},
                       {"encoder.embeddings.position.weight", "(307, 53)"}};
    add_norm(list, "encoder.embeddings.norm", 53);
    add_layers(list, "encoder.layers", 1);
    list.emplace_back("decoder.embeddings.position.weight", "(307, 53)");
    add_norm(list, "decoder.embeddings.norm", 53);
    add_decoder_layers(list, "decoder.layers", 2, 53);
    list.emplace_back("decoder.head.bias", "(11)");
    return list;
  }
};

template <class T>
using Gated = ef::Transformer<T, ef::RMSNorm, ef::GatedFeedForward>;

/// As T5 1.1: relative biases, one table for each half, no biases, a head of its own; here with two
/// token tables.
template <class T>
struct GatedCase : AnyTransformerCase<T, Gated<T>> {
  static Gated<T> make() {
    auto config = small_transformer();
    config.num_decoder_layers = 0;  // as many as the encoder's
    config.position_embedding = ef::PositionEmbedding::none;
    config.norm_placement = ef::NormPlacement::pre;
    config.final_norm = true;
    config.attention_scale = 1;
    config.attention_positions = {.kind = ef::AttentionPosition::relative_bias,
                                  .relative_attention_num_buckets = 14,
                                  .relative_attention_max_distance = 29};
    config.query_bias = config.key_bias = config.value_bias = false;
    config.output_bias = config.feed_forward_bias = false;
    config.share_embeddings = config.tie_word_embeddings = false;
    return Gated<T>(config);
  }
  static Parameters parameters() {
    Parameters list;
    for (const std::string half : {"encoder.", "decoder."}) {
      const bool decoder = half == "decoder.";
      list.emplace_back(half + "embeddings.token.weight", "(11, 53)");
      list.emplace_back(half + "relative_bias.weight", "(14, 5)");
      const std::string layer = half + "layers.0.";
      for (const std::string branch : {"attention", "self_attention", "cross_attention"}) {
        if ((branch != "attention") != decoder) continue;
        add_norm(list, layer + branch + "_norm", 53, false);
        for (const std::string part : {".query", ".key", ".value"})
          add_linear(list, layer + branch + part, 35, 53, false);
        add_linear(list, layer + branch + ".output", 53, 35, false);
      }
      add_norm(list, layer + "feed_forward_norm", 53, false);
      add_linear(list, layer + "feed_forward.gate", 61, 53, false);
      add_linear(list, layer + "feed_forward.up", 61, 53, false);
      add_linear(list, layer + "feed_forward.down", 53, 61, false);
      add_norm(list, half + "final_norm", 53, false);
    }
    list.emplace_back("decoder.head.weight", "(11, 53)");
    return list;
  }
};

LAWS_HOLD_FOR(SharedTransformer, SharedCase);
LAWS_HOLD_FOR(GatedTransformer, GatedCase);

}  // namespace transformer_laws_test
}  // namespace laws
