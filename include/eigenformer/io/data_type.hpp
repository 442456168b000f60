// SPDX-License-Identifier: MIT
#pragma once

// Types of stored elements, by the names of safetensors, and their conversion to the element type
// that a program uses:
//
//   F16 BF16 F32 F64                   to float, double
//   I8 I16 I32 I64 U8 U16 U32 U64      to any integer type that holds the value
//   BOOL                               to bool
//
// Nothing else converts: an integer tensor in the place of a float one is a wrong file. Bytes are
// little-endian in files and assembled so that this is right on any machine.

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "eigenformer/base/error.hpp"
#include "eigenformer/base/half.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class DataType { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

struct DataTypeTraits {
  DataType type;
  const char* name;
  std::size_t bytes;
};

inline constexpr DataTypeTraits data_types[] = {
    {DataType::boolean, "BOOL", 1}, {DataType::u8, "U8", 1},     {DataType::i8, "I8", 1},
    {DataType::u16, "U16", 2},      {DataType::i16, "I16", 2},   {DataType::u32, "U32", 4},
    {DataType::i32, "I32", 4},      {DataType::u64, "U64", 8},   {DataType::i64, "I64", 8},
    {DataType::f16, "F16", 2},      {DataType::bf16, "BF16", 2}, {DataType::f32, "F32", 4},
    {DataType::f64, "F64", 8}};

constexpr const DataTypeTraits& traits_of(DataType type) {
  return data_types[static_cast<std::size_t>(type)];
}

constexpr std::size_t bytes_of(DataType type) { return traits_of(type).bytes; }

inline std::string to_string(DataType type) { return traits_of(type).name; }

/// "F32" to DataType::f32; nothing for a name that isn't in the table.
inline std::optional<DataType> data_type_named(std::string_view name) {
  for (const DataTypeTraits& traits : data_types) {
    if (name == traits.name) return traits.type;
  }
  return std::nullopt;
}

/// The type in which elements `T` are stored.
template <class T>
constexpr DataType data_type_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, long double>,
                "only bool, integers, float and double can be stored");
  if constexpr (std::is_same_v<T, bool>) {
    return DataType::boolean;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? DataType::f32 : DataType::f64;
  } else {
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return is_signed ? DataType::i8 : DataType::u8;
      case 2:
        return is_signed ? DataType::i16 : DataType::u16;
      case 4:
        return is_signed ? DataType::i32 : DataType::u32;
      default:
        return is_signed ? DataType::i64 : DataType::u64;
    }
  }
}

namespace internal {

/// Calls f with std::type_identity of the C++ type that holds an element of `type`.
template <class F>
decltype(auto) with_data_type(DataType type, F&& f) {
  switch (type) {
    case DataType::boolean:
      return f(std::type_identity<bool>{});
    case DataType::u8:
      return f(std::type_identity<std::uint8_t>{});
    case DataType::i8:
      return f(std::type_identity<std::int8_t>{});
    case DataType::u16:
      return f(std::type_identity<std::uint16_t>{});
    case DataType::i16:
      return f(std::type_identity<std::int16_t>{});
    case DataType::u32:
      return f(std::type_identity<std::uint32_t>{});
    case DataType::i32:
      return f(std::type_identity<std::int32_t>{});
    case DataType::u64:
      return f(std::type_identity<std::uint64_t>{});
    case DataType::i64:
      return f(std::type_identity<std::int64_t>{});
    case DataType::f16:
      return f(std::type_identity<Float16>{});
    case DataType::bf16:
      return f(std::type_identity<BFloat16>{});
    case DataType::f32:
      return f(std::type_identity<float>{});
    default:
      return f(std::type_identity<double>{});
  }
}

template <std::size_t Bytes>
using UnsignedOf = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

/// The unsigned number whose little-endian bytes begin at `from`.
template <class Unsigned>
Unsigned load_little_endian(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  }
  return static_cast<Unsigned>(value);
}

template <class Unsigned>
void store_little_endian(Unsigned value, std::byte* to) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    to[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFFu);
  }
}

/// Stored is a type of with_data_type.
template <class Stored>
inline constexpr bool is_stored_float =
    std::is_floating_point_v<Stored> || std::is_same_v<Stored, Float16> ||
    std::is_same_v<Stored, BFloat16>;

template <class Stored, class T>
inline constexpr bool converts =
    std::is_same_v<T, bool>       ? std::is_same_v<Stored, bool>
    : std::is_floating_point_v<T> ? is_stored_float<Stored>
                                  : std::is_integral_v<Stored> && !std::is_same_v<Stored, bool>;

/// The element at `from` as a T, or nothing if T can't hold it: an integer out of range, a finite
/// number too large for float, a BOOL that is neither 0 nor 1.
template <class Stored, class T>
bool convert_element(const std::byte* from, T& to) {
  const auto bits = load_little_endian<UnsignedOf<sizeof(Stored)>>(from);
  if constexpr (std::is_same_v<Stored, bool>) {
    to = bits != 0;
    return bits <= 1;
  } else if constexpr (std::is_integral_v<Stored>) {
    const auto value = static_cast<Stored>(bits);
    to = static_cast<T>(value);
    return std::in_range<T>(value);
  } else if constexpr (std::is_floating_point_v<Stored>) {
    const auto value = std::bit_cast<Stored>(bits);
    if constexpr (sizeof(Stored) < sizeof(T)) return to = static_cast<T>(to_double(value)), true;
    if constexpr (sizeof(Stored) > sizeof(T)) {
      if (std::isfinite(value) &&
          std::abs(value) > static_cast<Stored>((std::numeric_limits<T>::max)()))
        return false;
    }
    to = static_cast<T>(value);
    return true;
  } else {
    const float value = to_float(Stored{bits});
    if constexpr (sizeof(T) > sizeof(float)) {
      to = static_cast<T>(to_double(value));
    } else {
      to = static_cast<T>(value);
    }
    return true;
  }
}

}  // namespace internal

/// Whether tensors of this type can be read into elements T.
template <class T>
bool reads_into(DataType type) {
  return internal::with_data_type(
      type, []<class Stored>(std::type_identity<Stored>) { return internal::converts<Stored, T>; });
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
