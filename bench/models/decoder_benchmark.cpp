// SPDX-License-Identifier: MIT
//
// A decoder of GPT-2's size (124 M parameters, random) in each format: reading a prompt of T tokens,
// and writing one token after `past` tokens. items_per_second are tokens.

#include "bench/benchmark_support.hpp"

namespace {

using bench::Index;

ef::TransformerDecoder<float> initialized() {
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
}

template <class Format>
const auto& model() {
  if constexpr (std::is_same_v<Format, float>) {
    static const auto made = initialized();
    return made;
  } else {
    static const auto made = ef::pack<Format>(initialized());
    return made;
  }
}

ef::Tensor<std::int32_t, 2> prompt(Index tokens) {
  ef::Tensor<std::int32_t, 2> ids({1, tokens});
  for (Index t = 0; t < tokens; ++t) ids(0, t) = static_cast<std::int32_t>(997 * t % 50257);
  return ids;
}

/// Bytes of the weights that a token needs: all but the position table.
template <class M>
double weight_bytes(const M& decoder) {
  return bench::parameter_bytes(decoder) - bench::parameter_bytes(*decoder.embeddings.position);
}

template <class Format>
void prefill(benchmark::State& state) {
  const auto& decoder = model<Format>();
  const Index T = state.range(0);
  bench::Threads threads(state.range(1));
  const auto ids = prompt(T);
  auto cache = decoder.make_cache(1, T);
  ef::Tensor<float, 2> logits({1, 50257});
  for (auto _ : state) {
    cache.clear();
    decoder.forward_last(ids, cache, {}, logits, threads.workspace);
    benchmark::DoNotOptimize(logits.data());
  }
  const auto tokens = static_cast<double>(T);
  state.SetItemsProcessed(state.iterations() * T);
  bench::count(state, tokens * 12 * (24 * 768.0 * 768.0 + 2 * tokens * 768) + 2 * 768.0 * 50257,
               weight_bytes(decoder), state.range(1));
}

template <class Format>
void decode(benchmark::State& state) {
  const auto& decoder = model<Format>();
  const Index past = state.range(0);
  bench::Threads threads(state.range(1));
  auto cache = decoder.make_cache(1, past + 1);
  ef::Tensor<float, 2> logits({1, 50257});
  decoder.forward_last(prompt(past), cache, {}, logits, threads.workspace);
  const auto next = prompt(1);
  for (auto _ : state) {
    decoder.forward_last(next, cache, {}, logits, threads.workspace);
    benchmark::DoNotOptimize(logits.data());
    cache.truncate(0, past);
  }
  state.SetItemsProcessed(state.iterations());
  const double past_bytes = 12 * 2 * 768 * 4.0 * static_cast<double>(past);
  bench::count(state, 0, weight_bytes(decoder) + past_bytes, state.range(1));
}

#define EIGENFORMER_BENCH_DECODER(Format)     \
  BENCHMARK(prefill<Format>)                  \
      ->ArgNames({"T", "threads"})            \
      ->ArgsProduct({{32, 128, 512}, {1, 2}}) \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMillisecond);        \
  BENCHMARK(decode<Format>)                   \
      ->ArgNames({"past", "threads"})         \
      ->ArgsProduct({{16, 1000}, {1, 2}})     \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMillisecond)

EIGENFORMER_BENCH_DECODER(float);
EIGENFORMER_BENCH_DECODER(ef::Packed<float>);
EIGENFORMER_BENCH_DECODER(ef::Packed<ef::bfloat16>);
EIGENFORMER_BENCH_DECODER(ef::Packed<ef::int8>);

}  // namespace
