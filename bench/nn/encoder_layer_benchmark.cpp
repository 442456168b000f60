// SPDX-License-Identifier: MIT
//
// Encoder layers: BERT-base's (768, 12 heads, 3072) and MiniLM's (384, 12 heads, 1536), plain and
// packed. Arguments: hidden size, T, threads.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

template <class Format>
void encoder_layer(benchmark::State& state) {
  const Index hidden = state.range(0), T = state.range(1);
  const auto layer = bench::in_format<Format>(
      ef::EncoderLayer<float>(
          {.hidden_size = hidden, .num_attention_heads = 12, .intermediate_size = 4 * hidden}),
      1);
  const auto x = bench::random_tensor<3>({1, T, hidden}, 2);
  ef::Tensor<float, 3> y(x.shape());
  bench::Threads threads(state.range(2));
  for (auto _ : state) {
    layer.forward(x, {}, y, threads.workspace);
    benchmark::DoNotOptimize(y.data());
  }
  const auto tokens = static_cast<double>(T), width = static_cast<double>(hidden);
  bench::count(state, 24 * tokens * width * width + 4 * tokens * tokens * width,
               bench::parameter_bytes(layer) + 8 * tokens * width, state.range(2));
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int hidden : {384, 768}) {
    for (int threads : {1, 2}) {
      for (int T : {8, 32, 128, 512}) b->Args({hidden, T, threads});
    }
  }
  b->ArgNames({"C", "T", "threads"})->UseRealTime();
}
BENCHMARK(encoder_layer<float>)->Apply(sizes);
BENCHMARK(encoder_layer<ef::Packed<float>>)->Apply(sizes);

}  // namespace
