// SPDX-License-Identifier: MIT
// Texts from scripted models, whose logits are a function of the tokens read: greedy, sampled and by
// beam search.
#include "eigenformer/models/generation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/models/transformer_decoder.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/beam_search.hpp"

namespace generation_test {

namespace ef = eigenformer;
using ef::Generated;
using ef::GenerationConfig;
using ef::Index;
using ef::TokenRows;
using reference::LogitsAfter;
using reference::random_script;
using reference::ScriptedModel;
using reference::Tokens;

constexpr Index vocab_size = 11;

/// Prompts of several lengths, some of them equal.
const TokenRows prompts{{3, 1, 4}, {1}, {5, 9, 2, 6, 5, 3, 5}, {8, 9}, {1}};

template <class T, class OnToken = ef::IgnoreTokens>
Generated texts_of(ScriptedModel<T>& model, const TokenRows& from, const GenerationConfig& config,
                   ef::Workspace& workspace, Index vocabulary = vocab_size,
                   OnToken&& on_token = {}) {
  return ef::generate_with<T>([&](auto ids, const auto& token_counts,
                                  auto logits) { model.step(ids, token_counts, logits); },
                              [&](std::span<const Index> rows) { model.reorder(rows); }, vocabulary,
                              from, config, workspace, on_token);
}

template <class T, class OnToken = ef::IgnoreTokens>
Generated texts_of(const LogitsAfter& script, const TokenRows& from, const GenerationConfig& config,
                   Index vocabulary = vocab_size, OnToken&& on_token = {}) {
  ScriptedModel<T> model(static_cast<Index>(from.size()) * config.num_beams, script, config.pad_id);
  ef::Workspace workspace;
  return texts_of<T>(model, from, config, workspace, vocabulary, on_token);
}

/// One row alone, in plain loops.
template <class T>
Tokens expected_text(const LogitsAfter& script, const Tokens& prompt,
                     const GenerationConfig& config, Index row) {
  Tokens tokens = prompt;
  for (Index i = 0; i < config.max_new_tokens; ++i) {
    const std::vector<double> values = script(tokens);
    std::vector<T> x(values.begin(), values.end());
    if (i < config.min_new_tokens) {
      for (const std::int32_t id : config.stop_ids)
        x[static_cast<std::size_t>(id)] = reference::nothing<T>;
    }
    const double uniform =
        config.key.fold_in(static_cast<std::uint64_t>(row)).uniform(static_cast<std::uint64_t>(i));
    tokens.push_back(reference::choose(x, tokens, config.sampling(), uniform));
    if (config.stops(tokens.back())) break;
  }
  return Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end());
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

template <class T>
class Generation : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Generation, Scalars);

// ------------------------------------------------------------------ greedy and sampled

TYPED_TEST(Generation, TextsAgreeWithPlainLoops) {
  const GenerationConfig configs[] = {
      {.max_new_tokens = 15},
      {.max_new_tokens = 30, .stop_ids = {4, 7}},
      {.max_new_tokens = 30, .min_new_tokens = 9, .stop_ids = {4, 7, 4}},
      {.max_new_tokens = 25, .stop_ids = {2}, .repetition_penalty = 1.7},
      {.max_new_tokens = 25, .stop_ids = {2}, .do_sample = true, .key = ef::Key{5}},
      {.max_new_tokens = 25,
       .stop_ids = {2},
       .pad_id = 10,
       .temperature = 1.4,
       .top_k = 6,
       .top_p = 0.9,
       .min_p = 0.05,
       .repetition_penalty = 1.2,
       .do_sample = true,
       .key = ef::Key{6}},
      {.max_new_tokens = 1, .do_sample = true},
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const LogitsAfter script = random_script(vocab_size, seed);
    for (const GenerationConfig& config : configs) {
      const Generated texts = texts_of<TypeParam>(script, prompts, config);
      ASSERT_EQ(texts.ids.size(), prompts.size());
      EXPECT_TRUE(texts.scores.empty());
      for (std::size_t b = 0; b < prompts.size(); ++b) {
        EXPECT_EQ(texts.ids[b],
                  expected_text<TypeParam>(script, prompts[b], config, static_cast<Index>(b)))
            << "prompt " << b;
      }
    }
  }
}

TYPED_TEST(Generation, TextsEndWithTheirStopId) {
  const GenerationConfig config{.max_new_tokens = 40, .min_new_tokens = 3, .stop_ids = {4, 7, 2}};
  bool stopped_at_once = false, cut = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Tokens& ids :
         texts_of<TypeParam>(random_script(vocab_size, seed), prompts, config).ids) {
      ASSERT_FALSE(ids.empty());
      EXPECT_TRUE(
          std::none_of(ids.begin(), ids.end() - 1, [&](auto id) { return config.stops(id); }));
      EXPECT_TRUE(config.stops(ids.back()) || ids.size() == 40u);
      EXPECT_GT(ids.size(), 3u);
      stopped_at_once = stopped_at_once || ids.size() == 4;
      cut = cut || !config.stops(ids.back());
    }
  }
  EXPECT_TRUE(stopped_at_once);
  EXPECT_FALSE(cut) << "forty tokens of which three in eleven stop";
}

// The first step reads the prompts, each later one a token of each row that runs; the last ones are
// never read.
TYPED_TEST(Generation, FeedsNoTokenTooMany) {
  const GenerationConfig config{.max_new_tokens = 300, .stop_ids = {4}, .pad_id = 9};
  ScriptedModel<TypeParam> model(static_cast<Index>(prompts.size()), random_script(vocab_size, 3),
                                 config.pad_id);
  ef::Workspace workspace;
  const Generated texts = texts_of<TypeParam>(model, prompts, config, workspace);
  Index longest = 0, fed = 0;
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    Tokens read = prompts[b];
    read.insert(read.end(), texts.ids[b].begin(), texts.ids[b].end() - 1);
    EXPECT_EQ(model.read()[b], read);
    longest = std::max(longest, static_cast<Index>(texts.ids[b].size()));
    fed += static_cast<Index>(read.size());
  }
  EXPECT_LT(longest, 300);
  EXPECT_EQ(model.steps(), longest);
  EXPECT_EQ(model.fed(), fed);
  EXPECT_TRUE(model.reorders().empty());
}

TYPED_TEST(Generation, NothingAskedForOrGiven) {
  ScriptedModel<TypeParam> model(static_cast<Index>(prompts.size()), random_script(vocab_size, 3));
  ef::Workspace workspace;
  EXPECT_EQ(texts_of<TypeParam>(model, prompts, {.max_new_tokens = 0}, workspace).ids,
            TokenRows(prompts.size()));
  EXPECT_EQ(model.steps(), 0);
  EXPECT_TRUE(texts_of<TypeParam>(random_script(vocab_size, 3), {}, {}).ids.empty());
  EXPECT_TRUE(texts_of<TypeParam>(random_script(vocab_size, 3), {}, {.num_beams = 3}).ids.empty());
  const Generated none = texts_of<TypeParam>(random_script(vocab_size, 3), prompts,
                                             {.max_new_tokens = 0, .num_beams = 2});
  EXPECT_EQ(none.ids, TokenRows(prompts.size()));
}

TYPED_TEST(Generation, OneTokenVocabulary) {
  const LogitsAfter script = [](const Tokens&) { return std::vector<double>{-3}; };
  for (Index beams : {1, 2, 5}) {
    EXPECT_EQ(
        texts_of<TypeParam>(script, {{0}, {0, 0}}, {.max_new_tokens = 4, .num_beams = beams}, 1)
            .ids,
        (TokenRows{{0, 0, 0, 0}, {0, 0, 0, 0}}));
    EXPECT_EQ(texts_of<TypeParam>(script, {{0}},
                                  {.max_new_tokens = 4, .stop_ids = {0}, .num_beams = beams}, 1)
                  .ids,
              (TokenRows{{0}}));
  }
}

// ------------------------------------------------------------------ randomness

const GenerationConfig sampled{.max_new_tokens = 25,
                               .stop_ids = {2},
                               .temperature = 1.5,
                               .do_sample = true,
                               .key = ef::Key{42}};
const GenerationConfig greedy{.max_new_tokens = 25, .stop_ids = {2}};

TYPED_TEST(Generation, TheSameKeyGivesTheSameText) {
  const LogitsAfter script = random_script(vocab_size, 1);
  const Generated first = texts_of<TypeParam>(script, prompts, sampled);
  GenerationConfig other = sampled;
  other.key = ef::Key{43};
  EXPECT_NE(texts_of<TypeParam>(script, prompts, other).ids, first.ids);
  EXPECT_EQ(texts_of<TypeParam>(script, prompts, sampled).ids, first.ids);
  EXPECT_NE(first.ids[1], first.ids[4]) << "equal prompts are sampled independently";
}

TYPED_TEST(Generation, OtherRowsMakeNoDifference) {
  const LogitsAfter script = random_script(vocab_size, 1);
  for (GenerationConfig config : {greedy, sampled}) {
    const Generated all = texts_of<TypeParam>(script, prompts, config);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      // In the same place among others.
      TokenRows others(b + 3, Tokens{7, 7, 7, 7, 7, 7, 7, 7, 7});
      others[b] = prompts[b];
      EXPECT_EQ(texts_of<TypeParam>(script, others, config).ids[b], all.ids[b]) << b;
      // Alone, with its key.
      config.row_keys = {config.key.fold_in(b)};
      EXPECT_EQ(texts_of<TypeParam>(script, {prompts[b]}, config).ids[0], all.ids[b]) << b;
      config.row_keys.clear();
    }
  }
}

TYPED_TEST(Generation, ThreadsMakeNoDifference) {
  constexpr Index many = 9001;  // enough to be split
  const LogitsAfter script = random_script(many, 1);
  for (Index beams : {1, 3}) {
    GenerationConfig config = beams == 1 ? sampled : greedy;
    config.max_new_tokens = 6;
    config.num_beams = beams;
    const Generated serial = texts_of<TypeParam>(script, prompts, config, many);
    for (Index threads : {1, 2, 7}) {
      ef::ThreadPool pool(threads);
      ef::Workspace workspace(pool);
      ScriptedModel<TypeParam> model(static_cast<Index>(prompts.size()) * beams, script);
      const Generated texts = texts_of<TypeParam>(model, prompts, config, workspace, many);
      EXPECT_EQ(texts.ids, serial.ids) << threads;
      EXPECT_EQ(texts.scores, serial.scores) << threads;
    }
  }
}

// Pairs of first and second tokens of many rows with one prompt have the frequencies of the script;
// the numbers of a row depend neither on each other nor on those of other rows.
TYPED_TEST(Generation, TextsHaveTheFrequenciesOfTheScript) {
  constexpr Index size = 5, rows = 40000;
  const LogitsAfter script = random_script(size, 2, 0.7);
  const Generated texts = texts_of<TypeParam>(script, TokenRows(rows, Tokens{3}),
                                              {.max_new_tokens = 2, .do_sample = true}, size);
  double counts[size][size] = {};
  for (const Tokens& ids : texts.ids) counts[ids[0]][ids[1]] += 1;
  const auto first = reference::probabilities(script({3}));
  double statistic = 0;
  for (Index i = 0; i < size; ++i) {
    const auto second = reference::probabilities(script({3, static_cast<std::int32_t>(i)}));
    for (Index j = 0; j < size; ++j) {
      const auto expected = static_cast<double>(rows * first[static_cast<std::size_t>(i)] *
                                                second[static_cast<std::size_t>(j)]);
      ASSERT_GT(expected, 20);
      statistic += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
    }
  }
  const double mean = size * size - 1;
  EXPECT_NEAR(statistic, mean, 6 * std::sqrt(2 * mean));
}

// ------------------------------------------------------------------ callbacks

TYPED_TEST(Generation, ReportsEachTokenInOrder) {
  const LogitsAfter script = random_script(vocab_size, 4);
  for (Index beams : {1, 3}) {
    GenerationConfig config{.max_new_tokens = 20, .stop_ids = {4}, .num_beams = beams};
    TokenRows reported(prompts.size());
    std::vector<std::pair<Index, std::size_t>> order;
    const Generated texts =
        texts_of<TypeParam>(script, prompts, config, vocab_size, [&](Index row, std::int32_t id) {
          reported[static_cast<std::size_t>(row)].push_back(id);
          order.emplace_back(row, reported[static_cast<std::size_t>(row)].size());
        });
    EXPECT_EQ(reported, texts.ids);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return beams > 1 ? a < b : std::pair(a.second, a.first) < std::pair(b.second, b.first);
    }));
  }
}

TYPED_TEST(Generation, ACallbackEndsItsRow) {
  const LogitsAfter script = random_script(vocab_size, 4);
  for (Index beams : {1, 3}) {
    const GenerationConfig config{.max_new_tokens = 12, .num_beams = beams};
    const Generated whole = texts_of<TypeParam>(script, prompts, config);
    std::vector<std::size_t> calls(prompts.size(), 0);
    const Generated texts =
        texts_of<TypeParam>(script, prompts, config, vocab_size, [&](Index row, std::int32_t) {
          return ++calls[static_cast<std::size_t>(row)] < 2 * static_cast<std::size_t>(row) + 1;
        });
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      Tokens cut = whole.ids[b];
      cut.resize(2 * b + 1);
      EXPECT_EQ(texts.ids[b], cut);
      EXPECT_EQ(calls[b], 2 * b + 1);
    }
  }
}

// ------------------------------------------------------------------ beam search

const GenerationConfig beam_configs[] = {
    {.max_new_tokens = 8, .num_beams = 2},
    {.max_new_tokens = 12, .stop_ids = {4}, .num_beams = 3},
    {.max_new_tokens = 12, .stop_ids = {4}, .num_beams = 3, .early_stopping = true},
    {.max_new_tokens = 15, .stop_ids = {4, 7}, .num_beams = 4, .length_penalty = 0},
    {.max_new_tokens = 15,
     .stop_ids = {4, 7, 8},
     .pad_id = 7,
     .num_beams = 4,
     .length_penalty = 2.5},
    {.max_new_tokens = 15,
     .stop_ids = {4, 7},
     .num_beams = 5,
     .length_penalty = -1,
     .early_stopping = true},
    {.max_new_tokens = 10, .min_new_tokens = 5, .stop_ids = {4, 7}, .num_beams = 3},
    {.max_new_tokens = 10, .stop_ids = {4}, .repetition_penalty = 1.6, .num_beams = 3},
    {.max_new_tokens = 1, .stop_ids = {4}, .num_beams = 3},
    {.max_new_tokens = 5, .stop_ids = {4}, .num_beams = 30},  // more beams than tokens
};

TYPED_TEST(Generation, BeamsAgreeWithPlainLoops) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    // The script in T's precision, so that both search the same model.
    const LogitsAfter script = [&, exact = random_script(vocab_size, seed)](const Tokens& tokens) {
      std::vector<double> x = exact(tokens);
      for (double& value : x) value = static_cast<double>(static_cast<TypeParam>(value));
      return x;
    };
    for (GenerationConfig config : beam_configs) {
      config.num_return_sequences = config.num_beams;
      const Generated texts = texts_of<TypeParam>(script, prompts, config);
      const auto beams = static_cast<std::size_t>(config.num_beams);
      ASSERT_EQ(texts.ids.size(), prompts.size() * beams);
      ASSERT_EQ(texts.scores.size(), prompts.size() * beams);
      for (std::size_t b = 0; b < prompts.size(); ++b) {
        const auto expected = reference::beam_search(prompts[b], config, script);
        for (std::size_t i = 0; i < beams; ++i) {
          if (i >= expected.size()) {
            EXPECT_TRUE(texts.ids[b * beams + i].empty());
            EXPECT_EQ(texts.scores[b * beams + i], -std::numeric_limits<double>::infinity());
            continue;
          }
          EXPECT_EQ(texts.ids[b * beams + i], expected[i].ids) << b << ' ' << i;
          EXPECT_NEAR(texts.scores[b * beams + i], static_cast<double>(expected[i].score), 1e-12);
        }
      }
    }
  }
}

// With a beam for every text that there is nothing is lost.
TYPED_TEST(Generation, EnoughBeamsFindTheBestOfAllTexts) {
  constexpr Index size = 3;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const LogitsAfter script = [&, exact = random_script(size, seed, 1)](const Tokens& tokens) {
      std::vector<double> x = exact(tokens);
      for (double& value : x) value = static_cast<double>(static_cast<TypeParam>(value));
      return x;
    };
    for (double length_penalty : {-1.0, 0.0, 0.6, 1.0, 2.0}) {
      GenerationConfig config{.max_new_tokens = 4,
                              .stop_ids = {2},
                              .num_beams = 81,
                              .num_return_sequences = 31,
                              .length_penalty = length_penalty};
      const auto all = reference::all_texts({1, 0}, config, script);
      ASSERT_EQ(all.size(), 31u);  // 1 + 2 + 4 + 8 that end in the stop id, 16 that don't
      const Generated texts = texts_of<TypeParam>(script, {{1, 0}}, config, size);
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(texts.ids[i], all[i].ids) << i;
        EXPECT_NEAR(texts.scores[i], static_cast<double>(all[i].score), 1e-12) << i;
      }
    }
  }
}

// The most probable first token leads to a text of 0.6 * 0.4, the other one to one of 0.4 * 0.9.
TYPED_TEST(Generation, BeamsSeeFurtherThanGreed) {
  const LogitsAfter script = [](const Tokens& tokens) {
    std::vector<double> p{0.6, 0.4, 1e-9};
    if (tokens.back() == 0) p = {0.3, 0.3, 0.4};
    if (tokens.back() == 1) p = {0.05, 0.9, 0.05};
    for (double& value : p) value = std::log(value);
    return p;
  };
  const TokenRows from{{2}};
  EXPECT_EQ(texts_of<TypeParam>(script, from, {.max_new_tokens = 2}, 3).ids[0], (Tokens{0, 2}));
  const Generated beams = texts_of<TypeParam>(
      script, from, {.max_new_tokens = 2, .num_beams = 2, .length_penalty = 1}, 3);
  EXPECT_EQ(beams.ids[0], (Tokens{1, 1}));
  EXPECT_NEAR(beams.scores[0], std::log(0.4 * 0.9) / 2, 1e-6);
}

TYPED_TEST(Generation, EqualCandidatesComeInOrderOfBeamAndId) {
  const LogitsAfter script = [](const Tokens&) { return std::vector<double>(4, 1); };
  const Generated texts = texts_of<TypeParam>(
      script, {{0}}, {.max_new_tokens = 2, .num_beams = 3, .num_return_sequences = 3}, 4);
  EXPECT_EQ(texts.ids, (TokenRows{{0, 0}, {0, 1}, {0, 2}}));
}

// Three texts of the score log(1/2).
TYPED_TEST(Generation, OfEqualTextsTheOlderStay) {
  const LogitsAfter script = [](const Tokens& tokens) {
    constexpr double none = reference::nothing<double>;
    return tokens.back() == 2 ? std::vector<double>{0, 0, none} : std::vector<double>{none, 0, 0};
  };
  const GenerationConfig config{
      .max_new_tokens = 2, .stop_ids = {0}, .num_beams = 2, .num_return_sequences = 2};
  EXPECT_EQ(texts_of<TypeParam>(script, {{2}}, config, 3).ids, (TokenRows{{0}, {1, 1}}));
}

TYPED_TEST(Generation, OneBeamIsGreedyWhereNothingStops) {
  const LogitsAfter script = random_script(vocab_size, 8);
  const GenerationConfig config{.max_new_tokens = 10};
  for (const Tokens& prompt : prompts) {
    ScriptedModel<TypeParam> model(1, script);
    ef::Workspace workspace;
    const Generated texts = ef::beam_search<TypeParam>(
        [&](auto ids, const auto& counts, auto logits) { model.step(ids, counts, logits); },
        [&](std::span<const Index> rows) { model.reorder(rows); }, vocab_size, {prompt}, config,
        workspace);
    EXPECT_EQ(texts.ids[0], expected_text<TypeParam>(script, prompt, config, 0));
    EXPECT_TRUE(model.reorders().empty());
  }
}

TYPED_TEST(Generation, BeamsOfOtherPromptsMakeNoDifference) {
  const LogitsAfter script = random_script(vocab_size, 9);
  for (const GenerationConfig& config : beam_configs) {
    const Generated all = texts_of<TypeParam>(script, prompts, config);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      const Generated alone = texts_of<TypeParam>(script, {prompts[b]}, config);
      EXPECT_EQ(alone.ids[0], all.ids[b]);
      EXPECT_EQ(alone.scores[0], all.scores[b]);
    }
  }
}

// Each prompt is read once, by the first of its rows; rows move within their prompt only.
TYPED_TEST(Generation, BeamsReadEachPromptOnce) {
  const GenerationConfig config{.max_new_tokens = 6, .num_beams = 3};
  const Index rows = static_cast<Index>(prompts.size()) * config.num_beams;
  ScriptedModel<TypeParam> model(rows, random_script(vocab_size, 10));
  ef::Workspace workspace;
  texts_of<TypeParam>(model, prompts, config, workspace);
  Index fed = rows * (config.max_new_tokens - 1);
  for (const Tokens& prompt : prompts) fed += static_cast<Index>(prompt.size());
  EXPECT_EQ(model.fed(), fed);
  EXPECT_EQ(model.steps(), config.max_new_tokens);
  ASSERT_FALSE(model.reorders().empty());
  for (const auto& from : model.reorders()) {
    for (Index row = 0; row < rows; ++row)
      EXPECT_EQ(from[static_cast<std::size_t>(row)] / config.num_beams, row / config.num_beams);
  }
  for (Index row = 0; row < rows; ++row)
    EXPECT_EQ(model.reorders()[0][static_cast<std::size_t>(row)], row / 3 * 3);
}

// Once a prompt is done the cache keeps its rows.
TYPED_TEST(Generation, RowsOfFinishedPromptsStay) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const LogitsAfter script = [random = random_script(vocab_size, seed)](const Tokens& tokens) {
      std::vector<double> x = random(tokens);
      if (tokens[0] == 1) x[4] = 12;  // stops
      return x;
    };
    const GenerationConfig config{
        .max_new_tokens = 9, .stop_ids = {4}, .num_beams = 3, .early_stopping = true};
    ScriptedModel<TypeParam> model(6, script);
    ef::Workspace workspace;
    texts_of<TypeParam>(model, {{1}, {2}}, config, workspace);
    // The first prompt takes two steps: one text stops, then those of all beams.
    ASSERT_FALSE(model.reorders().empty());
    for (std::size_t i = 1; i < model.reorders().size(); ++i) {
      for (Index row = 0; row < 3; ++row)
        EXPECT_EQ(model.reorders()[i][static_cast<std::size_t>(row)], row) << seed;
    }
    for (Index row = 0; row < 3; ++row)
      EXPECT_EQ(model.read()[static_cast<std::size_t>(row)].size(), 2u);
  }
}

// ------------------------------------------------------------------ errors

TYPED_TEST(Generation, NamesWhatIsWrong) {
  const LogitsAfter script = random_script(vocab_size, 1);
  const auto error = [&](const GenerationConfig& config, const TokenRows& from = prompts) {
    return error_of([&] { texts_of<TypeParam>(script, from, config); });
  };
  EXPECT_EQ(error({}), "no error");
  for (Index beams : {1, 2}) {
    EXPECT_EQ(error({.num_beams = beams}, {{1}, {2, 3}, {}, {4}}),
              "generation: a prompt must hold at least one token; prompt 2 of 4 is empty");
  }
  const std::pair<GenerationConfig, const char*> bad[] = {
      {{.max_new_tokens = -1}, "max_new_tokens must be in [0, 1000000000]; got -1"},
      {{.max_new_tokens = 5, .min_new_tokens = 6}, "[0, max_new_tokens = 5]; got 6"},
      {{.min_new_tokens = -2}, "got -2"},
      {{.stop_ids = {3, 11}}, "stop_ids must be in [0, 11); got 11"},
      {{.stop_ids = {-1}}, "stop_ids must be in [0, 11); got -1"},
      {{.pad_id = -1}, "pad_id must be in [0, 11); got -1"},
      {{.temperature = -1}, "temperature must be in [0, 1e30]; got -1"},
      {{.top_p = 2}, "top_p must be in (0, 1]; got 2"},
      {{.temperature = 0.7},
       "temperature, top_k, top_p and min_p need do_sample = true; got 0.7, 0, 1 and 0"},
      {{.top_k = 5}, "need do_sample = true; got 1, 5, 1 and 0"},
      {{.top_p = 0.5}, "need do_sample = true; got 1, 0, 0.5 and 0"},
      {{.min_p = 0.5, .num_beams = 2}, "need do_sample = true; got 1, 0, 1 and 0.5"},
      {{.length_penalty = 2},
       "length_penalty and early_stopping need num_beams > 1; got 2 and false"},
      {{.early_stopping = true}, "need num_beams > 1; got 1 and true"},
      {{.num_beams = 0}, "num_beams must be in [1, 1000000]; got 0"},
      {{.do_sample = true, .num_beams = 4}, "num_beams must be 1 with do_sample; got 4"},
      {{.num_beams = 2, .num_return_sequences = 3}, "[1, num_beams = 2]; got 3"},
      {{.num_beams = 2, .length_penalty = NAN}, "length_penalty must be within +-100; got nan"},
      {{.row_keys = {ef::Key{1}, ef::Key{2}}}, "one key for each of 5 prompts; got 2"},
  };
  for (const auto& [config, text] : bad)
    EXPECT_NE(error(config).find(text), std::string::npos) << text << ": " << error(config);
}

TYPED_TEST(Generation, NamesThePromptOfBadLogits) {
  const LogitsAfter good = random_script(vocab_size, 1);
  const auto bad = [&](double value, std::size_t from, std::size_t to) -> LogitsAfter {
    return [=](const Tokens& tokens) {
      std::vector<double> x = good(tokens);
      if (tokens[0] == 8 && tokens.size() == 4)
        std::fill(x.begin() + static_cast<long>(from), x.begin() + static_cast<long>(to), value);
      return x;
    };
  };
  for (Index beams : {1, 2}) {
    const std::string who = beams == 1 ? "generate: prompt 3: " : "beam_search: prompt 3: ";
    for (const bool threads : {false, true}) {
      ef::ThreadPool pool(2);
      ef::Workspace serial, parallel(pool);
      const auto error = [&](const LogitsAfter& script, const GenerationConfig& config) {
        return error_of([&] {
          ScriptedModel<TypeParam> model(static_cast<Index>(prompts.size()) * beams, script);
          texts_of<TypeParam>(model, prompts, config, threads ? parallel : serial);
        });
      };
      const GenerationConfig config{.num_beams = beams};
      EXPECT_EQ(error(bad(NAN, 5, 6), config),
                who + "logits must be finite or -infinity; got nan for token 5 of 11");
      EXPECT_EQ(error(bad(INFINITY, 0, 1), config),
                who + "logits must be finite or -infinity; got inf for token 0 of 11");
      EXPECT_EQ(error(bad(-INFINITY, 0, 11), config), who + "all 11 logits are -infinity");
      EXPECT_EQ(error(bad(-INFINITY, 0, 10), config), "no error");
    }
  }
}

// Every token would stop a text that must not stop yet.
TYPED_TEST(Generation, NoTokenLeft) {
  for (Index beams : {1, 2}) {
    const GenerationConfig config{.min_new_tokens = 1, .stop_ids = {0, 1}, .num_beams = beams};
    EXPECT_NE(error_of([&] { texts_of<TypeParam>(random_script(2, 1), {{0}}, config, 2); }),
              "no error");
  }
}

// ------------------------------------------------------------------ models

template <class T>
struct FakeModel {
  using Scalar = T;
  using Cache = ScriptedModel<T>;
  struct Inputs {
    std::optional<ef::IntegerSequence> token_counts = {};
  };
  Index vocab_size() const { return 11; }
  LogitsAfter script = random_script(11, 6);
  std::vector<std::pair<Index, Index>>* made = nullptr;

  Cache make_cache(Index rows, Index capacity) const {
    if (made != nullptr) made->emplace_back(rows, capacity);
    return Cache(rows, script);
  }
  void forward_last(ef::TensorView<const std::int32_t, 2> ids, Cache& cache, const Inputs& inputs,
                    ef::TensorView<T, 2> logits, ef::Workspace&) const {
    cache.step(ids, *inputs.token_counts, logits);
  }
};

TYPED_TEST(Generation, TakesModels) {
  std::vector<std::pair<Index, Index>> made;
  FakeModel<TypeParam> model;
  model.made = &made;
  static_assert(ef::GenerativeModel<FakeModel<TypeParam>>);
  static_assert(!ef::GenerativeModel<ScriptedModel<TypeParam>>);
  for (Index beams : {1, 3}) {
    const GenerationConfig config{.max_new_tokens = 9, .stop_ids = {4}, .num_beams = beams};
    TokenRows reported(prompts.size());
    const auto report = [&](Index row, std::int32_t id) {
      reported[static_cast<std::size_t>(row)].push_back(id);
      return true;
    };
    const Generated texts = ef::generate(model, prompts, config, report);
    EXPECT_EQ(texts.ids, texts_of<TypeParam>(model.script, prompts, config).ids);
    EXPECT_EQ(reported, texts.ids);
    ef::Workspace workspace;
    EXPECT_EQ(ef::generate(model, prompts, config, workspace).ids, texts.ids);
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(made[0], std::pair(5 * beams, Index{7 + 9 - 1}));
    made.clear();
  }
  EXPECT_EQ(ef::generate(model, {{1}, {2, 3}}).ids[0].size(), 20u);
}

TYPED_TEST(Generation, TakesDecoders) {
  using T = TypeParam;
  ef::TransformerDecoder<T> decoder({.vocab_size = vocab_size,
                                     .hidden_size = 8,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 2,
                                     .intermediate_size = 13,
                                     .max_position_embeddings = 24});
  reference::randomize(decoder, 5, 1);
  // The whole text is read again for each token.
  const LogitsAfter script = [&](const Tokens& tokens) {
    ef::Tensor<std::int32_t, 2> ids({1, static_cast<Index>(tokens.size())});
    std::copy(tokens.begin(), tokens.end(), ids.data());
    const ef::Tensor<T, 3> logits = decoder(ids);
    return std::vector<double>(logits.end() - vocab_size, logits.end());
  };
  ef::ThreadPool pool(2);
  ef::Workspace workspace(pool);
  for (GenerationConfig config : {sampled, beam_configs[1], beam_configs[4], beam_configs[7]}) {
    config.max_new_tokens = 17;
    const Generated expected = texts_of<T>(script, prompts, config);
    const Generated texts = ef::generate(decoder, prompts, config, workspace);
    EXPECT_EQ(texts.ids, expected.ids);
    EXPECT_EQ(texts.scores, expected.scores);
    // From a cache that has read the beginning of a text.
    if (config.num_beams > 1 || config.repetition_penalty != 1) continue;
    auto cache = decoder.make_cache(2, 24);
    ef::generate(decoder, cache, {prompts[2], {3, 1}}, {.max_new_tokens = 1}, workspace);
    cache.truncate(0, 5);
    cache.truncate(1, 1);
    EXPECT_EQ(ef::generate(decoder, cache, {{3, 5}, {1, 4}}, config, workspace).ids,
              ef::generate(decoder, {prompts[2], {3, 1, 4}}, config, workspace).ids);
  }
}

// ------------------------------------------------------------------ memory

TYPED_TEST(Generation, TokensAfterTheFirstAllocateNothing) {
  const GenerationConfig config{.max_new_tokens = 50,
                                .temperature = 0.9,
                                .top_k = 7,
                                .top_p = 0.9,
                                .min_p = 0.01,
                                .repetition_penalty = 1.1,
                                .do_sample = true};
  std::vector<long> allocations;
  allocations.reserve(100);
  ef::Workspace workspace;
  const TokenRows from{{1, 2, 3}, {4}};
  const auto step = [&](auto, const auto&, ef::TensorView<TypeParam, 2> logits) {
    allocations.push_back(reference::allocations());
    for (Index i = 0; i < logits.size(); ++i)
      logits.data()[i] = static_cast<TypeParam>(ef::Key(3).normal(static_cast<std::uint64_t>(i)));
  };
  ef::generate_tokens<TypeParam>(step, 1000, from, config, workspace);
  ASSERT_EQ(allocations.size(), 50u);
  EXPECT_GT(allocations[1], allocations[0]);  // scratch, and narrower ids
  EXPECT_EQ(allocations[49], allocations[2]);
}

}  // namespace generation_test
