// SPDX-License-Identifier: MIT
#pragma once

// Names of the parameters of PyTorch's nn.MultiheadAttention, nn.TransformerEncoderLayer,
// nn.TransformerDecoderLayer, the stacks of both and nn.Transformer.
//
// Query, key and value are stored as one matrix (3 C, C) and one vector (3 C), in this order. Norms
// are counted in the order of the branches that they belong to, whatever `norm_first` is: in an
// encoder's layer those of attention and feed-forward, in a decoder's those of self-attention,
// attention to the memory and feed-forward.

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

/// For DecoderLayer with cross_attention.
inline KeyMap torch_decoder_layer_keys() {
  KeyMap map = nested(torch_attention_keys(), "self_attn.", "self_attention.");
  map = extended(std::move(map),
                 nested(torch_attention_keys(), "multihead_attn.", "cross_attention.").rows);
  return extended(std::move(map), {{"linear1.*", "feed_forward.linear_1.*"},
                                   {"linear2.*", "feed_forward.linear_2.*"},
                                   {"norm1.*", "self_attention_norm.*"},
                                   {"norm2.*", "cross_attention_norm.*"},
                                   {"norm3.*", "feed_forward_norm.*"}});
}

namespace internal {

/// Of the layers and the norm behind them, which may be missing.
inline KeyMap torch_stack_keys(const KeyMap& layer) {
  return extended(nested(layer, "layers.{}.", "layers.{}."), {{"norm.*", "final_norm.*"}});
}

}  // namespace internal

/// For EncoderStack; also the encoder of a whole nn.Transformer, whose decoder is left out.
inline KeyMap torch_encoder_keys() {
  KeyMap map = extended(internal::torch_stack_keys(torch_encoder_layer_keys()), {}, {"decoder.*"});
  map.prefixes = {"", "encoder."};
  return map;
}

/// For DecoderStack; also the decoder of a whole nn.Transformer, whose encoder is left out.
inline KeyMap torch_decoder_keys() {
  KeyMap map = extended(internal::torch_stack_keys(torch_decoder_layer_keys()), {}, {"encoder.*"});
  map.prefixes = {"", "decoder."};
  return map;
}

/// For TransformerStack: nn.Transformer, whose halves end with a norm each.
inline KeyMap torch_transformer_keys() {
  return extended(
      nested(internal::torch_stack_keys(torch_encoder_layer_keys()), "encoder.", "encoder."),
      nested(internal::torch_stack_keys(torch_decoder_layer_keys()), "decoder.", "decoder.").rows);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
