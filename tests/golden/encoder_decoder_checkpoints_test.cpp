// SPDX-License-Identifier: MIT
#include "tests/golden/checkpoints.hpp"

namespace encoder_decoder_checkpoints_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

/// The sources, each `copies` times.
struct Sources {
  Tensor<std::int32_t, 2> ids;
  std::vector<std::int64_t> lengths;

  Sources(golden::Case& test, Index copies) {
    const auto once = test.input<std::int32_t, 2>("ids");
    const auto lengths_once = test.key_lengths();
    ids = Tensor<std::int32_t, 2>({once.dim(0) * copies, once.dim(1)});
    for (Index b = 0; b < ids.dim(0); ++b) {
      std::copy_n(&once(b / copies, 0), once.dim(1), &ids(b, 0));
      lengths.push_back(lengths_once[static_cast<std::size_t>(b / copies)]);
    }
  }
};

/// A batch that has only the start token: of T5 its padding, of BART the end of a text.
ef::TokenRows starts(const std::filesystem::path& directory, Index rows) {
  const auto start = ef::ConfigFile(directory / "config.json").get<Index>("decoder_start_token_id");
  return ef::TokenRows(static_cast<std::size_t>(rows), {static_cast<std::int32_t>(start)});
}

/// Continues `prompts` for sources that are read into a cache first.
template <class Model>
ef::Generated generate(const Model& model, const Sources& sources, const ef::TokenRows& prompts,
                       const ef::GenerationConfig& config) {
  auto cache = model.make_cache(sources.ids.dim(0), ef::generation_capacity(prompts, config));
  ef::Workspace workspace;
  model.start(sources.ids, sources.lengths, cache, workspace);
  return golden::generate_with_cache(model, cache, prompts, config);
}

/// The encoder's result, logits of one pass, and the best texts with and without cache.
template <class T, template <class> class Norm, template <class> class FeedForward>
void run(golden::Case& test) {
  const auto directory = golden::directory_of(test);
  const auto model = ef::load_transformer<T, Norm, FeedForward>(directory);
  const Sources sources(test, 1);
  const ef::Mask<T> mask{.key_lengths = sources.lengths};
  test.expect("encoder", model.encoder(sources.ids, mask));
  test.expect("logits", model(sources.ids, test.input<std::int32_t, 2>("decoder_ids"), mask));
  const auto greedy = golden::rows_of(test.exact_output<std::int32_t, 2>("greedy"));
  const auto count = static_cast<Index>(greedy.front().size());
  const ef::TokenRows prompts = starts(directory, sources.ids.dim(0));
  EXPECT_EQ(generate(model, sources, prompts, {.max_new_tokens = count}).ids, greedy);
  const ef::TokenRows alone = golden::rows_of(sources.ids, sources.lengths);
  EXPECT_EQ(golden::greedy_without_cache(prompts, count,
                                         [&](std::size_t b, const auto& text) {
                                           return model(golden::as_tensor(alone[b]), text);
                                         }),
            greedy);
}

template <class T>
void run_t5(golden::Case& test) {
  if (test.name() == "t5") return run<T, ef::RMSNorm, ef::FeedForward>(test);
  run<T, ef::RMSNorm, ef::GatedFeedForward>(test);
}

template <class T>
void run_beam_search(golden::Case& test) {
  const auto directory = golden::directory_of(test);
  const auto model = ef::load_transformer<T, ef::RMSNorm>(directory);
  const auto config = golden::beams_of(test);
  const Sources sources(test, config.num_beams);
  const auto prompts = starts(directory, sources.ids.dim(0) / config.num_beams);
  golden::expect_beams<T>(test, generate(model, sources, prompts, config));
}

template <class T>
void run_file() {
  golden::run_file("encoder_decoder_checkpoints", 5,
                   {{"T5ForConditionalGeneration", run_t5<T>},
                    {"BartForConditionalGeneration", run<T, ef::LayerNorm, ef::FeedForward>},
                    {"BeamSearch", run_beam_search<T>}});
}

TEST(GoldenEncoderDecoderCheckpoints, Float) { run_file<float>(); }
TEST(GoldenEncoderDecoderCheckpoints, Double) { run_file<double>(); }

}  // namespace encoder_decoder_checkpoints_test
