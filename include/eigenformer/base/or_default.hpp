// SPDX-License-Identifier: MIT
#pragma once

// A setting that may be left open, to get the default of whatever is made with it. It reads like the
// value itself; reading one that is still open is an error, so no guess goes unnoticed.
//
//   ef::OrDefault<bool> final_norm;     // open
//   final_norm = true;
//   if (final_norm) ...

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T>
class OrDefault {
 public:
  constexpr OrDefault() = default;
  template <class Value>
  requires(!std::same_as<std::remove_cvref_t<Value>, OrDefault> &&
           std::convertible_to<Value, T>) constexpr OrDefault(Value&& value)
      : value_(std::forward<Value>(value)) {}
  /// {height, width} of an ImageSize, say.
  template <class First, class Second, class... More>
  requires std::constructible_from<T, First, Second, More...>
  constexpr OrDefault(First first, Second second, More... more)
      : value_(T(first, second, more...)) {}

  bool is_open() const { return !value_.has_value(); }

  /// Throws std::invalid_argument if it is open.
  const T& value() const {
    require(!is_open(),
            "OrDefault: a setting was read that is left open; the config of a module has "
            "all of them filled in");
    return *value_;
  }
  operator const T&() const { return value(); }
  T value_or(T fallback) const { return value_.value_or(std::move(fallback)); }

  friend bool operator==(const OrDefault&, const OrDefault&) = default;
  template <class Other>
  requires(!std::same_as<Other, OrDefault> && std::equality_comparable_with<T, Other>) friend bool
  operator==(const OrDefault& a, const Other& b) {
    return !a.is_open() && *a.value_ == b;
  }

 private:
  std::optional<T> value_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
