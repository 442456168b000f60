// SPDX-License-Identifier: MIT
#pragma once

// What multi-head attention can be configured to.

#include <cmath>
#include <limits>
#include <optional>

#include "eigenformer/nn/attention_positions.hpp"
#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct MultiHeadAttentionConfig {
  Index hidden_size = 0;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads; otherwise it must divide them
  Index head_size = 0;            // 0: hidden_size / num_attention_heads, which must divide
  Index key_value_size = 0;       // width of the memory; 0: hidden_size
  Index value_size = 0;  // width of the values' input if it isn't the keys'; 0: key_value_size
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  std::optional<double> scale = {};  // of the scores; default 1 / sqrt(head_size)
  AttentionPositions attention_positions = {};
  bool bidirectional = true;                // relative_bias: later keys have buckets of their own
  bool query_key_norm = false;              // RMS norm over each head of queries and keys (Qwen3)
  double rms_norm_eps = 1e-5;               // of this norm
  double attn_logit_softcapping = 0;        // c in c tanh(s / c), on the scaled products; 0: none
  Index sliding_window = 0;                 // as Mask::window, for every call; 0: none
  double attention_probs_dropout_prob = 0;  // training: on the weights

  friend bool operator==(const MultiHeadAttentionConfig&,
                         const MultiHeadAttentionConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("num_attention_heads", c.num_attention_heads...);
    f("num_key_value_heads", c.num_key_value_heads...);
    f("head_size", c.head_size...);
    f("key_value_size", c.key_value_size...);
    f("value_size", c.value_size...);
    f("query_bias", c.query_bias...);
    f("key_bias", c.key_bias...);
    f("value_bias", c.value_bias...);
    f("output_bias", c.output_bias...);
    f("scale", c.scale...);
    f("attention_positions", c.attention_positions...);
    f("bidirectional", c.bidirectional...);
    f("query_key_norm", c.query_key_norm...);
    f("rms_norm_eps", c.rms_norm_eps...);
    f("attn_logit_softcapping", c.attn_logit_softcapping...);
    f("sliding_window", c.sliding_window...);
    f("attention_probs_dropout_prob", c.attention_probs_dropout_prob...);
  }

  /// The self-attention of a layer.
  static MultiHeadAttentionConfig self_attention(const TransformerConfig& c, bool bidirectional) {
    return {.hidden_size = c.hidden_size,
            .num_attention_heads = c.num_attention_heads,
            .num_key_value_heads = c.num_key_value_heads,
            .head_size = c.head_size,
            .query_bias = c.query_bias,
            .key_bias = c.key_bias,
            .value_bias = c.value_bias,
            .output_bias = c.output_bias,
            .scale = c.attention_scale,
            .attention_positions = c.attention_positions,
            .bidirectional = bidirectional,
            .query_key_norm = c.query_key_norm,
            .rms_norm_eps = c.rms_norm_eps,
            .attn_logit_softcapping = c.attn_logit_softcapping,
            .sliding_window = c.sliding_window,
            .attention_probs_dropout_prob = c.attention_probs_dropout_prob};
  }

  /// The attention of a decoder layer to a memory, whose tokens have no positions.
  static MultiHeadAttentionConfig cross_attention(const TransformerConfig& c) {
    MultiHeadAttentionConfig attention = self_attention(c, true);
    attention.key_value_size = c.key_value_size;
    attention.attention_positions = {};
    attention.sliding_window = 0;
    return attention;
  }

  Index key_value_heads() const {
    return num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads;
  }
  Index size_of_head() const {
    return head_size == 0 ? hidden_size / num_attention_heads : head_size;
  }
  Index query_features() const { return num_attention_heads * size_of_head(); }
  Index key_value_features() const { return key_value_heads() * size_of_head(); }
  Index key_input_size() const { return key_value_size == 0 ? hidden_size : key_value_size; }
  Index value_input_size() const { return value_size == 0 ? key_input_size() : value_size; }
};

namespace internal {

/// Throws std::invalid_argument, with the numbers, for what makes no sense.
inline const MultiHeadAttentionConfig& checked(const MultiHeadAttentionConfig& c) {
  constexpr const char* who = "MultiHeadAttention";
  constexpr double largest_factor = 1e30;  // finite in float
  require(c.hidden_size > 0 && c.num_attention_heads > 0, who,
          ": hidden_size and num_attention_heads must be > 0; got ", c.hidden_size, " and ",
          c.num_attention_heads);
  require(c.head_size >= 0 && c.key_value_size >= 0 && c.value_size >= 0, who,
          ": head_size, key_value_size and value_size must be >= 0; got ", c.head_size, ", ",
          c.key_value_size, " and ", c.value_size);
  constexpr Index largest = Index{1} << 31;
  require(c.num_attention_heads <= largest && c.head_size <= largest, who,
          ": num_attention_heads and head_size must be at most ", largest, "; got ",
          c.num_attention_heads, " and ", c.head_size);
  require(c.head_size > 0 || c.hidden_size % c.num_attention_heads == 0, who,
          ": num_attention_heads must divide hidden_size; got ", c.num_attention_heads, " and ",
          c.hidden_size);
  require(c.num_key_value_heads >= 0 && c.num_attention_heads % c.key_value_heads() == 0, who,
          ": num_key_value_heads must divide num_attention_heads; got ", c.num_key_value_heads,
          " and ", c.num_attention_heads);
  require(!c.scale || std::abs(*c.scale) <= largest_factor, who,
          ": scale must be within +-1e30; got ", c.scale.value_or(0));
  require_valid_positions(c.attention_positions, c.size_of_head());
  require(c.attn_logit_softcapping >= 0 && c.attn_logit_softcapping <= largest_factor, who,
          ": attn_logit_softcapping must be in [0, 1e30] (0: none); got ",
          c.attn_logit_softcapping);
  constexpr Index longest_window = (std::numeric_limits<Index>::max)() / 4;
  require(c.sliding_window >= 0 && c.sliding_window <= longest_window, who,
          ": sliding_window must be in [0, ", longest_window, "] (0: none); got ",
          c.sliding_window);
  require_probability("MultiHeadAttention: attention_probs_dropout_prob",
                      c.attention_probs_dropout_prob);
  return c;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
