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

}  // namespace bench
