// SPDX-License-Identifier: MIT
#pragma once

// An encoder from token ids on: embeddings, layers, a final norm by option. BERT, MiniLM, RoBERTa,
// DistilBERT, the encoders of T5 and BART and their kin are configurations of it.
//
//   ids: (B, T) int32   result: (B, T, hidden_size)
//
//   auto hidden = encoder(ids, {.key_lengths = lengths});
//   auto hidden = encoder(ids, {.token_types = types}, {.key_lengths = lengths});

#include "eigenformer/models/encoder_stack.hpp"
#include "eigenformer/nn/embeddings.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What an encoder takes for fields that are left open: BERT's.
inline TransformerConfig encoder_defaults() {
  TransformerConfig defaults = layer_defaults();
  defaults.max_position_embeddings = 512;
  defaults.position_embedding = PositionEmbedding::learned;
  defaults.scale_embeddings = false;
  defaults.embedding_norm = true;
  defaults.layer_norm_eps = 1e-12;
  defaults.rms_norm_eps = 1e-6;
  return defaults;
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct TransformerEncoder {
  using Scalar = ScalarOf<Format>;
  using Layer = EncoderLayer<Format, Norm, FeedForwardNetwork>;
  using Ids = TensorView<const std::int32_t, 2>;
  template <class F>
  using WithFormat = TransformerEncoder<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  Embeddings<Format> embeddings;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit TransformerEncoder(const TransformerConfig& config_)
      : config(config_.with_defaults(encoder_defaults())),
        embeddings(EmbeddingsConfig::from(config)),
        relative_bias(make_relative_bias<Format>(config, true)),
        layers(make_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {}
  EIGENFORMER_STRONG_COPIES(TransformerEncoder)

  template <class F, class... Encoder>
  static void visit(F&& f, Encoder&... encoder) {
    f("embeddings", encoder.embeddings...);
    f("relative_bias", encoder.relative_bias...);
    f("layers", encoder.layers...);
    f("final_norm", encoder.final_norm...);
  }

  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_stack_call("TransformerEncoder", *this, ids.dim(0), ids.dim(1), ids.dim(1), mask);
    embeddings.forward(ids, inputs.with_sequences(mask.sequence_lengths), y, workspace);
    run_encoder(*this, mask, y, observer, workspace);
  }
  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> y, Workspace& workspace) const {
    forward(ids, inputs, mask, y, Observer<Scalar>(), workspace);
  }
  void forward(Ids ids, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    forward(ids, {}, mask, y, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids, const EmbeddingInputs& inputs,
                               const Mask<Scalar>& mask) const {
    Tensor<Scalar, 3> y({ids.dim(0), ids.dim(1), config.hidden_size});
    Workspace workspace;
    forward(ids, inputs, mask, y, workspace);
    return y;
  }
  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids,
                               const Mask<Scalar>& mask = {}) const {
    return (*this)(ids, {}, mask);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
