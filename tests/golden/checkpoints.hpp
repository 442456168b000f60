// SPDX-License-Identifier: MIT
#pragma once

// Runs of models from the directories checkpoints/: texts with and without a cache.

#include <algorithm>

#include "eigenformer/models/generation.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "tests/golden/golden.hpp"

namespace golden {

inline std::filesystem::path directory_of(Case& test) {
  EXPECT_TRUE(test.get<nlohmann::json>("config").empty());
  return std::filesystem::path(EIGENFORMER_TESTS) / "golden/checkpoints" /
         test.get<std::string>("directory");
}

/// The first lengths[b] ids of each row; all of them without lengths.
inline ef::TokenRows rows_of(const Tensor<std::int32_t, 2>& ids,
                             const std::vector<std::int64_t>& lengths = {}) {
  ef::TokenRows rows;
  for (Index b = 0; b < ids.dim(0); ++b) {
    const auto length =
        lengths.empty() ? ids.dim(1) : static_cast<Index>(lengths[static_cast<std::size_t>(b)]);
    rows.emplace_back(&ids(b, 0), &ids(b, 0) + length);
  }
  return rows;
}

inline Tensor<std::int32_t, 2> as_tensor(const std::vector<std::int32_t>& ids) {
  Tensor<std::int32_t, 2> tensor({1, static_cast<Index>(ids.size())});
  std::copy(ids.begin(), ids.end(), tensor.data());
  return tensor;
}

/// The best continuation, by a whole pass for each token: `logits_of(row, ids (1, T))`.
template <class LogitsOf>
ef::TokenRows greedy_without_cache(ef::TokenRows texts, Index count, LogitsOf&& logits_of) {
  for (std::size_t b = 0; b < texts.size(); ++b) {
    const std::size_t prompt = texts[b].size();
    for (Index i = 0; i < count; ++i) {
      const auto logits = logits_of(b, as_tensor(texts[b]));
      const auto* last = &logits(0, logits.dim(1) - 1, 0);
      texts[b].push_back(
          static_cast<std::int32_t>(std::max_element(last, last + logits.dim(2)) - last));
    }
    texts[b].erase(texts[b].begin(), texts[b].begin() + static_cast<std::ptrdiff_t>(prompt));
  }
  return texts;
}

/// Texts by way of a cache of the model.
template <class Model>
ef::Generated generate_with_cache(const Model& model, typename Model::Cache& cache,
                                  const ef::TokenRows& prompts,
                                  const ef::GenerationConfig& config) {
  using T = typename Model::Scalar;
  ef::Workspace workspace;
  return ef::generate_with<T>(
      [&](ef::TensorView<const std::int32_t, 2> ids, const ef::IntegerSequence& counts,
          ef::TensorView<T, 2> logits) {
        model.forward_last(ids, cache, {.token_counts = counts}, logits, workspace);
      },
      [&](std::span<const Index> rows) { cache.reorder(rows); }, model.vocab_size(), prompts,
      config, workspace);
}

/// The configuration of a case of beams.
inline ef::GenerationConfig beams_of(Case& test) {
  const auto beams = test.get<Index>("num_beams");
  return {.max_new_tokens = test.get<Index>("max_new_tokens"),
          .stop_ids = {test.get<std::int32_t>("eos_token_id")},
          .num_beams = beams,
          .num_return_sequences = beams,
          .length_penalty = test.get<double>("length_penalty")};
}

template <class T>
void expect_beams(Case& test, const ef::Generated& found) {
  const auto sequences = test.exact_output<std::int32_t, 3>("sequences");
  const auto sizes = test.exact_output<std::int32_t, 2>("sizes");
  ASSERT_EQ(static_cast<Index>(found.ids.size()), sizes.size());
  ASSERT_EQ(static_cast<Index>(found.scores.size()), sizes.size());
  Tensor<T, 2> scores(sizes.shape());
  for (Index i = 0; i < sizes.size(); ++i) {
    const std::int32_t* begin = sequences.data() + i * sequences.dim(2);
    EXPECT_EQ(found.ids[static_cast<std::size_t>(i)],
              std::vector<std::int32_t>(begin, begin + sizes.data()[i]))
        << "text " << i;
    scores.data()[i] = static_cast<T>(found.scores[static_cast<std::size_t>(i)]);
  }
  test.expect("scores", scores);
}

}  // namespace golden
