// SPDX-License-Identifier: MIT
#pragma once

// Names of enumerators: one row each, read by printing and parsing.
//
//   enum class NormPlacement { pre, post };
//   template <>
//   struct Enumeration<NormPlacement> {
//     static constexpr Enumerator<NormPlacement> all[] = {{NormPlacement::pre, "pre"}, ...};
//   };
//   to_string(NormPlacement::pre)                    // "pre"
//   enumerator_named<NormPlacement>("pre")           // NormPlacement::pre

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "eigenformer/base/config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class E>
struct Enumerator {
  E value;
  std::string_view name;
};

/// Specialised for each enumeration with names.
template <class E>
struct Enumeration;

template <class E>
concept NamedEnumeration = std::is_enum_v<E> && requires {
  Enumeration<E>::all;
};

template <NamedEnumeration E>
std::string to_string(E value) {
  for (const auto& [enumerator, name] : Enumeration<E>::all) {
    if (enumerator == value) return std::string(name);
  }
  return std::to_string(static_cast<int>(value)) + " (unknown)";
}

/// Nothing for a name that isn't in the table.
template <NamedEnumeration E>
std::optional<E> enumerator_named(std::string_view wanted) {
  for (const auto& [enumerator, name] : Enumeration<E>::all) {
    if (name == wanted) return enumerator;
  }
  return std::nullopt;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
