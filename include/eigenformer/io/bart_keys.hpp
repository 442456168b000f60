// SPDX-License-Identifier: MIT
#pragma once

// Names of BART's parameters in Hugging Face's checkpoints, for Transformer; mBART's are the same,
// with a norm at the end of each half.
//
// final_layer_norm is the norm of a layer's feed-forward, layer_norm that at the end of a half. The
// position tables begin with two rows that no position has. Models with a head have the prefix
// "model."; the head's bias is stored as (1, V). The token table may be stored again for each half
// and for the head.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

inline KeyMap bart_attention_keys() {
  return {.rows = {{"q_proj.*", "query.*"},
                   {"k_proj.*", "key.*"},
                   {"v_proj.*", "value.*"},
                   {"out_proj.*", "output.*"}}};
}

/// What both halves have, but for the token table; `layer` is their attentions.
inline KeyMap bart_half_keys(KeyMap layer) {
  layer = extended(std::move(layer), {{"fc1.*", "feed_forward.linear_1.*"},
                                      {"fc2.*", "feed_forward.linear_2.*"},
                                      {"final_layer_norm.*", "feed_forward_norm.*"}});
  return extended(nested(std::move(layer), "layers.{}.", "layers.{}."),
                  {{"embed_positions.*", "embeddings.position.*"},
                   {"layernorm_embedding.*", "embeddings.norm.*"},
                   {"layer_norm.*", "final_norm.*"}});
}

inline KeyMap bart_encoder_half_keys() {
  return bart_half_keys(extended(nested(bart_attention_keys(), "self_attn.", "attention."),
                                 {{"self_attn_layer_norm.*", "attention_norm.*"}}));
}

inline KeyMap bart_decoder_half_keys() {
  KeyMap layer = extended(nested(bart_attention_keys(), "self_attn.", "self_attention."),
                          {{"self_attn_layer_norm.*", "self_attention_norm.*"},
                           {"encoder_attn_layer_norm.*", "cross_attention_norm.*"}});
  return bart_half_keys(extended(
      std::move(layer), nested(bart_attention_keys(), "encoder_attn.", "cross_attention.").rows));
}

}  // namespace internal

/// For Transformer with share_embeddings and a tied head.
inline KeyMap bart_keys() {
  KeyMap map = extended(nested(internal::bart_encoder_half_keys(), "encoder.", "encoder."),
                        nested(internal::bart_decoder_half_keys(), "decoder.", "decoder.").rows);
  map = extended(std::move(map),
                 {{"shared.*", "encoder.embeddings.token.*"},
                  {.stored = "final_logits_bias",
                   .own = "decoder.head.bias",
                   .shape = StoredShape::leading_ones,
                   .optional = true,
                   .prefixed = false}},
                 {"encoder.version", "decoder.version", "classification_head.*", "qa_outputs.*"});
  map.prefixes = {"", "model."};
  for (const char* copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                           "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
                           "lm_head.weight"}) {
    map.tied.push_back({copy, "encoder.embeddings.token.weight"});
  }
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
