// SPDX-License-Identifier: MIT
#pragma once

// Configurations as JSON: an object with every field by its name, configurations inside as objects.
//
//   ef::to_json(config)      // {"hidden_size": 24, "activation": "gelu", "layer_norm_eps": null, ...}
//   auto config = ef::config_from_json<ef::TransformerConfig>(text, "config of layer.safetensors");
//
// Enumerators are strings, an ImageSize is [height, width], and what is left open is null. Reading is
// strict: a name that is no field, another type or a number out of range is std::runtime_error that
// names the field. A field that isn't there keeps its default. What is written reads back as an equal
// configuration.
//
// Hugging Face's config.json is another format, which differs between families: models/pretrained.hpp.

#include <charconv>
#include <cmath>
#include <concepts>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "eigenformer/base/enumeration.hpp"
#include "eigenformer/io/json.hpp"
#include "eigenformer/kernels/patches.hpp"
#include "eigenformer/nn/module.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A struct whose static `visit` lists its fields.
template <class C>
concept Configuration = std::equality_comparable<C> && requires(C& config) {
  C::visit([](const char*, auto&&...) {}, config);
};

namespace internal {

/// A setting that may be open: OrDefault or std::optional.
template <class Field>
concept OpenField = requires(Field field) {
  field.value();
  field = Field{};
};

template <class Field>
bool is_given(const Field& field) {
  if constexpr (requires { field.is_open(); }) {
    return !field.is_open();
  } else {
    return field.has_value();
  }
}

template <class Field>
std::string field_text(const Field& field) {
  if constexpr (Configuration<Field>) {
    std::string text = "{";
    Field::visit(
        [&](const char* name, const auto& inner) {
          if (text.back() != '{') text += ", ";
          text += '"' + std::string(name) + "\": " + field_text(inner);
        },
        field);
    return text + '}';
  } else if constexpr (OpenField<Field>) {
    return is_given(field) ? field_text(field.value()) : "null";
  } else if constexpr (std::is_same_v<Field, bool>) {
    return field ? "true" : "false";
  } else if constexpr (std::is_integral_v<Field>) {
    return std::to_string(field);
  } else if constexpr (std::is_floating_point_v<Field>) {
    require(std::isfinite(field), "to_json: numbers must be finite; got ", field);
    char digits[32];  // the fewest that read back as the same number
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, field).ptr);
  } else if constexpr (std::is_same_v<Field, ImageSize>) {
    return '[' + std::to_string(field.height) + ", " + std::to_string(field.width) + ']';
  } else if constexpr (NamedEnumeration<Field>) {
    return '"' + to_string(field) + '"';
  } else if constexpr (std::is_same_v<Field, std::string>) {
    return json_string(field);
  } else {
    static_assert(
        is_vector<Field>,
        "a field of a configuration is a bool, a number, a string, an "
        "enumeration with names, another configuration, or an optional or a vector of these");
    std::string text = "[";
    for (const auto& element : field) {
      if (text.back() != '[') text += ", ";
      text += field_text(element);
    }
    return text + ']';
  }
}

/// Sets `field`, called `name` in the text of `file`.
template <class Field>
void read_field(const Json& value, const std::string& name, std::string_view file, Field& field) {
  const auto require_type = [&](bool right, std::string_view wanted) {
    const std::string_view what = name.empty() ? std::string_view("the configuration") : name;
    if (!right) fail_file(file, what, " must be ", wanted, "; got ", value.text());
  };
  if constexpr (Configuration<Field>) {
    require_type(value.is_object(), "an object");
    const auto full = [&](const std::string& member) {
      return name.empty() ? member : name + '.' + member;
    };
    std::set<std::string_view> known;
    Field::visit(
        [&](const char* member, auto& inner) {
          known.insert(member);
          if (const Json* given = value.find(member)) read_field(*given, full(member), file, inner);
        },
        field);
    for (const auto& [member, unused] : value.as_object()) {
      if (!known.contains(member))
        fail_file(file, full(member), " is not a field of the configuration");
    }
  } else if constexpr (OpenField<Field>) {
    field = Field{};
    if (value.is_null()) return;
    std::remove_cvref_t<decltype(field.value())> given{};
    read_field(value, name, file, given);
    field = given;
  } else if constexpr (std::is_same_v<Field, bool>) {
    require_type(value.is_boolean(), "true or false");
    field = value.as_boolean();
  } else if constexpr (std::is_integral_v<Field>) {
    const auto integer = value.integer();
    require_type(integer && std::in_range<Field>(*integer), "an integer that fits");
    field = static_cast<Field>(*integer);
  } else if constexpr (std::is_floating_point_v<Field>) {
    require_type(value.is_number(), "a number");
    field = static_cast<Field>(value.as_double());
  } else if constexpr (std::is_same_v<Field, ImageSize>) {
    require_type(value.is_array() && value.as_array().size() == 2, "[height, width]");
    read_field(value.as_array()[0], name, file, field.height);
    read_field(value.as_array()[1], name, file, field.width);
  } else if constexpr (NamedEnumeration<Field>) {
    const auto found = enumerator_named<Field>(value.is_string() ? value.as_string() : "");
    if (!found) {
      std::string names;
      for (const auto& [enumerator, known] : Enumeration<Field>::all)
        names += (names.empty() ? "" : ", ") + std::string(known);
      require_type(false, "one of " + names);
    }
    field = *found;
  } else if constexpr (std::is_same_v<Field, std::string>) {
    require_type(value.is_string(), "a string");
    field = value.as_string();
  } else {
    require_type(value.is_array(), "an array");
    field.clear();
    for (const Json& element : value.as_array()) {
      const std::string place = '[' + std::to_string(field.size()) + ']';
      read_field(element, name + place, file, field.emplace_back());
    }
  }
}

}  // namespace internal

/// Throws std::invalid_argument for a number that isn't finite.
template <Configuration C>
std::string to_json(const C& config) {
  return internal::field_text(config);
}

/// `name` begins error texts.
template <Configuration C>
C config_from_json(std::string_view text, std::string_view name) {
  C config{};
  internal::read_field(parse_json(text, name), "", name, config);
  return config;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
