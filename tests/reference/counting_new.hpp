// SPDX-License-Identifier: MIT
#pragma once

// Replaces operator new and operator delete of the whole program by ones that count: see
// allocations.hpp.

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/reference/allocations.hpp"

namespace reference {

inline std::atomic<long> counted_allocations{0};
inline std::atomic<long> counted_deletions{0};
inline std::atomic<long> allocations_until_failure{-1};
inline std::atomic<bool> failed_allocation{false};

long allocations() { return counted_allocations.load(); }
long live_allocations() { return counted_allocations.load() - counted_deletions.load(); }

void fail_allocation_after(long count) {
  failed_allocation = false;
  allocations_until_failure = count;
}
bool allocation_has_failed() { return failed_allocation; }

inline void* counted_new(std::size_t bytes, std::size_t alignment) {
  if (allocations_until_failure >= 0 && allocations_until_failure.fetch_sub(1) == 0) {
    failed_allocation = true;
    return nullptr;
  }
  counted_allocations.fetch_add(1);
  return std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
}

inline void* counted_new_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = counted_new(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void counted_delete(void* memory) {
  if (memory != nullptr) counted_deletions.fetch_add(1);
  std::free(memory);
}

}  // namespace reference

// The array forms call these. GCC takes the pair of aligned_alloc and free for one of new and free.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(std::size_t bytes) {
  return reference::counted_new_or_throw(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return reference::counted_new_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return reference::counted_new(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return reference::counted_new(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { reference::counted_delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { reference::counted_delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { reference::counted_delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  reference::counted_delete(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  reference::counted_delete(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  reference::counted_delete(memory);
}
