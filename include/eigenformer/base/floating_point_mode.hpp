// SPDX-License-Identifier: MIT
#pragma once

// The processor's floating-point mode of a thread: rounding, flush-to-zero, denormals-are-zero. A job
// that is shared out carries the caller's mode to the workers, so that results don't depend on which
// thread computes them.

#include <cstdint>

#include "eigenformer/base/config.hpp"

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

class FloatingPointMode {
 public:
  /// The calling thread's.
  FloatingPointMode() : bits_(current()) {}

  /// In force on the calling thread until the guard is destroyed.
  class Guard {
   public:
    explicit Guard(const FloatingPointMode& mode)
        : before_(current()), differs_(before_ != mode.bits_) {
      if (differs_) set(mode.bits_);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      if (differs_) set(before_);
    }

   private:
    std::uint64_t before_;
    bool differs_;
  };

 private:
#if defined(__SSE__) || defined(_M_X64)
  static constexpr std::uint64_t flags = 0x3F;  // raised exceptions: no mode
  static std::uint64_t current() { return _mm_getcsr() & ~flags; }
  static void set(std::uint64_t bits) {
    _mm_setcsr(static_cast<unsigned>(bits | (_mm_getcsr() & flags)));
  }
#elif defined(__aarch64__) && defined(__GNUC__)
  static std::uint64_t current() {
    std::uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void set(std::uint64_t bits) { __asm__ volatile("msr fpcr, %0" : : "r"(bits)); }
#else
  static std::uint64_t current() { return 0; }
  static void set(std::uint64_t) {}
#endif

  std::uint64_t bits_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
