// SPDX-License-Identifier: MIT
#pragma once

// Copies of modules. The compiler's own copy assignment goes member by member, so one that runs out of
// memory half-way leaves an object that is neither the old one nor the new one. With
//
//   EIGENFORMER_STRONG_COPIES(Linear)
//
// in a struct, copy assignment makes the whole copy first; then nothing can fail. Moves don't throw.

#define EIGENFORMER_STRONG_COPIES(Type)       \
  Type(const Type&) = default;                \
  Type(Type&&) noexcept = default;            \
  Type& operator=(Type&&) noexcept = default; \
  Type& operator=(const Type& other) {        \
    if (this != &other) *this = Type(other);  \
    return *this;                             \
  }                                           \
  ~Type() = default;
