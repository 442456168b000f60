// SPDX-License-Identifier: MIT
#pragma once

// Whole models from directories as Hugging Face's save_pretrained leaves them: config.json and
// model.safetensors.
//
//   auto encoder = ef::load_encoder<float>("all-MiniLM-L6-v2");
//   auto classifier = ef::load_sequence_classifier<float>(directory);
//   auto labels = ef::ConfigFile(directory / "config.json").labels("id2label");
//
// Model types so far: bert, vit. Every error is a std::runtime_error with path and key or tensor;
// what a model here can't do (another kind of positions, an unknown activation) is one too. Nothing
// of a size that a file declares is allocated before the tensors were found to have it. Not part of
// eigenformer.hpp: needs nlohmann_json.

#include "eigenformer/io/bert_keys.hpp"
#include "eigenformer/io/config_file.hpp"
#include "eigenformer/io/load.hpp"
#include "eigenformer/io/vit_keys.hpp"
#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/vision_transformer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct PretrainedFiles {
  ConfigFile config;
  Checkpoint checkpoint;

  explicit PretrainedFiles(const std::filesystem::path& directory)
      : config(directory / "config.json"), checkpoint(directory) {}

  /// Files in memory; the bytes must stay there until the model is loaded. `name` is for error
  /// texts.
  PretrainedFiles(std::string_view config_text, std::span<const std::byte> safetensors,
                  const std::string& name)
      : config(config_text, name + "/config.json"),
        checkpoint(SafetensorsReader(safetensors, name + "/model.safetensors")) {}
};

namespace internal {

/// transformers' names (ACT2FN) of the activations that kernels/activation.hpp has.
inline Activation activation_from(const ConfigFile& config, const std::string& key) {
  struct Name {
    const char* name;
    Activation activation;
  };
  static constexpr Name names[] = {{"gelu", Activation::gelu},
                                   {"gelu_python", Activation::gelu},
                                   {"gelu_new", Activation::gelu_tanh},
                                   {"gelu_fast", Activation::gelu_tanh},
                                   {"gelu_accurate", Activation::gelu_tanh},
                                   {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                   {"quick_gelu", Activation::quick_gelu},
                                   {"relu", Activation::relu},
                                   {"silu", Activation::silu},
                                   {"swish", Activation::silu},
                                   {"sigmoid", Activation::sigmoid},
                                   {"tanh", Activation::tanh},
                                   {"linear", Activation::identity}};
  const auto wanted = config.get<std::string>(key);
  std::string known;
  for (const auto& [name, activation] : names) {
    if (wanted == name) return activation;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  config.fail(key, " ", wanted, " is not known; known are ", known);
}

inline void require_model_type(const ConfigFile& config, std::string_view wanted) {
  const auto type = config.get<std::string>("model_type");
  if (type != wanted) config.fail("model_type is ", type, "; ", wanted, " is wanted");
}

/// A number of layers, heads, rows ... that can't be 0.
inline Index positive(const ConfigFile& config, const std::string& key) {
  const auto value = config.get<Index>(key);
  if (value == 0) config.fail(key, " must be > 0");
  return value;
}

inline double probability(const ConfigFile& config, const std::string& key) {
  const double value = config.get<double>(key, 0.0);
  if (value < 0 || value > 1) config.fail(key, " must be in [0, 1]; got ", value);
  return value;
}

/// The fields that all encoders share.
template <class ModelConfig>
void read_layer_fields(const ConfigFile& config, ModelConfig& c) {
  c.hidden_size = positive(config, "hidden_size");
  c.num_hidden_layers = config.get<Index>("num_hidden_layers");
  if (c.num_hidden_layers > 10'000) {
    config.fail("num_hidden_layers is ", c.num_hidden_layers, "; at most 10000 are read");
  }
  c.num_attention_heads = positive(config, "num_attention_heads");
  if (c.hidden_size % c.num_attention_heads != 0) {
    config.fail("num_attention_heads must divide hidden_size; got ", c.num_attention_heads, " and ",
                c.hidden_size);
  }
  c.intermediate_size = config.get<Index>("intermediate_size");
  c.activation = activation_from(config, "hidden_act");
  c.layer_norm_eps = config.get<double>("layer_norm_eps");
  if (c.layer_norm_eps < 0) config.fail("layer_norm_eps must be >= 0; got ", c.layer_norm_eps);
  c.hidden_dropout_prob = probability(config, "hidden_dropout_prob");
  c.attention_probs_dropout_prob = probability(config, "attention_probs_dropout_prob");
}

/// transformers writes id2label only if it isn't the default: two labels.
inline Index count_labels(const ConfigFile& config) {
  return config.contains("id2label") ? static_cast<Index>(config.labels("id2label").size())
                                     : config.get<Index>("num_labels", 2);
}

/// Sizes in pixels, bounded so that no product of them overflows.
inline constexpr Index image_size_limit = 1'000'000;

inline ImageSize image_size_from(const ConfigFile& config, const std::string& key) {
  const std::vector<Index> sizes = config.integers(key);
  const auto is_wrong = [](Index size) { return size == 0 || size > image_size_limit; };
  if (sizes.empty() || sizes.size() > 2 || std::any_of(sizes.begin(), sizes.end(), is_wrong)) {
    config.fail(key, " must be one or two integers in [1, ", image_size_limit, "]");
  }
  return {sizes.front(), sizes.back()};
}

/// A model of this configuration, read only after a model without storage was found to fit.
template <template <class> class Model, class Format, class ModelConfig>
Model<Format> load_model(const ModelConfig& config, Checkpoint& checkpoint, const KeyMap& map) {
  require_fit(Model<ShapeOnly>(config), checkpoint, map);
  Model<Format> model(config);
  load(model, checkpoint, map, {.in_place = true});
  return model;
}

template <class Format>
using PlainEncoder = TransformerEncoder<Format>;
template <class Format>
using PlainSequenceClassifier = SequenceClassifier<Format>;
template <class Format>
using PlainMaskedLanguageModel = MaskedLanguageModel<Format>;
template <class Format>
using PlainVisionTransformer = VisionTransformer<Format>;

}  // namespace internal

/// The encoder that a config.json of model type bert describes.
inline TransformerEncoderConfig encoder_config_from(const ConfigFile& config) {
  internal::require_model_type(config, "bert");
  const auto positions = config.get<std::string>("position_embedding_type", "absolute");
  if (positions != "absolute") {
    config.fail("position_embedding_type is ", positions, "; only absolute is known");
  }
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.get<bool>(key, false)) config.fail(key, " is true; an encoder is wanted");
  }
  TransformerEncoderConfig c;
  internal::read_layer_fields(config, c);
  c.vocab_size = config.get<Index>("vocab_size");
  c.max_position_embeddings = config.get<Index>("max_position_embeddings");
  c.type_vocab_size = config.get<Index>("type_vocab_size");
  if (config.contains("pad_token_id")) {
    c.padding_id = config.get<Index>("pad_token_id");
    if (*c.padding_id >= c.vocab_size) {
      config.fail("pad_token_id must be below vocab_size; got ", *c.padding_id, " and ",
                  c.vocab_size);
    }
  }
  return c;
}

/// With BERT's pooler.
inline SequenceClassifierConfig sequence_classifier_config_from(const ConfigFile& config) {
  return {.encoder = encoder_config_from(config), .num_labels = internal::count_labels(config)};
}

/// The image classifier that a config.json of model type vit describes.
inline VisionTransformerConfig vision_transformer_config_from(const ConfigFile& config) {
  internal::require_model_type(config, "vit");
  VisionTransformerConfig c;
  internal::read_layer_fields(config, c);
  c.image_size = internal::image_size_from(config, "image_size");
  c.patch_size = internal::image_size_from(config, "patch_size");
  if (c.patch_size.height > c.image_size.height || c.patch_size.width > c.image_size.width) {
    config.fail("patch_size must be at most image_size; got ", c.patch_size, " and ", c.image_size);
  }
  c.num_channels = internal::positive(config, "num_channels");
  if (c.num_channels > internal::image_size_limit) {
    config.fail("num_channels must be at most ", internal::image_size_limit, "; got ",
                c.num_channels);
  }
  c.num_labels = internal::count_labels(config);
  c.query_bias = c.key_bias = c.value_bias = config.get<bool>("qkv_bias", true);
  return c;
}

/// The encoder of any BERT checkpoint; heads are left out.
template <class Format>
TransformerEncoder<Format> load_encoder(PretrainedFiles& files) {
  return internal::load_model<internal::PlainEncoder, Format>(encoder_config_from(files.config),
                                                              files.checkpoint, bert_keys());
}

/// BertForSequenceClassification.
template <class Format>
SequenceClassifier<Format> load_sequence_classifier(PretrainedFiles& files) {
  return internal::load_model<internal::PlainSequenceClassifier, Format>(
      sequence_classifier_config_from(files.config), files.checkpoint,
      bert_sequence_classifier_keys());
}

/// BertForMaskedLM, and BertForPreTraining without its other head.
template <class Format>
MaskedLanguageModel<Format> load_masked_language_model(PretrainedFiles& files) {
  const bool tied = files.config.get<bool>("tie_word_embeddings", true);
  return internal::load_model<internal::PlainMaskedLanguageModel, Format>(
      encoder_config_from(files.config), files.checkpoint, bert_masked_language_model_keys(!tied));
}

/// ViTForImageClassification.
template <class Format>
VisionTransformer<Format> load_vision_transformer(PretrainedFiles& files) {
  return internal::load_model<internal::PlainVisionTransformer, Format>(
      vision_transformer_config_from(files.config), files.checkpoint, vit_keys());
}

template <class Format>
TransformerEncoder<Format> load_encoder(const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_encoder<Format>(files);
}

template <class Format>
SequenceClassifier<Format> load_sequence_classifier(const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_sequence_classifier<Format>(files);
}

template <class Format>
MaskedLanguageModel<Format> load_masked_language_model(const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_masked_language_model<Format>(files);
}

template <class Format>
VisionTransformer<Format> load_vision_transformer(const std::filesystem::path& directory) {
  PretrainedFiles files(directory);
  return load_vision_transformer<Format>(files);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
