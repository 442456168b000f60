// SPDX-License-Identifier: MIT
#pragma once

// The whole transformer (Vaswani et al., "Attention is all you need", 2017): an encoder reads the
// source, a decoder writes the target. T5 and BART are configurations of it.
//
//   source: (B, S) int32   target: (B, T) int32   logits: (B, T, vocab_size)
//
//   auto logits = transformer(source, target, {.key_lengths = source_lengths});
//
//   auto cache = transformer.make_cache(batch, capacity);        // in pieces: the same bits
//   transformer.start(source, source_lengths, cache, workspace); // encodes, once
//   transformer.forward(target, {}, cache, logits, workspace);
//
// The two halves share one token table (share_embeddings), which the head is tied to besides
// (tie_word_embeddings).

#include "eigenformer/models/transformer_decoder.hpp"
#include "eigenformer/models/transformer_encoder.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Both halves, which differ in their depth at most. The defaults are the paper's.
struct TransformerConfig {
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index num_hidden_layers = 1;   // of the encoder
  Index num_decoder_layers = 0;  // 0: as many as the encoder's
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  Activation activation = Activation::relu;
  Index max_position_embeddings = 512;
  PositionEmbedding position_embedding = PositionEmbedding::sinusoidal;
  SinusoidalLayout sinusoidal_layout = SinusoidalLayout::interleaved;
  Index position_offset = 0;
  bool scale_embeddings = true;
  bool embedding_norm = false;
  NormPlacement norm_placement = NormPlacement::post;
  bool final_norm = false;
  double layer_norm_eps = 1e-5;
  double rms_norm_eps = 1e-6;
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool norm_bias = true;
  std::optional<Index> padding_id = {};
  std::optional<double> attention_scale = {};
  AttentionPositions attention_positions = {};  // of both self-attentions
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;  // 0: none
  Index sliding_window = 0;           // 0: none
  bool share_embeddings = true;
  bool tie_word_embeddings = true;
  bool head_bias = false;
  double logit_scale = 1;
  double final_logit_softcapping = 0;  // 0: none
  double attention_probs_dropout_prob = 0;
  double activation_dropout_prob = 0;
  double hidden_dropout_prob = 0;

  TransformerEncoderConfig encoder() const;
  TransformerDecoderConfig decoder() const;
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct Transformer {
  using Scalar = ScalarOf<Format>;
  using Cache = DecoderCache<Scalar>;
  using Inputs = DecoderInputs<Scalar>;
  template <class F>
  using WithFormat = Transformer<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  TransformerEncoder<Format, Norm, FeedForwardNetwork> encoder;
  TransformerDecoder<Format, Norm, FeedForwardNetwork> decoder;

  explicit Transformer(const TransformerConfig& config_)
      : config(config_), encoder(config.encoder()), decoder(config.decoder()) {}

  template <class F, class... Model>
  static void visit(F&& f, Model&... model) {
    f("encoder", model.encoder...);
    f("decoder", model.decoder...);
  }

  /// Logits (B, T, vocab_size) of all target tokens. The lengths and allowed keys of `source_mask`
  /// count for the decoder's attention to the source as well, unless `inputs.memory_mask` has its
  /// own.
  void forward(TensorView<const std::int32_t, 2> source, const Mask<Scalar>& source_mask,
               TensorView<const std::int32_t, 2> target, Inputs inputs,
               TensorView<Scalar, 3> logits, Workspace& workspace) const {
    require(!inputs.memory, "Transformer: the memory is the encoder's result; none can be given");
    kernels::require_no_sequences("Transformer: source", source_mask);
    Scratch scratch(workspace);
    const auto memory =
        scratch.tensor<Scalar, 3>({source.dim(0), source.dim(1), config.hidden_size});
    encoder.forward(source, {}, source_mask, memory, workspace);
    inputs.memory = memory;
    if (!inputs.memory_mask.key_lengths.given())
      inputs.memory_mask.key_lengths = source_mask.key_lengths;
    if (!inputs.memory_mask.key_allowed) inputs.memory_mask.key_allowed = source_mask.key_allowed;
    decoder.forward(target, inputs, logits, workspace, shared());
  }

  /// Room for `capacity` target tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const {
    return decoder.make_cache(batch, capacity);
  }

  /// Encodes the source, of row b the first lengths[b] tokens (default: all), and keeps in the
  /// cache what the decoder's attention needs of it. Targets in the cache are forgotten.
  void start(TensorView<const std::int32_t, 2> source, const IntegerSequence& lengths, Cache& cache,
             Workspace& workspace) const {
    Scratch scratch(workspace);
    const auto memory =
        scratch.tensor<Scalar, 3>({source.dim(0), source.dim(1), config.hidden_size});
    encoder.forward(source, {}, {.key_lengths = lengths}, memory, workspace);
    decoder.remember(memory, lengths, cache, workspace);
    cache.forget_tokens();
  }

  /// Logits (B, T, vocab_size) of target tokens that follow those in the cache.
  void forward(TensorView<const std::int32_t, 2> target, const Inputs& inputs, Cache& cache,
               TensorView<Scalar, 3> logits, Workspace& workspace) const {
    decoder.forward(target, inputs, cache, logits, workspace, shared());
  }

  /// Logits (B, vocab_size) after the last real token of each row only.
  void forward_last(TensorView<const std::int32_t, 2> target, const Inputs& inputs, Cache& cache,
                    TensorView<Scalar, 2> logits, Workspace& workspace) const {
    decoder.forward_last(target, inputs, cache, logits, workspace, shared());
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& source,
                               const Tensor<std::int32_t, 2>& target,
                               const Mask<Scalar>& source_mask = {},
                               const Inputs& inputs = {}) const {
    Tensor<Scalar, 3> logits({target.dim(0), target.dim(1), config.vocab_size});
    Workspace workspace;
    forward(source, source_mask, target, inputs, logits, workspace);
    return logits;
  }

 private:
  const Embedding<Format>* shared() const {
    return config.share_embeddings ? &encoder.embeddings.token : nullptr;
  }
};

namespace internal {

/// The fields that encoder and decoder have in common.
template <class Half>
Half half_of(const TransformerConfig& c) {
  Half half;
  half.vocab_size = c.vocab_size;
  half.hidden_size = c.hidden_size;
  half.num_hidden_layers = c.num_hidden_layers;
  half.num_attention_heads = c.num_attention_heads;
  half.num_key_value_heads = c.num_key_value_heads;
  half.head_size = c.head_size;
  half.intermediate_size = c.intermediate_size;
  half.activation = c.activation;
  half.max_position_embeddings = c.max_position_embeddings;
  half.position_embedding = c.position_embedding;
  half.sinusoidal_layout = c.sinusoidal_layout;
  half.position_offset = c.position_offset;
  half.scale_embeddings = c.scale_embeddings;
  half.embedding_norm = c.embedding_norm;
  half.norm_placement = c.norm_placement;
  half.final_norm = c.final_norm;
  half.layer_norm_eps = c.layer_norm_eps;
  half.rms_norm_eps = c.rms_norm_eps;
  half.query_bias = c.query_bias;
  half.key_bias = c.key_bias;
  half.value_bias = c.value_bias;
  half.output_bias = c.output_bias;
  half.feed_forward_bias = c.feed_forward_bias;
  half.norm_bias = c.norm_bias;
  half.padding_id = c.padding_id;
  half.attention_scale = c.attention_scale;
  half.attention_positions = c.attention_positions;
  half.query_key_norm = c.query_key_norm;
  half.attn_logit_softcapping = c.attn_logit_softcapping;
  half.sliding_window = c.sliding_window;
  half.attention_probs_dropout_prob = c.attention_probs_dropout_prob;
  half.activation_dropout_prob = c.activation_dropout_prob;
  half.hidden_dropout_prob = c.hidden_dropout_prob;
  return half;
}

}  // namespace internal

inline TransformerEncoderConfig TransformerConfig::encoder() const {
  return internal::half_of<TransformerEncoderConfig>(*this);
}

inline TransformerDecoderConfig TransformerConfig::decoder() const {
  auto half = internal::half_of<TransformerDecoderConfig>(*this);
  if (num_decoder_layers != 0) half.num_hidden_layers = num_decoder_layers;
  half.cross_attention = true;
  half.own_token_table = !share_embeddings;
  half.tie_word_embeddings = tie_word_embeddings;
  half.head_bias = head_bias;
  half.logit_scale = logit_scale;
  half.final_logit_softcapping = final_logit_softcapping;
  return half;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
