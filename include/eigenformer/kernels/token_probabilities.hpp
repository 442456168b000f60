// SPDX-License-Identifier: MIT
#pragma once

// From a row of logits x (V) to the probabilities of tokens, e^{x_j - max x} / sum, in double, for
// sampling and beam search. A token whose logit is -infinity is impossible.
//
// Logits must be finite or -infinity, and at least one finite; else std::invalid_argument.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eigenformer/base/workspace.hpp"
#include "eigenformer/kernels/softmax.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

/// The largest logit; throws for logits that nothing can be chosen from. `who` begins the text.
template <class T, class... Who>
std::remove_const_t<T> largest_logit(TensorView<T, 1> logits, const Who&... who) {
  using Scalar = std::remove_const_t<T>;
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  require(!logits.empty(), who..., ": there must be at least one logit; got none");
  Index wrong = 0;
  for (const Scalar x : logits) wrong += x < infinity ? 0 : 1;  // also counts NaN
  if (wrong > 0) [[unlikely]] {
    const T* first = std::find_if(logits.begin(), logits.end(), [](Scalar x) {
      return !(x < std::numeric_limits<T>::infinity());
    });
    require(false, who..., ": logits must be finite or -infinity; got ", *first, " for token ",
            first - logits.begin(), " of ", logits.size());
  }
  const Scalar largest = kernels::target<Scalar>().largest(logits.data(), logits.size());
  require(largest > -infinity, who..., ": all ", logits.size(), " logits are -infinity");
  return largest;
}

/// The tokens that aren't taken out, in ascending order, with w = e^{x - max x} of each in double.
struct PossibleTokens {
  std::int32_t* ids;
  double* weights;
  Index count;
  double sum;  // of the weights
};

template <class T>
PossibleTokens possible_tokens(TensorView<T, 1> logits, Scratch& scratch) {
  const double largest = static_cast<double>(largest_logit(logits, "sampling"));
  auto* ids = scratch.array<std::int32_t>(logits.size());
  auto* weights = scratch.array<double>(logits.size());
  Index count = 0;
  for (Index j = 0; j < logits.size(); ++j) {
    const T x = logits(j);
    ids[count] = static_cast<std::int32_t>(j);
    weights[count] = static_cast<double>(x);
    count += x > -std::numeric_limits<T>::infinity() ? 1 : 0;
  }
  return {ids, weights, count,
          kernels::target<double>().exponentials(weights, largest, weights, count)};
}

/// Takes out the tokens for which keep(weight) is false.
template <class T, class Keep>
void keep_if(TensorView<T, 1> logits, const PossibleTokens& tokens, Keep&& keep) {
  for (Index i = 0; i < tokens.count; ++i) {
    if (!keep(tokens.weights[i])) logits(tokens.ids[i]) = -std::numeric_limits<T>::infinity();
  }
}

}  // namespace internal

namespace kernels {

/// x = log softmax of the logits, in double. `who` begins error texts.
template <class T, class... Who>
void log_probabilities(TensorView<T, 1> logits, TensorView<double, 1> x, Scratch& scratch,
                       const Who&... who) {
  const double largest = static_cast<double>(eigenformer::internal::largest_logit(logits, who...));
  std::copy(logits.begin(), logits.end(), x.begin());
  double* weights = scratch.array<double>(x.size());
  const double log_sum =
      std::log(target<double>().exponentials(x.data(), largest, weights, x.size()));
  for (double& value : x) value = value - largest - log_sum;
}

}  // namespace kernels

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
