// SPDX-License-Identifier: MIT
#pragma once

// Memory for elements: at cache lines, and in huge pages where it is large.
//
// A processor finds the page of each access in a small table. Weights of a model are spread over thousands
// of pages of 4 KB, which the table doesn't hold: with pages of 2 MB a feed-forward network with
// weights from memory runs a fifth faster (T = 8 to 32). So blocks of 2 MB or more begin at a huge
// page, and Linux is told that it may use such pages for them (madvise, MADV_HUGEPAGE); where it
// doesn't, nothing else changes.

#include <cstddef>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "eigenformer/base/config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Tensors and blocks of scratch memory begin at multiples of this, in bytes.
inline constexpr std::size_t memory_alignment = 64;

namespace internal {

#if defined(MADV_HUGEPAGE)
inline constexpr std::size_t huge_page = std::size_t{1} << 21;
#else
inline constexpr std::size_t huge_page = 0;  // none
#endif

inline std::align_val_t alignment_of_block(std::size_t bytes) {
  return std::align_val_t(huge_page != 0 && bytes >= huge_page ? huge_page : memory_alignment);
}

/// Tells Linux to use huge pages for the whole ones among the block's.
inline void advise_huge_pages([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  if (block != nullptr && bytes >= huge_page)
    ::madvise(block, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // may fail: then small pages
#endif
}

/// Throws std::bad_alloc.
inline void* allocate_block(std::size_t bytes) {
  void* block = ::operator new(bytes, alignment_of_block(bytes));
  advise_huge_pages(block, bytes);
  return block;
}

/// Null if there is no memory.
inline void* try_to_allocate_block(std::size_t bytes) noexcept {
  void* block = ::operator new(bytes, alignment_of_block(bytes), std::nothrow);
  advise_huge_pages(block, bytes);
  return block;
}

inline void free_block(void* block, std::size_t bytes) noexcept {
  ::operator delete(block, alignment_of_block(bytes));
}

}  // namespace internal

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
