// SPDX-License-Identifier: MIT
#pragma once

// The functions of io/json.hpp that need nlohmann_json: reads through its SAX interface, without its
// document type, whose destructor allocates.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/io/json.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
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

EIGENFORMER_JSON_INLINE Json parse_json(std::string_view text, std::string_view file) {
  internal::StrictJsonBuilder builder;
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) builder.error = "a zero byte in the text";
  if (!builder.error.empty() || !nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    fail_file(file, "not valid JSON: ", builder.error);
  }
  return std::move(builder.value);
}

EIGENFORMER_JSON_INLINE std::string json_string(std::string_view text) {
  const nlohmann::json value(std::string{text});  // a string's destruction needs no memory
  std::string spelled = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  internal::StrictJsonBuilder builder;
  const bool whole = nlohmann::json::sax_parse(spelled.begin(), spelled.end(), &builder) &&
                     builder.value.as_string() == text;
  return whole ? spelled : std::string();
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
