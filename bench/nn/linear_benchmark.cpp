// SPDX-License-Identifier: MIT y (T, N) = x (T, K) W^T + b: Eigenformer's Linear beside Eigen's own
// product, on one thread. Arguments: T, K, N. "streamed" takes eight layers in turn, so that the
// weights come from memory, as in a model.

#include <vector>

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
using Matrix = ef::RowMajorMatrix<float>;

void count_linear(benchmark::State& state) {
  const auto T = static_cast<double>(state.range(0)), K = static_cast<double>(state.range(1)),
             N = static_cast<double>(state.range(2));
  bench::count(state, 2 * T * K * N, 4 * (K * N + T * (K + N)));
}

std::vector<ef::Linear<float>> make_layers(benchmark::State& state, std::size_t count) {
  std::vector<ef::Linear<float>> layers(
      count, ef::Linear<float>({.in_features = state.range(1), .out_features = state.range(2)}));
  for (auto& layer : layers) ef::init(layer, ef::Key{1});
  return layers;
}

void linear(benchmark::State& state, std::size_t layer_count) {
  const auto layers = make_layers(state, layer_count);
  const auto x = bench::random_tensor<2>({state.range(0), state.range(1)}, 2);
  ef::Tensor<float, 2> y({state.range(0), state.range(2)});
  ef::Workspace workspace;
  std::size_t next = 0;
  for (auto _ : state) {
    layers[next++ % layer_count].forward(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  count_linear(state);
}

void eigen_product(benchmark::State& state, std::size_t layer_count) {
  const auto layers = make_layers(state, layer_count);
  const auto x = bench::random_tensor<2>({state.range(0), state.range(1)}, 2);
  ef::Tensor<float, 2> y({state.range(0), state.range(2)});
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& layer = layers[next++ % layer_count];
    auto result = y.matrix();
    result.noalias() = x.matrix() * layer.weight.matrix().transpose();
    result.rowwise() += layer.bias.vector().transpose();
    benchmark::DoNotOptimize(y.data());
  }
  count_linear(state);
}

void shapes(benchmark::internal::Benchmark* b) {
  for (int T : {1, 2, 4, 8, 32, 128, 512}) {
    b->Args({T, 768, 3072})->Args({T, 3072, 768});
  }
  b->ArgNames({"T", "K", "N"})->UseRealTime();
}

BENCHMARK_CAPTURE(linear, in_cache, 1)->Apply(shapes);
BENCHMARK_CAPTURE(eigen_product, in_cache, 1)->Apply(shapes);
BENCHMARK_CAPTURE(linear, streamed, 8)->Apply(shapes);
BENCHMARK_CAPTURE(eigen_product, streamed, 8)->Apply(shapes);

}  // namespace
