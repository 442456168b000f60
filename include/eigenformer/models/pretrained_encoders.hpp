// SPDX-License-Identifier: MIT
#pragma once

// Encoders from directories of Hugging Face's: model types bert and vit. See pretrained.hpp.

#include "eigenformer/io/bert_keys.hpp"
#include "eigenformer/io/vit_keys.hpp"
#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/pretrained_files.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/vision_transformer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

/// The fields that all encoders share.
inline void read_encoder_fields(const ConfigFile& config, TransformerConfig& c) {
  c.hidden_size = positive(config, "hidden_size");
  c.num_hidden_layers = number_of_layers(config, "num_hidden_layers");
  c.num_attention_heads = positive(config, "num_attention_heads");
  require_heads_divide(config, "num_attention_heads", "hidden_size");
  c.intermediate_size = config.get<Index>("intermediate_size");
  c.activation = activation_from(config, "hidden_act");
  c.layer_norm_eps = norm_eps(config, "layer_norm_eps");
  c.hidden_dropout_prob = probability(config, "hidden_dropout_prob");
  c.attention_probs_dropout_prob = probability(config, "attention_probs_dropout_prob");
}

/// Absolute positions have one table, relative ones a table in each layer.
inline void read_positions(const ConfigFile& config, TransformerConfig& c) {
  const auto type = config.get<std::string>("position_embedding_type", "absolute");
  if (type == "absolute") return;
  c.position_embedding = PositionEmbedding::none;
  c.attention_positions.max_position_embeddings = positive(config, "max_position_embeddings");
  if (type == "relative_key") {
    c.attention_positions.kind = AttentionPosition::relative_key;
  } else if (type == "relative_key_query") {
    c.attention_positions.kind = AttentionPosition::relative_key_query;
  } else {
    config.fail("position_embedding_type is ", type,
                "; known are absolute, relative_key, relative_key_query");
  }
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

}  // namespace internal

/// The encoder that a config.json of model type bert describes.
inline TransformerConfig encoder_config_from(const ConfigFile& config) {
  internal::require_model_type(config, "bert");
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.get<bool>(key, false)) config.fail(key, " is true; an encoder is wanted");
  }
  TransformerConfig c;
  internal::read_encoder_fields(config, c);
  c.vocab_size = config.get<Index>("vocab_size");
  c.max_position_embeddings = config.get<Index>("max_position_embeddings");
  c.type_vocab_size = config.get<Index>("type_vocab_size");
  c.padding_id = internal::padding_id(config, c.vocab_size);
  internal::read_positions(config, c);
  return c.with_defaults(encoder_defaults());
}

/// With BERT's pooler.
inline TransformerConfig sequence_classifier_config_from(const ConfigFile& config) {
  TransformerConfig c = encoder_config_from(config);
  c.num_labels = internal::count_labels(config);
  return c;
}

/// The image classifier that a config.json of model type vit describes.
inline TransformerConfig vision_transformer_config_from(const ConfigFile& config) {
  internal::require_model_type(config, "vit");
  TransformerConfig c;
  internal::read_encoder_fields(config, c);
  const ImageSize image = internal::image_size_from(config, "image_size");
  const ImageSize patch = internal::image_size_from(config, "patch_size");
  if (patch.height > image.height || patch.width > image.width) {
    config.fail("patch_size must be at most image_size; got ", patch, " and ", image);
  }
  const Index channels = internal::positive(config, "num_channels");
  if (channels > internal::image_size_limit) {
    config.fail("num_channels must be at most ", internal::image_size_limit, "; got ", channels);
  }
  c.image_size = image;
  c.patch_size = patch;
  c.num_channels = channels;
  c.num_labels = internal::count_labels(config);
  c.query_bias = c.key_bias = c.value_bias = config.get<bool>("qkv_bias", true);
  return c.with_defaults(vision_defaults());
}

/// The encoder of any BERT checkpoint; heads are left out.
template <class Format>
TransformerEncoder<Format> load_encoder(PretrainedFiles& files) {
  return internal::load_model<TransformerEncoder<Format>>(encoder_config_from(files.config), files,
                                                          bert_keys());
}

/// BertForSequenceClassification.
template <class Format>
SequenceClassifier<Format> load_sequence_classifier(PretrainedFiles& files) {
  return internal::load_model<SequenceClassifier<Format>>(
      sequence_classifier_config_from(files.config), files, bert_sequence_classifier_keys());
}

/// BertForMaskedLM, and BertForPreTraining without its other head.
template <class Format>
MaskedLanguageModel<Format> load_masked_language_model(PretrainedFiles& files) {
  const bool tied = files.config.get<bool>("tie_word_embeddings", true);
  return internal::load_model<MaskedLanguageModel<Format>>(encoder_config_from(files.config), files,
                                                           bert_masked_language_model_keys(!tied));
}

/// ViTForImageClassification.
template <class Format>
VisionTransformer<Format> load_vision_transformer(PretrainedFiles& files) {
  return internal::load_model<VisionTransformer<Format>>(
      vision_transformer_config_from(files.config), files, vit_keys());
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
