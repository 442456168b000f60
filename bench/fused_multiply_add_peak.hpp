// SPDX-License-Identifier: MIT
#pragma once

// Fused multiply-adds from registers alone, with the instructions that the library chooses: what no
// product can exceed.

#include <benchmark/benchmark.h>

#include "eigenformer/eigenformer.hpp"

namespace bench {

/// The body of the loop: 12 chains, `steps` multiply-adds each.
#define EIGENFORMER_BENCH_CHAINS(Vector, set, fma)                   \
  Vector sum[12];                                                    \
  for (int i = 0; i < 12; ++i) sum[i] = set(static_cast<float>(i));  \
  Vector factor = set(0.999f), term = set(0.5f);                     \
  benchmark::DoNotOptimize(factor);                                  \
  benchmark::DoNotOptimize(term);                                    \
  for (int step = 0; step < steps; ++step) {                         \
    EIGENFORMER_UNROLL                                               \
    for (int i = 0; i < 12; ++i) sum[i] = fma(sum[i], factor, term); \
  }                                                                  \
  for (int i = 0; i < 12; ++i) benchmark::DoNotOptimize(sum[i]);

#if EIGENFORMER_CHOOSES_AT_RUN_TIME
__attribute__((target("avx2,fma"))) inline void multiply_add_avx2(int steps) {
  EIGENFORMER_BENCH_CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps)
}
__attribute__((target("avx512f"))) inline void multiply_add_avx512(int steps) {
  EIGENFORMER_BENCH_CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps)
}
#endif

inline void multiply_add_native(int steps) {
  using S = ef::kernels::native::Simd<float>;
  EIGENFORMER_BENCH_CHAINS(S::Vector, S::set, S::fma)
}

/// Runs `steps` steps and returns their floating-point operations.
inline double multiply_adds(int steps) {
  double width = static_cast<double>(ef::kernels::native_width<float>);
  switch (ef::kernels::instruction_set()) {
#if EIGENFORMER_CHOOSES_AT_RUN_TIME
    case ef::kernels::InstructionSet::avx512:
      multiply_add_avx512(steps);
      width = 16;
      break;
    case ef::kernels::InstructionSet::avx2:
      multiply_add_avx2(steps);
      width = 8;
      break;
#endif
    default:
      multiply_add_native(steps);
  }
  return 2.0 * 12 * steps * width;
}

}  // namespace bench
