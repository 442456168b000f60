// SPDX-License-Identifier: MIT
#pragma once

// Texts token by token, from any model:
//
//   auto texts = ef::generate(model, {{1, 17, 4}, {1, 9}},
//                             {.max_new_tokens = 50, .stop_ids = {2}, .temperature = 0.8,
//                              .top_k = 40, .do_sample = true, .key = ef::Key{7}},
//                             [](Index row, std::int32_t id) { ... });
//   texts.ids[0]    // the new tokens of the first prompt, the stop id included
//
// Prompts may differ in length. Greedy (the default), sampled (do_sample) or by beam search
// (num_beams > 1).
//
// A sampled text is a function of its prompt, the configuration and its row's key alone: neither
// threads, nor the other prompts, nor what was generated before make a difference. By default row
// b's key is key.fold_in(b); whoever puts one prompt into different batches gives `row_keys`.

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "eigenformer/models/beam_search.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Greedy or sampled texts from a step; see GenerationStep. A row that has ended is fed pad_id with
/// count 0.
template <class T = float, class Step, TokenCallback OnToken = IgnoreTokens>
requires GenerationStep<Step, T> Generated generate_tokens(Step&& step, Index vocab_size,
                                                           const TokenRows& prompts,
                                                           const GenerationConfig& config,
                                                           Workspace& workspace,
                                                           OnToken&& on_token = {}) {
  const Index batch = static_cast<Index>(prompts.size());
  config.checked(batch, vocab_size);
  require(config.num_beams == 1, "generate_tokens: num_beams must be 1; got ", config.num_beams);
  require(config.length_penalty == 1 && !config.early_stopping,
          "generate_tokens: length_penalty and early_stopping need num_beams > 1; got ",
          config.length_penalty, " and ", config.early_stopping);
  internal::require_prompts(prompts);
  const SamplingConfig sampling = config.sampling();
  constexpr Index most_reserved = 1 << 16;
  TokenRows texts = prompts;
  for (auto& text : texts) {
    text.reserve(text.size() +
                 static_cast<std::size_t>((std::min)(config.max_new_tokens, most_reserved)));
  }
  std::vector<std::int32_t> chosen(prompts.size());
  internal::StepInput input(prompts, 1, config.pad_id);
  Tensor<T, 2> logits({batch, vocab_size});
  for (Index made = 0; made < config.max_new_tokens && input.any_runs(); ++made) {
    step(TensorView<const std::int32_t, 2>(input.ids), IntegerSequence(input.token_counts),
         logits.view());
    internal::for_each_running_row(input, vocab_size, workspace, [&](Index row, Arena& arena) {
      const std::size_t b = static_cast<std::size_t>(row);
      const TensorView<T, 1> x = logits.view()[row];
      internal::largest_logit(x, "generate: prompt ", row);
      if (made < config.min_new_tokens) internal::suppress(x, config.stop_ids);
      const double uniform = config.row_key(row).uniform(static_cast<std::uint64_t>(made));
      chosen[b] =
          choose_token(x, std::span<const std::int32_t>(texts[b]), sampling, uniform, arena);
    });
    input.narrow();
    for (Index row = 0; row < batch; ++row) {
      if (!input.runs(row)) continue;
      const std::int32_t id = chosen[static_cast<std::size_t>(row)];
      texts[static_cast<std::size_t>(row)].push_back(id);
      const bool runs = internal::report(on_token, row, id) && !config.stops(id);
      input.set(row, runs ? id : config.pad_id, runs);
    }
  }
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    texts[b].erase(texts[b].begin(),
                   texts[b].begin() + static_cast<std::ptrdiff_t>(prompts[b].size()));
  }
  return {std::move(texts), {}};
}

/// Texts of every kind from a step and, for beams, `reorder`; see RowReorder. The model has B *
/// num_beams rows. Texts found by beam search are reported to on_token at the end, row by row.
template <class T = float, class Step, class Reorder, TokenCallback OnToken = IgnoreTokens>
requires GenerationStep<Step, T> && RowReorder<Reorder> Generated
generate_with(Step&& step, Reorder&& reorder, Index vocab_size, const TokenRows& prompts,
              const GenerationConfig& config, Workspace& workspace, OnToken&& on_token = {}) {
  if (config.num_beams == 1)
    return generate_tokens<T>(step, vocab_size, prompts, config, workspace, on_token);
  Generated texts = beam_search<T>(step, reorder, vocab_size, prompts, config, workspace);
  for (std::size_t b = 0; b < texts.ids.size(); ++b) {
    for (std::size_t i = 0; i < texts.ids[b].size(); ++i) {
      if (!internal::report(on_token, static_cast<Index>(b), texts.ids[b][i]))
        texts.ids[b].resize(i + 1);
    }
  }
  return texts;
}

/// A model that reads tokens into a cache, such as TransformerDecoder and Transformer.
template <class Model>
concept GenerativeModel = requires(const Model& model, Index n,
                                   TensorView<const std::int32_t, 2> ids,
                                   IntegerSequence token_counts, typename Model::Cache& cache,
                                   TensorView<typename Model::Scalar, 2> logits,
                                   std::span<const Index> rows, Workspace& workspace) {
  { model.vocab_size() } -> std::convertible_to<Index>;
  { model.make_cache(n, n) } -> std::same_as<typename Model::Cache>;
  model.forward_last(ids, cache, typename Model::Inputs{.token_counts = token_counts}, logits,
                     workspace);
  cache.reorder(rows);
};

namespace internal {

/// Throws before the first step if the longest possible texts don't fit into the cache or the table
/// of positions.
template <class Model>
void require_generation_fits(const Model& model, const typename Model::Cache& cache,
                             const TokenRows& prompts, const GenerationConfig& config) {
  if constexpr (requires {
                  cache.length(Index{0});
                  cache.capacity();
                }) {
    Index most = cache.capacity();
    if constexpr (requires { model.longest_sequence(); })
      most = (std::min)(most, model.longest_sequence());
    const Index rows = static_cast<Index>(prompts.size()) * config.num_beams;
    require(cache.batch() == rows, "generate: the cache must have ", rows,
            " rows, one for each prompt and beam; got ", cache.batch());
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      const Index past = cache.length(static_cast<Index>(b) * config.num_beams);
      const Index wanted = past + static_cast<Index>(prompts[b].size()) +
                           (std::max)(config.max_new_tokens - 1, Index{0});
      require(config.max_new_tokens == 0 || wanted <= most, "generate: prompt ", b, " and ",
              config.max_new_tokens, " new tokens need ", wanted,
              " places; the model and its cache "
              "have ",
              most);
    }
  }
}

}  // namespace internal

namespace internal {

/// Truncates a cache to the lengths that it has now, unless `keep` is called.
template <class Cache>
class CacheGuard {
 public:
  CacheGuard(Cache& cache, bool active) : cache_(cache), active_(active) {
    if constexpr (truncates) {
      if (active_) lengths_.assign(cache.lengths().begin(), cache.lengths().end());
    }
  }
  CacheGuard(const CacheGuard&) = delete;
  CacheGuard& operator=(const CacheGuard&) = delete;
  ~CacheGuard() {
    if constexpr (truncates) {
      for (std::size_t b = 0; active_ && b < lengths_.size(); ++b)
        cache_.truncate(static_cast<Index>(b), lengths_[b]);
    }
  }

  void keep() { active_ = false; }

 private:
  static constexpr bool truncates = requires(Cache & cache) {
    cache.lengths().begin();
    cache.truncate(Index{0}, Index{0});
  };

  Cache& cache_;
  bool active_;
  std::vector<Index> lengths_;
};

}  // namespace internal

/// Continues a cache of B * num_beams rows, which has room for generation_capacity more tokens:
/// that of an encoder-decoder, which remembers its source (for beams: num_beams times in a row), or
/// one that holds the beginning of the texts. The cache then holds all but each text's last new
/// token: to go on, let the next prompt begin with it. If it throws, the cache holds what it held before;
/// with beams, some valid texts.
template <GenerativeModel Model, TokenCallback OnToken = IgnoreTokens>
Generated generate(const Model& model, typename Model::Cache& cache, const TokenRows& prompts,
                   const GenerationConfig& config, Workspace& workspace, OnToken&& on_token = {}) {
  using Scalar = typename Model::Scalar;
  config.checked(static_cast<Index>(prompts.size()), model.vocab_size());
  internal::require_prompts(prompts);
  internal::require_generation_fits(model, cache, prompts, config);
  const auto step = [&](TensorView<const std::int32_t, 2> ids, const IntegerSequence& counts,
                        TensorView<Scalar, 2> logits) {
    model.forward_last(ids, cache, typename Model::Inputs{.token_counts = counts}, logits,
                       workspace);
  };
  const auto reorder = [&](std::span<const Index> rows) { cache.reorder(rows); };
  internal::CacheGuard guard(cache, config.num_beams == 1);
  Generated texts = generate_with<Scalar>(step, reorder, model.vocab_size(), prompts, config,
                                          workspace, on_token);
  guard.keep();
  return texts;
}

/// From a new cache.
template <GenerativeModel Model, TokenCallback OnToken = IgnoreTokens>
Generated generate(const Model& model, const TokenRows& prompts, const GenerationConfig& config,
                   Workspace& workspace, OnToken&& on_token = {}) {
  const Index batch = static_cast<Index>(prompts.size());
  config.checked(batch, model.vocab_size());
  internal::require_prompts(prompts);
  auto cache = model.make_cache(batch * config.num_beams, generation_capacity(prompts, config));
  return generate(model, cache, prompts, config, workspace, on_token);
}

/// The same on one thread.
template <GenerativeModel Model, TokenCallback OnToken = IgnoreTokens>
Generated generate(const Model& model, const TokenRows& prompts,
                   const GenerationConfig& config = {}, OnToken&& on_token = {}) {
  Workspace workspace;
  return generate(model, prompts, config, workspace, on_token);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
