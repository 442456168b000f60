// SPDX-License-Identifier: MIT
#pragma once

// Names of the parameters of PyTorch's nn.MultiheadAttention, nn.TransformerEncoderLayer and
// nn.TransformerEncoder.
//
// Query, key and value are stored as one matrix (3 C, C) and one vector (3 C), in this order. norm1
// stands in the branch of the attention and norm2 in that of the feed-forward, whatever
// `norm_first` is.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// For MultiHeadAttention; also if keys and values have another width than queries (kdim, vdim),
/// when the three weights are separate.
inline KeyMap torch_attention_keys() {
  return {.rows = {{.stored = "in_proj_weight", .own = "query.weight", .part = 0, .parts = 3},
                   {.stored = "in_proj_weight", .own = "key.weight", .part = 1, .parts = 3},
                   {.stored = "in_proj_weight", .own = "value.weight", .part = 2, .parts = 3},
                   {"q_proj_weight", "query.weight"},
                   {"k_proj_weight", "key.weight"},
                   {"v_proj_weight", "value.weight"},
                   {.stored = "in_proj_bias", .own = "query.bias", .part = 0, .parts = 3},
                   {.stored = "in_proj_bias", .own = "key.bias", .part = 1, .parts = 3},
                   {.stored = "in_proj_bias", .own = "value.bias", .part = 2, .parts = 3},
                   {"out_proj.*", "output.*"}}};
}

/// For EncoderLayer.
inline KeyMap torch_encoder_layer_keys() {
  return extended(nested(torch_attention_keys(), "self_attn.", "attention."),
                  {{"linear1.*", "feed_forward.linear_1.*"},
                   {"linear2.*", "feed_forward.linear_2.*"},
                   {"norm1.*", "attention_norm.*"},
                   {"norm2.*", "feed_forward_norm.*"}});
}

/// For EncoderStack; also the encoder of a whole nn.Transformer, whose decoder is left out.
inline KeyMap torch_encoder_keys() {
  KeyMap map = extended(nested(torch_encoder_layer_keys(), "layers.{}.", "layers.{}."),
                        {{"norm.*", "final_norm.*"}}, {"decoder.*"});
  map.prefixes = {"", "encoder."};
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
