// SPDX-License-Identifier: MIT
#include "tests/golden/checkpoints.hpp"

namespace decoder_checkpoints_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

template <class T>
using Llama = ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>;

/// Logits of one pass, and the best texts with and without cache.
template <class Model>
void run(golden::Case& test, const Model& model) {
  using T = typename Model::Scalar;
  const auto ids = test.input<std::int32_t, 2>("ids");
  std::vector<std::int64_t> lengths;
  if (test.has_mask("key_lengths")) lengths = test.key_lengths();
  ef::Mask<T> mask;
  if (!lengths.empty()) mask.key_lengths = lengths;
  test.expect("logits", model(ids, {.mask = mask}));
  if (!test.has_output("greedy")) return;
  const ef::TokenRows prompts = golden::rows_of(ids, lengths);
  const auto greedy = golden::rows_of(test.exact_output<std::int32_t, 2>("greedy"));
  const auto count = static_cast<Index>(greedy.front().size());
  const ef::GenerationConfig config{.max_new_tokens = count};
  auto cache = model.make_cache(ids.dim(0), ef::generation_capacity(prompts, config));
  EXPECT_EQ(golden::generate_with_cache(model, cache, prompts, config).ids, greedy);
  EXPECT_EQ(golden::greedy_without_cache(
                prompts, count, [&](std::size_t, const auto& text) { return model(text); }),
            greedy);
}

template <class T>
void run_gpt2(golden::Case& test) {
  run(test, ef::load_decoder<T>(golden::directory_of(test)));
}

/// With dynamic scaling for the sequence at hand, as transformers.
template <class T>
void run_llama(golden::Case& test) {
  ef::PretrainedFiles files(golden::directory_of(test));
  auto config = ef::decoder_config_from(files.config);
  config.attention_positions.rotary.rope_scaling.length = test.input<std::int32_t, 2>("ids").dim(1);
  run(test, ef::load_decoder<T, ef::RMSNorm, ef::GatedFeedForward>(files, config));
}

template <class T>
void run_beam_search(golden::Case& test) {
  const auto model = ef::load_decoder<T>(golden::directory_of(test));
  const auto config = golden::beams_of(test);
  const auto prompts = golden::rows_of(test.input<std::int32_t, 2>("ids"), test.key_lengths());
  auto cache = model.make_cache(static_cast<Index>(prompts.size()) * config.num_beams,
                                ef::generation_capacity(prompts, config));
  golden::expect_beams<T>(test, golden::generate_with_cache(model, cache, prompts, config));
}

template <class T>
void run_file() {
  golden::run_file("decoder_checkpoints", 12,
                   {{"GPT2LMHeadModel", run_gpt2<T>},
                    {"LlamaForCausalLM", run_llama<T>},
                    {"MistralForCausalLM", run_llama<T>},
                    {"Qwen2ForCausalLM", run_llama<T>},
                    {"Qwen3ForCausalLM", run_llama<T>},
                    {"BeamSearch", run_beam_search<T>}});
}

TEST(GoldenDecoderCheckpoints, Float) { run_file<float>(); }
TEST(GoldenDecoderCheckpoints, Double) { run_file<double>(); }

}  // namespace decoder_checkpoints_test
