// SPDX-License-Identifier: MIT
#pragma once

// JSON, read strictly: a key that occurs twice in an object, nesting deeper than `json_depth_limit`
// and anything behind the value are errors. Reading stops at the first error.
//
// The parser is nlohmann_json's (io/json_parser.hpp); the value is a plain one of the library's, whose
// destruction needs no memory. Users of eigenformer::compiled are spared reading the parser.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/io/byte_source.hpp"

#if defined(EIGENFORMER_COMPILED_JSON)
#define EIGENFORMER_JSON_INLINE
#else
#define EIGENFORMER_JSON_INLINE inline
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

inline constexpr std::size_t json_depth_limit = 64;
inline constexpr std::uint64_t json_size_limit = 100'000'000;  // bytes

/// A JSON value. as_boolean() and its like need a value of that type, find() an object: the caller
/// checks first, with is_boolean() and its like.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  Json() = default;  // null
  template <class T>
  explicit Json(T value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }
  bool is_number() const {
    return is_unsigned() || std::holds_alternative<std::int64_t>(value_) ||
           std::holds_alternative<double>(value_);
  }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  bool as_boolean() const { return *std::get_if<bool>(&value_); }
  std::uint64_t as_unsigned() const { return *std::get_if<std::uint64_t>(&value_); }
  /// A whole number that fits 64 bits with sign; nothing for what is none.
  std::optional<std::int64_t> integer() const {
    if (const auto* x = std::get_if<std::int64_t>(&value_)) return *x;
    if (is_unsigned() && std::in_range<std::int64_t>(as_unsigned()))
      return static_cast<std::int64_t>(as_unsigned());
    return std::nullopt;
  }
  double as_double() const {
    if (const auto* x = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*x);
    if (const auto* x = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*x);
    return *std::get_if<double>(&value_);
  }
  const std::string& as_string() const { return *std::get_if<std::string>(&value_); }
  const Array& as_array() const { return *std::get_if<Array>(&value_); }
  Array& as_array() { return *std::get_if<Array>(&value_); }
  const Object& as_object() const { return *std::get_if<Object>(&value_); }
  Object& as_object() { return *std::get_if<Object>(&value_); }

  /// The member of an object; null if there is none.
  const Json* find(std::string_view key) const {
    const auto place = as_object().find(key);
    return place == as_object().end() ? nullptr : &place->second;
  }

  /// As JSON, at most about `longest` bytes of it: for error texts.
  std::string text(std::size_t longest = 200) const {
    std::string result;
    write(result, longest);
    return result;
  }

 private:
  void write(std::string& to, std::size_t longest) const {
    if (to.size() > longest) return;
    if (is_null()) to += "null";
    if (is_boolean()) to += as_boolean() ? "true" : "false";
    if (is_unsigned()) to += std::to_string(as_unsigned());
    if (const auto* x = std::get_if<std::int64_t>(&value_)) to += std::to_string(*x);
    if (const auto* x = std::get_if<double>(&value_)) to += to_text(*x);
    if (is_string()) to += '"' + as_string().substr(0, longest) + '"';
    if (is_array()) {
      to += '[';
      for (const Json& element : as_array()) {
        if (to.back() != '[') to += ',';
        element.write(to, longest);
        if (to.size() > longest) break;
      }
      to += ']';
    }
    if (is_object()) {
      to += '{';
      for (const auto& [key, member] : as_object()) {
        if (to.back() != '{') to += ',';
        to += '"' + key.substr(0, longest) + "\":";
        member.write(to, longest);
        if (to.size() > longest) break;
      }
      to += '}';
    }
  }

  std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string, Array,
               Object>
      value_;
};

/// The value that `text` spells. Throws std::runtime_error that names `file` and says what is
/// wrong.
EIGENFORMER_JSON_INLINE Json parse_json(std::string_view text, std::string_view file);

/// A text as a JSON string, with quotes; nothing if it isn't UTF-8.
EIGENFORMER_JSON_INLINE std::string json_string(std::string_view text);

/// The whole of a source as text.
inline std::string read_text(ByteSource& source) {
  if (source.size() > json_size_limit) {
    fail_file(source.name(), source.size(), " bytes are too many for a JSON file");
  }
  std::string text(static_cast<std::size_t>(source.size()), ' ');
  source.read(0, text.data(), text.size());
  return text;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer

#if !defined(EIGENFORMER_COMPILED_JSON)
#include "eigenformer/io/json_parser.hpp"
#endif
