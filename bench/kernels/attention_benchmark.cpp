// SPDX-License-Identifier: MIT
//
// Attention over 12 heads of 64, without projections, beside the same with Eigen's products and the
// scores stored whole. Arguments: T, causal, threads. GFLOP/s counts all T x T scores, causal or
// not.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;
constexpr Index heads = 12, head_size = 64;

void count_attention(benchmark::State& state, Index threads) {
  const auto T = static_cast<double>(state.range(0));
  const auto width = static_cast<double>(heads * head_size);
  bench::count(state, 4 * T * T * width, 4 * 4 * T * width, threads);
}

void attention(benchmark::State& state) {
  const Index T = state.range(0);
  const auto q = bench::random_tensor<3>({1, T, heads * head_size}, 1);
  const auto k = bench::random_tensor<3>(q.shape(), 2);
  const auto v = bench::random_tensor<3>(q.shape(), 3);
  ef::Tensor<float, 3> y(q.shape());
  bench::Threads threads(state.range(2));
  using Input = ef::kernels::Heads<const float>;
  const ef::kernels::Attention<float> a{
      .batch = 1,
      .queries = T,
      .keys = T,
      .heads = heads,
      .key_value_heads = heads,
      .head_size = head_size,
      .value_size = head_size,
      .q = Input::token_major(q.data(), T, heads, head_size),
      .y = ef::kernels::Heads<float>::token_major(y.data(), T, heads, head_size),
      .scale = 0.125f};
  for (auto _ : state) {
    ef::kernels::attend<float>(a,
                               {.k = Input::token_major(k.data(), T, heads, head_size),
                                .v = Input::token_major(v.data(), T, heads, head_size)},
                               {.causal = state.range(1) == 1}, threads.workspace);
    benchmark::DoNotOptimize(y.data());
  }
  count_attention(state, state.range(2));
}

void eigen_attention(benchmark::State& state) {
  const Index T = state.range(0);
  const auto q = bench::random_tensor<3>({1, T, heads * head_size}, 1);
  const auto k = bench::random_tensor<3>(q.shape(), 2);
  const auto v = bench::random_tensor<3>(q.shape(), 3);
  ef::Tensor<float, 3> y(q.shape());
  ef::RowMajorMatrix<float> scores(T, T);
  for (auto _ : state) {
    for (Index h = 0; h < heads; ++h) {
      const auto block = [&](const auto& x) {
        return x.matrix().middleCols(h * head_size, head_size);
      };
      scores.noalias() = 0.125f * (block(q) * block(k).transpose());
      scores = (scores.colwise() - scores.rowwise().maxCoeff()).array().exp();
      scores.array().colwise() /= scores.rowwise().sum().array().eval();
      y.matrix().middleCols(h * head_size, head_size).noalias() = scores * block(v);
    }
    benchmark::DoNotOptimize(y.data());
  }
  count_attention(state, 1);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int threads : {1, 2}) {
    for (int causal : {0, 1}) {
      for (int T : {16, 128, 512, 2048}) b->Args({T, causal, threads});
    }
  }
  b->ArgNames({"T", "causal", "threads"})->UseRealTime();
}

BENCHMARK(attention)->Apply(sizes);
BENCHMARK(eigen_attention)->ArgNames({"T"})->UseRealTime()->Arg(16)->Arg(128)->Arg(512)->Arg(2048);

/// Causal self-attention with its projections, 8 heads of 64. The counters are the scratch memory that
/// it takes besides x and y, in MB and in bytes a token.
void long_self_attention(benchmark::State& state) {
  const Index T = state.range(0), hidden = 512;
  ef::MultiHeadAttention<float> layer({.hidden_size = hidden, .num_attention_heads = 8});
  ef::init(layer, ef::Key{1});
  const auto x = bench::random_tensor<3>({1, T, hidden}, 2);
  ef::Tensor<float, 3> y(x.shape());
  bench::Threads threads(state.range(1));
  for (auto _ : state) {
    layer.forward(x, {.causal = true}, y, threads.workspace);
    benchmark::DoNotOptimize(y.data());
  }
  const auto bytes = static_cast<double>(threads.workspace.capacity());
  state.counters["scratch_MB"] = 1e-6 * bytes;
  state.counters["bytes_per_token"] = bytes / static_cast<double>(T);
}
BENCHMARK(long_self_attention)
    ->ArgNames({"T", "threads"})
    ->ArgsProduct({{4096, 8192, 16384}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
