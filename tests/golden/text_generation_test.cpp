// SPDX-License-Identifier: MIT
#include "eigenformer/models/generation.hpp"
#include "tests/golden/golden.hpp"
#include "tests/reference/scripted_model.hpp"

namespace text_generation_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

struct TextGeneration {
  ef::GenerationConfig config;
  Index stops = 0;  // how many of the stop ids
};
void read_fields(golden::Fields& read, TextGeneration& c) {
  read("stops", c.stops);
  read("max_new_tokens", c.config.max_new_tokens);
  read("min_new_tokens", c.config.min_new_tokens);
  read("repetition_penalty", c.config.repetition_penalty);
  if (read("num_beams", c.config.num_beams)) c.config.num_return_sequences = c.config.num_beams;
  read("length_penalty", c.config.length_penalty);
  read("early_stopping", c.config.early_stopping);
}

/// Texts from a model of three tables.
template <class T>
void run_text_generation(golden::Case& test) {
  auto [config, stops] = test.config<TextGeneration>();
  const auto last = test.input<double, 2>("last"), before = test.input<double, 2>("before"),
             place = test.input<double, 2>("place");
  const auto ids = test.input<std::int32_t, 2>("ids");
  const auto lengths = test.input<std::int32_t, 1>("lengths");
  const auto stop_ids = test.input<std::int32_t, 1>("stop_ids");
  config.stop_ids.assign(stop_ids.data(), stop_ids.data() + stops);
  ef::TokenRows prompts;
  for (Index b = 0; b < ids.dim(0); ++b) prompts.emplace_back(&ids(b, 0), &ids(b, 0) + lengths(b));

  const Index size = last.dim(1);
  const auto script = [&](const reference::Tokens& tokens) {
    std::vector<double> logits;
    for (Index j = 0; j < size; ++j) {
      double x = last(tokens.back(), j) + place(static_cast<Index>(tokens.size()) - 1, j);
      if (tokens.size() > 1) x += before(tokens[tokens.size() - 2], j);
      logits.push_back(x);
    }
    return logits;
  };
  reference::ScriptedModel<T> model(ids.dim(0) * config.num_beams, script);
  ef::Workspace workspace;
  const ef::Generated texts = ef::generate_with<T>(
      [&](auto step_ids, const auto& counts, auto logits) { model.step(step_ids, counts, logits); },
      [&](std::span<const Index> rows) { model.reorder(rows); }, size, prompts, config, workspace);

  const Index returned = config.num_return_sequences;
  ASSERT_EQ(static_cast<Index>(texts.ids.size()), ids.dim(0) * returned);
  Tensor<T, 3> sequences({ids.dim(0), returned, config.max_new_tokens});
  std::fill(sequences.begin(), sequences.end(), T(-1));
  for (std::size_t i = 0; i < texts.ids.size(); ++i) {
    ASSERT_LE(static_cast<Index>(texts.ids[i].size()), config.max_new_tokens);
    std::copy(texts.ids[i].begin(), texts.ids[i].end(),
              sequences.data() + static_cast<Index>(i) * config.max_new_tokens);
  }
  test.expect("sequences", sequences);
  if (config.num_beams == 1) return;
  Tensor<T, 2> scores({ids.dim(0), returned});
  ASSERT_EQ(static_cast<Index>(texts.scores.size()), scores.size());
  std::transform(texts.scores.begin(), texts.scores.end(), scores.begin(),
                 [](double score) { return static_cast<T>(score); });
  test.expect("scores", scores);
}

template <class T>
void run_file() {
  golden::run_file("text_generation", 11, {{"TextGeneration", run_text_generation<T>}});
}

TEST(GoldenTextGeneration, Float) { run_file<float>(); }
TEST(GoldenTextGeneration, Double) { run_file<double>(); }

}  // namespace text_generation_test
