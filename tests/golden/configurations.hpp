// SPDX-License-Identifier: MIT
#pragma once

// Configurations of the golden cases: the members of a JSON object by the names of the
// configuration's fields. What is left out keeps its default; a name that is no field, or another
// type, is an error.
//
// Two names stand for several fields: `bias` of a layer for all its biases, `qkv_bias` of a vision
// transformer (transformers' name) for those of query, key and value.

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "eigenformer/eigenformer.hpp"

namespace golden {

namespace ef = eigenformer;
using ef::Index;

class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {
    if (!object.is_object()) throw std::runtime_error("an object is wanted; got " + object.dump());
    for (const auto& [name, value] : object.items()) unread_.insert(name);
  }

  /// Sets `field` if the object has a member of that name; says so.
  template <class Field>
  bool operator()(const std::string& name, Field& field) {
    const auto member = object_.find(name);
    if (member == object_.end()) return false;
    unread_.erase(name);
    if (!convert(*member, field)) {
      throw std::runtime_error("config: " + name + " can't be " + member->dump());
    }
    return true;
  }

  /// Reads the fields of a configuration inside, if the object has it.
  template <class Config>
  void inside(const std::string& name, Config& config) {
    const auto member = object_.find(name);
    if (member == object_.end()) return;
    unread_.erase(name);
    Fields inner(*member);
    read_fields(inner, config);
    inner.require_all_read();
  }

  void require_all_read() const {
    for (const std::string& name : unread_) {
      throw std::runtime_error("config: " + name + " is not a field of the configuration");
    }
  }

 private:
  using Json = nlohmann::json;

  static bool convert(const Json& value, bool& field) {
    return value.is_boolean() && (field = value.get<bool>(), true);
  }
  static bool convert(const Json& value, Index& field) {
    return value.is_number_integer() && (field = value.get<Index>(), true);
  }
  static bool convert(const Json& value, double& field) {
    return value.is_number() && (field = value.get<double>(), true);
  }
  template <class Field>
  static bool convert(const Json& value, std::optional<Field>& field) {
    return convert(value, field.emplace());
  }
  /// [height, width]
  static bool convert(const Json& value, ef::ImageSize& field) {
    return value.is_array() && value.size() == 2 && convert(value[0], field.height) &&
           convert(value[1], field.width);
  }
  static bool convert(const Json& value, ef::Activation& field) {
    return convert_name(value, ef::all_activations, field);
  }
  static bool convert(const Json& value, ef::NormPlacement& field) {
    constexpr ef::NormPlacement all[] = {ef::NormPlacement::pre, ef::NormPlacement::post};
    return convert_name(value, all, field);
  }
  static bool convert(const Json& value, ef::PositionEmbedding& field) {
    constexpr ef::PositionEmbedding all[] = {ef::PositionEmbedding::none,
                                             ef::PositionEmbedding::learned,
                                             ef::PositionEmbedding::sinusoidal};
    return convert_name(value, all, field);
  }
  static bool convert(const Json& value, ef::SinusoidalLayout& field) {
    constexpr ef::SinusoidalLayout all[] = {ef::SinusoidalLayout::interleaved,
                                            ef::SinusoidalLayout::concatenated,
                                            ef::SinusoidalLayout::tensor2tensor};
    return convert_name(value, all, field);
  }

  template <class Enumeration>
  static bool convert_name(const Json& value,
                           std::type_identity_t<std::span<const Enumeration>> all,
                           Enumeration& field) {
    for (Enumeration one : all) {
      if (value == to_string(one)) {
        field = one;
        return true;
      }
    }
    return false;
  }

  const Json& object_;
  std::set<std::string> unread_;
};

inline void read_fields(Fields& read, ef::LinearConfig& c) {
  read("in_features", c.in_features);
  read("out_features", c.out_features);
  read("bias", c.bias);
}

inline void read_fields(Fields& read, ef::LayerNormConfig& c) {
  read("hidden_size", c.hidden_size);
  read("eps", c.eps);
  read("bias", c.bias);
}

inline void read_fields(Fields& read, ef::RMSNormConfig& c) {
  read("hidden_size", c.hidden_size);
  read("eps", c.eps);
  read("unit_offset", c.unit_offset);
}

inline void read_fields(Fields& read, ef::FeedForwardConfig& c) {
  read("hidden_size", c.hidden_size);
  read("intermediate_size", c.intermediate_size);
  read("activation", c.activation);
  read("bias", c.bias);
}

inline void read_fields(Fields& read, ef::MultiHeadAttentionConfig& c) {
  read("hidden_size", c.hidden_size);
  read("num_attention_heads", c.num_attention_heads);
  read("num_key_value_heads", c.num_key_value_heads);
  read("head_size", c.head_size);
  read("key_value_size", c.key_value_size);
  read("value_size", c.value_size);
  read("query_bias", c.query_bias);
  read("key_bias", c.key_bias);
  read("value_bias", c.value_bias);
  read("output_bias", c.output_bias);
  read("scale", c.scale);
}

inline void read_fields(Fields& read, ef::AdditiveAttentionConfig& c) {
  read("query_size", c.query_size);
  read("key_size", c.key_size);
  read("hidden_size", c.hidden_size);
}

inline void read_fields(Fields& read, ef::EmbeddingConfig& c) {
  read("num_embeddings", c.num_embeddings);
  read("embedding_dim", c.embedding_dim);
  read("padding_id", c.padding_id);
}

/// The fields that EmbeddingsConfig and TransformerConfig share.
template <class Config>
void read_embedding_fields(Fields& read, Config& c) {
  read("vocab_size", c.vocab_size);
  read("max_position_embeddings", c.max_position_embeddings);
  read("type_vocab_size", c.type_vocab_size);
  read("position_embedding", c.position_embedding);
  read("sinusoidal_layout", c.sinusoidal_layout);
  read("position_offset", c.position_offset);
  read("scale_embeddings", c.scale_embeddings);
  read("embedding_norm", c.embedding_norm);
  read("padding_id", c.padding_id);
}

inline void read_fields(Fields& read, ef::EmbeddingsConfig& c) {
  read_embedding_fields(read, c);
  read("hidden_size", c.hidden_size);
  read("layer_norm_eps", c.layer_norm_eps);
  read("norm_bias", c.norm_bias);
}

/// The fields that layers, stacks and models share.
template <class Config>
void read_layer_fields(Fields& read, Config& c) {
  bool bias = true;
  if (read("bias", bias)) {
    c.query_bias = c.key_bias = c.value_bias = c.output_bias = bias;
    c.feed_forward_bias = c.norm_bias = bias;
  }
  read("hidden_size", c.hidden_size);
  read("num_attention_heads", c.num_attention_heads);
  read("num_key_value_heads", c.num_key_value_heads);
  read("head_size", c.head_size);
  read("intermediate_size", c.intermediate_size);
  read("activation", c.activation);
  read("norm_placement", c.norm_placement);
  read("layer_norm_eps", c.layer_norm_eps);
  read("rms_norm_eps", c.rms_norm_eps);
  read("query_bias", c.query_bias);
  read("key_bias", c.key_bias);
  read("value_bias", c.value_bias);
  read("output_bias", c.output_bias);
  read("feed_forward_bias", c.feed_forward_bias);
  read("norm_bias", c.norm_bias);
  read("attention_scale", c.attention_scale);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) { read_layer_fields(read, c); }

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_layer_fields(read, c);
  read("num_hidden_layers", c.num_hidden_layers);
  read("final_norm", c.final_norm);
}

/// The fields of a decoder's layers besides.
template <class Config>
void read_decoder_layer_fields(Fields& read, Config& c) {
  read_layer_fields(read, c);
  read("cross_attention", c.cross_attention);
  read("key_value_size", c.key_value_size);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_decoder_layer_fields(read, c);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_decoder_layer_fields(read, c);
  read("num_hidden_layers", c.num_hidden_layers);
  read("final_norm", c.final_norm);
}

inline void read_fields(Fields& read, ef::EncoderDecoderConfig& c) {
  read.inside("encoder", c.encoder);
  read.inside("decoder", c.decoder);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_decoder_layer_fields(read, c);
  read_embedding_fields(read, c);
  read("num_hidden_layers", c.num_hidden_layers);
  read("final_norm", c.final_norm);
  read("tie_word_embeddings", c.tie_word_embeddings);
  read("head_bias", c.head_bias);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_layer_fields(read, c);
  read_embedding_fields(read, c);
  read("num_hidden_layers", c.num_hidden_layers);
  read("final_norm", c.final_norm);
}

/// Flat in the files: the encoder's fields beside the classifier's.
inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  read_fields(read, c.encoder);
  read("num_labels", c.num_labels);
  read("pooler", c.pooler);
}

inline void read_fields(Fields& read, ef::PoolerConfig& c) {
  read("hidden_size", c.hidden_size);
  read("activation", c.activation);
}

inline void read_fields(Fields& read, ef::PatchEmbeddingConfig& c) {
  read("image_size", c.image_size);
  read("patch_size", c.patch_size);
  read("num_channels", c.num_channels);
  read("hidden_size", c.hidden_size);
}

inline void read_fields(Fields& read, ef::TransformerConfig& c) {
  bool bias = true;
  if (read("qkv_bias", bias)) c.query_bias = c.key_bias = c.value_bias = bias;
  read_layer_fields(read, c);
  read("image_size", c.image_size);
  read("patch_size", c.patch_size);
  read("num_channels", c.num_channels);
  read("num_hidden_layers", c.num_hidden_layers);
  read("final_norm", c.final_norm);
  read("num_labels", c.num_labels);
}

}  // namespace golden
