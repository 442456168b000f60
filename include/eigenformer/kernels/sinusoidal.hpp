// SPDX-License-Identifier: MIT
#pragma once

// Sinusoidal positions (Vaswani et al. 2017): waves of geometrically growing length, sine and cosine of each. Three layouts are in
// use, and checkpoints of one don't work under another. For position p, width C, frequency index i:
//
//   interleaved     column 2i = sin(p w_i), 2i + 1 = cos(p w_i),   w_i = 10000^{-2i/C}          the paper, DistilBERT, D2L
//   concatenated    column i = sin(p w_i), ceil(C/2) + i = cos,    w_i = 10000^{-2i/C}          Marian
//   tensor2tensor   column i = sin(p w_i), floor(C/2) + i = cos,   w_i = 10000^{-i/(C/2 - 1)}   tensor2tensor, Whisper
//
// Odd widths: the cosine without a partner is left out; tensor2tensor pads its last column with zero. Angles are made in double.

#include <algorithm>
#include <cmath>
#include <string>

#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class SinusoidalLayout { interleaved, concatenated, tensor2tensor };

inline std::string to_string(SinusoidalLayout layout) {
  switch (layout) {
    case SinusoidalLayout::interleaved: return "interleaved";
    case SinusoidalLayout::concatenated: return "concatenated";
    case SinusoidalLayout::tensor2tensor: return "tensor2tensor";
  }
  return "unknown layout";
}

/// The row for `position` into y (C); added to what is there if `add`.
template <class T>
void sinusoidal_position(SinusoidalLayout layout, Index position, T* y, Index width, bool add = false) {
  constexpr double base = 10000.0;
  const auto put = [&](Index column, double value) {
    if (column < width) y[column] = (add ? y[column] : T(0)) + static_cast<T>(value);
  };
  const auto angle = [&](double exponent) { return static_cast<double>(position) * std::pow(base, -exponent); };
  const double columns = static_cast<double>(width);
  if (layout == SinusoidalLayout::tensor2tensor) {
    const Index waves = width / 2;
    const double steps = std::max(1.0, static_cast<double>(waves) - 1.0);
    for (Index i = 0; i < waves; ++i) {
      const double a = angle(static_cast<double>(i) / steps);
      put(i, std::sin(a));
      put(waves + i, std::cos(a));
    }
    if (width % 2 == 1) put(width - 1, 0.0);
    return;
  }
  const Index waves = (width + 1) / 2;
  for (Index i = 0; i < waves; ++i) {
    const double a = angle(static_cast<double>(2 * i) / columns);
    const bool interleaved = layout == SinusoidalLayout::interleaved;
    put(interleaved ? 2 * i : i, std::sin(a));
    put(interleaved ? 2 * i + 1 : waves + i, std::cos(a));
  }
}

/// Positions first ... first + count - 1 as a table (count, C).
template <class T>
Tensor<T, 2> sinusoidal_positions(Index count, Index width, SinusoidalLayout layout = SinusoidalLayout::interleaved,
                                  Index first = 0) {
  Tensor<T, 2> table({count, width});
  for (Index i = 0; i < count; ++i) sinusoidal_position(layout, first + i, table.data() + i * width, width);
  return table;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
