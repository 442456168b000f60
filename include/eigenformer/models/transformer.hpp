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
//   transformer.forward(target, cache, {}, logits, workspace);
//
// It is made from two configurations, or from one for both halves. They share one token table
// (share_embeddings), to which the head is tied besides (tie_word_embeddings).

#include "eigenformer/models/transformer_decoder.hpp"
#include "eigenformer/models/transformer_encoder.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What a half takes for fields that are left open: the paper's.
inline TransformerConfig transformer_defaults() {
  TransformerConfig defaults = layer_defaults();
  defaults.activation = Activation::relu;
  defaults.max_position_embeddings = 512;
  defaults.position_embedding = PositionEmbedding::sinusoidal;
  defaults.scale_embeddings = true;
  defaults.embedding_norm = false;
  defaults.rms_norm_eps = 1e-6;
  defaults.share_embeddings = true;
  return defaults;
}

/// Both halves of an encoder-decoder that differ in their depth at most.
inline EncoderDecoderConfig both_halves(const TransformerConfig& config) {
  EncoderDecoderConfig both{config, config};
  both.encoder.num_decoder_layers = both.decoder.num_decoder_layers = 0;
  if (config.num_decoder_layers != 0) both.decoder.num_hidden_layers = config.num_decoder_layers;
  return both;
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct Transformer {
  using Scalar = ScalarOf<Format>;
  using Cache = DecoderCache<Scalar>;
  using Inputs = DecoderInputs<Scalar>;
  using Ids = TensorView<const std::int32_t, 2>;
  template <class F>
  using WithFormat = Transformer<F, Norm, FeedForwardNetwork>;

  EncoderDecoderConfig config;
  TransformerEncoder<Format, Norm, FeedForwardNetwork> encoder;
  TransformerDecoder<Format, Norm, FeedForwardNetwork> decoder;

  /// The decoder attends to the encoder's result, whatever its fields say about a memory.
  explicit Transformer(const EncoderDecoderConfig& config_)
      : config(checked(config_)), encoder(config.encoder), decoder(config.decoder) {}
  explicit Transformer(const TransformerConfig& both) : Transformer(both_halves(both)) {}
  Transformer(const TransformerConfig& encoder_config, const TransformerConfig& decoder_config)
      : Transformer(EncoderDecoderConfig{encoder_config, decoder_config}) {}
  EIGENFORMER_STRONG_COPIES(Transformer)

  template <class F, class... Model>
  static void visit(F&& f, Model&... model) {
    f("encoder", model.encoder...);
    f("decoder", model.decoder...);
  }

  Index vocab_size() const { return decoder.vocab_size(); }
  Index longest_sequence() const { return decoder.longest_sequence(); }

  /// Logits (B, T, vocab_size) of all target tokens. The lengths and allowed keys of `source_mask`
  /// hold for the decoder's attention to the source as well, unless `inputs.memory_mask` has its
  /// own. The observer is told of both halves.
  void forward(Ids source, Ids target, const Mask<Scalar>& source_mask, Inputs inputs,
               TensorView<Scalar, 3> logits, const Observer<Scalar>& observer,
               Workspace& workspace) const {
    require(!inputs.memory, "Transformer: the memory is the encoder's result; none can be given");
    kernels::require_no_sequences("Transformer: source", source_mask);
    Scratch scratch(workspace);
    const auto memory =
        scratch.tensor<Scalar, 3>({source.dim(0), source.dim(1), encoder.config.hidden_size});
    encoder.forward(source, {}, source_mask, memory, observer, workspace);
    inputs.memory = memory;
    if (!inputs.memory_mask.key_lengths) inputs.memory_mask.key_lengths = source_mask.key_lengths;
    if (!inputs.memory_mask.key_allowed) inputs.memory_mask.key_allowed = source_mask.key_allowed;
    decoder.forward(target, token_table(), inputs, logits, observer, workspace);
  }
  void forward(Ids source, Ids target, const Mask<Scalar>& source_mask, const Inputs& inputs,
               TensorView<Scalar, 3> logits, Workspace& workspace) const {
    forward(source, target, source_mask, inputs, logits, Observer<Scalar>(), workspace);
  }

  /// Room for `capacity` target tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const {
    return decoder.make_cache(batch, capacity);
  }

  /// Encodes the source, of row b the first token_counts[b] tokens (default: all), and keeps in the
  /// cache what the decoder's attention needs of it. Targets in the cache are forgotten.
  void start(Ids source, const std::optional<IntegerSequence>& token_counts, Cache& cache,
             Workspace& workspace) const {
    Scratch scratch(workspace);
    const auto memory =
        scratch.tensor<Scalar, 3>({source.dim(0), source.dim(1), encoder.config.hidden_size});
    encoder.forward(source, {.key_lengths = token_counts}, memory, workspace);
    decoder.remember(memory, token_counts, cache, workspace);
    cache.forget_tokens();
  }

  /// Logits (B, T, vocab_size) of target tokens that follow those in the cache.
  void forward(Ids target, Cache& cache, const Inputs& inputs, TensorView<Scalar, 3> logits,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    decoder.forward(target, token_table(), cache, inputs, logits, observer, workspace);
  }
  void forward(Ids target, Cache& cache, const Inputs& inputs, TensorView<Scalar, 3> logits,
               Workspace& workspace) const {
    forward(target, cache, inputs, logits, Observer<Scalar>(), workspace);
  }

  /// Logits (B, vocab_size) after the last real token of each row only.
  void forward_last(Ids target, Cache& cache, const Inputs& inputs, TensorView<Scalar, 2> logits,
                    Workspace& workspace) const {
    decoder.forward_last(target, token_table(), cache, inputs, logits, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& source,
                               const Tensor<std::int32_t, 2>& target,
                               const Mask<Scalar>& source_mask = {},
                               const Inputs& inputs = {}) const {
    Tensor<Scalar, 3> logits({target.dim(0), target.dim(1), vocab_size()});
    Workspace workspace;
    forward(source, target, source_mask, inputs, logits, workspace);
    return logits;
  }

 private:
  static EncoderDecoderConfig checked(const EncoderDecoderConfig& c) {
    const TransformerConfig defaults = transformer_defaults();
    const EncoderDecoderConfig both =
        EncoderDecoderConfig{c.encoder.with_defaults(defaults), c.decoder.with_defaults(defaults)}
            .joined();
    require(
        !both.decoder.share_embeddings || (both.encoder.vocab_size == both.decoder.vocab_size &&
                                           both.encoder.hidden_size == both.decoder.hidden_size),
        "Transformer: halves that share embeddings must have the same vocab_size and "
        "hidden_size; got ",
        both.encoder.vocab_size, " and ", both.decoder.vocab_size, ", ", both.encoder.hidden_size,
        " and ", both.decoder.hidden_size);
    return both;
  }

  const Embedding<Format>& token_table() const {
    return config.decoder.share_embeddings ? encoder.embeddings.token : decoder.embeddings.token;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
