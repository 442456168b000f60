// SPDX-License-Identifier: MIT
#pragma once

// Names of T5's parameters in Hugging Face's checkpoints, for Transformer<Format, RMSNorm,
// FeedForward> and, from version 1.1 on (FLAN-T5, mT5, ByT5), Transformer<Format, RMSNorm,
// GatedFeedForward>.
//
// wi and wo are the plain feed-forward; wi_0 is the gate, wi_1 what it opens for. Each half's table
// of relative biases is stored with its block 0. The first files hold another one for the attention
// to the memory, which has none. The token table may be stored again for each half.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

inline KeyMap t5_attention_keys() {
  return {.rows = {{"q.*", "query.*"}, {"k.*", "key.*"}, {"v.*", "value.*"}, {"o.*", "output.*"}}};
}

inline KeyMap t5_feed_forward_keys() {
  return {.rows = {{"DenseReluDense.wi.*", "feed_forward.linear_1.*"},
                   {"DenseReluDense.wo.*", "feed_forward.linear_2.*"},
                   {"DenseReluDense.wi_0.*", "feed_forward.gate.*"},
                   {"DenseReluDense.wi_1.*", "feed_forward.up.*"},
                   {"DenseReluDense.wo.*", "feed_forward.down.*"},
                   {"layer_norm.*", "feed_forward_norm.*"}}};
}

/// What both halves have, but for the token table.
inline KeyMap t5_half_keys(const KeyMap& block) {
  return extended(nested(block, "block.{}.", "layers.{}."),
                  {{"block.0.layer.0.SelfAttention.relative_attention_bias.*", "relative_bias.*"},
                   {"final_layer_norm.*", "final_norm.*"}});
}

inline KeyMap t5_encoder_half_keys() {
  KeyMap block = nested(t5_attention_keys(), "layer.0.SelfAttention.", "attention.");
  block = extended(std::move(block), {{"layer.0.layer_norm.*", "attention_norm.*"}});
  block = extended(std::move(block), nested(t5_feed_forward_keys(), "layer.1.", "").rows);
  return t5_half_keys(block);
}

inline KeyMap t5_decoder_half_keys() {
  KeyMap block = nested(t5_attention_keys(), "layer.0.SelfAttention.", "self_attention.");
  block = extended(std::move(block), {{"layer.0.layer_norm.*", "self_attention_norm.*"},
                                      {"layer.1.layer_norm.*", "cross_attention_norm.*"}});
  block =
      extended(std::move(block),
               nested(t5_attention_keys(), "layer.1.EncDecAttention.", "cross_attention.").rows);
  block = extended(std::move(block), nested(t5_feed_forward_keys(), "layer.2.", "").rows);
  return t5_half_keys(block);
}

}  // namespace internal

/// For TransformerEncoder; also the encoder of a whole T5, whose decoder is left out.
inline KeyMap t5_encoder_keys() {
  KeyMap map = extended(nested(internal::t5_encoder_half_keys(), "encoder.", ""),
                        {{"shared.*", "embeddings.token.*"}}, {"decoder.*", "lm_head.*"});
  map.tied = {{"encoder.embed_tokens.weight", "embeddings.token.weight"}};
  return map;
}

/// For Transformer with share_embeddings. `tied`: the head is the token table too, which the file
/// may hold again.
inline KeyMap t5_keys(bool tied = true) {
  KeyMap map = extended(nested(internal::t5_encoder_half_keys(), "encoder.", "encoder."),
                        nested(internal::t5_decoder_half_keys(), "decoder.", "decoder.").rows);
  map = extended(std::move(map),
                 {{"shared.*", "encoder.embeddings.token.*"}, {"lm_head.*", "decoder.head.*"}},
                 {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"});
  map.tied = {{"encoder.embed_tokens.weight", "encoder.embeddings.token.weight"},
              {"decoder.embed_tokens.weight", "encoder.embeddings.token.weight"}};
  if (tied) map.tied.push_back({"lm_head.weight", "encoder.embeddings.token.weight"});
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
