// SPDX-License-Identifier: MIT FeedForward 768 x 3072 with GELU and GatedFeedForward 768 x 2048
// with SiLU, beside the same written with Eigen's products and array functions. Arguments: T,
// threads (Eigen: one).

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
constexpr Index hidden = 768;

template <class Layer>
void run(benchmark::State& state, const Layer& layer, double flops_per_token) {
  const Index T = state.range(0);
  const auto x = bench::random_tensor<2>({T, hidden}, 2);
  ef::Tensor<float, 2> y({T, hidden});
  bench::Threads threads(state.range(1));
  for (auto _ : state) {
    layer.forward(x, y, threads.workspace);
    benchmark::DoNotOptimize(y.data());
  }
  bench::count(state, flops_per_token * static_cast<double>(T),
               4.0 * static_cast<double>(ef::count_parameters(layer) + 2 * T * hidden));
}

ef::FeedForward<float> make_feed_forward() {
  ef::FeedForward<float> layer({.hidden_size = hidden, .intermediate_size = 3072});
  ef::init(layer, ef::Key{1});
  return layer;
}

void feed_forward(benchmark::State& state) { run(state, make_feed_forward(), 4.0 * hidden * 3072); }

void gated_feed_forward(benchmark::State& state) {
  ef::GatedFeedForward<float> layer({.hidden_size = hidden,
                                     .intermediate_size = 2048,
                                     .activation = ef::Activation::silu,
                                     .bias = false});
  ef::init(layer, ef::Key{1});
  run(state, layer, 6.0 * hidden * 2048);
}

/// The tanh form of GELU, since Eigen has no erf in its core.
void eigen_feed_forward(benchmark::State& state) {
  const auto layer = make_feed_forward();
  const Index T = state.range(0);
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
  bench::count(state, 4.0 * hidden * 3072 * static_cast<double>(T),
               4.0 * static_cast<double>(ef::count_parameters(layer) + 2 * T * hidden));
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int threads : {1, 2}) {
    for (int T : {1, 8, 32, 128, 512}) b->Args({T, threads});
  }
  b->ArgNames({"T", "threads"})->UseRealTime();
}

BENCHMARK(feed_forward)->Apply(sizes);
BENCHMARK(gated_feed_forward)->Apply(sizes);
BENCHMARK(eigen_feed_forward)
    ->ArgNames({"T"})
    ->UseRealTime()
    ->Arg(1)
    ->Arg(8)
    ->Arg(32)
    ->Arg(128)
    ->Arg(512);

}  // namespace
