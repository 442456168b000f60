// SPDX-License-Identifier: MIT What this machine can do, to hold the other figures against: fused
// multiply-adds from registers, and reading memory that fits in no cache.

#include <vector>

#include "bench/benchmark_support.hpp"
#include "bench/fused_multiply_add_peak.hpp"

namespace {

using bench::Index;

void multiply_add_peak(benchmark::State& state) {
  double operations = 0;
  for (auto _ : state) operations = bench::multiply_adds(1000);
  bench::count(state, operations, 0);
}
BENCHMARK(multiply_add_peak);

void memory_read(benchmark::State& state) {
  const std::vector<float> memory(std::size_t{1} << 26, 1.0f);  // 256 MiB
  const Index size = static_cast<Index>(memory.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(ef::kernels::machine<float>().sum(memory.data(), size));
  }
  bench::count(state, 0, static_cast<double>(memory.size() * sizeof(float)));
}
BENCHMARK(memory_read)->Unit(benchmark::kMillisecond);

}  // namespace
