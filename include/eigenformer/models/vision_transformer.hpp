// SPDX-License-Identifier: MIT
#pragma once

// The vision transformer (Dosovitskiy et al. 2020): patches of an image, a class token in front,
// learned positions, pre-norm encoder layers, a final norm, and a linear head on the class token.
//
//   images: (B, num_channels, height, width)   logits: (B, num_labels)
//
// `features` gives all tokens after the final norm: (B, 1 + N, hidden_size).

#include "eigenformer/models/layers.hpp"
#include "eigenformer/nn/encoder_layer.hpp"
#include "eigenformer/nn/patch_embedding.hpp"
#include "eigenformer/nn/pooler.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What a vision transformer takes for fields that are left open: ViT-B/16's, for 1000 classes.
inline TransformerConfig vision_defaults() {
  TransformerConfig defaults = layer_defaults();
  defaults.image_size = 224;
  defaults.patch_size = 16;
  defaults.num_channels = 3;
  defaults.hidden_size = 768;
  defaults.num_hidden_layers = 12;
  defaults.num_attention_heads = 12;
  defaults.intermediate_size = 3072;
  defaults.norm_placement = NormPlacement::pre;
  defaults.final_norm = true;
  defaults.num_labels = 1000;
  defaults.layer_norm_eps = 1e-12;
  defaults.rms_norm_eps = 1e-6;
  return defaults;
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct VisionTransformer {
  using Scalar = ScalarOf<Format>;
  using Layer = EncoderLayer<Format, Norm, FeedForwardNetwork>;
  template <class F>
  using WithFormat = VisionTransformer<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  PatchEmbedding<Format> patch_embedding;
  Parameter<Format, 1> class_token;                   // (hidden_size)
  Parameter<Format, 2> position_embedding;            // (1 + N, hidden_size)
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;
  Linear<Format> head;

  explicit VisionTransformer(const TransformerConfig& config_)
      : config(config_.with_defaults(vision_defaults())),
        patch_embedding(PatchEmbeddingConfig::from(config)),
        class_token({config.hidden_size}),
        position_embedding({1 + patch_embedding.config.num_patches(), config.hidden_size}),
        relative_bias(make_relative_bias<Format>(config, true)),
        layers(make_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)),
        head({config.hidden_size, config.num_labels}) {}
  EIGENFORMER_STRONG_COPIES(VisionTransformer)

  template <class F, class... Model>
  static void visit(F&& f, Model&... model) {
    f("patch_embedding", model.patch_embedding...);
    f("class_token", model.class_token...);
    f("position_embedding", model.position_embedding...);
    f("relative_bias", model.relative_bias...);
    f("layers", model.layers...);
    f("final_norm", model.final_norm...);
    f("head", model.head...);
  }

  /// Class token zero, positions normal with deviation 0.02.
  void init_own(Key key) {
    std::fill(class_token.begin(), class_token.end(), Scalar(0));
    fill_normal(position_embedding, key);
  }

  /// Tokens a sequence: the class token and one for each patch.
  Index sequence_length() const { return position_embedding.dim(0); }

  /// All tokens after the final norm, (B, sequence_length(), hidden_size).
  void features(TensorView<const Scalar, 4> images, TensorView<Scalar, 3> y,
                const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    const Index batch = images.dim(0), tokens = sequence_length(), width = config.hidden_size;
    require_shape("VisionTransformer: y", y.shape(), {batch, tokens, width});
    require_parts();
    require_stack_call("VisionTransformer", *this, batch, tokens, tokens, Mask<Scalar>{});
    {
      Scratch scratch(workspace);
      const auto patches = scratch.tensor<Scalar, 3>({batch, tokens - 1, width});
      patch_embedding.forward(images, patches, workspace);
      for (Index b = 0; b < batch; ++b) {
        Scalar* sequence = y.data() + b * tokens * width;
        std::copy(class_token.begin(), class_token.end(), sequence);
        std::copy_n(patches.data() + b * (tokens - 1) * width, (tokens - 1) * width,
                    sequence + width);
        const TensorView<Scalar, 2> rows(sequence, {tokens, width});
        kernels::add<Scalar>(rows, position_embedding, rows, workspace);
      }
    }
    run_encoder(*this, Mask<Scalar>{}, y, observer, workspace);
  }
  void features(TensorView<const Scalar, 4> images, TensorView<Scalar, 3> y,
                Workspace& workspace) const {
    features(images, y, Observer<Scalar>(), workspace);
  }

  void forward(TensorView<const Scalar, 4> images, TensorView<Scalar, 2> logits,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require_shape("VisionTransformer: logits", logits.shape(), {images.dim(0), config.num_labels});
    Scratch scratch(workspace);
    const auto tokens =
        scratch.tensor<Scalar, 3>({images.dim(0), sequence_length(), config.hidden_size});
    const auto first = scratch.tensor<Scalar, 2>({images.dim(0), config.hidden_size});
    features(images, tokens, observer, workspace);
    first_tokens<Scalar>(tokens, first);
    head.forward(first, logits, workspace);
  }
  void forward(TensorView<const Scalar, 4> images, TensorView<Scalar, 2> logits,
               Workspace& workspace) const {
    forward(images, logits, Observer<Scalar>(), workspace);
  }

  Tensor<Scalar, 2> operator()(const Tensor<Scalar, 4>& images) const {
    Tensor<Scalar, 2> logits({images.dim(0), config.num_labels});
    Workspace workspace;
    forward(images, logits, workspace);
    return logits;
  }

 private:
  /// Throws unless the parameters are those of the configuration.
  void require_parts() const {
    const Index tokens = 1 + patch_embedding.config.num_patches();
    require_shape("VisionTransformer: class_token", class_token.shape(), {config.hidden_size});
    require_shape("VisionTransformer: position_embedding", position_embedding.shape(),
                  {tokens, config.hidden_size});
    internal::require_linear("VisionTransformer", "head", head, config.hidden_size,
                             config.num_labels);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
