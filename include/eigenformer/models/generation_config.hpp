// SPDX-License-Identifier: MIT
#pragma once

// How texts are continued, and what comes out. Names as in transformers' GenerationConfig.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "eigenformer/base/random.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/sampling.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Token ids of B texts, each of a length of its own.
using TokenRows = std::vector<std::vector<std::int32_t>>;

struct GenerationConfig {
  Index max_new_tokens = 20;
  Index min_new_tokens = 0;                 // until then stop ids are taken out
  std::vector<std::int32_t> stop_ids = {};  // each of them ends a text
  std::int32_t pad_id = 0;  // fed where a row has no token; never seen by the others
  double temperature = 1;   // this and the next five: see SamplingConfig
  Index top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  bool do_sample = false;
  Index num_beams = 1;
  Index num_return_sequences = 1;  // beams: how many texts for each prompt
  double length_penalty = 1;       // beams: score = log-probability / length^length_penalty
  bool early_stopping = false;     // beams: stop at num_beams finished texts
  Key key = Key{0};                // new token i of row b uses key.fold_in(b).uniform(i)
  std::vector<Key> row_keys = {};  // if given: new token i of row b uses row_keys[b].uniform(i)

  SamplingConfig sampling() const {
    return {temperature, top_k, top_p, min_p, repetition_penalty, do_sample};
  }

  bool stops(std::int32_t id) const {
    return std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end();
  }

  Key row_key(Index b) const {
    return row_keys.empty() ? key.fold_in(static_cast<std::uint64_t>(b))
                            : row_keys[static_cast<std::size_t>(b)];
  }

  /// Itself; throws for what makes no sense for `batch` prompts and a vocabulary of `vocab_size`.
  const GenerationConfig& checked(Index batch, Index vocab_size) const {
    constexpr Index most_tokens = 1'000'000'000, most_beams = 1'000'000;
    sampling().checked();
    require(vocab_size > 0, "generation: vocab_size must be > 0; got ", vocab_size);
    require(max_new_tokens >= 0 && max_new_tokens <= most_tokens,
            "GenerationConfig: max_new_tokens must be in [0, ", most_tokens, "]; got ",
            max_new_tokens);
    require(min_new_tokens >= 0 && min_new_tokens <= max_new_tokens,
            "GenerationConfig: min_new_tokens must be in [0, max_new_tokens = ", max_new_tokens,
            "]; got ", min_new_tokens);
    for (const std::int32_t id : stop_ids) {
      require(id >= 0 && id < vocab_size, "GenerationConfig: stop_ids must be in [0, ", vocab_size,
              "); got ", id);
    }
    require(pad_id >= 0 && pad_id < vocab_size, "GenerationConfig: pad_id must be in [0, ",
            vocab_size, "); got ", pad_id);
    require(num_beams >= 1 && num_beams <= most_beams,
            "GenerationConfig: num_beams must be in [1, ", most_beams, "]; got ", num_beams);
    require(num_return_sequences >= 1 && num_return_sequences <= num_beams,
            "GenerationConfig: num_return_sequences must be in [1, num_beams = ", num_beams,
            "]; got ", num_return_sequences);
    require(
        num_beams == 1 || !do_sample,
        "GenerationConfig: beam search does not sample: num_beams must be 1 with do_sample; got ",
        num_beams);
    require(std::abs(length_penalty) <= 100,
            "GenerationConfig: length_penalty must be within +-100; got ", length_penalty);
    require(row_keys.empty() || static_cast<Index>(row_keys.size()) == batch,
            "GenerationConfig: row_keys must hold one key for each of ", batch, " prompts; got ",
            row_keys.size());
    return *this;
  }
};

/// What was generated.
struct Generated {
  TokenRows ids;               // the new tokens of each text, the stop id included; by prompt
  std::vector<double> scores;  // beams: the score of each text; else empty
};

/// Appends token_counts[b] <= T tokens of each row b of `ids` (B, T) to the texts that a model has
/// read, and writes the logits (B, V) after the last of them. Rows of count 0 stay as they are and
/// their logits are not looked at.
template <class Step, class T>
concept GenerationStep =
    std::invocable<Step&, TensorView<const std::int32_t, 2>, IntegerSequence, TensorView<T, 2>>;

/// Row r of what the model has read becomes the former row rows[r].
template <class Reorder>
concept RowReorder = std::invocable<Reorder&, std::span<const Index>>;

/// Called as on_token(b, id) for each new token, on the thread that called generate, rows of a step
/// in ascending order. If it returns false (it may return nothing), row b ends with this token.
template <class OnToken>
concept TokenCallback = std::invocable<OnToken&, Index, std::int32_t>;

struct IgnoreTokens {
  void operator()(Index, std::int32_t) const {}
};

/// How many tokens a row of the model's cache must hold; the last new token is never fed.
inline Index generation_capacity(const TokenRows& prompts, const GenerationConfig& config) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = (std::max)(longest, prompt.size());
  return (std::max)(Index{0}, static_cast<Index>(longest) + config.max_new_tokens - 1);
}

namespace internal {

inline void require_prompts(const TokenRows& prompts) {
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    require(!prompts[b].empty(), "generation: a prompt must hold at least one token; prompt ", b,
            " of ", prompts.size(), " is empty");
  }
}

/// Whether the row goes on.
template <TokenCallback OnToken>
bool report(OnToken& on_token, Index row, std::int32_t id) {
  if constexpr (std::is_void_v<std::invoke_result_t<OnToken&, Index, std::int32_t>>) {
    on_token(row, id);
    return true;
  } else {
    return static_cast<bool>(on_token(row, id));
  }
}

/// What a step is fed: ids (B, T) and how many of each row count.
struct StepInput {
  Tensor<std::int32_t, 2> ids;
  std::vector<Index> token_counts;

  /// The prompts, each in the first of `copies` rows; the other rows are empty.
  StepInput(const TokenRows& prompts, Index copies, std::int32_t pad_id)
      : token_counts(prompts.size() * static_cast<std::size_t>(copies), 0) {
    Index longest = 0;
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      const Index length = static_cast<Index>(prompts[b].size());
      token_counts[b * static_cast<std::size_t>(copies)] = length;
      longest = (std::max)(longest, length);
    }
    ids = Tensor<std::int32_t, 2>({static_cast<Index>(token_counts.size()), longest});
    std::fill(ids.begin(), ids.end(), pad_id);
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      std::copy(prompts[b].begin(), prompts[b].end(),
                ids.data() + static_cast<Index>(b) * copies * longest);
    }
  }

  Index rows() const { return static_cast<Index>(token_counts.size()); }
  bool runs(Index row) const { return token_counts[static_cast<std::size_t>(row)] > 0; }
  bool any_runs() const {
    return std::any_of(token_counts.begin(), token_counts.end(), [](Index n) { return n > 0; });
  }

  /// From here on one token for each row.
  void narrow() {
    if (ids.dim(1) != 1) ids = Tensor<std::int32_t, 2>({rows(), 1});
  }
  void set(Index row, std::int32_t id, bool running) {
    ids(row, 0) = id;
    token_counts[static_cast<std::size_t>(row)] = running ? 1 : 0;
  }
};

/// Calls f(row, arena) for each running row.
template <class F>
void for_each_running_row(const StepInput& input, Index vocab_size, Workspace& workspace, F&& f) {
  kernels::for_each_row(input.rows(), vocab_size, workspace, [&](Index row, Arena& arena) {
    if (input.runs(row)) f(row, arena);
  });
}

template <class T>
void suppress(TensorView<T, 1> logits, const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) logits(id) = -std::numeric_limits<T>::infinity();
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
