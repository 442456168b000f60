// SPDX-License-Identifier: MIT
#pragma once

// What the benchmarks share: seeded inputs and the two counters, GFLOP/s (2 for a multiply-add) and
// GB/s (parameters and activations read or written once).

#include <benchmark/benchmark.h>

#include <cstdint>

#include "eigenformer/eigenformer.hpp"

namespace bench {

using ef::Index;

template <int Rank>
ef::Tensor<float, Rank> random_tensor(const ef::Shape<Rank>& shape, std::uint64_t seed) {
  ef::Tensor<float, Rank> x(shape);
  const ef::Key key{seed};
  for (Index i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<float>(2.0 * key.uniform(static_cast<std::uint64_t>(i)) - 1.0);
  }
  return x;
}

/// Sets both counters from the work of one iteration.
inline void count(benchmark::State& state, double flops, double bytes) {
  using Counter = benchmark::Counter;
  state.counters["GFLOP"] = Counter(1e-9 * flops, Counter::kIsIterationInvariantRate);
  state.counters["GB"] = Counter(1e-9 * bytes, Counter::kIsIterationInvariantRate);
}

/// A pool of as many threads as `state.range(i)` says, and a workspace on it.
struct Threads {
  explicit Threads(Index concurrency) : pool(concurrency), workspace(pool) {}
  ef::ThreadPool pool;
  ef::Workspace workspace;
};

/// Bytes a second at which the threads of a workspace together read memory that no cache holds: the
/// best of five rounds.
inline double memory_read_rate(ef::Workspace& workspace) {
  static const std::vector<float> memory(std::size_t{1} << 26, 1.0f);  // 256 MiB
  const Index parts = 64, size = static_cast<Index>(memory.size()) / parts;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    workspace.parallel_for(parts, [&](Index part, ef::Arena&) {
      benchmark::DoNotOptimize(
          ef::kernels::machine<float>().sum(memory.data() + part * size, size));
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = (std::max)(best, static_cast<double>(memory.size() * sizeof(float)) / time.count());
  }
  return best;
}

}  // namespace bench
