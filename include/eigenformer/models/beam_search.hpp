// SPDX-License-Identifier: MIT
#pragma once

// Beam search: the most probable continuations of num_beams texts at a time; for each prompt the
// num_return_sequences texts of the highest scores
//
//   score = (log p of the new tokens) / (number of new tokens)^length_penalty
//
// Follows transformers 5's `_beam_search`. In each step, for each prompt:
//
//   - all continuations of all running beams compete; the best (1 + number of stop ids) num_beams,
//     at least 2 num_beams, are looked at;
//   - those among the first num_beams that end (in a stop id, or as long as allowed) are finished;
//     the num_beams finished texts of the highest scores are kept;
//   - the first num_beams that don't end run on;
//   - the prompt is done when num_beams texts are finished and either early_stopping is set or the
//     best running beam, scored as if it ended here, isn't above the worst of them.
//
// The repetition penalty acts on log-probabilities; what else belongs to sampling is refused. Of
// equal candidates those of the earlier beam come first, then those of the smaller id; of equal
// finished texts the older.
//
// Log-probabilities are made and added up in double. transformers adds in float, so where two sums
// differ by less than float's rounding (1e-7 of the sum) it may choose the other one. Beams that
// hold no text (at first all but one) are no candidates at all; in transformers they are candidates
// of score -1e9, which shows if V < 2 num_beams only.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "eigenformer/models/beams.hpp"
#include "eigenformer/models/generation_config.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

class BeamSearch {
 public:
  /// Keeps references to both.
  BeamSearch(const TokenRows& prompts, const GenerationConfig& config)
      : prompts_(prompts),
        config_(config),
        beams_(static_cast<std::size_t>(config.num_beams)),
        most_((std::max)(std::size_t{2}, 1 + config.stop_ids.size()) * beams_),
        running_(prompts.size() * beams_),
        sources_(running_.size()),
        candidates_(running_.size()),
        finished_(prompts.size()) {
    std::iota(sources_.begin(), sources_.end(), Index{0});
  }

  /// Which rows the running beams come from, in the order of the rows they are in now.
  std::span<const Index> sources() const { return sources_; }
  bool moved() const {
    for (std::size_t row = 0; row < sources_.size(); ++row) {
      if (sources_[row] != static_cast<Index>(row)) return true;
    }
    return false;
  }

  /// Finds the best continuations of one running beam from its logits (V). Rows may be ranked at
  /// the same time.
  template <class T>
  void rank(Index row, TensorView<T, 1> logits, Arena& arena) {
    const std::size_t r = static_cast<std::size_t>(row);
    Scratch scratch(arena);
    const auto x = scratch.tensor<double, 1>({logits.size()});
    make_log_probabilities(r, logits, x, arena);
    std::vector<BeamCandidate>& best = candidates_[r];
    best.clear();
    double bar = lowest;
    for (Index j = 0; j < x.size(); ++j) {
      const double score = running_[r].score + x(j);
      if (!(score > bar)) continue;
      insert_best(best, most_, {score, r, static_cast<std::int32_t>(j)});
      if (best.size() == most_) bar = best.back().score;
    }
    require(!best.empty(), "beam_search: prompt ", r / beams_, ": no token can follow");
  }

  /// Lengthens the texts by one token, once all running rows are ranked; `input` becomes what the
  /// next step is fed.
  void advance(StepInput& input) {
    ++length_;
    for (std::size_t b = 0; b < prompts_.size(); ++b) {
      merge_candidates(b, input);
      if (!merged_.empty()) advance(b, input);
    }
  }

  Generated result() const {
    const auto returned = static_cast<std::size_t>(config_.num_return_sequences);
    Generated texts;
    for (const std::vector<Beam>& finished : finished_) {
      for (std::size_t i = 0; i < returned; ++i) {
        std::vector<std::int32_t>& ids = texts.ids.emplace_back();
        const Beam beam = i < finished.size() ? finished[i] : Beam{lowest};
        for_each_node(beam, [&](std::int32_t id) { ids.push_back(id); });
        std::reverse(ids.begin(), ids.end());
        texts.scores.push_back(beam.score);
      }
    }
    return texts;
  }

 private:
  static constexpr double lowest = -std::numeric_limits<double>::infinity();

  template <class T>
  void make_log_probabilities(std::size_t row, TensorView<T, 1> logits, TensorView<double, 1> x,
                              Arena& arena) const {
    Scratch scratch(arena);
    kernels::log_probabilities(logits, x, scratch, "beam_search: prompt ", row / beams_);
    if (config_.repetition_penalty != 1)
      apply_repetition_penalty(x, tokens_of(row, scratch), config_.repetition_penalty, arena);
    if (length_ < config_.min_new_tokens) suppress(x, config_.stop_ids);
  }

  /// The row's prompt and new tokens.
  std::span<const std::int32_t> tokens_of(std::size_t row, Scratch& scratch) const {
    const std::vector<std::int32_t>& prompt = prompts_[row / beams_];
    const std::size_t count = prompt.size() + static_cast<std::size_t>(length_);
    std::int32_t* tokens = scratch.array<std::int32_t>(static_cast<Index>(count));
    std::copy(prompt.begin(), prompt.end(), tokens);
    std::int32_t* next = tokens + count;
    for_each_node(running_[row], [&](std::int32_t id) { *--next = id; });
    return {tokens, count};
  }

  /// Calls f(id) for the beam's new tokens, last to first.
  template <class F>
  void for_each_node(const Beam& beam, F&& f) const {
    for (Index node = beam.node; node >= 0;) {
      const BeamNode& token = nodes_[static_cast<std::size_t>(node)];
      f(token.id);
      node = token.previous;
    }
  }

  void merge_candidates(std::size_t b, const StepInput& input) {
    merged_.clear();
    for (std::size_t row = b * beams_; row < (b + 1) * beams_; ++row) {
      if (!input.runs(static_cast<Index>(row))) continue;
      for (const BeamCandidate& candidate : candidates_[row])
        insert_best(merged_, most_, candidate);
    }
  }

  void advance(std::size_t b, StepInput& input) {
    const double scale = std::pow(static_cast<double>(length_), config_.length_penalty);
    std::vector<Beam>& finished = finished_[b];
    next_.clear();
    for (std::size_t place = 0; place < merged_.size(); ++place) {
      const BeamCandidate& candidate = merged_[place];
      const bool ends = length_ == config_.max_new_tokens || config_.stops(candidate.id);
      if (ends ? place >= beams_ : next_.size() == beams_) continue;
      const Index node = static_cast<Index>(nodes_.size());
      nodes_.push_back({candidate.id, running_[candidate.row].node});
      if (ends) {
        insert_best(finished, beams_, {candidate.score / scale, node});
      } else {
        sources_[b * beams_ + next_.size()] = static_cast<Index>(candidate.row);
        next_.push_back({candidate.score, node});
      }
    }
    const bool full = finished.size() == beams_;
    const bool done =
        next_.empty() || (full && (config_.early_stopping ||
                                   !(next_.front().score / scale > finished.back().score)));
    for (std::size_t k = 0; k < beams_; ++k) {
      const std::size_t row = b * beams_ + k;
      const bool runs = !done && k < next_.size();
      if (runs) running_[row] = next_[k];
      if (!runs) sources_[row] = static_cast<Index>(row);
      input.set(static_cast<Index>(row),
                runs ? nodes_[static_cast<std::size_t>(next_[k].node)].id : config_.pad_id, runs);
    }
  }

  const TokenRows& prompts_;
  const GenerationConfig& config_;
  std::size_t beams_;  // num_beams; prompt b has rows b * beams_ ... (b + 1) * beams_ - 1
  std::size_t most_;   // how many candidates are looked at
  Index length_ = 0;   // new tokens of the running beams
  std::vector<BeamNode> nodes_;
  std::vector<Beam> running_;  // by row; of rows that the step is fed
  std::vector<Index> sources_;
  std::vector<std::vector<BeamCandidate>> candidates_;  // by row
  std::vector<std::vector<Beam>> finished_;             // by prompt
  std::vector<BeamCandidate> merged_;
  std::vector<Beam> next_;
};

}  // namespace internal

/// The best texts of each prompt, in descending order of their scores (of too few texts the rest is
/// empty, with score -infinity). The model's B * num_beams rows hold the beams of prompt 0, then
/// those of prompt 1 ...; the first step feeds each prompt to the first of its rows, and `reorder`
/// copies it to the others. A row only ever receives one of the same prompt.
template <class T = float, class Step, class Reorder>
requires GenerationStep<Step, T> && RowReorder<Reorder> Generated
beam_search(Step&& step, Reorder&& reorder, Index vocab_size, const TokenRows& prompts,
            const GenerationConfig& config, Workspace& workspace) {
  config.checked(static_cast<Index>(prompts.size()), vocab_size);
  internal::require_prompts(prompts);
  internal::StepInput input(prompts, config.num_beams, config.pad_id);
  internal::BeamSearch search(prompts, config);
  Tensor<T, 2> logits({input.rows(), vocab_size});
  for (Index made = 0; made < config.max_new_tokens && input.any_runs(); ++made) {
    if (search.moved()) reorder(search.sources());
    step(TensorView<const std::int32_t, 2>(input.ids), IntegerSequence(input.token_counts),
         logits.view());
    internal::for_each_running_row(input, vocab_size, workspace, [&](Index row, Arena& arena) {
      search.rank(row, logits.view()[row], arena);
    });
    input.narrow();
    search.advance(input);
  }
  return search.result();
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
