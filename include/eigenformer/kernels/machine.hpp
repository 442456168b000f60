// SPDX-License-Identifier: MIT
#pragma once

// What the library does with vector registers, as functions on rows and panels of numbers, and the
// choice among instruction sets.
//
//   machine<float>().add(x, z, y, n);
//
// The files simd/*.inl hold these functions. They are compiled for the instruction set of the
// translation unit, over Eigen's packets (namespace `native`). On x86-64, with GCC and Clang, if
// that set lacks AVX2 or FMA, they are compiled a second time with both (namespace `avx2`), and
// `machine` takes the set that the processor has: a program built without any -m flag is fast where
// it can be, and runs everywhere. The choice is the same for the whole run, so are the bits.
// EIGENFORMER_NO_RUNTIME_CHOICE turns it off.
//
// Everything that lies above these functions is free of vector instructions.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/kernels/panels.hpp"
#include "eigenformer/kernels/polynomials.hpp"
#include "eigenformer/kernels/rotary_frequencies.hpp"

#if EIGENFORMER_CHOOSES_AVX2 || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // vector types as template arguments
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Functions of elementary.inl for whole rows. normal_bell: e^{-x^2/2}.
enum class Elementary { exponential, tangent, logistic, normal_cumulative, normal_bell };

/// The functions of one instruction set. They are described where they are defined.
template <class T>
struct Machine {
  // simd/rows.inl
  void (*add)(const T* x, const T* z, T* y, Index n);
  void (*multiply)(const T* x, const T* z, T* y, Index n);
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
  void (*soft_cap)(T* s, Index n, T cap);
  T (*additive_score)(const T* x, const T* z, const T* w, Index n);
  T (*exponentials)(const T* s, T maximum, T* p, Index n);
  void (*softmax)(const T* x, T* y, Index n);
  void (*softmax_step)(T* s, Index n, T& maximum, T& sum, T* y, Index size);
  void (*layer_norm)(const T* x, const T* weight, const T* bias, T eps, T* y, Index n);
  void (*rms_norm)(const T* x, const T* weight, T offset, T eps, T* y, Index n);
  void (*rotate)(RotaryLayout layout, const T* cosine, const T* sine, T* x, Index size);
  // simd/packing.inl, simd/single_row.inl, simd/tiles.inl
  void (*pack_rows)(const RightFactor<T>& b, Index n0, Index columns, Index k0, Index depth,
                    const T* ahead, T* panel);
  void (*multiply_single_row)(const T* a, const RightFactor<T>& b, Index column, Index column_end,
                              Index depth, const T* bias, T* c);
  void (*multiply_panels)(const PanelProduct<T>& product);
};

/// The functions for weights in bfloat16 and int8; results are floats.
struct CompressedMachine {
  // simd/tiles.inl
  void (*multiply_bfloat16)(const PanelProduct<float, BFloat16>& product);
  void (*multiply_int8)(const PanelProduct<float, std::int8_t>& product);
  // simd/quantized.inl
  void (*scale_columns)(const float* scales, const float* bias, float* y, Index n);
  float (*quantize)(const float* x, Index n, std::int8_t* q);
  void (*multiply_quantized)(const QuantizedProduct<float>& product);
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer

#define EIGENFORMER_TARGET native
#if defined(__AVX2__)
#define EIGENFORMER_TARGET_HAS_AVX2 1
#else
#define EIGENFORMER_TARGET_HAS_AVX2 0
#endif
#include "eigenformer/kernels/simd/packets.inl"
// uses Simd of the file before:
#include "eigenformer/kernels/simd/all.inl"
#undef EIGENFORMER_TARGET
#undef EIGENFORMER_TARGET_HAS_AVX2

#if EIGENFORMER_CHOOSES_AVX2
#define EIGENFORMER_TARGET avx2
#define EIGENFORMER_TARGET_HAS_AVX2 1
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
#undef EIGENFORMER_TARGET_HAS_AVX2
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Whether the processor has what the second set needs.
inline bool has_avx2() {
#if EIGENFORMER_CHOOSES_AVX2
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/// The functions that suit the processor best. With EIGENFORMER_COMPILED, which the CMake target
/// eigenformer::compiled sets, those for float and double are in a library, and the translation unit
/// doesn't compile them.
template <class T>
const Machine<T>& machine() {
#if EIGENFORMER_CHOOSES_AVX2
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (has_avx2()) return avx2::machine_of_target<T>;
  }
#endif
  return native::machine_of_target<T>;
}

#if defined(EIGENFORMER_COMPILED)
extern template const Machine<float>& machine<float>();
extern template const Machine<double>& machine<double>();
const CompressedMachine& compressed_machine();
#else
inline const CompressedMachine& compressed_machine() {
#if EIGENFORMER_CHOOSES_AVX2
  if (has_avx2()) return avx2::compressed_machine_of_target;
#endif
  return native::compressed_machine_of_target;
}
#endif

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
