// SPDX-License-Identifier: MIT
//
// What this machine can do, to hold the other figures against: fused multiply-adds from registers,
// and reading memory that fits in no cache. Argument: threads.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

void multiply_add_peak(benchmark::State& state) {
  double operations = 0;
  for (auto _ : state) operations = bench::multiply_adds(1000);
  bench::count(state, operations, 0);
}
BENCHMARK(multiply_add_peak);

void memory_read(benchmark::State& state) {
  bench::Threads threads(state.range(0));
  for (auto _ : state) state.counters["GB"] = 1e-9 * bench::memory_read_rate(threads.workspace);
}
BENCHMARK(memory_read)->ArgName("threads")->Arg(1)->Arg(2)->Iterations(1)->UseRealTime();

}  // namespace
