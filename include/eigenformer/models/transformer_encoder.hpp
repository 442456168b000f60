// SPDX-License-Identifier: MIT
#pragma once

// An encoder from token ids on: embeddings, layers, a final norm by option. BERT, MiniLM, RoBERTa,
// DistilBERT, the encoders of T5 and BART and their kin are configurations of it.
//
//   ids: (B, T) int32   result: (B, T, hidden_size)
//
//   auto hidden = encoder(ids, {.key_lengths = lengths});

#include "eigenformer/models/encoder_stack.hpp"
#include "eigenformer/nn/embeddings.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Names as in Hugging Face's config.json; the defaults are BERT's.
struct TransformerEncoderConfig {
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index num_hidden_layers = 1;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  Index max_position_embeddings = 512;
  Index type_vocab_size = 0;  // 0: no token types
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  SinusoidalLayout sinusoidal_layout = SinusoidalLayout::interleaved;
  Index position_offset = 0;
  bool scale_embeddings = false;
  bool embedding_norm = true;
  NormPlacement norm_placement = NormPlacement::post;
  bool final_norm = false;
  double layer_norm_eps = 1e-12;
  double rms_norm_eps = 1e-6;
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool norm_bias = true;
  std::optional<Index> padding_id = {};
  std::optional<double> attention_scale = {};
  AttentionPositions attention_positions = {};
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;  // 0: none
  Index sliding_window = 0;           // 0: none
  double attention_probs_dropout_prob = 0;
  double activation_dropout_prob = 0;
  double hidden_dropout_prob = 0;
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct TransformerEncoder {
  using Scalar = ScalarOf<Format>;
  using Layer = EncoderLayer<Format, Norm, FeedForwardNetwork>;
  template <class F>
  using WithFormat = TransformerEncoder<F, Norm, FeedForwardNetwork>;

  TransformerEncoderConfig config;
  Embeddings<Format> embeddings;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit TransformerEncoder(const TransformerEncoderConfig& config_)
      : config(config_),
        embeddings(Embeddings<Format>::config_from(config)),
        layers(make_encoder_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {
    if (config.attention_positions.has_relative_bias())
      relative_bias.emplace(RelativeBias<Format>::config_from(config, true));
  }

  template <class F, class... Encoder>
  static void visit(F&& f, Encoder&... encoder) {
    f("embeddings", encoder.embeddings...);
    f("relative_bias", encoder.relative_bias...);
    f("layers", encoder.layers...);
    f("final_norm", encoder.final_norm...);
  }

  void forward(TensorView<const std::int32_t, 2> ids, const EmbeddingInputs& inputs,
               const Mask<Scalar>& mask, TensorView<Scalar, 3> y, Workspace& workspace) const {
    require_stack_mask("TransformerEncoder", *this, mask, ids.dim(0), ids.dim(1), ids.dim(1));
    embeddings.forward(ids, inputs.with_sequences(mask.sequence_lengths), y, workspace);
    run_encoder(*this, mask, y, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids, const Mask<Scalar>& mask = {},
                               const EmbeddingInputs& inputs = {}) const {
    Tensor<Scalar, 3> y({ids.dim(0), ids.dim(1), config.hidden_size});
    Workspace workspace;
    forward(ids, inputs, mask, y, workspace);
    return y;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
