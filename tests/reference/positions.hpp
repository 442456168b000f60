// SPDX-License-Identifier: MIT
#pragma once

// Positions inside attention by the formulas of their authors, each in another way than the
// library's: rotary angles from wavelengths, ALiBi's slopes by the paper's recursion, T5's buckets
// from powers of whole numbers.

#include <algorithm>
#include <cmath>
#include <vector>

#include "eigenformer/kernels/rotary_frequencies.hpp"
#include "tests/reference/numbers.hpp"

namespace reference {

/// Of the pairs of a head's rotated part, radians a position.
inline std::vector<Real> rotary_frequencies(const ef::RotaryConfig& config, Index transposed) {
  const ef::RotaryScaling& scaling = config.rope_scaling;
  const Real two_pi = 2 * std::acos(Real(-1)), factor = scaling.factor;
  const Real context = Real(scaling.original_max_position_embeddings), size = Real(transposed);
  Real theta = config.rope_theta;
  if (scaling.type == ef::RotaryScalingType::dynamic) {
    const Real length = std::max(Real(scaling.length), context);
    theta *= std::pow(factor * length / context - (factor - 1), size / (size - 2));
  }
  // Pairs between `first` and `last` are mixed by YaRN; a pair makes so many turns in the context.
  const auto pair_of = [&](Real turns) {
    return size / 2 * std::log(context / (two_pi * turns)) / std::log(theta);
  };
  Real first = 0, last = 0;
  if (scaling.type == ef::RotaryScalingType::yarn) {
    first = std::max(std::floor(pair_of(scaling.beta_fast)), Real(0));
    last = std::min(std::ceil(pair_of(scaling.beta_slow)), size - 1);
  }
  std::vector<Real> frequencies;
  for (Index i = 0; i < transposed / 2; ++i) {
    const Real wavelength = two_pi * std::pow(theta, Real(2 * i) / size);
    Real own = two_pi / wavelength;
    if (scaling.type == ef::RotaryScalingType::linear) own = two_pi / (factor * wavelength);
    if (scaling.type == ef::RotaryScalingType::llama3) {
      const Real longest = context / scaling.low_freq_factor;
      const Real shortest = context / scaling.high_freq_factor;
      if (wavelength > longest) {
        own /= factor;
      } else if (wavelength > shortest) {
        const Real smooth = (context / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
        own = (1 - smooth) * own / factor + smooth * own;
      }
    }
    if (scaling.type == ef::RotaryScalingType::yarn) {
      const Real ramp = Real(i) <= first  ? 0
                        : Real(i) >= last ? 1
                                          : (Real(i) - first) / (last - first);
      own = own * (1 - ramp) + own / factor * ramp;
    }
    frequencies.push_back(own);
  }
  return frequencies;
}

/// Turns one head of `size` elements in place.
inline void rotate(const ef::RotaryConfig& config, Real* x, Index size, Index position) {
  const auto transposed = static_cast<Index>(config.partial_rotary_factor * double(size));
  const std::vector<Real> frequencies = rotary_frequencies(config, transposed);
  Real amplitude = 1;
  if (config.rope_scaling.type == ef::RotaryScalingType::yarn) {
    amplitude = config.rope_scaling.attention_factor
                    ? Real(*config.rope_scaling.attention_factor)
                    : 1 + std::log(Real(config.rope_scaling.factor)) / 10;
  }
  for (Index i = 0; i < transposed / 2; ++i) {
    const bool halves = config.layout == ef::RotaryLayout::halves;
    Real& a = x[halves ? i : 2 * i];
    Real& b = x[halves ? i + transposed / 2 : 2 * i + 1];
    const Real angle = Real(position) * frequencies[static_cast<std::size_t>(i)];
    const Real c = amplitude * std::cos(angle), s = amplitude * std::sin(angle), old = a;
    a = old * c - b * s;
    b = b * c + old * s;
  }
}

/// The recursion in the paper's code: for H = 2^n a geometric series whose first term is its ratio,
/// else the slopes of the power of two below and every second one of the power above.
inline std::vector<Real> alibi_slopes(Index heads) {
  Index below = 1;
  while (2 * below <= heads) below *= 2;
  std::vector<Real> slopes;
  if (below == heads) {
    const Real ratio = std::pow(Real(2), Real(-8) / Real(heads));
    Real slope = 1;
    for (Index h = 0; h < heads; ++h) slopes.push_back(slope *= ratio);
    return slopes;
  }
  slopes = alibi_slopes(below);
  const std::vector<Real> above = alibi_slopes(2 * below);
  for (Index h = below; h < heads; ++h)
    slopes.push_back(above[static_cast<std::size_t>(2 * (h - below))]);
  return slopes;
}

/// T5's bucket of key position - query position.
inline Index relative_bucket(Index offset, Index buckets, Index max_distance, bool bidirectional) {
  if (bidirectional) {
    return relative_bucket(-std::abs(offset), buckets / 2, max_distance, false) +
           (offset > 0 ? buckets / 2 : 0);
  }
  const Index n = std::max<Index>(-offset, 0), exact = buckets / 2, wide = buckets - exact;
  if (n < exact) return n;
  // exact + k for the largest k with (n / exact)^wide >= (max_distance / exact)^k.
  const auto power = [](Index base, Index exponent) {
    Real product = 1;
    for (Index i = 0; i < exponent; ++i) product *= Real(base);
    return product;
  };
  Index k = 0;
  while (k + 1 < wide &&
         power(n, wide) * power(exact, k + 1) >= power(max_distance, k + 1) * power(exact, wide)) {
    ++k;
  }
  return exact + k;
}

}  // namespace reference
