// SPDX-License-Identifier: MIT What this machine can do, to hold the other figures against: fused
// multiply-adds from registers, and reading memory that fits in no cache.

#include <vector>

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
using S = ef::kernels::Simd<float>;

void multiply_add_peak(benchmark::State& state) {
  constexpr int chains = 12;
  S::Vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = S::set(static_cast<float>(i));
  S::Vector factor = S::set(0.999f), term = S::set(0.5f);
  benchmark::DoNotOptimize(factor);
  benchmark::DoNotOptimize(term);
  constexpr int steps = 1000;
  for (auto _ : state) {
    for (int step = 0; step < steps; ++step) {
      EIGENFORMER_UNROLL
      for (int i = 0; i < chains; ++i) sum[i] = S::fma(sum[i], factor, term);
    }
    for (int i = 0; i < chains; ++i) benchmark::DoNotOptimize(sum[i]);
  }
  bench::count(state, 2.0 * steps * chains * static_cast<double>(S::width), 0);
}
BENCHMARK(multiply_add_peak);

void memory_read(benchmark::State& state) {
  const std::vector<float> memory(std::size_t{1} << 26, 1.0f);  // 256 MiB
  const Index size = static_cast<Index>(memory.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(ef::kernels::row_sum<float>(
        size, [&](Index i, Index part) { return S::load_partial(memory.data() + i, part); }));
  }
  bench::count(state, 0, static_cast<double>(memory.size() * sizeof(float)));
}
BENCHMARK(memory_read)->Unit(benchmark::kMillisecond);

}  // namespace
