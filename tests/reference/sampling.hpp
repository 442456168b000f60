// SPDX-License-Identifier: MIT
#pragma once

// The choice of the next token in plain loops: everything is sorted and added up in full, in
// extended precision.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "eigenformer/kernels/sampling.hpp"
#include "tests/reference/numbers.hpp"

namespace reference {

template <class T>
using Logits = std::vector<T>;

template <class T>
inline constexpr T nothing = -std::numeric_limits<T>::infinity();

template <class T>
std::vector<Real> probabilities(const Logits<T>& x) {
  const T largest = *std::max_element(x.begin(), x.end());
  std::vector<Real> p(x.size());
  Real sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    p[j] = std::exp(static_cast<Real>(x[j]) - static_cast<Real>(largest));
    sum += p[j];
  }
  for (Real& value : p) value /= sum;
  return p;
}

/// Ids, most probable first, equal ones by id.
template <class T>
std::vector<std::size_t> ranking(const Logits<T>& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  return order;
}

template <class T>
void repetition_penalty(Logits<T>& x, const std::vector<std::int32_t>& tokens, double penalty) {
  for (const std::int32_t token : std::set<std::int32_t>(tokens.begin(), tokens.end())) {
    const auto j = static_cast<std::size_t>(token);
    if (j < x.size())
      x[j] = x[j] > 0 ? x[j] / static_cast<T>(penalty) : x[j] * static_cast<T>(penalty);
  }
}

template <class T>
void top_k(Logits<T>& x, Index k) {
  if (k == 0) return;
  const std::size_t last = std::min(static_cast<std::size_t>(k), x.size()) - 1;
  const T smallest = x[ranking(x)[last]];
  for (T& value : x) value = value < smallest ? nothing<T> : value;
}

template <class T>
void top_p(Logits<T>& x, double limit) {
  if (limit == 1) return;
  const std::vector<Real> p = probabilities(x);
  Real sum = 0;
  for (const std::size_t j : ranking(x)) {
    if (static_cast<T>(sum) >= static_cast<T>(limit)) x[j] = nothing<T>;
    sum += p[j];
  }
}

template <class T>
void min_p(Logits<T>& x, double ratio) {
  const std::vector<Real> p = probabilities(x);
  const Real largest = *std::max_element(p.begin(), p.end());
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (static_cast<T>(p[j] / largest) < static_cast<T>(ratio)) x[j] = nothing<T>;
  }
}

template <class T>
std::int32_t sample(const Logits<T>& x, double uniform) {
  const std::vector<Real> p = probabilities(x);
  Real sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    sum += p[j];
    if (sum > static_cast<Real>(uniform)) return static_cast<std::int32_t>(j);
  }
  return -1;
}

template <class T>
std::int32_t choose(Logits<T>& x, const std::vector<std::int32_t>& tokens,
                    const ef::SamplingConfig& config, double uniform) {
  repetition_penalty(x, tokens, config.repetition_penalty);
  if (!config.do_sample || config.temperature == 0)
    return static_cast<std::int32_t>(ranking(x).front());
  for (T& value : x) value /= static_cast<T>(config.temperature);
  top_k(x, config.top_k);
  top_p(x, config.top_p);
  min_p(x, config.min_p);
  return sample(x, uniform);
}

}  // namespace reference
