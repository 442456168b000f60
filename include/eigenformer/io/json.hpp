// SPDX-License-Identifier: MIT
#pragma once

// JSON, read strictly: a key that occurs twice in an object, nesting deeper than `json_depth_limit`
// and anything behind the value are errors. Reading stops at the first error.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/io/byte_source.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

inline constexpr std::size_t json_depth_limit = 64;
inline constexpr std::uint64_t json_size_limit = 100'000'000;  // bytes

namespace internal {

/// Receives the parser's events, builds the value.
class StrictJsonBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  nlohmann::json value;
  std::string error;

  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool x) { return add(x) != nullptr; }
  bool number_integer(number_integer_t x) { return add(x) != nullptr; }
  bool number_unsigned(number_unsigned_t x) { return add(x) != nullptr; }
  bool number_float(number_float_t x, const string_t&) { return add(x) != nullptr; }
  bool string(string_t& x) { return add(std::move(x)) != nullptr; }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) { return open(nlohmann::json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    nlohmann::json& object = *open_.back();
    const bool is_new = !object.contains(name);
    if (!is_new) error = "key \"" + name + "\" occurs twice";
    member_ = &object[name];
    return is_new;
  }

  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& exception) {
    error = exception.what();
    return false;
  }

 private:
  template <class X>
  nlohmann::json* add(X&& x) {
    if (open_.empty()) {
      value = std::forward<X>(x);
      return &value;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(nlohmann::json(std::forward<X>(x)));
      return &open_.back()->back();
    }
    *member_ = std::forward<X>(x);
    return member_;
  }

  bool open(nlohmann::json&& empty) {
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

  std::vector<nlohmann::json*> open_;
  nlohmann::json* member_ = nullptr;
};

}  // namespace internal

/// The value that `text` spells. Throws std::runtime_error that names `file` and says what is
/// wrong.
inline nlohmann::json parse_json(std::string_view text, std::string_view file) {
  internal::StrictJsonBuilder builder;
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) builder.error = "a zero byte in the text";
  if (!builder.error.empty() || !nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    fail_file(file, "not valid JSON: ", builder.error);
  }
  return std::move(builder.value);
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
