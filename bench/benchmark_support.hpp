// SPDX-License-Identifier: MIT
#pragma once

// What the benchmarks share: seeded inputs and the counters. GFLOP: operations a second, 2 for a
// multiply-add. GB: parameters and activations, each read or written once, a second. of_peak,
// of_memory: both as parts of what this machine reaches, which is measured in the same run.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "bench/fused_multiply_add_peak.hpp"

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

/// A pool of as many threads as `state.range(i)` says, and a workspace on it.
struct Threads {
  explicit Threads(Index concurrency = 1) : pool(concurrency), workspace(pool) {}
  ef::ThreadPool pool;
  ef::Workspace workspace;
};

/// The least time of five runs of f, in seconds.
template <class F>
double least_time(F&& f) {
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = (std::min)(least, time.count());
  }
  return least;
}

/// Operations a second that a thread reaches with multiply-adds on registers.
inline double multiply_add_rate() {
  double operations = 0;
  const double time = least_time([&] { operations = multiply_adds(1000000); });
  return operations / time;
}

/// Bytes a second at which the threads of a workspace together read memory that no cache holds.
inline double memory_read_rate(ef::Workspace& workspace) {
  static const ef::Tensor<float, 1> memory(
      {Index{1} << 28});  // 1 GiB, in huge pages as weights are
  const Index parts = 64, size = memory.size() / parts;
  const double time = least_time([&] {
    workspace.parallel_for(parts, [&](Index part, ef::Arena&) {
      benchmark::DoNotOptimize(ef::kernels::target<float>().sum(memory.data() + part * size, size));
    });
  });
  return static_cast<double>(memory.size()) * sizeof(float) / time;
}

/// What a program can't exceed with so many threads, measured when it is first asked for.
struct Limits {
  double operations, bytes;  // a second

  static const Limits& of(Index threads) {
    static std::map<Index, Limits> known;
    const auto place = known.find(threads);
    if (place != known.end()) return place->second;
    Threads own(threads);
    const Limits limits{static_cast<double>(threads) * multiply_add_rate(),
                        memory_read_rate(own.workspace)};
    return known.emplace(threads, limits).first->second;
  }
};

/// Sets the counters from the work of one iteration: GFLOP/s, GB/s, and both as parts of the limits.
inline void count(benchmark::State& state, double flops, double bytes, Index threads = 1) {
  using Counter = benchmark::Counter;
  const Limits& limits = Limits::of(threads);
  const auto set = [&](const char* name, double amount) {
    if (amount > 0) state.counters[name] = Counter(amount, Counter::kIsIterationInvariantRate);
  };
  set("GFLOP", 1e-9 * flops);
  set("GB", 1e-9 * bytes);
  set("of_peak", flops / limits.operations);
  set("of_memory", bytes / limits.bytes);
}

/// Bytes of a module's parameters.
template <class M>
double parameter_bytes(const M& module) {
  double bytes = 0;
  ef::for_each_parameter(module, [&](const std::string&, const auto& parameter) {
    if constexpr (requires { parameter.bytes(); }) {
      bytes += static_cast<double>(parameter.bytes());
    } else {
      bytes += 4.0 * static_cast<double>(parameter.size());
    }
  });
  return bytes;
}

/// A module with random weights in a format.
template <class Format, class M>
auto in_format(M module, std::uint64_t seed) {
  ef::init(module, ef::Key{seed});
  if constexpr (std::is_same_v<Format, float>) {
    return module;
  } else {
    return ef::pack<Format>(module);
  }
}

}  // namespace bench
