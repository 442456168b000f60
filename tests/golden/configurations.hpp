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
    if constexpr (requires { Field::visit([](auto&&...) {}, field); }) {  // a configuration inside
      Fields inner(*member);
      read_fields(inner, field);
      inner.require_all_read();
    } else if (!convert(*member, field)) {
      throw std::runtime_error("config: " + name + " can't be " + member->dump());
    }
    return true;
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
  template <class Field>
  static bool convert(const Json& value, ef::OrDefault<Field>& field) {
    Field read{};
    return convert(value, read) && (field = read, true);
  }
  /// [height, width]
  static bool convert(const Json& value, ef::ImageSize& field) {
    return value.is_array() && value.size() == 2 && convert(value[0], field.height) &&
           convert(value[1], field.width);
  }
  template <ef::NamedEnumeration E>
  static bool convert(const Json& value, E& field) {
    const auto found = ef::enumerator_named<E>(value.is_string() ? value.get<std::string>() : "");
    return found && (field = *found, true);
  }
  template <class Element>
  static bool convert(const Json&, std::vector<Element>&) {
    return false;  // layers that differ: no golden case
  }

  const Json& object_;
  std::set<std::string> unread_;
};

/// Every field of a configuration, from its own list.
template <class Config>
void read_fields(Fields& read, Config& c) {
  if constexpr (std::is_same_v<Config, ef::TransformerConfig>) {
    bool bias = true;
    if (read("bias", bias)) {
      c.query_bias = c.key_bias = c.value_bias = c.output_bias = bias;
      c.feed_forward_bias = c.norm_bias = bias;
    }
    if (read("qkv_bias", bias)) c.query_bias = c.key_bias = c.value_bias = bias;
  }
  Config::visit([&](const char* name, auto& field) { read(name, field); }, c);
}

}  // namespace golden
