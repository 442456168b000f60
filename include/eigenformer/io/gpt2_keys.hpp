// SPDX-License-Identifier: MIT
#pragma once

// Names of GPT-2's parameters in Hugging Face's checkpoints, for TransformerDecoder; DistilGPT-2,
// DialoGPT and many others have the same ones.
//
// Matrices are stored as (in, out), the square ones too, where no shape tells. Query, key and value
// are one matrix (C, 3 C) and one vector (3 C), in this order; key and value of the attention to a
// memory (C, 2 C). Models with a head have the prefix "transformer.", gpt2 itself doesn't. Files of
// 2019 hold each layer's causal mask under the name attn.bias, which is no bias.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// `tied` is tie_word_embeddings: the head is the token table, which the file may hold again.
inline KeyMap gpt2_keys(bool tied = true) {
  const auto matrix = [](const char* stored, const char* own, Index part = 0, Index parts = 1) {
    return KeyRow{.stored = stored, .own = own, .transpose = true, .part = part, .parts = parts};
  };
  const auto vector = [](const char* stored, const char* own, Index part, Index parts) {
    return KeyRow{.stored = stored, .own = own, .part = part, .parts = parts};
  };
  KeyMap map = {
      .prefixes = {"", "transformer."},
      .rows =
          {{"wte.*", "embeddings.token.*"},
           {"wpe.*", "embeddings.position.*"},
           {"h.{}.ln_1.*", "layers.{}.self_attention_norm.*"},
           matrix("h.{}.attn.c_attn.weight", "layers.{}.self_attention.query.weight", 0, 3),
           matrix("h.{}.attn.c_attn.weight", "layers.{}.self_attention.key.weight", 1, 3),
           matrix("h.{}.attn.c_attn.weight", "layers.{}.self_attention.value.weight", 2, 3),
           vector("h.{}.attn.c_attn.bias", "layers.{}.self_attention.query.bias", 0, 3),
           vector("h.{}.attn.c_attn.bias", "layers.{}.self_attention.key.bias", 1, 3),
           vector("h.{}.attn.c_attn.bias", "layers.{}.self_attention.value.bias", 2, 3),
           matrix("h.{}.attn.c_proj.weight", "layers.{}.self_attention.output.weight"),
           {"h.{}.attn.c_proj.bias", "layers.{}.self_attention.output.bias"},
           {"h.{}.ln_cross_attn.*", "layers.{}.cross_attention_norm.*"},
           matrix("h.{}.crossattention.q_attn.weight", "layers.{}.cross_attention.query.weight"),
           {"h.{}.crossattention.q_attn.bias", "layers.{}.cross_attention.query.bias"},
           matrix("h.{}.crossattention.c_attn.weight", "layers.{}.cross_attention.key.weight", 0,
                  2),
           matrix("h.{}.crossattention.c_attn.weight", "layers.{}.cross_attention.value.weight", 1,
                  2),
           vector("h.{}.crossattention.c_attn.bias", "layers.{}.cross_attention.key.bias", 0, 2),
           vector("h.{}.crossattention.c_attn.bias", "layers.{}.cross_attention.value.bias", 1, 2),
           matrix("h.{}.crossattention.c_proj.weight", "layers.{}.cross_attention.output.weight"),
           {"h.{}.crossattention.c_proj.bias", "layers.{}.cross_attention.output.bias"},
           {"h.{}.ln_2.*", "layers.{}.feed_forward_norm.*"},
           matrix("h.{}.mlp.c_fc.weight", "layers.{}.feed_forward.linear_1.weight"),
           {"h.{}.mlp.c_fc.bias", "layers.{}.feed_forward.linear_1.bias"},
           matrix("h.{}.mlp.c_proj.weight", "layers.{}.feed_forward.linear_2.weight"),
           {"h.{}.mlp.c_proj.bias", "layers.{}.feed_forward.linear_2.bias"},
           {"ln_f.*", "final_norm.*"},
           {.stored = "lm_head.weight", .own = "head.weight", .prefixed = false}},
      .ignored = {"h.{}.attn.bias", "h.{}.attn.masked_bias", "h.{}.crossattention.bias",
                  "h.{}.crossattention.masked_bias"}};
  if (tied) map.tied = {{"lm_head.weight", "embeddings.token.weight"}};
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
