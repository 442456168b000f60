// SPDX-License-Identifier: MIT
#pragma once

// A directory as Hugging Face's save_pretrained leaves it, and what the readers of all model types
// need.

#include "eigenformer/io/config_file.hpp"
#include "eigenformer/io/load.hpp"
#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/nn/transformer_config.hpp"

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

inline Activation activation_from(const ConfigFile& config, const std::string& key,
                                  const std::string& wanted) {
  if (const auto activation = activation_named(wanted)) return *activation;
  std::string known;
  for (const auto& row : activation_names) {
    for (const std::string_view name : row.names) {
      if (!name.empty()) known += (known.empty() ? "" : ", ") + std::string(name);
    }
  }
  config.fail(key, " ", wanted, " is not known; known are ", known);
}

inline Activation activation_from(const ConfigFile& config, const std::string& key) {
  return activation_from(config, key, config.get<std::string>(key));
}

[[noreturn]] inline void fail_model_type(const ConfigFile& config, std::string_view wanted) {
  config.fail("model_type is ", config.get<std::string>("model_type"), "; ", wanted, " is wanted");
}

inline void require_model_type(const ConfigFile& config, std::string_view wanted) {
  if (config.get<std::string>("model_type") != wanted) fail_model_type(config, wanted);
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

inline Index number_of_layers(const ConfigFile& config, const std::string& key) {
  const auto layers = config.get<Index>(key);
  if (layers > 10'000) config.fail(key, " is ", layers, "; at most 10000 are read");
  return layers;
}

inline double norm_eps(const ConfigFile& config, const std::string& key) {
  const auto eps = config.get<double>(key);
  if (eps < 0) config.fail(key, " must be >= 0; got ", eps);
  return eps;
}

/// An id of the vocabulary; nothing if there is none.
inline std::optional<Index> padding_id(const ConfigFile& config, Index vocab_size) {
  if (!config.contains("pad_token_id")) return std::nullopt;
  const auto id = config.get<Index>("pad_token_id");
  if (id >= vocab_size) {
    config.fail("pad_token_id must be below vocab_size; got ", id, " and ", vocab_size);
  }
  return id;
}

/// Throws unless `key`, a number of heads, divides `width_key`.
inline void require_heads_divide(const ConfigFile& config, const std::string& key,
                                 const std::string& width_key) {
  const Index heads = positive(config, key), width = config.get<Index>(width_key);
  if (width % heads != 0) {
    config.fail(key, " must divide ", width_key, "; got ", heads, " and ", width);
  }
}

/// The model's shapes without storage. What its constructor refuses is an error of config.json.
template <class Model>
auto shapes_of(const TransformerConfig& config, [[maybe_unused]] const ConfigFile& file) {
  using Shapes = typename Model::template WithFormat<ShapeOnly>;
#if EIGENFORMER_EXCEPTIONS
  try {
    return Shapes(config);
  } catch (const std::invalid_argument& error) {
    file.fail(error.what());
  }
#else
  return Shapes(config);
#endif
}

/// A model of this configuration, read only after its shapes were found to fit.
template <class Model>
Model load_model(const TransformerConfig& config, PretrainedFiles& files, const KeyMap& map) {
  require_fit(shapes_of<Model>(config, files.config), files.checkpoint, map);
  Model model(config);
  load(model, files.checkpoint, map, {.in_place = true});
  return model;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
