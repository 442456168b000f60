// SPDX-License-Identifier: MIT
#pragma once

// A config.json: one JSON object whose values are read by key and type. Every error is a
// std::runtime_error with file and key.
//
//   ef::ConfigFile config("bert-base-uncased/config.json");
//   config.get<ef::Index>("hidden_size")                    // an error if it is missing
//   config.get<double>("hidden_dropout_prob", 0.1)          // 0.1 if it is missing or null

#include <cmath>

#include "eigenformer/io/json.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

class ConfigFile {
 public:
  explicit ConfigFile(const std::filesystem::path& path) {
    ByteSource source(path);
    parse(read_text(source), source.name());
  }

  /// A text that is in memory; `name` is for error texts.
  ConfigFile(std::string_view text, const std::string& name) { parse(text, name); }

  const std::string& path() const { return name_; }

  /// Whether there is a value that isn't null.
  bool contains(const std::string& key) const { return find(key) != nullptr; }

  /// T: Index (an integer in [0, 2^31)), double (any finite number), bool or std::string.
  template <class T>
  T get(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_file(name_, key, " is missing");
    return convert<T>(key, *value);
  }

  template <class T>
  T get(const std::string& key, T fallback) const {
    return contains(key) ? get<T>(key) : fallback;
  }

  /// One integer, or an array of them.
  std::vector<Index> integers(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_array()) return {get<Index>(key)};
    std::vector<Index> all;
    for (const auto& element : value->as_array()) {
      all.push_back(convert<Index>(key, element));
    }
    return all;
  }

  /// An array of strings.
  std::vector<std::string> strings(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_file(name_, key, " is missing");
    if (!value->is_array()) fail_wrong(key, "an array of strings", *value);
    std::vector<std::string> all;
    for (const auto& element : value->as_array()) {
      all.push_back(convert<std::string>(key, element));
    }
    return all;
  }

  /// An object {"0": "first", "1": "second", ...} as a list.
  std::vector<std::string> labels(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_file(name_, key, " is missing");
    if (!value->is_object()) fail_wrong(key, "an object", *value);
    std::vector<std::string> all;
    const std::size_t count = value->as_object().size();
    for (std::size_t id = 0; id < count; ++id) {
      const Json* label = value->find(std::to_string(id));
      if (label == nullptr) fail_file(name_, key, " has ", count, " labels, but none for ", id);
      all.push_back(convert<std::string>(key, *label));
    }
    return all;
  }

  /// The object under a key, read with the same functions.
  ConfigFile section(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_file(name_, key, " is missing");
    if (!value->is_object()) fail_wrong(key, "an object", *value);
    ConfigFile inner(*this);
    inner.json_ = *value;
    return inner;
  }

  /// Throws std::runtime_error "file: text".
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_file(name_, parts...);
  }

 private:
  void parse(std::string_view text, const std::string& name) {
    name_ = name;
    json_ = parse_json(text, name_);
    if (!json_.is_object()) fail_file(name_, "is not a JSON object");
  }

  const Json* find(const std::string& key) const {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  [[noreturn]] void fail_wrong(const std::string& key, const char* wanted,
                               const Json& value) const {
    fail_file(name_, key, " must be ", wanted, "; got ", value.text());
  }

  template <class T>
  T convert(const std::string& key, const Json& value) const {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) fail_wrong(key, "true or false", value);
      return value.as_boolean();
    } else if constexpr (std::is_same_v<T, Index>) {
      if (!value.is_unsigned() || value.as_unsigned() > 0x7fffffffu) {
        fail_wrong(key, "an integer in [0, 2^31)", value);
      }
      return static_cast<Index>(value.as_unsigned());
    } else if constexpr (std::is_same_v<T, double>) {
      if (!value.is_number() || !std::isfinite(value.as_double())) {
        fail_wrong(key, "a number", value);
      }
      return value.as_double();
    } else {
      static_assert(std::is_same_v<T, std::string>,
                    "ConfigFile::get: Index, double, bool or std::string");
      if (!value.is_string()) fail_wrong(key, "a string", value);
      return value.as_string();
    }
  }

  std::string name_;
  Json json_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
