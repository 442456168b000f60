// SPDX-License-Identifier: MIT
//
// y (T, N) = x (T, K) W^T + b: Linear in each format beside Eigen's own product, on one thread.
// Arguments: layers taken in turn (with 32 the weights come from memory, as in a model), T, K, N.

#include <vector>

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

template <class Format>
auto make_layers(benchmark::State& state) {
  const auto layer = bench::in_format<Format>(
      ef::Linear<float>({.in_features = state.range(2), .out_features = state.range(3)}), 1);
  return std::vector(static_cast<std::size_t>(state.range(0)), layer);
}

template <class Layer>
void count_linear(benchmark::State& state, const Layer& layer) {
  const auto T = static_cast<double>(state.range(1)), K = static_cast<double>(state.range(2)),
             N = static_cast<double>(state.range(3));
  bench::count(state, 2 * T * K * N, bench::parameter_bytes(layer) + 4 * T * (K + N));
}

template <class Format>
void linear(benchmark::State& state) {
  const auto layers = make_layers<Format>(state);
  const auto x = bench::random_tensor<2>({state.range(1), state.range(2)}, 2);
  ef::Tensor<float, 2> y({state.range(1), state.range(3)});
  ef::Workspace workspace;
  std::size_t next = 0;
  for (auto _ : state) {
    layers[next++ % layers.size()].forward(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  count_linear(state, layers[0]);
}

void eigen_product(benchmark::State& state) {
  const auto layers = make_layers<float>(state);
  const auto x = bench::random_tensor<2>({state.range(1), state.range(2)}, 2);
  ef::Tensor<float, 2> y({state.range(1), state.range(3)});
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& layer = layers[next++ % layers.size()];
    auto result = y.matrix();
    result.noalias() = x.matrix() * layer.weight.matrix().transpose();
    result.rowwise() += layer.bias.vector().transpose();
    benchmark::DoNotOptimize(y.data());
  }
  count_linear(state, layers[0]);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"layers", "T", "K", "N"})
      ->ArgsProduct({{1, 32}, {1, 2, 4, 8, 16, 32, 128, 512}, {768}, {3072}})
      ->UseRealTime();
}

BENCHMARK(linear<float>)->Apply(shapes);
BENCHMARK(linear<ef::Packed<float>>)->Apply(shapes);
BENCHMARK(linear<ef::Packed<ef::bfloat16>>)->Apply(shapes);
BENCHMARK(linear<ef::Packed<ef::int8_weights>>)->Apply(shapes);
BENCHMARK(linear<ef::Packed<ef::int8>>)->Apply(shapes);
BENCHMARK(eigen_product)->Apply(shapes);

}  // namespace
