// SPDX-License-Identifier: MIT
#pragma once

// Activations, element by element. Names and formulas: kernels/activations.inl, one row each.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "eigenformer/base/enumeration.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class Activation {
#define EIGENFORMER_ACTIVATION(name, ...) name,
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION
};

template <>
struct Enumeration<Activation> {
  static constexpr Enumerator<Activation> all[] = {
#define EIGENFORMER_ACTIVATION(name, ...) {Activation::name, #name},
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION
  };
};

/// The name of an activation in config.json (transformers' ACT2FN).
struct ActivationName {
  Activation activation;
  std::array<std::string_view, 6> names;  // the rest is empty
};

inline constexpr ActivationName activation_names[] = {
#define EIGENFORMER_ACTIVATION(name, ...) {Activation::name, {__VA_ARGS__}},
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION
};

/// Nothing for a name that isn't in the table.
inline std::optional<Activation> activation_named(std::string_view wanted) {
  for (const auto& [activation, names] : activation_names) {
    for (const std::string_view name : names) {
      if (!name.empty() && name == wanted) return activation;
    }
  }
  return std::nullopt;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
