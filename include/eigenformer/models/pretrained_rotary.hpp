// SPDX-License-Identifier: MIT
#pragma once

// The rotary positions that a config.json of Hugging Face's describes: rope_theta,
// partial_rotary_factor, and rope_scaling or rope_parameters.

#include <cmath>
#include <optional>
#include <string>

#include "eigenformer/models/pretrained_files.hpp"
#include "eigenformer/nn/attention_positions.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

inline RotaryScalingType rotary_scaling_named(const ConfigFile& config, const std::string& name) {
  if (name == "default") return RotaryScalingType::none;
  if (name == "linear") return RotaryScalingType::linear;
  if (name == "dynamic") return RotaryScalingType::dynamic;
  if (name == "llama3") return RotaryScalingType::llama3;
  if (name == "yarn") return RotaryScalingType::yarn;
  config.fail("rope_type ", name,
              " is not known; known are default, linear, dynamic, llama3, yarn");
}

/// DeepSeek's two factors of yarn's amplitude.
inline std::optional<double> yarn_attention_factor(const ConfigFile& scaling, double factor) {
  if (scaling.contains("attention_factor")) return scaling.get<double>("attention_factor");
  const double over = scaling.get<double>("mscale", 0.0),
               under = scaling.get<double>("mscale_all_dim", 0.0);
  if (over == 0 || under == 0 || factor <= 1) return std::nullopt;
  return (0.1 * over * std::log(factor) + 1) / (0.1 * under * std::log(factor) + 1);
}

inline RotaryScaling rotary_scaling_from(const ConfigFile& config, const ConfigFile& scaling) {
  const std::string type_key = scaling.contains("rope_type") ? "rope_type" : "type";
  RotaryScaling s;
  s.type = rotary_scaling_named(config, scaling.get<std::string>(type_key, "default"));
  if (s.type == RotaryScalingType::none) return s;
  const auto positions = positive(config, "max_position_embeddings");
  s.original_max_position_embeddings =
      s.type == RotaryScalingType::dynamic
          ? positions
          : config.get<Index>("original_max_position_embeddings",
                              scaling.get<Index>("original_max_position_embeddings", positions));
  s.factor = scaling.get<double>("factor");
  if (s.type == RotaryScalingType::llama3) {
    s.low_freq_factor = scaling.get<double>("low_freq_factor");
    s.high_freq_factor = scaling.get<double>("high_freq_factor");
  }
  if (s.type == RotaryScalingType::yarn) {
    s.beta_fast = scaling.get<double>("beta_fast", s.beta_fast);
    s.beta_slow = scaling.get<double>("beta_slow", s.beta_slow);
    s.attention_factor = yarn_attention_factor(scaling, s.factor);
    if (!scaling.get<bool>("truncate", true)) config.fail("truncate is false; true is known");
  }
  return s;
}

/// Version 5 of transformers writes rope_parameters, earlier ones rope_theta and rope_scaling,
/// which is taken if both are there. What the inner object lacks is looked for outside.
inline RotaryConfig rotary_from(const ConfigFile& config) {
  RotaryConfig rotary;
  rotary.rope_theta = config.get<double>("rope_theta", rotary.rope_theta);
  rotary.partial_rotary_factor =
      config.get<double>("partial_rotary_factor", rotary.partial_rotary_factor);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key)) continue;
    const ConfigFile inner = config.section(key);
    rotary.rope_theta = inner.get<double>("rope_theta", rotary.rope_theta);
    rotary.partial_rotary_factor =
        inner.get<double>("partial_rotary_factor", rotary.partial_rotary_factor);
    rotary.rope_scaling = rotary_scaling_from(config, inner);
    break;
  }
  return rotary;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
