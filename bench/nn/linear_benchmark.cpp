// SPDX-License-Identifier: MIT
//
// y (T, N) = x (T, K) W^T + b: Linear in each format beside Eigen's own product, on one thread.
// Arguments: T, K, N. "streamed" takes many layers in turn, so that the weights come from memory, as
// in a model.

#include <vector>

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

template <class Format>
auto make_layers(benchmark::State& state, int count) {
  using Layer = decltype(bench::in_format<Format>(ef::Linear<float>(ef::LinearConfig{}), 1));
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    layers.push_back(bench::in_format<Format>(
        ef::Linear<float>({.in_features = state.range(1), .out_features = state.range(2)}), 1));
  }
  return layers;
}

template <class Layer>
void count_linear(benchmark::State& state, const Layer& layer) {
  const auto T = static_cast<double>(state.range(0)), K = static_cast<double>(state.range(1)),
             N = static_cast<double>(state.range(2));
  bench::count(state, 2 * T * K * N, bench::parameter_bytes(layer) + 4 * T * (K + N));
}

template <class Format>
void linear(benchmark::State& state, int layer_count) {
  const auto layers = make_layers<Format>(state, layer_count);
  const auto x = bench::random_tensor<2>({state.range(0), state.range(1)}, 2);
  ef::Tensor<float, 2> y({state.range(0), state.range(2)});
  ef::Workspace workspace;
  std::size_t next = 0;
  for (auto _ : state) {
    layers[next++ % layers.size()].forward(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  count_linear(state, layers[0]);
}

void eigen_product(benchmark::State& state, int layer_count) {
  const auto layers = make_layers<float>(state, layer_count);
  const auto x = bench::random_tensor<2>({state.range(0), state.range(1)}, 2);
  ef::Tensor<float, 2> y({state.range(0), state.range(2)});
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
  for (int T : {1, 2, 4, 8, 16, 32, 128, 512}) b->Args({T, 768, 3072});
  b->Args({128, 3072, 768});
  b->ArgNames({"T", "K", "N"})->UseRealTime();
}

#define EIGENFORMER_BENCH_LINEAR(place, layers)                                                 \
  BENCHMARK_CAPTURE(linear<float>, place##_plain, layers)->Apply(shapes);                       \
  BENCHMARK_CAPTURE(linear<ef::Packed<float>>, place##_packed, layers)->Apply(shapes);          \
  BENCHMARK_CAPTURE(linear<ef::Packed<ef::bfloat16>>, place##_bfloat16, layers)->Apply(shapes); \
  BENCHMARK_CAPTURE(linear<ef::Packed<ef::int8_weights>>, place##_int8_weights, layers)         \
      ->Apply(shapes);                                                                          \
  BENCHMARK_CAPTURE(linear<ef::Packed<ef::int8>>, place##_int8, layers)->Apply(shapes);         \
  BENCHMARK_CAPTURE(eigen_product, place##_eigen, layers)->Apply(shapes)

EIGENFORMER_BENCH_LINEAR(cached, 1);
EIGENFORMER_BENCH_LINEAR(streamed, 32);

}  // namespace
