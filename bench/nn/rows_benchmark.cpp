// SPDX-License-Identifier: MIT
//
// Blocks that do little with each number: norms, activations, softmax, embeddings, pooling. Over 64
// rows of 768, which the caches hold, and over 65,536, which come from memory. Argument: rows.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
constexpr Index width = 768;

/// Runs f(x, y, workspace) over rows; counts `moved` numbers for each element.
template <class F>
void run(benchmark::State& state, double moved, F&& f) {
  const auto x = bench::random_tensor<2>({state.range(0), width}, 1);
  ef::Tensor<float, 2> y(x.shape());
  ef::Workspace workspace;
  for (auto _ : state) {
    f(x, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  bench::count(state, 0, 4 * moved * static_cast<double>(x.size()));
}

template <class Norm>
void norm(benchmark::State& state) {
  Norm layer({.hidden_size = width});
  ef::init(layer, ef::Key{1});
  run(state, 2, [&](const auto& x, auto& y, auto& workspace) { layer.forward(x, y, workspace); });
}

void activation(benchmark::State& state, ef::Activation kind) {
  run(state, 2, [&](const auto& x, auto& y, auto&) {
    ef::kernels::target<float>().activate(kind, x.data(), y.data(), x.size());
  });
}

void softmax(benchmark::State& state) {
  run(state, 2, [&](const auto& x, auto& y, auto& workspace) {
    ef::kernels::softmax<float>(x, y.view(), workspace);
  });
}

void embeddings(benchmark::State& state) {
  const Index tokens = state.range(0);
  ef::Embeddings<float> layer(
      {.vocab_size = 30522, .hidden_size = width, .max_position_embeddings = tokens});
  ef::init(layer, ef::Key{1});
  ef::Tensor<std::int32_t, 2> ids({1, tokens});
  for (Index i = 0; i < tokens; ++i) ids(0, i) = static_cast<std::int32_t>(997 * i % 30522);
  ef::Tensor<float, 3> y({1, tokens, width});
  ef::Workspace workspace;
  for (auto _ : state) {
    layer.forward(ids, {}, y, workspace);
    benchmark::DoNotOptimize(y.data());
  }
  bench::count(state, 0, 4.0 * 3 * static_cast<double>(y.size()));
}

void pooling(benchmark::State& state) {
  const auto x = bench::random_tensor<3>({state.range(0) / 64, 64, width}, 1);
  const std::vector<Index> lengths(static_cast<std::size_t>(x.dim(0)), 64);
  for (auto _ : state) benchmark::DoNotOptimize(ef::mean_pooling(x, lengths));
  bench::count(state, 0, 4.0 * static_cast<double>(x.size()));
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgName("rows")->Arg(64)->Arg(65536)->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(norm<ef::LayerNorm<float>>)->Apply(sizes);
BENCHMARK(norm<ef::RMSNorm<float>>)->Apply(sizes);
BENCHMARK_CAPTURE(activation, gelu, ef::Activation::gelu)->Apply(sizes);
BENCHMARK_CAPTURE(activation, gelu_tanh, ef::Activation::gelu_tanh)->Apply(sizes);
BENCHMARK_CAPTURE(activation, silu, ef::Activation::silu)->Apply(sizes);
BENCHMARK_CAPTURE(activation, relu, ef::Activation::relu)->Apply(sizes);
BENCHMARK(softmax)->Apply(sizes);
BENCHMARK(embeddings)->Apply(sizes);
BENCHMARK(pooling)->Apply(sizes);

}  // namespace
