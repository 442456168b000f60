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

/// Throws `std::invalid_argument` with the parts joined, unless `condition` holds.
/// The text is only built on failure, so a check costs one branch.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    std::string text;
    ((text += to_text(parts)), ...);
    fail<std::invalid_argument>(text);
  }
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
