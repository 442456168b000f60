// SPDX-License-Identifier: MIT
#pragma once

// Names of Llama's parameters in Hugging Face's checkpoints, for TransformerDecoder<Format,
// RMSNorm, GatedFeedForward>; Mistral, Qwen2 and Qwen3 have the same ones.
//
// Query and key are stored for RotaryLayout::halves: Meta's own files have their rows in another
// order. Norms of queries and keys are Qwen3's. Models with a head have the prefix "model.". Old
// files hold the frequencies of the rotary positions.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// `tied` is tie_word_embeddings: the head is the token table, which the file may hold again.
inline KeyMap llama_keys(bool tied = false) {
  KeyMap map = {.prefixes = {"", "model."},
                .rows = {{"embed_tokens.*", "embeddings.token.*"},
                         {"layers.{}.input_layernorm.*", "layers.{}.self_attention_norm.*"},
                         {"layers.{}.self_attn.q_proj.*", "layers.{}.self_attention.query.*"},
                         {"layers.{}.self_attn.k_proj.*", "layers.{}.self_attention.key.*"},
                         {"layers.{}.self_attn.v_proj.*", "layers.{}.self_attention.value.*"},
                         {"layers.{}.self_attn.o_proj.*", "layers.{}.self_attention.output.*"},
                         {"layers.{}.self_attn.q_norm.*", "layers.{}.self_attention.query_norm.*"},
                         {"layers.{}.self_attn.k_norm.*", "layers.{}.self_attention.key_norm.*"},
                         {"layers.{}.post_attention_layernorm.*", "layers.{}.feed_forward_norm.*"},
                         {"layers.{}.mlp.gate_proj.*", "layers.{}.feed_forward.gate.*"},
                         {"layers.{}.mlp.up_proj.*", "layers.{}.feed_forward.up.*"},
                         {"layers.{}.mlp.down_proj.*", "layers.{}.feed_forward.down.*"},
                         {"norm.*", "final_norm.*"},
                         {.stored = "lm_head.weight", .own = "head.weight", .prefixed = false}},
                .ignored = {"layers.{}.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"}};
  if (tied) map.tied = {{"lm_head.weight", "embeddings.token.weight"}};
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
