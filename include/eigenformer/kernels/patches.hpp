// SPDX-License-Identifier: MIT
#pragma once

// Patches of images (Dosovitskiy et al., "An image is worth 16x16 words", 2020): images (B,
// channels, height, width) are cut into non-overlapping patches, row by row; pixels beyond the last
// whole patch are dropped. Each patch is flattened in the order (channel, row, column), the order
// of a convolution's weights, so that the convolution with kernel = stride = patch is a Linear.

#include <algorithm>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/rows.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Height and width in pixels; one number means a square.
struct ImageSize {
  Index height = 0, width = 0;

  constexpr ImageSize() = default;
  constexpr ImageSize(Index side) : height(side), width(side) {}
  constexpr ImageSize(Index height_, Index width_) : height(height_), width(width_) {}
  friend constexpr bool operator==(const ImageSize&, const ImageSize&) = default;
};

inline std::string to_string(const ImageSize& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

namespace kernels {

/// images (B, channels, height, width) to patches (B * N, channels * patch.height * patch.width).
template <class T>
void extract_patches(TensorView<const T, 4> images, ImageSize patch, TensorView<T, 2> patches,
                     Workspace& workspace) {
  const Index channels = images.dim(1), height = images.dim(2), width = images.dim(3);
  const Index rows = height / patch.height, columns = width / patch.width;
  for_each_row_block(patches.rows(), patches.columns(), workspace, [&](Index begin, Index end) {
    for (Index p = begin; p < end; ++p) {
      const Index b = p / (rows * columns), row = p / columns % rows, column = p % columns;
      T* to = patches.data() + p * patches.columns();
      for (Index c = 0; c < channels; ++c) {
        for (Index i = 0; i < patch.height; ++i) {
          const T* from = images.data() +
                          ((b * channels + c) * height + row * patch.height + i) * width +
                          column * patch.width;
          to = std::copy_n(from, patch.width, to);
        }
      }
    }
  });
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
