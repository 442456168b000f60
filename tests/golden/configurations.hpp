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
    ef::internal::read_field(ef::parse_json(member->dump(), "config"), name, "config", field);
    return true;
  }

  void require_all_read() const {
    for (const std::string& name : unread_) {
      throw std::runtime_error("config: " + name + " is not a field of the configuration");
    }
  }

 private:
  const nlohmann::json& object_;
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
