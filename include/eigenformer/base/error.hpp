// SPDX-License-Identifier: MIT
#pragma once

// Errors. Three kinds, as in every header:
//   wrong argument: `std::invalid_argument`, text "who: what was required; what came";
//   wrong file:     `std::runtime_error` with the path and the tensor's name (io/);
//   broken invariant of the library itself: EIGENFORMER_ASSERT, in Debug only.
// Compiled with -fno-exceptions the same text goes to the error stream and the program aborts.

#include <cassert>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "eigenformer/base/config.hpp"

#define EIGENFORMER_ASSERT(condition) assert(condition)

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

inline std::string to_text(std::string_view text) { return std::string(text); }
inline std::string to_text(const char* text) { return text; }
inline std::string to_text(bool value) { return value ? "true" : "false"; }

/// Shortest usual spelling of a number: 12, -0.5, 1e-05.
template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::string to_text(Number value) {
  if constexpr (std::integral<Number>) {
    return std::to_string(value);
  } else {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(value));
    return buffer;
  }
}

/// Anything with its own `to_string`, found by its namespace: shapes, enumerations.
template <class T>
requires requires(const T& value) {
  { to_string(value) } -> std::convertible_to<std::string>;
}
std::string to_text(const T& value) { return to_string(value); }

template <class Exception>
[[noreturn]] void fail(const std::string& text) {
#if EIGENFORMER_EXCEPTIONS
  throw Exception(text);
#else
  std::fprintf(stderr, "eigenformer: %s\n", text.c_str());
  std::abort();
#endif
}

namespace internal {

/// A part of an error text: a reference, and how to write it. The compiler makes code once for each type
/// of part, not for each check.
class TextPart {
 public:
  TextPart(const char* text)
      : value_(text),
        write_([](const void* value) { return std::string(static_cast<const char*>(value)); }) {}
  template <class T>
  TextPart(const T& value)
      : value_(&value), write_([](const void* v) { return to_text(*static_cast<const T*>(v)); }) {}

  std::string text() const { return write_(value_); }

 private:
  const void* value_;
  std::string (*write_)(const void*);
};

[[noreturn]] inline void fail_argument(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text();
  fail<std::invalid_argument>(text);
}

}  // namespace internal

/// Throws `std::invalid_argument` with the parts joined, unless `condition` holds.
/// The text is only built on failure, so a check costs one branch.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    internal::fail_argument({internal::TextPart(parts)...});
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
