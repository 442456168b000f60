// SPDX-License-Identifier: MIT
#pragma once

// Token, position and type embeddings, and patches of images.

#include <cmath>

#include "eigenformer/nn/embeddings.hpp"
#include "tests/reference/matrix_product.hpp"
#include "tests/reference/normalization.hpp"

namespace reference {

/// Column `c` of the sinusoid of position `p`, width `width`, by the formulas of the three layouts.
inline Real sinusoid(ef::SinusoidalLayout layout, Real p, Index c, Index width) {
  const auto wave = [&](Index index, Real steps) {
    return p / std::pow(Real(10000), Real(index) / steps);
  };
  if (layout == ef::SinusoidalLayout::interleaved) {
    const Real angle = wave(c / 2 * 2, Real(width));
    return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  if (layout == ef::SinusoidalLayout::concatenated) {
    const Index sines = (width + 1) / 2;
    return c < sines ? std::sin(wave(2 * c, Real(width)))
                     : std::cos(wave(2 * (c - sines), Real(width)));
  }
  const Index sines = width / 2;
  if (c == 2 * sines) return 0;
  const Real steps = sines > 1 ? Real(sines - 1) : 1;
  return c < sines ? std::sin(wave(c, steps)) : std::cos(wave(c - sines, steps));
}

/// ids, types, positions: (B, T); empty types are type 0, empty positions count from first_position
/// + position_offset.
template <class Module>
Reals<3> embeddings(const Module& module, const ef::Tensor<std::int32_t, 2>& ids,
                    const ef::Tensor<std::int32_t, 2>& types = {},
                    const ef::Tensor<std::int32_t, 2>& positions = {}, Index first_position = 0) {
  const auto& config = module.config;
  Reals<3> y({ids.dim(0), ids.dim(1), config.hidden_size});
  for (Index b = 0; b < y.dim(0); ++b) {
    for (Index t = 0; t < y.dim(1); ++t) {
      const Index position =
          positions.empty() ? first_position + t + config.position_offset : positions(b, t);
      for (Index c = 0; c < y.dim(2); ++c) {
        Real value = module.token.weight(ids(b, t), c);
        if (config.scale_embeddings) value *= std::sqrt(Real(config.hidden_size));
        if (module.token_type)
          value += module.token_type->weight(types.empty() ? 0 : types(b, t), c);
        if (module.position) value += module.position->weight(position, c);
        if (config.position_embedding == ef::PositionEmbedding::sinusoidal) {
          value += sinusoid(config.sinusoidal_layout, Real(position), c, config.hidden_size);
        }
        y(b, t, c) = value;
      }
    }
  }
  return module.norm ? norm(y, *module.norm) : y;
}

/// images: (B, channels, height, width); each patch flattened as (channel, row, column).
template <class Module>
Reals<3> patch_embedding(const Module& module, const Reals<4>& images) {
  const auto patch = module.config.patch_size;
  const Index rows = images.dim(2) / patch.height, columns = images.dim(3) / patch.width;
  Reals<3> patches({images.dim(0), rows * columns, images.dim(1) * patch.height * patch.width});
  for (Index b = 0; b < images.dim(0); ++b) {
    for (Index c = 0; c < images.dim(1); ++c) {
      for (Index i = 0; i < rows * patch.height; ++i) {
        for (Index j = 0; j < columns * patch.width; ++j) {
          const Index token = i / patch.height * columns + j / patch.width;
          const Index pixel = (c * patch.height + i % patch.height) * patch.width + j % patch.width;
          patches(b, token, pixel) = images(b, c, i, j);
        }
      }
    }
  }
  return linear(patches, module.projection);
}

}  // namespace reference
