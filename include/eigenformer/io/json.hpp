// SPDX-License-Identifier: MIT
#pragma once

// JSON, read strictly: a key that occurs twice in an object, nesting deeper than `json_depth_limit`
// and anything behind the value are errors. Reading stops at the first error.
//
// The parser is nlohmann_json's; the value is a plain one of the library's, whose destruction needs no
// memory.

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/io/byte_source.hpp"

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

namespace internal {

/// Receives the parser's events, builds the value.
class StrictJsonBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Json value;
  std::string error;

  bool null() { return add(Json()) != nullptr; }
  bool boolean(bool x) { return add(Json(x)) != nullptr; }
  bool number_integer(number_integer_t x) { return add(Json(std::int64_t{x})) != nullptr; }
  bool number_unsigned(number_unsigned_t x) { return add(Json(std::uint64_t{x})) != nullptr; }
  bool number_float(number_float_t x, const string_t&) { return add(Json(double{x})) != nullptr; }
  bool string(string_t& x) { return add(Json(std::move(x))) != nullptr; }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json(Json::Object())); }
  bool start_array(std::size_t) { return open(Json(Json::Array())); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    const auto [place, is_new] = open_.back()->as_object().emplace(name, Json());
    if (!is_new) error = "key \"" + printable(name) + "\" occurs twice";
    member_ = &place->second;
    return is_new;
  }

  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& exception) {
    error = exception.what();
    return false;
  }

 private:
  Json* add(Json&& x) {
    if (open_.empty()) {
      value = std::move(x);
      return &value;
    }
    if (open_.back()->is_array()) {
      open_.back()->as_array().push_back(std::move(x));
      return &open_.back()->as_array().back();
    }
    *member_ = std::move(x);
    return member_;
  }

  bool open(Json&& empty) {
    if (open_.size() == json_depth_limit) {
      error = "nested deeper than ";
      error += std::to_string(json_depth_limit) + " levels";
      return false;
    }
    open_.push_back(add(std::move(empty)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // an array doesn't grow while an element of it is open
  Json* member_ = nullptr;
};

}  // namespace internal

/// The value that `text` spells. Throws std::runtime_error that names `file` and says what is
/// wrong.
inline Json parse_json(std::string_view text, std::string_view file) {
  internal::StrictJsonBuilder builder;
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) builder.error = "a zero byte in the text";
  if (!builder.error.empty() || !nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    fail_file(file, "not valid JSON: ", builder.error);
  }
  return std::move(builder.value);
}

/// A text as a JSON string, with quotes; nothing if it isn't UTF-8.
inline std::string json_string(std::string_view text) {
  const nlohmann::json value(std::string{text});  // a string's destruction needs no memory
  std::string spelled = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  internal::StrictJsonBuilder builder;
  const bool whole = nlohmann::json::sax_parse(spelled.begin(), spelled.end(), &builder) &&
                     builder.value.as_string() == text;
  return whole ? spelled : std::string();
}

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
