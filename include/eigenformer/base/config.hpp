// SPDX-License-Identifier: MIT
#pragma once

// What every other header builds on: the version, the binary-interface tag, `Index` and the few
// compiler attributes that the kernels need.
//
// Everything lives in `eigenformer::EIGENFORMER_ABI`, an inline namespace whose name holds the
// version and each setting that changes generated code: the instruction set that Eigen compiled for,
// whether another is chosen at run time and whether exceptions are on. Two translation units with
// different settings may therefore be linked into one program, each with its own copy; passing a
// tensor or a module from one to the other fails at link time, with the tag in the message. The tag
// names our functions, not Eigen's, of which the linker keeps one copy for all: where settings
// differ, optimise (-O1 or more), so that they are compiled into the functions that call them.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "Eigenformer needs C++20: compile with -std=c++20 or newer"
#endif

// Between these two Clang compiles without the parts of -ffast-math that it shows by no macro.
#if defined(__clang__)
#define EIGENFORMER_PRECISE_BEGIN _Pragma("float_control(precise, on, push)")
#define EIGENFORMER_PRECISE_END _Pragma("float_control(pop)")
#else
#define EIGENFORMER_PRECISE_BEGIN
#define EIGENFORMER_PRECISE_END
#endif

EIGENFORMER_PRECISE_BEGIN
#include <Eigen/Core>
EIGENFORMER_PRECISE_END

// The version, also as one number: 0.1.0 is 100, 1.2.3 is 10203.
#define EIGENFORMER_VERSION \
  (EIGENFORMER_VERSION_MAJOR * 10000 + EIGENFORMER_VERSION_MINOR * 100 + EIGENFORMER_VERSION_PATCH)
#define EIGENFORMER_VERSION_MAJOR 0
#define EIGENFORMER_VERSION_MINOR 1
#define EIGENFORMER_VERSION_PATCH 0

#define EIGENFORMER_JOIN_TEXT(a, b) a##b
#define EIGENFORMER_JOIN(a, b) EIGENFORMER_JOIN_TEXT(a, b)

#if defined(EIGEN_VECTORIZE_AVX512)
#define EIGENFORMER_INSTRUCTION_SET _avx512
#elif defined(EIGEN_VECTORIZE_AVX2)
#define EIGENFORMER_INSTRUCTION_SET _avx2
#elif defined(EIGEN_VECTORIZE_AVX)
#define EIGENFORMER_INSTRUCTION_SET _avx
#elif defined(EIGEN_VECTORIZE_SSE4_1)
#define EIGENFORMER_INSTRUCTION_SET _sse4
#elif defined(EIGEN_VECTORIZE_SSE)
#define EIGENFORMER_INSTRUCTION_SET _sse
#elif defined(EIGEN_VECTORIZE_NEON)
#define EIGENFORMER_INSTRUCTION_SET _neon
#elif defined(EIGEN_VECTORIZE)
#define EIGENFORMER_INSTRUCTION_SET _vector
#else
#define EIGENFORMER_INSTRUCTION_SET _scalar
#endif

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define EIGENFORMER_EXCEPTIONS 1
#define EIGENFORMER_EXCEPTION_TAG _throws
#else
#define EIGENFORMER_EXCEPTIONS 0
#define EIGENFORMER_EXCEPTION_TAG _aborts
#endif

#if defined(__FMA__)
#define EIGENFORMER_FMA_TAG _fma
#else
#define EIGENFORMER_FMA_TAG
#endif

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define EIGENFORMER_VNNI_TAG _vnni
#else
#define EIGENFORMER_VNNI_TAG
#endif

// Whether code for AVX2 and AVX-512 is compiled beside the code for the instruction set of the
// translation unit, and chosen while the program runs: kernels/target.hpp.
#if defined(__x86_64__) && defined(__GNUC__) && defined(EIGEN_VECTORIZE_SSE) && \
    !(defined(__AVX2__) && defined(__FMA__)) && !defined(EIGENFORMER_NO_RUNTIME_CHOICE)
#define EIGENFORMER_CHOOSES_AT_RUN_TIME 1
#define EIGENFORMER_CHOICE_TAG _or_avx
#else
#define EIGENFORMER_CHOOSES_AT_RUN_TIME 0
#define EIGENFORMER_CHOICE_TAG
#endif

#define EIGENFORMER_FLAGS_TAG EIGENFORMER_JOIN(EIGENFORMER_FMA_TAG, EIGENFORMER_VNNI_TAG)
#define EIGENFORMER_MACHINE_TAG                 \
  EIGENFORMER_JOIN(EIGENFORMER_INSTRUCTION_SET, \
                   EIGENFORMER_JOIN(EIGENFORMER_FLAGS_TAG, EIGENFORMER_CHOICE_TAG))
#define EIGENFORMER_ABI \
  EIGENFORMER_JOIN(v0_1, EIGENFORMER_JOIN(EIGENFORMER_MACHINE_TAG, EIGENFORMER_EXCEPTION_TAG))

// -ffast-math is refused, and each part of it that the compiler shows by a macro. What can't be seen:
// GCC's `#pragma GCC optimize("fast-math")` before the include, and parts of it with Clang in a translation
// unit that includes Eigen or <immintrin.h> before the library.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error \
    "Eigenformer: -ffast-math or a part of it breaks the promised order of additions and the handling of infinities"
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#define EIGENFORMER_ALWAYS_INLINE __forceinline
#define EIGENFORMER_UNROLL
#elif defined(__clang__)
#define EIGENFORMER_ALWAYS_INLINE inline __attribute__((always_inline))
#define EIGENFORMER_UNROLL _Pragma("clang loop unroll(full)")
#else
#define EIGENFORMER_ALWAYS_INLINE inline __attribute__((always_inline))
#define EIGENFORMER_UNROLL _Pragma("GCC unroll 32")
#endif

// Between the parameters and the body of a lambda that must not become a function of its own.
#if defined(__GNUC__)
#define EIGENFORMER_INLINE_LAMBDA __attribute__((always_inline))
#else
#define EIGENFORMER_INLINE_LAMBDA
#endif

// GCC and Clang put the tag of a function's result into the function's symbol only if they are
// told.
#if defined(__GNUC__)
#define EIGENFORMER_TAG_RESULTS __attribute__((abi_tag))
#else
#define EIGENFORMER_TAG_RESULTS
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI EIGENFORMER_TAG_RESULTS {

/// Signed size and index type, Eigen's.
using Index = Eigen::Index;
static_assert(
    sizeof(Index) >= 8,
    "Eigenformer needs an Eigen::Index of 64 bits: EIGEN_DEFAULT_DENSE_INDEX_TYPE must not "
    "be narrower than std::ptrdiff_t");

}  // namespace EIGENFORMER_TAG_RESULTS
}  // namespace eigenformer

#ifndef EIGENFORMER_NO_SHORT_NAMESPACE
namespace ef = eigenformer;
#endif
