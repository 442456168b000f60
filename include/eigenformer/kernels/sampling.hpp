// SPDX-License-Identifier: MIT
#pragma once

// The next token from one row of logits x (V): what is done, and in which order, is that of
// transformers' `generate`.
//
//   repetition penalty   x_j = x_j / r if x_j > 0, else x_j r, for each token j seen so far
//   temperature          x_j = x_j / temperature
//   top-k                leaves the k largest, and all that equal the k-th
//   top-p                leaves the smallest set of most probable tokens that reaches top_p
//   min-p                leaves the tokens with p_j >= min_p max_i p_i
//   sample               the first j with p_0 + ... + p_j > u, u uniform in [0, 1)
//
// with p the softmax of x. What isn't left becomes -infinity. Greedy choice (do_sample = false or
// temperature = 0) takes the largest after the repetition penalty; of equals the smallest id.
//
// Sources: Keskar et al., "CTRL", 2019 (penalty); Fan, Lewis, Dauphin, "Hierarchical neural story
// generation", 2018 (top-k); Holtzman et al., "The curious case of neural text degeneration", 2020
// (top-p); Nguyen et al., "Turning up the heat", 2024 (min-p).
//
// Logits must be finite or -infinity, and at least one finite; else std::invalid_argument.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "eigenformer/kernels/token_probabilities.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct SamplingConfig {
  double temperature = 1;         // 0: greedy
  Index top_k = 0;                // 0: all
  double top_p = 1;               // in (0, 1]
  double min_p = 0;               // in [0, 1]
  double repetition_penalty = 1;  // > 1 makes tokens seen so far less likely
  bool do_sample = false;         // false: greedy

  bool greedy() const { return !do_sample || temperature == 0; }

  /// Itself; throws for a number that makes no sense.
  const SamplingConfig& checked() const {
    constexpr double largest = 1e30;  // finite in float
    require(temperature >= 0 && temperature <= largest,
            "SamplingConfig: temperature must be in [0, 1e30]; got ", temperature);
    require(top_k >= 0, "SamplingConfig: top_k must be >= 0 (0: all); got ", top_k);
    require(top_p > 0 && top_p <= 1, "SamplingConfig: top_p must be in (0, 1]; got ", top_p);
    require(min_p >= 0 && min_p <= 1, "SamplingConfig: min_p must be in [0, 1]; got ", min_p);
    require(repetition_penalty >= 1 / largest && repetition_penalty <= largest,
            "SamplingConfig: repetition_penalty must be in [1e-30, 1e30]; got ",
            repetition_penalty);
    require(do_sample ||
                ((temperature == 1 || temperature == 0) && top_k == 0 && top_p == 1 && min_p == 0),
            "SamplingConfig: temperature, top_k, top_p and min_p need do_sample = true; got ",
            temperature, ", ", top_k, ", ", top_p, " and ", min_p);
    return *this;
  }
};

/// Each of the tokens counts once, however often it occurs. Ids from V on are passed over: a model
/// may read tokens that it never writes.
template <class T>
void apply_repetition_penalty(TensorView<T, 1> logits, std::span<const std::int32_t> tokens,
                              double penalty, Arena& arena) {
  SamplingConfig{.repetition_penalty = penalty}.checked();
  if (penalty == 1) return;
  const T factor = static_cast<T>(penalty);
  Scratch scratch(arena);
  T* penalized = scratch.array<T>(static_cast<Index>(tokens.size()));
  T* next = penalized;
  for (const std::int32_t token : tokens) {
    require(token >= 0, "apply_repetition_penalty: token ids must be >= 0; got ", token);
    if (token >= logits.size()) continue;
    const T x = logits(token);
    *next++ = x < T(0) ? x * factor : x / factor;
  }
  next = penalized;
  for (const std::int32_t token : tokens) {
    if (token < logits.size()) logits(token) = *next++;
  }
}

/// temperature > 0, however small: where the largest quotient would overflow, the largest logit is
/// subtracted first, which changes no probability.
template <class T>
void apply_temperature(TensorView<T, 1> logits, double temperature) {
  SamplingConfig{.temperature = temperature, .do_sample = true}.checked();
  require(temperature > 0, "apply_temperature: temperature must be > 0; got ", temperature);
  if (temperature == 1) return;
  using Limits = std::numeric_limits<T>;
  const T divisor = (std::max)(static_cast<T>(temperature), (Limits::min)());
  const T largest = kernels::target<T>().largest(logits.data(), logits.size());
  const bool overflows = std::isfinite(largest) && std::abs(largest) > divisor * (Limits::max)();
  const T shift = overflows ? largest : T(0);
  for (T& x : logits) x = (x - shift) / divisor;
}

/// k = 0 or k >= V leaves all.
template <class T>
void keep_top_k(TensorView<T, 1> logits, Index k, Arena& arena) {
  SamplingConfig{.top_k = k, .do_sample = true}.checked();
  internal::largest_logit(logits, "keep_top_k");
  const Index size = logits.size();
  if (k == 0 || k >= size) return;
  Scratch scratch(arena);
  T* sorted = scratch.array<T>(size);
  if (k <= size / 128) {  // a heap of k is faster than a selection
    std::partial_sort_copy(logits.begin(), logits.end(), sorted, sorted + k, std::greater<T>());
  } else {
    std::copy(logits.begin(), logits.end(), sorted);
    std::nth_element(sorted, sorted + (k - 1), sorted + size, std::greater<T>());
  }
  const T smallest = sorted[k - 1];
  for (T& x : logits) {
    if (x < smallest) x = -std::numeric_limits<T>::infinity();
  }
}

/// Sums are made in double and compared with top_p in T, so that a set that misses it by a rounding
/// of T reaches it. Of equal tokens of which some must go, those of the smallest ids stay
/// (transformers leaves that to its sort). At least one token stays.
template <class T>
void keep_top_p(TensorView<T, 1> logits, double top_p, Arena& arena) {
  SamplingConfig{.top_p = top_p, .do_sample = true}.checked();
  Scratch scratch(arena);
  const internal::PossibleTokens tokens = internal::possible_tokens(logits, scratch);
  if (top_p == 1) return;

  // Tokens below this bound make up less than 1 - top_p together, so all of them go.
  const double bound = (1 - top_p) * tokens.sum / static_cast<double>(tokens.count);
  double* largest = scratch.array<double>(tokens.count);
  const double* end = std::copy_if(tokens.weights, tokens.weights + tokens.count, largest,
                                   [&](double w) { return w >= bound; });

  // Bisection: the `first` largest don't reach top_p, the `last` largest do.
  Index first = 0, last = end - largest;
  double sum = 0;
  while (last - first > 1) {
    const Index middle = first + (last - first) / 2;
    std::nth_element(largest + first, largest + middle, largest + last, std::greater<double>());
    const double upper = std::accumulate(largest + first, largest + middle, sum);
    if (static_cast<T>(upper / tokens.sum) >= static_cast<T>(top_p)) {
      last = middle;
    } else {
      first = middle;
      sum = upper;
    }
  }
  const double smallest = largest[first];
  Index equals =
      last - std::count_if(largest, largest + first, [&](double w) { return w > smallest; });
  internal::keep_if(logits, tokens,
                    [&](double w) { return w > smallest || (w == smallest && equals-- > 0); });
}

/// Ratios of probabilities are made in double and compared with min_p in T.
template <class T>
void keep_min_p(TensorView<T, 1> logits, double min_p, Arena& arena) {
  SamplingConfig{.min_p = min_p, .do_sample = true}.checked();
  Scratch scratch(arena);
  internal::keep_if(logits, internal::possible_tokens(logits, scratch),
                    [&](double w) { return static_cast<T>(w) >= static_cast<T>(min_p); });
}

/// The token of the largest logit; of equals the smallest id.
template <class T>
std::int32_t greedy_token(TensorView<T, 1> logits) {
  const auto largest = internal::largest_logit(logits, "greedy_token");
  return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest) -
                                   logits.begin());
}

/// The first token j with p_0 + ... + p_j > uniform, which is in [0, 1). The sums are made in
/// double, in the order of the ids.
template <class T>
std::int32_t sample_token(TensorView<T, 1> logits, double uniform, Arena& arena) {
  require(uniform >= 0 && uniform < 1, "sample_token: uniform must be in [0, 1); got ", uniform);
  Scratch scratch(arena);
  const internal::PossibleTokens tokens = internal::possible_tokens(logits, scratch);
  double *sums = tokens.weights, *end = sums + tokens.count;
  std::partial_sum(sums, end, sums);
  // uniform <= 1 - 2^-53, so the product is below the last sum, rounded too.
  return tokens.ids[std::upper_bound(sums, end, uniform * end[-1]) - sums];
}

/// All of the above. `tokens`: the row's tokens so far, prompt included. Overwrites the logits with
/// those that the choice was made from.
template <class T>
std::int32_t choose_token(TensorView<T, 1> logits, std::span<const std::int32_t> tokens,
                          const SamplingConfig& config, double uniform, Arena& arena) {
  config.checked();
  internal::largest_logit(logits, "choose_token");
  apply_repetition_penalty(logits, tokens, config.repetition_penalty, arena);
  if (config.greedy()) return greedy_token(logits);
  apply_temperature(logits, config.temperature);
  if (config.top_k > 0) keep_top_k(logits, config.top_k, arena);
  if (config.top_p < 1) keep_top_p(logits, config.top_p, arena);
  if (config.min_p > 0) keep_min_p(logits, config.min_p, arena);
  return sample_token(logits, uniform, arena);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
