// SPDX-License-Identifier: MIT
#pragma once

// Names of the parameters of models built along two books, saved from PyTorch with safetensors.
//
//   d2l   Zhang, Lipton, Li, Smola, "Dive into Deep Learning", chapter 11 (d2l.ai)
//   nlp   Tunstall, von Werra, Wolf, "Natural Language Processing with Transformers", chapter 3

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

inline KeyMap d2l_attention_keys() {
  return {
      .rows = {
          {"W_q.*", "query.*"}, {"W_k.*", "key.*"}, {"W_v.*", "value.*"}, {"W_o.*", "output.*"}}};
}

}  // namespace internal

/// For EncoderLayer as d2l's TransformerEncoderBlock: post-norm, relu, attention without biases.
inline KeyMap d2l_encoder_layer_keys() {
  return extended(nested(internal::d2l_attention_keys(), "attention.", "attention."),
                  {{"addnorm1.ln.*", "attention_norm.*"},
                   {"ffn.dense1.*", "feed_forward.linear_1.*"},
                   {"ffn.dense2.*", "feed_forward.linear_2.*"},
                   {"addnorm2.ln.*", "feed_forward_norm.*"}});
}

/// For TransformerEncoder as d2l's: scaled embeddings, sinusoidal positions, no norm of the
/// embeddings.
inline KeyMap d2l_encoder_keys() {
  return extended(nested(d2l_encoder_layer_keys(), "blks.block{}.", "layers.{}."),
                  {{"embedding.*", "embeddings.token.*"}});
}

/// For DecoderLayer as d2l's TransformerDecoderBlock: post-norm, relu, attention without biases.
inline KeyMap d2l_decoder_layer_keys() {
  KeyMap map = nested(internal::d2l_attention_keys(), "attention1.", "self_attention.");
  map = extended(std::move(map),
                 nested(internal::d2l_attention_keys(), "attention2.", "cross_attention.").rows);
  return extended(std::move(map), {{"addnorm1.ln.*", "self_attention_norm.*"},
                                   {"addnorm2.ln.*", "cross_attention_norm.*"},
                                   {"ffn.dense1.*", "feed_forward.linear_1.*"},
                                   {"ffn.dense2.*", "feed_forward.linear_2.*"},
                                   {"addnorm3.ln.*", "feed_forward_norm.*"}});
}

/// For TransformerDecoder as d2l's: scaled embeddings, sinusoidal positions, neither a norm of the
/// embeddings nor a final one, a head of its own with bias.
inline KeyMap d2l_decoder_keys() {
  return extended(nested(d2l_decoder_layer_keys(), "blks.block{}.", "layers.{}."),
                  {{"embedding.*", "embeddings.token.*"}, {"dense.*", "head.*"}});
}

/// For VisionTransformer as d2l's ViT: attention without biases.
inline KeyMap d2l_vision_transformer_keys() {
  KeyMap layer = extended(nested(internal::d2l_attention_keys(), "attention.", "attention."),
                          {{"ln1.*", "attention_norm.*"},
                           {"ln2.*", "feed_forward_norm.*"},
                           {"mlp.dense1.*", "feed_forward.linear_1.*"},
                           {"mlp.dense2.*", "feed_forward.linear_2.*"}});
  return extended(
      nested(std::move(layer), "blks.{}.", "layers.{}."),
      {{.stored = "cls_token", .own = "class_token", .shape = StoredShape::leading_ones},
       {.stored = "pos_embedding", .own = "position_embedding", .shape = StoredShape::leading_ones},
       {.stored = "patch_embedding.conv.weight",
        .own = "patch_embedding.projection.weight",
        .shape = StoredShape::folded_trailing},
       {"patch_embedding.conv.bias", "patch_embedding.projection.bias"},
       {"head.0.*", "final_norm.*"},
       {"head.1.*", "head.*"}});
}

/// For EncoderLayer as nlp's TransformerEncoderLayer: pre-norm, a Linear of its own for each head.
inline KeyMap nlp_encoder_layer_keys() {
  return {.rows = {{"attention.heads.#.q.*", "attention.query.*"},
                   {"attention.heads.#.k.*", "attention.key.*"},
                   {"attention.heads.#.v.*", "attention.value.*"},
                   {"attention.output_linear.*", "attention.output.*"},
                   {"layer_norm_1.*", "attention_norm.*"},
                   {"layer_norm_2.*", "feed_forward_norm.*"},
                   {"feed_forward.linear_1.*", "feed_forward.linear_1.*"},
                   {"feed_forward.linear_2.*", "feed_forward.linear_2.*"}}};
}

/// For TransformerEncoder as nlp's.
inline KeyMap nlp_encoder_keys() {
  return extended(nested(nlp_encoder_layer_keys(), "layers.{}.", "layers.{}."),
                  {{"embeddings.token_embeddings.*", "embeddings.token.*"},
                   {"embeddings.position_embeddings.*", "embeddings.position.*"},
                   {"embeddings.layer_norm.*", "embeddings.norm.*"}});
}

/// For SequenceClassifier, without pooler, as nlp's TransformerForSequenceClassification.
inline KeyMap nlp_sequence_classifier_keys() {
  return extended(nested(nlp_encoder_keys(), "encoder.", "encoder."),
                  {{"classifier.*", "classifier.*"}});
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
