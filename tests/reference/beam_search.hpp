// SPDX-License-Identifier: MIT
#pragma once

// Texts of one prompt in plain loops: by beam search, and all that there are.

#include <algorithm>
#include <cmath>
#include <vector>

#include "eigenformer/models/generation_config.hpp"
#include "tests/reference/sampling.hpp"
#include "tests/reference/scripted_model.hpp"

namespace reference {

struct ScoredText {
  Tokens ids;
  Real score;
};

inline void sort_by_score(std::vector<ScoredText>& texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const ScoredText& a, const ScoredText& b) { return a.score > b.score; });
}

/// Logarithms of probabilities of what follows the prompt and `ids`, as beams compare them.
inline std::vector<Real> log_probabilities(const Tokens& prompt, const Tokens& ids,
                                           const ef::GenerationConfig& config,
                                           const LogitsAfter& script) {
  Tokens tokens = prompt;
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  std::vector<Real> x;
  for (const Real p : probabilities(script(tokens))) x.push_back(std::log(p));
  repetition_penalty(x, tokens, config.repetition_penalty);
  if (static_cast<Index>(ids.size()) < config.min_new_tokens) {
    for (const std::int32_t id : config.stop_ids) x[static_cast<std::size_t>(id)] = nothing<Real>;
  }
  return x;
}

inline Real score_of(const ScoredText& text, const ef::GenerationConfig& config) {
  return text.score /
         std::pow(static_cast<Real>(text.ids.size()), static_cast<Real>(config.length_penalty));
}

/// Finished texts, best first.
inline std::vector<ScoredText> beam_search(const Tokens& prompt, const ef::GenerationConfig& config,
                                           const LogitsAfter& script) {
  const auto beams = static_cast<std::size_t>(config.num_beams);
  std::vector<ScoredText> running{{{}, 0}}, finished;
  for (Index length = 1; length <= config.max_new_tokens; ++length) {
    std::vector<ScoredText> candidates;
    for (const ScoredText& beam : running) {
      const auto x = log_probabilities(prompt, beam.ids, config, script);
      for (std::size_t j = 0; j < x.size(); ++j) {
        candidates.push_back({beam.ids, beam.score + x[j]});
        candidates.back().ids.push_back(static_cast<std::int32_t>(j));
      }
    }
    sort_by_score(candidates);
    candidates.resize(
        std::min(candidates.size(), std::max<std::size_t>(2, 1 + config.stop_ids.size()) * beams));
    running.clear();
    for (std::size_t place = 0; place < candidates.size(); ++place) {
      const ScoredText& text = candidates[place];
      if (std::isinf(text.score)) continue;
      if (length < config.max_new_tokens && !config.stops(text.ids.back())) {
        if (running.size() < beams) running.push_back(text);
      } else if (place < beams) {
        finished.push_back({text.ids, score_of(text, config)});
      }
    }
    sort_by_score(finished);
    finished.resize(std::min(finished.size(), beams));
    if (running.empty()) break;
    if (finished.size() < beams) continue;
    if (config.early_stopping || score_of(running.front(), config) <= finished.back().score) break;
  }
  return finished;
}

/// Every text that ends with a stop id or is as long as allowed, best first.
inline std::vector<ScoredText> all_texts(const Tokens& prompt, const ef::GenerationConfig& config,
                                         const LogitsAfter& script) {
  std::vector<ScoredText> finished, open{{{}, 0}};
  while (!open.empty()) {
    const ScoredText text = open.back();
    open.pop_back();
    const auto x = log_probabilities(prompt, text.ids, config, script);
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (std::isinf(x[j])) continue;
      ScoredText longer{text.ids, text.score + x[j]};
      longer.ids.push_back(static_cast<std::int32_t>(j));
      if (config.stops(longer.ids.back()) ||
          static_cast<Index>(longer.ids.size()) == config.max_new_tokens) {
        longer.score = score_of(longer, config);
        finished.push_back(longer);
      } else {
        open.push_back(longer);
      }
    }
  }
  sort_by_score(finished);
  return finished;
}

}  // namespace reference
