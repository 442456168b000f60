// SPDX-License-Identifier: MIT
//
// FeedForward 768 x 3072 with GELU and GatedFeedForward 768 x 2048 with SiLU in each format, beside
// the first written with Eigen's products and array functions. Arguments: layers taken in turn (with
// 16 the weights come from memory), T, threads (Eigen: one of both).

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
constexpr Index hidden = 768;

ef::FeedForward<float> plain() {
  return ef::FeedForward<float>({.hidden_size = hidden, .intermediate_size = 3072});
}

ef::GatedFeedForward<float> gated() {
  return ef::GatedFeedForward<float>({.hidden_size = hidden,
                                      .intermediate_size = 2048,
                                      .activation = ef::Activation::silu,
                                      .bias = false});
}

template <class Layer>
void count_layer(benchmark::State& state, const Layer& layer, Index threads) {
  const Index T = state.range(1);
  bench::count(state, 2.0 * static_cast<double>(T * ef::count_parameters(layer)),
               bench::parameter_bytes(layer) + 4.0 * static_cast<double>(2 * T * hidden), threads);
}

template <class Format, class Make>
void run(benchmark::State& state, Make&& make) {
  const std::vector layers(static_cast<std::size_t>(state.range(0)),
                           bench::in_format<Format>(make(), 1));
  const auto x = bench::random_tensor<2>({state.range(1), hidden}, 2);
  ef::Tensor<float, 2> y(x.shape());
  bench::Threads threads(state.range(2));
  std::size_t next = 0;
  for (auto _ : state) {
    layers[next++ % layers.size()].forward(x, y, threads.workspace);
    benchmark::DoNotOptimize(y.data());
  }
  count_layer(state, layers[0], state.range(2));
}

template <class Format>
void feed_forward(benchmark::State& state) {
  run<Format>(state, plain);
}
template <class Format>
void gated_feed_forward(benchmark::State& state) {
  run<Format>(state, gated);
}

/// The tanh form of GELU, since Eigen has no erf in its core.
void eigen_feed_forward(benchmark::State& state) {
  const auto layer = bench::in_format<float>(plain(), 1);
  const Index T = state.range(1);
  const auto x = bench::random_tensor<2>({T, hidden}, 2);
  ef::Tensor<float, 2> y({T, hidden});
  ef::RowMajorMatrix<float> h(T, 3072);
  for (auto _ : state) {
    h.noalias() = x.matrix() * layer.linear_1.weight.matrix().transpose();
    h.rowwise() += layer.linear_1.bias.vector().transpose();
    h = h.array() * 0.5f *
        (1.0f + (0.7978845608f * h.array() * (1.0f + 0.044715f * h.array().square())).tanh());
    auto result = y.matrix();
    result.noalias() = h * layer.linear_2.weight.matrix().transpose();
    result.rowwise() += layer.linear_2.bias.vector().transpose();
    benchmark::DoNotOptimize(y.data());
  }
  count_layer(state, layer, 1);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"layers", "T", "threads"})
      ->ArgsProduct({{1, 16}, {1, 2, 8, 32, 128, 512}, {1, 2}})
      ->UseRealTime();
}

BENCHMARK(feed_forward<float>)->Apply(sizes);
BENCHMARK(feed_forward<ef::Packed<float>>)->Apply(sizes);
BENCHMARK(feed_forward<ef::Packed<ef::bfloat16>>)->Apply(sizes);
BENCHMARK(feed_forward<ef::Packed<ef::int8>>)->Apply(sizes);
BENCHMARK(gated_feed_forward<float>)->Apply(sizes);
BENCHMARK(gated_feed_forward<ef::Packed<float>>)->Apply(sizes);
BENCHMARK(gated_feed_forward<ef::Packed<ef::int8>>)->Apply(sizes);
BENCHMARK(eigen_feed_forward)
    ->ArgNames({"layers", "T"})
    ->ArgsProduct({{1}, {1, 2, 8, 32, 128, 512}})
    ->UseRealTime();

}  // namespace
