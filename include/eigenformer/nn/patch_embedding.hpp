// SPDX-License-Identifier: MIT
#pragma once

// Images to tokens (Dosovitskiy et al. 2020): every patch of pixels through one Linear. The same
// map as a convolution with kernel = stride = patch_size, whose weights (C, channels, height,
// width) are `projection.weight` (C, channels height width) in memory.
//
//   images: (B, num_channels, height, width)   y: (B, N, hidden_size)
//   N = floor(height / patch height) floor(width / patch width), row by row

#include "eigenformer/kernels/patches.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct PatchEmbeddingConfig {
  ImageSize image_size = {};  // {height, width}, or one number for a square
  ImageSize patch_size = {};
  Index num_channels = 3;
  Index hidden_size = 0;

  friend bool operator==(const PatchEmbeddingConfig&, const PatchEmbeddingConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("image_size", c.image_size...);
    f("patch_size", c.patch_size...);
    f("num_channels", c.num_channels...);
    f("hidden_size", c.hidden_size...);
  }

  Index num_patches() const {
    return (image_size.height / patch_size.height) * (image_size.width / patch_size.width);
  }

  /// The patch embedding of a model.
  static PatchEmbeddingConfig from(const TransformerConfig& c) {
    return {.image_size = c.image_size,
            .patch_size = c.patch_size,
            .num_channels = c.num_channels,
            .hidden_size = c.hidden_size};
  }
};

template <class Format>
struct PatchEmbedding {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = PatchEmbedding<F>;

  PatchEmbeddingConfig config;
  Linear<Format> projection;

  /// Throws std::invalid_argument for sizes that aren't positive or a patch larger than the image.
  explicit PatchEmbedding(const PatchEmbeddingConfig& config_)
      : config(checked(config_)),
        projection({config.num_channels * config.patch_size.height * config.patch_size.width,
                    config.hidden_size}) {}
  EIGENFORMER_STRONG_COPIES(PatchEmbedding)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("projection", layer.projection...);
  }

  void forward(TensorView<const Scalar, 4> images, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require_shape(
        "PatchEmbedding: images", images.shape(),
        {images.dim(0), config.num_channels, config.image_size.height, config.image_size.width});
    require_shape("PatchEmbedding: y", y.shape(),
                  {images.dim(0), config.num_patches(), config.hidden_size});
    require_disjoint("PatchEmbedding", {y}, {images});
    Scratch scratch(workspace);
    const auto patches = scratch.tensor<Scalar, 2>({y.rows(), projection.config.in_features});
    kernels::extract_patches(images, config.patch_size, patches, workspace);
    projection.forward(patches, y.folded(), workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 4>& images) const {
    Tensor<Scalar, 3> y({images.dim(0), config.num_patches(), config.hidden_size});
    Workspace workspace;
    forward(images, y, workspace);
    return y;
  }

 private:
  static const PatchEmbeddingConfig& checked(const PatchEmbeddingConfig& c) {
    require(c.patch_size.height > 0 && c.patch_size.width > 0 &&
                c.image_size.height >= c.patch_size.height &&
                c.image_size.width >= c.patch_size.width,
            "PatchEmbedding: patch_size must be > 0 and at most image_size; got ", c.patch_size,
            " and ", c.image_size);
    constexpr Index largest = Index{1} << 20;
    require(c.image_size.height <= largest && c.image_size.width <= largest &&
                c.num_channels <= largest,
            "PatchEmbedding: image_size and num_channels must be at most ", largest, "; got ",
            c.image_size, " and ", c.num_channels);
    require(c.num_channels > 0 && c.hidden_size > 0,
            "PatchEmbedding: num_channels and hidden_size must be > 0; got ", c.num_channels,
            " and ", c.hidden_size);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
