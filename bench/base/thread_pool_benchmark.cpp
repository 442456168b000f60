// SPDX-License-Identifier: MIT
//
// Fork and join: a job of one empty task a thread, one job right after the other, and after pauses in
// which the workers fall asleep. Argument: threads.

#include <thread>

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

void fork_and_join(benchmark::State& state) {
  ef::ThreadPool pool(state.range(0));
  std::vector<Index> done(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    pool.parallel_for(state.range(0), [&](Index i) { ++done[static_cast<std::size_t>(i)]; });
  }
  benchmark::DoNotOptimize(done.data());
}
BENCHMARK(fork_and_join)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void fork_and_join_after_a_pause(benchmark::State& state) {
  ef::ThreadPool pool(state.range(0));
  std::vector<Index> done(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(state.range(0), [&](Index i) { ++done[static_cast<std::size_t>(i)]; });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(time.count());
  }
  benchmark::DoNotOptimize(done.data());
}
BENCHMARK(fork_and_join_after_a_pause)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Iterations(500);

}  // namespace
