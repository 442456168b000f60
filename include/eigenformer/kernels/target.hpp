// SPDX-License-Identifier: MIT
#pragma once

// What the library does with vector registers, as functions on rows and panels of numbers, and the
// choice among instruction sets.
//
//   target<float>().add(x, z, y, n);
//
// The files simd/*.inl hold these functions. They are compiled for the instruction set of the
// translation unit (namespace `native`). On x86-64, with GCC and Clang, if that set lacks AVX2 or
// FMA, they are compiled twice more, for AVX2 and for AVX-512 (namespaces `avx2`, `avx512`), and
// `target` takes the set that suits the processor: a program built without any -m flag is fast
// where it can be, and runs everywhere. The choice is the same for the whole run, so are the bits.
// EIGENFORMER_NO_RUNTIME_CHOICE turns it off.
//
// What calls these functions is free of vector instructions.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/kernels/polynomials.hpp"
#include "eigenformer/kernels/right_factor.hpp"
#include "eigenformer/kernels/rotary_frequencies.hpp"

#if EIGENFORMER_CHOOSES_AT_RUN_TIME || defined(__AVX2__)
EIGENFORMER_PRECISE_BEGIN
#include <immintrin.h>
EIGENFORMER_PRECISE_END
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // vector types as template arguments
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Functions of elementary.inl for whole rows. normal_bell: e^{-x^2/2}.
enum class Elementary { exponential, hyperbolic_tangent, logistic, normal_cumulative, normal_bell };

/// Scores of some queries for a tile of keys, and what softmax has come to so far. Rows of scores are
/// `stride` apart, a multiple of every register's width.
template <class T>
struct SoftmaxTile {
  static constexpr Index lanes = std::max<Index>(1, 64 / static_cast<Index>(sizeof(T)));

  T* scores;  // (rows, columns)
  Index stride, rows, columns;
  const Index* seen;  // (rows): how many of the columns, from the first on, take part
  T* maximum;         // (rows)
  T* sums;            // (rows, lanes): the sum in parts, as many as the instruction set likes
  T* result;          // (rows, size): the weighted sum of values
  Index size;
};

/// The functions of one instruction set. They are described where they are defined.
template <class T>
struct Target {
  // simd/rows.inl, simd/softmax.inl, simd/norms.inl, simd/rotary.inl
  void (*add)(const T* x, const T* z, T* y, Index n);
  void (*multiply_elements)(const T* x, const T* z, T* y, Index n);
  void (*scale)(const T* x, T factor, T* y, Index n);
  void (*divide)(const T* x, T divisor, T* y, Index n);
  void (*add_scaled)(const T* x, T factor, T* y, Index n);
  void (*scale_unsigned_zero)(const T* x, T factor, T* y, Index n);
  T (*sum)(const T* x, Index n);
  T (*sum_of_squares)(const T* x, Index n);
  T (*largest)(const T* x, Index n);
  bool (*all_finite)(const T* x, Index n);
  void (*evaluate)(Elementary function, const T* x, T* y, Index n);
  void (*activate)(Activation activation, const T* x, T* y, Index n);
  void (*activation_derivative)(Activation activation, const T* x, T* y, Index n);
  void (*soft_cap)(T* s, Index n, T cap);
  T (*additive_score)(const T* x, const T* z, const T* w, Index n);
  T (*exponentials)(const T* s, T maximum, T* p, Index n);
  void (*softmax)(const T* x, T* y, Index n);
  void (*softmax_step)(const SoftmaxTile<T>& tile);
  void (*layer_norm)(const T* x, const T* weight, const T* bias, T eps, T* y, Index n);
  void (*rms_norm)(const T* x, const T* weight, T offset, T eps, T* y, Index n);
  void (*rotate)(RotaryLayout layout, const T* cosine, const T* sine, T* x, Index size);
  // simd/packing.inl, simd/single_row.inl, simd/macrokernel.inl
  void (*pack_rows)(const StridedFactor<T>& b, Index n0, Index columns, Index k0, Index depth,
                    const T* prefetched, T* panel);
  void (*single_row_macrokernel)(const T* a, const StridedFactor<T>& b, Index column,
                                 Index column_end, Index depth, const T* bias, T* c);
  void (*macrokernel)(const PanelProduct<T>& product);
  Index tile_rows, tile_columns;  // of the largest tile
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer

EIGENFORMER_PRECISE_BEGIN
#define EIGENFORMER_TARGET native
#if defined(EIGEN_VECTORIZE_AVX512)
#define EIGENFORMER_TARGET_REGISTERS 32
#else
#define EIGENFORMER_TARGET_REGISTERS EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS
#endif
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define EIGENFORMER_TARGET_HAS_VNNI 1
#else
#define EIGENFORMER_TARGET_HAS_VNNI 0
#endif
#include "eigenformer/kernels/simd/packets.inl"
#if defined(EIGEN_VECTORIZE_AVX512)
#include "eigenformer/kernels/simd/avx512.inl"
#elif defined(EIGEN_VECTORIZE_AVX2) && defined(EIGEN_VECTORIZE_FMA)
#include "eigenformer/kernels/simd/avx2.inl"
#endif
// uses Simd of the files before:
#include "eigenformer/kernels/simd/all.inl"
#undef EIGENFORMER_TARGET
#undef EIGENFORMER_TARGET_REGISTERS
#undef EIGENFORMER_TARGET_HAS_VNNI

// With EIGENFORMER_COMPILED, which the CMake target eigenformer::compiled sets, a library holds what
// follows, and the translation unit needn't even read it.
#if EIGENFORMER_CHOOSES_AT_RUN_TIME && !defined(EIGENFORMER_COMPILED)
#define EIGENFORMER_TARGET avx2
#define EIGENFORMER_TARGET_REGISTERS 16
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#include "eigenformer/kernels/simd/avx2.inl"
// uses Simd of the file before:
#include "eigenformer/kernels/simd/all.inl"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef EIGENFORMER_TARGET
#undef EIGENFORMER_TARGET_REGISTERS

#define EIGENFORMER_TARGET avx512
#define EIGENFORMER_TARGET_REGISTERS 32
#define EIGENFORMER_TARGET_HAS_VNNI 1
#if defined(__clang__)
#pragma clang attribute push(                                                          \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif
#include "eigenformer/kernels/simd/avx512.inl"
// uses Simd of the file before:
#include "eigenformer/kernels/simd/all.inl"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef EIGENFORMER_TARGET
#undef EIGENFORMER_TARGET_REGISTERS
#undef EIGENFORMER_TARGET_HAS_VNNI

#endif
EIGENFORMER_PRECISE_END

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// The instruction sets among which a program may choose.
enum class InstructionSet { native, avx2, avx512 };

/// The one that suits the processor best. AVX-512 is taken from processors that have its integer
/// products too (Intel's since Ice Lake, AMD's since Zen 4); older ones slow down when they use it.
inline InstructionSet instruction_set() {
#if EIGENFORMER_CHOOSES_AT_RUN_TIME
  static const InstructionSet chosen = [] {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
      return InstructionSet::native;
    const bool has_avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni");
    return has_avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
  }();
  return chosen;
#else
  return InstructionSet::native;
#endif
}

/// The functions that suit the processor best.
template <class T>
const Target<T>& target() {
#if EIGENFORMER_CHOOSES_AT_RUN_TIME && !defined(EIGENFORMER_COMPILED)
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    switch (instruction_set()) {
      case InstructionSet::avx512:
        return avx512::target_functions<T>;
      case InstructionSet::avx2:
        return avx2::target_functions<T>;
      case InstructionSet::native:
        break;
    }
  }
#endif
  return native::target_functions<T>;
}

/// The same for compressed weights; T is float.
template <class T>
const CompressedTarget<T>& compressed_target() {
#if EIGENFORMER_CHOOSES_AT_RUN_TIME && !defined(EIGENFORMER_COMPILED)
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return avx512::compressed_functions<T>;
    case InstructionSet::avx2:
      return avx2::compressed_functions<T>;
    case InstructionSet::native:
      break;
  }
#endif
  return native::compressed_functions<T>;
}

#if defined(EIGENFORMER_COMPILED)  // in the compiled library, whatever was chosen above
extern template const Target<float>& target<float>();
extern template const Target<double>& target<double>();
extern template const CompressedTarget<float>& compressed_target<float>();
#endif

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
