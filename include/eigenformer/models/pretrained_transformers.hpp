// SPDX-License-Identifier: MIT
#pragma once

// Encoder-decoders from directories of Hugging Face's. See pretrained.hpp.
//
//   model type                             is a
//   t5                                     Transformer<Format, RMSNorm>
//   t5 from version 1.1 on, FLAN-T5, mT5   Transformer<Format, RMSNorm, GatedFeedForward>
//   bart                                   Transformer<Format>
//
//   auto flan = ef::load_transformer<float, ef::RMSNorm, ef::GatedFeedForward>("flan-t5-small");

#include "eigenformer/io/bart_keys.hpp"
#include "eigenformer/io/t5_keys.hpp"
#include "eigenformer/models/pretrained_decoders.hpp"
#include "eigenformer/models/transformer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

inline bool is_t5_kind(const ConfigFile& config) {
  const auto type = config.get<std::string>("model_type");
  return type == "t5" || type == "mt5";
}

/// "relu", "gated-gelu", "gated-silu".
inline std::string t5_feed_forward(const ConfigFile& config) {
  return config.get<std::string>("feed_forward_proj", std::string("relu"));
}
inline bool is_gated(const ConfigFile& config) {
  return is_t5_kind(config) && t5_feed_forward(config).starts_with("gated-");
}

inline TransformerConfig t5_config_from(const ConfigFile& config) {
  TransformerConfig c;
  c.vocab_size = config.get<Index>("vocab_size");
  c.hidden_size = positive(config, "d_model");
  c.num_hidden_layers = number_of_layers(config, "num_layers");
  c.num_decoder_layers = config.contains("num_decoder_layers")
                             ? number_of_layers(config, "num_decoder_layers")
                             : c.layers();
  c.num_attention_heads = positive(config, "num_heads");
  c.head_size = positive(config, "d_kv");
  if (c.head_size * c.num_attention_heads > 0x7fffffff) {
    config.fail("d_kv times num_heads must be below 2^31; got ", c.head_size, " and ",
                c.num_attention_heads);
  }
  c.intermediate_size = config.get<Index>("d_ff");
  const std::string proj = t5_feed_forward(config);
  // A name from before the activations had some: the approximation is meant.
  c.activation = proj == "gated-gelu" ? Activation::gelu_tanh
                                      : activation_from(config, "feed_forward_proj",
                                                        is_gated(config) ? proj.substr(6) : proj);
  c.position_embedding = PositionEmbedding::none;
  c.attention_positions = {.kind = AttentionPosition::relative_bias,
                           .relative_attention_num_buckets =
                               config.get<Index>("relative_attention_num_buckets", Index{32}),
                           .relative_attention_max_distance =
                               config.get<Index>("relative_attention_max_distance", Index{128})};
  c.attention_scale = 1;
  c.scale_embeddings = false;
  c.norm_placement = NormPlacement::pre;
  c.final_norm = true;
  c.rms_norm_eps = norm_eps(config, "layer_norm_epsilon");
  c.query_bias = c.key_bias = c.value_bias = c.output_bias = c.feed_forward_bias = false;
  // Version 5 of transformers says tie_word_embeddings of every T5.
  c.tie_word_embeddings =
      config.get<bool>("scale_decoder_outputs", config.get<bool>("tie_word_embeddings", true));
  if (c.tie_word_embeddings) c.logit_scale = 1 / std::sqrt(static_cast<double>(c.hidden_size));
  c.padding_id = padding_id(config, c.vocab_size);
  c.hidden_dropout_prob = c.activation_dropout_prob = c.attention_probs_dropout_prob =
      probability(config, "dropout_rate");
  return c;
}

/// A number that both halves must have.
inline Index of_both_halves(const ConfigFile& config, const std::string& key) {
  const auto encoder = config.get<Index>("encoder_" + key),
             decoder = config.get<Index>("decoder_" + key);
  if (encoder != decoder) {
    config.fail("encoder_", key, " and decoder_", key, " must be equal; got ", encoder, " and ",
                decoder);
  }
  return encoder;
}

inline TransformerConfig bart_config_from(const ConfigFile& config) {
  TransformerConfig c;
  c.vocab_size = config.get<Index>("vocab_size");
  c.hidden_size = positive(config, "d_model");
  c.num_hidden_layers = number_of_layers(config, "encoder_layers");
  c.num_decoder_layers = number_of_layers(config, "decoder_layers");
  c.num_attention_heads = of_both_halves(config, "attention_heads");
  require_heads_divide(config, "encoder_attention_heads", "d_model");
  c.intermediate_size = of_both_halves(config, "ffn_dim");
  c.activation = activation_from(config, "activation_function");
  c.position_embedding = PositionEmbedding::learned;
  c.position_offset = 2;  // of an older padding id
  c.max_position_embeddings = config.get<Index>("max_position_embeddings") + c.position_offset;
  c.scale_embeddings = config.get<bool>("scale_embedding", false);
  c.embedding_norm = true;
  c.layer_norm_eps = 1e-5;
  c.head_bias = true;
  c.padding_id = padding_id(config, c.vocab_size);
  for (const char* key :
       {"normalize_before", "add_final_layer_norm", "static_position_embeddings"}) {
    if (config.get<bool>(key, false)) config.fail(key, " is true; false is known");
  }
  if (!config.get<bool>("tie_word_embeddings", true)) {
    config.fail("tie_word_embeddings is false; true is known");
  }
  c.hidden_dropout_prob = probability(config, "dropout");
  c.attention_probs_dropout_prob = probability(config, "attention_dropout");
  c.activation_dropout_prob = probability(config, "activation_dropout");
  return c;
}

}  // namespace internal

/// The encoder-decoder that a config.json describes.
inline TransformerConfig transformer_config_from(const ConfigFile& config) {
  const TransformerConfig defaults = transformer_defaults();
  if (internal::is_t5_kind(config)) return internal::t5_config_from(config).with_defaults(defaults);
  if (config.get<std::string>("model_type") == "bart")
    return internal::bart_config_from(config).with_defaults(defaults);
  internal::fail_model_type(config, "one of t5, mt5, bart");
}

/// T5ForConditionalGeneration, BartForConditionalGeneration.
template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
Transformer<Format, Norm, FeedForwardNetwork> load_transformer(PretrainedFiles& files) {
  TransformerConfig config = transformer_config_from(files.config);
  const bool t5 = internal::is_t5_kind(files.config);
  internal::require_parts<Format, Norm, FeedForwardNetwork>(files.config, t5,
                                                            internal::is_gated(files.config));
  // What version 5 of transformers makes of a T5 whose logits aren't scaled.
  if (t5 && files.config.contains("scale_decoder_outputs") &&
      !files.checkpoint.contains("lm_head.weight")) {
    config.tie_word_embeddings = true;
  }
  return internal::load_model<Transformer<Format, Norm, FeedForwardNetwork>>(
      config, files, t5 ? t5_keys(config.tie_word_embeddings) : bart_keys());
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
Transformer<Format, Norm, FeedForwardNetwork> load_transformer(
    const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_transformer<Format, Norm, FeedForwardNetwork>(files);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
