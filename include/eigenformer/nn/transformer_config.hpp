// SPDX-License-Identifier: MIT
#pragma once

// TransformerConfig: what a transformer is made of, as one flat struct with the names of Hugging Face's
// config.json. Every layer, stack and model takes it and reads what concerns it (an encoder-decoder
// takes two):
//
//   ef::EncoderLayer<float> layer({.hidden_size = 24, .num_attention_heads = 8, .intermediate_size = 96});
//   ef::TransformerDecoder<float> decoder({.vocab_size = 97, .hidden_size = 24, ...});
//
// The fields are in nn/transformer_config_fields.inl, one line each. `visit` walks
// over that list, and comparing, printing, reading and writing use `visit`.
//
// What is left open (OrDefault) gets the default of the module that is made: `config.with_defaults(...)`.
// The `config` of a module has every field filled in. Layers may differ: what layer i does is
// `config.of_layer(i)`.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "eigenformer/base/enumeration.hpp"
#include "eigenformer/base/or_default.hpp"
#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/kernels/patches.hpp"
#include "eigenformer/kernels/sinusoidal.hpp"
#include "eigenformer/nn/attention_positions.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// pre: y = x + branch(norm(x)), GPT-2, ViT. post: y = norm(x + branch(x)), BERT.
enum class NormPlacement { pre, post };

enum class PositionEmbedding { none, learned, sinusoidal };

/// Whether a layer's self-attention has the configuration's sliding window.
enum class LayerType { full_attention, sliding_attention };

template <>
struct Enumeration<NormPlacement> {
  static constexpr Enumerator<NormPlacement> all[] = {{NormPlacement::pre, "pre"},
                                                      {NormPlacement::post, "post"}};
};
template <>
struct Enumeration<PositionEmbedding> {
  static constexpr Enumerator<PositionEmbedding> all[] = {
      {PositionEmbedding::none, "none"},
      {PositionEmbedding::learned, "learned"},
      {PositionEmbedding::sinusoidal, "sinusoidal"}};
};
template <>
struct Enumeration<LayerType> {
  static constexpr Enumerator<LayerType> all[] = {
      {LayerType::full_attention, "full_attention"},
      {LayerType::sliding_attention, "sliding_attention"}};
};

/// What one layer has in place of the common fields; what is empty is as for all.
struct LayerOverrides {
  std::optional<Index> sliding_window = {};  // 0: none
  std::optional<double> rope_theta = {};
  std::optional<Index> intermediate_size = {};
  std::optional<NormPlacement> norm_placement = {};

  friend bool operator==(const LayerOverrides&, const LayerOverrides&) = default;

  template <class F, class... Overrides>
  static void visit(F&& f, Overrides&... o) {
    f("sliding_window", o.sliding_window...);
    f("rope_theta", o.rope_theta...);
    f("intermediate_size", o.intermediate_size...);
    f("norm_placement", o.norm_placement...);
  }
};

/// Which modules read a field; the others pass it over.
enum class FieldReaders {
  everyone,           // layers, stacks and models
  layers,             // likewise; embeddings read layer_norm_eps and norm_bias of these
  stacks,             // stacks and models
  decoders,           // decoder layers, their stacks and models
  embeddings,         // models that begin with token ids
  decoders_from_ids,  // TransformerDecoder, Transformer
  encoder_decoders,   // Transformer, made from one configuration
  classifiers,        // SequenceClassifier, VisionTransformer
  images,             // VisionTransformer
  training            // no effect on inference
};

struct TransformerConfig {
#define EIGENFORMER_FIELD(readers, type, name, ...) type name = __VA_ARGS__;
#include "eigenformer/nn/transformer_config_fields.inl"
#undef EIGENFORMER_FIELD

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;

  /// Calls f(name, readers, field of each configuration) for every field, in order.
  template <class F, class... Config>
  static void visit_with_readers(F&& f, Config&... config) {
#define EIGENFORMER_FIELD(readers, type, name, ...) f(#name, FieldReaders::readers, config.name...);
#include "eigenformer/nn/transformer_config_fields.inl"
#undef EIGENFORMER_FIELD
  }

  /// Calls f(name, field of each configuration) for every field, in order.
  template <class F, class... Config>
  static void visit(F&& f, Config&... config) {
    visit_with_readers([&](const char* name, FieldReaders, auto&... field) { f(name, field...); },
                       config...);
  }

  /// This configuration, with `defaults` for what it leaves open: open settings and sizes of 0.
  TransformerConfig with_defaults(const TransformerConfig& defaults) const;

  /// The configuration of layer i, 0 <= i < num_hidden_layers. A table of relative biases belongs to
  /// the stack, which has one for all layers.
  TransformerConfig of_layer(Index i) const;

  Index layers() const { return num_hidden_layers.value_or(1); }
  Index memory_size() const { return key_value_size == 0 ? hidden_size : key_value_size; }
};

/// What layers and stacks take for fields that are left open.
inline TransformerConfig layer_defaults() {
  return {.num_hidden_layers = 1,
          .num_attention_heads = 1,
          .activation = Activation::gelu,
          .norm_placement = NormPlacement::post,
          .final_norm = false,
          .layer_norm_eps = 1e-5,
          .rms_norm_eps = 1e-5};
}

/// Two configurations for an encoder-decoder.
struct EncoderDecoderConfig {
  TransformerConfig encoder = {};
  TransformerConfig decoder = {};

  friend bool operator==(const EncoderDecoderConfig&, const EncoderDecoderConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... config) {
    f("encoder", config.encoder...);
    f("decoder", config.decoder...);
  }

  /// The decoder attends to the encoder's result, whatever its fields say about a memory.
  EncoderDecoderConfig joined() const {
    EncoderDecoderConfig both = *this;
    both.decoder.cross_attention = true;
    both.decoder.key_value_size = both.encoder.hidden_size;
    return both;
  }
};

namespace internal {

template <class Field>
bool is_open(const Field& field) {
  if constexpr (requires { field.is_open(); }) {
    return field.is_open();
  } else if constexpr (std::is_same_v<Field, Index>) {
    return field == 0;
  } else {
    return false;
  }
}

/// Throws unless there are as many entries as layers, or none.
template <class Entry>
void require_one_a_layer(const char* name, const std::vector<Entry>& entries, Index layers) {
  require(entries.empty() || static_cast<Index>(entries.size()) == layers,
          "TransformerConfig: ", name, " must hold one entry for each of ", layers, " layers; got ",
          entries.size());
}

}  // namespace internal

inline TransformerConfig TransformerConfig::with_defaults(const TransformerConfig& defaults) const {
  TransformerConfig result = *this;
  visit(
      [](const char*, auto& field, const auto& standard) {
        if (internal::is_open(field)) field = standard;
      },
      result, defaults);
  return result;
}

inline TransformerConfig TransformerConfig::of_layer(Index i) const {
  require(i >= 0 && i < layers(), "TransformerConfig: there is no layer ", i, " among ", layers());
  internal::require_one_a_layer("layer_types", layer_types, layers());
  internal::require_one_a_layer("layer_overrides", layer_overrides, layers());
  require(!rope_local_base_freq || !layer_types.empty(),
          "TransformerConfig: rope_local_base_freq is for layers of type sliding_attention, but "
          "layer_types is empty");
  TransformerConfig layer = *this;
  layer.layer_types = {};
  layer.layer_overrides = {};
  layer.rope_local_base_freq = {};
  layer.num_hidden_layers = 1;
  layer.attention_positions = attention_positions.without_table();
  double& rope_theta = layer.attention_positions.rotary.rope_theta;
  const auto place = static_cast<std::size_t>(i);
  if (!layer_types.empty() && layer_types[place] == LayerType::full_attention) {
    layer.sliding_window = 0;
  } else if (!layer_types.empty()) {
    require(sliding_window > 0, "TransformerConfig: layer ", i,
            " is of type sliding_attention, but sliding_window is ", sliding_window);
    rope_theta = rope_local_base_freq.value_or(rope_theta);
  }
  if (!layer_overrides.empty()) {
    const LayerOverrides& own = layer_overrides[place];
    layer.sliding_window = own.sliding_window.value_or(layer.sliding_window);
    rope_theta = own.rope_theta.value_or(rope_theta);
    layer.intermediate_size = own.intermediate_size.value_or(layer.intermediate_size);
    if (own.norm_placement) layer.norm_placement = *own.norm_placement;
  }
  return layer;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
