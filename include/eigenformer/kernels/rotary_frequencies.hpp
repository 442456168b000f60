// SPDX-License-Identifier: MIT
#pragma once

// The angles of rotary position embeddings (Su et al., "RoFormer", 2021) and how they are stretched
// for contexts longer than those of training. Pair i of r / 2 is rotated by
//
//   angle = position * f_i,   f_i = theta^{-2 i / r}
//
//   linear   f_i / factor (Chen et al., "Extending context window of large language models via
//            positional interpolation", 2023)
//   dynamic  theta grows with the sequence: theta (factor L / M - factor + 1)^{r / (r - 2)} for a
//            sequence of L > M = original_max_position_embeddings positions. transformers makes L
//            the length so far, so that cached keys and new queries are rotated by different angles; here
//            L is `length`, one for all calls.
//   llama3   high frequencies stay, low ones are divided, those between are mixed (Llama 3.1)
//   yarn     mixed likewise over the number of turns in the original context, and cosine and sine
//            are multiplied by `attention_factor` (Peng et al., "YaRN", 2023)
//
// Fields are named as in the rope_scaling of transformers' config.json. All is computed in double.

#include <algorithm>
#include <cmath>
#include <optional>

#include "eigenformer/base/enumeration.hpp"
#include "eigenformer/base/error.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Which elements of a head make a pair. halves: (i, i + r / 2), as GPT-NeoX and transformers'
/// Llama; interleaved: (2 i, 2 i + 1), as RoFormer, GPT-J and Meta's Llama.
enum class RotaryLayout { halves, interleaved };

enum class RotaryScalingType { none, linear, dynamic, llama3, yarn };

template <>
struct Enumeration<RotaryLayout> {
  static constexpr Enumerator<RotaryLayout> all[] = {{RotaryLayout::halves, "halves"},
                                                     {RotaryLayout::interleaved, "interleaved"}};
};
template <>
struct Enumeration<RotaryScalingType> {
  static constexpr Enumerator<RotaryScalingType> all[] = {{RotaryScalingType::none, "none"},
                                                          {RotaryScalingType::linear, "linear"},
                                                          {RotaryScalingType::dynamic, "dynamic"},
                                                          {RotaryScalingType::llama3, "llama3"},
                                                          {RotaryScalingType::yarn, "yarn"}};
};

struct RotaryScaling {
  RotaryScalingType type = RotaryScalingType::none;
  double factor = 1;
  Index original_max_position_embeddings = 0;   // dynamic, llama3, yarn
  double low_freq_factor = 1;                   // llama3
  double high_freq_factor = 4;                  // llama3
  double beta_fast = 32;                        // yarn: turns above which a frequency stays
  double beta_slow = 1;                         // yarn: turns below which it is divided
  std::optional<double> attention_factor = {};  // yarn; default 0.1 ln(factor) + 1
  Index length = 0;                             // dynamic: positions of the sequence

  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;

  template <class F, class... Scaling>
  static void visit(F&& f, Scaling&... s) {
    f("type", s.type...);
    f("factor", s.factor...);
    f("original_max_position_embeddings", s.original_max_position_embeddings...);
    f("low_freq_factor", s.low_freq_factor...);
    f("high_freq_factor", s.high_freq_factor...);
    f("beta_fast", s.beta_fast...);
    f("beta_slow", s.beta_slow...);
    f("attention_factor", s.attention_factor...);
    f("length", s.length...);
  }
};

struct RotaryConfig {
  double rope_theta = 10000;
  double partial_rotary_factor = 1;  // the part of each head, from its front, that is rotated
  RotaryLayout layout = RotaryLayout::halves;
  RotaryScaling rope_scaling = {};

  friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;

  template <class F, class... Rotary>
  static void visit(F&& f, Rotary&... r) {
    f("rope_theta", r.rope_theta...);
    f("partial_rotary_factor", r.partial_rotary_factor...);
    f("layout", r.layout...);
    f("rope_scaling", r.rope_scaling...);
  }
};

namespace kernels {

/// Elements of a head that are rotated, r; even.
inline Index rotary_size(const RotaryConfig& config, Index head_size) {
  return static_cast<Index>(config.partial_rotary_factor * static_cast<double>(head_size));
}

/// By what cosine and sine are multiplied.
inline double rotary_amplitude(const RotaryConfig& config) {
  const RotaryScaling& scaling = config.rope_scaling;
  if (scaling.type != RotaryScalingType::yarn) return 1;
  return scaling.attention_factor.value_or(0.1 * std::log(scaling.factor) + 1);
}

/// Throws std::invalid_argument for what makes no sense for heads of this size.
inline void require_valid_rotary(const RotaryConfig& config, Index head_size) {
  constexpr const char* who = "RotaryConfig";
  const RotaryScaling& scaling = config.rope_scaling;
  require(std::isfinite(config.rope_theta) && config.rope_theta > 0, who,
          ": rope_theta must be > 0; got ", config.rope_theta);
  require(config.partial_rotary_factor > 0 && config.partial_rotary_factor <= 1, who,
          ": partial_rotary_factor must be in (0, 1]; got ", config.partial_rotary_factor);
  const Index size = rotary_size(config, head_size);
  require(size > 0 && size % 2 == 0, who, ": the rotated part of a head must be even and > 0; got ",
          size, " of ", head_size);
  require(std::isfinite(scaling.factor) && scaling.factor >= 1, who,
          ": rope_scaling.factor must be >= 1; got ", scaling.factor);
  if (scaling.type == RotaryScalingType::none) return;
  if (scaling.type == RotaryScalingType::linear) return;
  require(scaling.original_max_position_embeddings > 0, who,
          ": rope_scaling.original_max_position_embeddings must be > 0; got ",
          scaling.original_max_position_embeddings);
  require(scaling.type != RotaryScalingType::dynamic || size > 2, who,
          ": dynamic scaling needs heads of more than 2 rotated elements; got ", size);
  require(scaling.length >= 0, who, ": rope_scaling.length must be >= 0; got ", scaling.length);
  require(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
              std::isfinite(scaling.high_freq_factor),
          who, ": 0 < low_freq_factor < high_freq_factor must hold; got ", scaling.low_freq_factor,
          " and ", scaling.high_freq_factor);
  require(scaling.type != RotaryScalingType::yarn || config.rope_theta > 1, who,
          ": yarn needs a rope_theta > 1; got ", config.rope_theta);
  constexpr double largest_factor = 1e30;  // finite in float
  require(std::abs(rotary_amplitude(config)) <= largest_factor, who,
          ": rope_scaling.attention_factor must be within +-1e30; got ", rotary_amplitude(config));
  require(scaling.beta_slow > 0 && scaling.beta_fast > scaling.beta_slow &&
              std::isfinite(scaling.beta_fast),
          who, ": 0 < beta_slow < beta_fast must hold; got ", scaling.beta_slow, " and ",
          scaling.beta_fast);
}

namespace internal {

inline constexpr double two_pi = 6.283185307179586476925;

/// How much of frequency `f` is divided by the factor: 0 for high frequencies, 1 for low ones.
inline double divided_part_llama3(const RotaryScaling& scaling, double f) {
  const double turns = static_cast<double>(scaling.original_max_position_embeddings) * f / two_pi;
  return std::clamp(
      (scaling.high_freq_factor - turns) / (scaling.high_freq_factor - scaling.low_freq_factor),
      0.0, 1.0);
}

/// The pair that makes `turns` turns in the original context, between pairs as a fraction.
inline double yarn_pair(const RotaryConfig& config, double size, double turns) {
  const auto length = static_cast<double>(config.rope_scaling.original_max_position_embeddings);
  return size * std::log(length / (turns * two_pi)) / (2 * std::log(config.rope_theta));
}

inline double divided_part_yarn(const RotaryConfig& config, Index pair, Index size) {
  const auto width = static_cast<double>(size);
  const double low =
      (std::max)(0.0, std::floor(yarn_pair(config, width, config.rope_scaling.beta_fast)));
  double high =
      (std::min)(width - 1, std::ceil(yarn_pair(config, width, config.rope_scaling.beta_slow)));
  if (high == low) high += 0.001;
  return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
}

}  // namespace internal

/// f (r / 2), radians a position.
inline void rotary_frequencies(const RotaryConfig& config, Index head_size, double* f) {
  const RotaryScaling& scaling = config.rope_scaling;
  const Index size = rotary_size(config, head_size);
  const auto width = static_cast<double>(size);
  double theta = config.rope_theta;
  if (scaling.type == RotaryScalingType::dynamic &&
      scaling.length > scaling.original_max_position_embeddings) {
    const double stretch = scaling.factor * static_cast<double>(scaling.length) /
                               static_cast<double>(scaling.original_max_position_embeddings) -
                           (scaling.factor - 1);
    theta *= std::pow(stretch, width / (width - 2));
  }
  for (Index i = 0; i < size / 2; ++i) {
    f[i] = std::pow(theta, -static_cast<double>(2 * i) / width);
    double divided = 0;
    if (scaling.type == RotaryScalingType::linear) divided = 1;
    if (scaling.type == RotaryScalingType::llama3)
      divided = internal::divided_part_llama3(scaling, f[i]);
    if (scaling.type == RotaryScalingType::yarn)
      divided = internal::divided_part_yarn(config, i, size);
    f[i] = f[i] / scaling.factor * divided + f[i] * (1 - divided);
  }
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
