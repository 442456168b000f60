// SPDX-License-Identifier: MIT
// A decoder of GPT-2's size (124 M parameters, random): reading a prompt, and writing one token
// after `past` tokens. items_per_second are tokens; of_memory_read is the share of what reading
// memory reaches with as many threads, taken in the same run.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

const ef::TransformerDecoder<float>& model() {
  static const auto made = [] {
    ef::TransformerDecoder<float> decoder({.vocab_size = 50257,
                                           .hidden_size = 768,
                                           .num_hidden_layers = 12,
                                           .num_attention_heads = 12,
                                           .intermediate_size = 3072,
                                           .activation = ef::Activation::gelu_tanh});
    ef::for_each_parameter(decoder, [](const std::string& name, auto& parameter) {
      const ef::Key key(ef::internal::hash_of(name));
      for (Index i = 0; i < parameter.size(); ++i) {
        const auto bits = static_cast<float>(key.bits(static_cast<std::uint64_t>(i)));
        parameter.data()[i] = 0.04f * (bits * 0x1p-32f - 0.5f);
      }
    });
    return decoder;
  }();
  return made;
}

ef::Tensor<std::int32_t, 2> prompt(Index tokens) {
  ef::Tensor<std::int32_t, 2> ids({1, tokens});
  for (Index t = 0; t < tokens; ++t) ids(0, t) = static_cast<std::int32_t>(997 * t % 50257);
  return ids;
}

/// Bytes of the weights that a token needs: all but the position table.
double weight_bytes() {
  return 4.0 * static_cast<double>(ef::count_parameters(model()) -
                                   model().embeddings.position->weight.size());
}

void prefill(benchmark::State& state) {
  const Index T = state.range(0);
  bench::Threads threads(state.range(1));
  const auto ids = prompt(T);
  auto cache = model().make_cache(1, T);
  ef::Tensor<float, 2> logits({1, 50257});
  for (auto _ : state) {
    cache.clear();
    model().forward_last(ids, {}, cache, logits, threads.workspace);
    benchmark::DoNotOptimize(logits.data());
  }
  const auto tokens = static_cast<double>(T);
  state.SetItemsProcessed(state.iterations() * T);
  bench::count(state, tokens * 12 * (24 * 768.0 * 768.0 + 2 * tokens * 768) + 2 * 768.0 * 50257,
               weight_bytes());
}
BENCHMARK(prefill)
    ->ArgNames({"T", "threads"})
    ->ArgsProduct({{32, 128, 512}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const Index past = state.range(0);
  bench::Threads threads(state.range(1));
  auto cache = model().make_cache(1, past + 1);
  ef::Tensor<float, 2> logits({1, 50257});
  model().forward_last(prompt(past), {}, cache, logits, threads.workspace);
  const auto next = prompt(1);
  const double readable = bench::memory_read_rate(threads.workspace);
  for (auto _ : state) {
    model().forward_last(next, {}, cache, logits, threads.workspace);
    benchmark::DoNotOptimize(logits.data());
    cache.truncate(0, past);
  }
  const double bytes = weight_bytes() + 12 * 2 * 768 * 4.0 * static_cast<double>(past);
  state.SetItemsProcessed(state.iterations());
  bench::count(state, 0, bytes);
  state.counters["of_memory_read"] = benchmark::Counter(
      bytes * static_cast<double>(state.iterations()) / readable, benchmark::Counter::kIsRate);
}
BENCHMARK(decode)
    ->ArgNames({"past", "threads"})
    ->ArgsProduct({{16, 1000}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
