// SPDX-License-Identifier: MIT
#pragma once

// Sinusoidal positions (Vaswani et al. 2017): waves of geometrically growing length, sine and
// cosine of each. Three layouts are in use, and checkpoints of one don't work under another. For
// position p, width C, frequency index i:
//
//   interleaved     sin(p w_i) in column 2i, cos in 2i + 1          w_i = 10000^{-2i/C}
//   concatenated    sin(p w_i) in column i, cos in ceil(C/2) + i    w_i = 10000^{-2i/C}
//   tensor2tensor   sin(p w_i) in column i, cos in floor(C/2) + i   w_i = 10000^{-i/(C/2 - 1)}
//
// The paper and DistilBERT interleave, Marian concatenates, Whisper follows tensor2tensor.
//
// Odd widths: the cosine without a partner is left out; tensor2tensor pads its last column with
// zero. Angles are made in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "eigenformer/base/enumeration.hpp"
#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class SinusoidalLayout { interleaved, concatenated, tensor2tensor };

template <>
struct Enumeration<SinusoidalLayout> {
  static constexpr Enumerator<SinusoidalLayout> all[] = {
      {SinusoidalLayout::interleaved, "interleaved"},
      {SinusoidalLayout::concatenated, "concatenated"},
      {SinusoidalLayout::tensor2tensor, "tensor2tensor"}};
};

namespace kernels {

/// Number of frequencies for a width.
inline Index sinusoidal_waves(SinusoidalLayout layout, Index width) {
  return layout == SinusoidalLayout::tensor2tensor ? width / 2 : (width + 1) / 2;
}

/// w_i for each frequency index i.
inline void sinusoidal_frequencies(SinusoidalLayout layout, Index width, double* frequencies) {
  const Index waves = sinusoidal_waves(layout, width);
  const double steps = layout == SinusoidalLayout::tensor2tensor
                           ? (std::max)(1.0, static_cast<double>(waves) - 1.0)
                           : static_cast<double>(width) / 2.0;
  for (Index i = 0; i < waves; ++i) {
    frequencies[i] = std::pow(10000.0, -static_cast<double>(i) / steps);
  }
}

/// Adds the row for `position` to y (C).
template <class T>
void add_sinusoid(SinusoidalLayout layout, Index position, const double* frequencies, T* y,
                  Index width) {
  const Index waves = sinusoidal_waves(layout, width);
  const bool interleaved = layout == SinusoidalLayout::interleaved;
  for (Index i = 0; i < waves; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    const Index sine = interleaved ? 2 * i : i, cosine = interleaved ? 2 * i + 1 : waves + i;
    y[sine] += static_cast<T>(std::sin(angle));
    if (cosine < width) y[cosine] += static_cast<T>(std::cos(angle));
  }
}

/// Adds the rows for `positions` (rows) to y (rows, C).
template <class T>
void add_sinusoids(SinusoidalLayout layout, const std::int32_t* positions, TensorView<T, 2> y,
                   Workspace& workspace) {
  const Index width = y.columns();
  Scratch scratch(workspace);
  auto* frequencies = scratch.array<double>(sinusoidal_waves(layout, width));
  sinusoidal_frequencies(layout, width, frequencies);
  for_each_row_block(y.rows(), width, workspace, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      add_sinusoid(layout, positions[i], frequencies, y.data() + i * width, width);
  });
}

}  // namespace kernels

/// Positions first ... first + count - 1 as a table (count, C).
template <class T>
Tensor<T, 2> sinusoidal_positions(Index count, Index width,
                                  SinusoidalLayout layout = SinusoidalLayout::interleaved,
                                  Index first = 0) {
  require(count >= 0 && width >= 0, "sinusoidal_positions: count and width must be >= 0; got ",
          count, " and ", width);
  Tensor<T, 2> table({count, width});
  Tensor<double, 1> frequencies({kernels::sinusoidal_waves(layout, width)});
  kernels::sinusoidal_frequencies(layout, width, frequencies.data());
  for (Index i = 0; i < count; ++i) {
    kernels::add_sinusoid(layout, first + i, frequencies.data(), table.data() + i * width, width);
  }
  return table;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
