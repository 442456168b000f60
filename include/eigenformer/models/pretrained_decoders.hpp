// SPDX-License-Identifier: MIT
#pragma once

// Decoders from directories of Hugging Face's and files of llama2.c. See pretrained.hpp.
//
//   model type                     is a
//   gpt2                           TransformerDecoder<Format>
//   llama, mistral, qwen2, qwen3   TransformerDecoder<Format, RMSNorm, GatedFeedForward>
//
//   auto gpt2 = ef::load_decoder<float>("gpt2");
//   auto llama = ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>("TinyLlama");
//   auto stories = ef::load_llama2c_decoder<float>("stories15M.bin");

#include "eigenformer/io/gpt2_keys.hpp"
#include "eigenformer/io/llama2c.hpp"
#include "eigenformer/io/llama_keys.hpp"
#include "eigenformer/models/pretrained_files.hpp"
#include "eigenformer/models/pretrained_rotary.hpp"
#include "eigenformer/models/transformer_decoder.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

inline std::string wanted_parts(bool rms_norm, bool gated) {
  return std::string("; load it with <Format") +
         (rms_norm || gated ? (rms_norm ? ", RMSNorm" : ", LayerNorm") : "") +
         (gated ? ", GatedFeedForward>" : ">");
}

/// Throws unless the template parameters of a model are those of its type.
template <class Format, template <class> class Norm, template <class> class FeedForwardNetwork>
void require_parts(const ConfigFile& config, bool rms_norm, bool gated) {
  if (std::is_same_v<Norm<Format>, RMSNorm<Format>> != rms_norm) {
    config.fail("model_type ", config.get<std::string>("model_type"), " has ",
                rms_norm ? "RMSNorm" : "LayerNorm", ", the model to load another norm",
                wanted_parts(rms_norm, gated));
  }
  if (std::is_same_v<FeedForwardNetwork<Format>, GatedFeedForward<Format>> != gated) {
    config.fail("model_type ", config.get<std::string>("model_type"), " has ",
                gated ? "GatedFeedForward" : "FeedForward", ", the model to load another one",
                wanted_parts(rms_norm, gated));
  }
}

inline TransformerConfig gpt2_config_from(const ConfigFile& config) {
  TransformerConfig c;
  c.vocab_size = config.get<Index>("vocab_size");
  c.hidden_size = positive(config, "n_embd");
  c.num_hidden_layers = number_of_layers(config, "n_layer");
  c.num_attention_heads = positive(config, "n_head");
  require_heads_divide(config, "n_head", "n_embd");
  c.intermediate_size = config.get<Index>("n_inner", 4 * c.hidden_size);
  c.cross_attention = config.get<bool>("add_cross_attention", false);
  c.activation =
      activation_from(config, "activation_function",
                      config.get<std::string>("activation_function", std::string("gelu_new")));
  c.max_position_embeddings = config.get<Index>("n_positions");
  c.layer_norm_eps = norm_eps(config, "layer_norm_epsilon");
  c.tie_word_embeddings = config.get<bool>("tie_word_embeddings", true);
  if (!config.get<bool>("scale_attn_weights", true)) c.attention_scale = 1;
  if (config.get<bool>("scale_attn_by_inverse_layer_idx", false)) {
    config.fail("scale_attn_by_inverse_layer_idx is true; false is known");
  }
  c.attention_probs_dropout_prob = probability(config, "attn_pdrop");
  c.hidden_dropout_prob = probability(config, "resid_pdrop");
  return c;
}

/// Qwen's windows are for the layers from max_window_layers on, or as layer_types says.
inline Index sliding_window_from(const ConfigFile& config, Index layers) {
  const Index window = config.get<Index>("sliding_window", Index{0});
  const bool mistral = config.get<std::string>("model_type") == "mistral";
  if (!mistral && !config.get<bool>("use_sliding_window", false)) return 0;
  if (config.contains("layer_types")) {
    const std::vector<std::string> types = config.strings("layer_types");
    for (const std::string& type : types) {
      if (type != types.front() || (type != "full_attention" && type != "sliding_attention"))
        config.fail("layer_types must be full_attention or sliding_attention for all layers");
    }
    return !types.empty() && types.front() == "sliding_attention" ? window : 0;
  }
  if (mistral || window == 0) return window;
  const Index first = config.get<Index>("max_window_layers", Index{28});
  if (first > 0 && first < layers) {
    config.fail("max_window_layers is ", first, " of ", layers,
                "; all layers or none can have a sliding window");
  }
  return first == 0 ? window : 0;
}

inline TransformerConfig llama_config_from(const ConfigFile& config) {
  const auto type = config.get<std::string>("model_type");
  TransformerConfig c;
  c.vocab_size = config.get<Index>("vocab_size");
  c.hidden_size = positive(config, "hidden_size");
  c.num_hidden_layers = number_of_layers(config, "num_hidden_layers");
  c.num_attention_heads = positive(config, "num_attention_heads");
  c.num_key_value_heads = config.get<Index>("num_key_value_heads", c.num_attention_heads);
  // Qwen3's heads have 128 elements if config.json doesn't say otherwise.
  c.head_size = config.get<Index>("head_dim", type == "qwen3" ? Index{128} : Index{0});
  if (c.head_size == 0) require_heads_divide(config, "num_attention_heads", "hidden_size");
  if (c.head_size * c.num_attention_heads > 0x7fffffff) {
    config.fail("head_dim times num_attention_heads must be below 2^31; got ", c.head_size, " and ",
                c.num_attention_heads);
  }
  c.intermediate_size = config.get<Index>("intermediate_size");
  c.activation = activation_from(config, "hidden_act");
  c.max_position_embeddings = config.get<Index>("max_position_embeddings");
  c.position_embedding = PositionEmbedding::none;
  c.attention_positions = {.kind = AttentionPosition::rotary, .rotary = rotary_from(config)};
  c.rms_norm_eps = norm_eps(config, "rms_norm_eps");
  c.tie_word_embeddings = config.get<bool>("tie_word_embeddings", false);
  const bool biases = config.get<bool>("attention_bias", false);
  c.query_bias = c.key_bias = c.value_bias = biases || type == "qwen2";
  c.output_bias = biases;
  c.feed_forward_bias = config.get<bool>("mlp_bias", false);
  c.query_key_norm = type == "qwen3";
  c.sliding_window = sliding_window_from(config, c.layers());
  c.attention_probs_dropout_prob = probability(config, "attention_dropout");
  return c;
}

inline bool is_llama_kind(const ConfigFile& config) {
  const auto type = config.get<std::string>("model_type");
  return type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3";
}

}  // namespace internal

/// The decoder that a config.json describes. With rope_scaling of type dynamic, `length` in it is
/// yours to set: the longest sequence.
inline TransformerConfig decoder_config_from(const ConfigFile& config) {
  const TransformerConfig defaults = decoder_defaults();
  if (internal::is_llama_kind(config))
    return internal::llama_config_from(config).with_defaults(defaults);
  if (config.get<std::string>("model_type") == "gpt2")
    return internal::gpt2_config_from(config).with_defaults(defaults);
  internal::fail_model_type(config, "one of gpt2, llama, mistral, qwen2, qwen3");
}

/// The decoder of a file of llama2.c.
inline TransformerConfig decoder_config_from(const Llama2cHeader& header) {
  const TransformerConfig config{
      .vocab_size = header.vocab_size,
      .hidden_size = header.hidden_size,
      .num_hidden_layers = header.num_hidden_layers,
      .num_attention_heads = header.num_attention_heads,
      .num_key_value_heads = header.num_key_value_heads,
      .intermediate_size = header.intermediate_size,
      .activation = Activation::silu,
      .max_position_embeddings = header.max_position_embeddings,
      .position_embedding = PositionEmbedding::none,
      .rms_norm_eps = 1e-5,
      .query_bias = false,
      .key_bias = false,
      .value_bias = false,
      .output_bias = false,
      .feed_forward_bias = false,
      .attention_positions = {.kind = AttentionPosition::rotary,
                              .rotary = {.layout = RotaryLayout::interleaved}},
      .tie_word_embeddings = header.tie_word_embeddings};
  return config.with_defaults(decoder_defaults());
}

/// With a configuration that differs from decoder_config_from's in what no tensor depends on.
template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
TransformerDecoder<Format, Norm, FeedForwardNetwork> load_decoder(PretrainedFiles& files,
                                                                  const TransformerConfig& config) {
  const bool llama = internal::is_llama_kind(files.config);
  internal::require_parts<Format, Norm, FeedForwardNetwork>(files.config, llama, llama);
  return internal::load_model<TransformerDecoder<Format, Norm, FeedForwardNetwork>>(
      config, files,
      llama ? llama_keys(config.tie_word_embeddings) : gpt2_keys(config.tie_word_embeddings));
}

/// GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM.
template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
TransformerDecoder<Format, Norm, FeedForwardNetwork> load_decoder(PretrainedFiles& files) {
  return load_decoder<Format, Norm, FeedForwardNetwork>(files, decoder_config_from(files.config));
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
TransformerDecoder<Format, Norm, FeedForwardNetwork> load_decoder(
    const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_decoder<Format, Norm, FeedForwardNetwork>(files);
}

template <class Format>
TransformerDecoder<Format, RMSNorm, GatedFeedForward> load_llama2c_decoder(
    const std::filesystem::path& path) {
  TransformerDecoder<Format, RMSNorm, GatedFeedForward> decoder(
      decoder_config_from(read_llama2c_header(path)));
  load_llama2c(decoder, path);
  return decoder;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
