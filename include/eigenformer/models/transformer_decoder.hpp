// SPDX-License-Identifier: MIT
#pragma once

// A decoder from token ids to the scores of the next token: embeddings, causal layers, a final norm
// by option, a head. GPT-2, Llama, Mistral, Qwen and the decoders of T5 and BART are configurations
// of it.
//
//   ids: (B, T) int32   logits: (B, T, vocab_size)
//
//   auto logits = decoder(ids);                                  // all tokens at once
//   auto logits = decoder(ids, {.memory = encoder_output});      // with cross-attention
//
//   auto cache = decoder.make_cache(batch, capacity);            // in pieces: the same bits
//   auto logits = decoder(prompt, cache);
//   auto next = decoder(one_more_token, cache);

#include "eigenformer/models/decoder_stack.hpp"
#include "eigenformer/nn/embeddings.hpp"
#include "eigenformer/nn/language_model_head.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Names as in Hugging Face's config.json; the defaults are GPT-2's, but for the activation.
struct TransformerDecoderConfig {
  Index vocab_size = 0;
  Index hidden_size = 0;
  Index num_hidden_layers = 1;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  bool cross_attention = false;
  Index key_value_size = 0;  // width of the memory; 0: hidden_size
  Activation activation = Activation::gelu;
  Index max_position_embeddings = 1024;
  Index type_vocab_size = 0;  // 0: no token types
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  SinusoidalLayout sinusoidal_layout = SinusoidalLayout::interleaved;
  Index position_offset = 0;
  bool scale_embeddings = false;
  bool embedding_norm = false;
  NormPlacement norm_placement = NormPlacement::pre;
  bool final_norm = true;
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
  AttentionPositions attention_positions = {};
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;  // 0: none
  Index sliding_window = 0;           // 0: none
  bool own_token_table = true;        // false: every call is given another module's
  bool tie_word_embeddings = true;    // the head is the token table
  bool head_bias = false;
  double logit_scale = 1;
  double final_logit_softcapping = 0;  // 0: none
  double attention_probs_dropout_prob = 0;
  double activation_dropout_prob = 0;
  double hidden_dropout_prob = 0;
};

/// What goes along with the ids; everything is optional.
template <class T>
struct DecoderInputs {
  Mask<T> mask = {};  // of the self-attention, which is causal in any case
  std::optional<TensorView<const T, 3>> memory = {};  // (B, S, key_value_size); without cache
  Mask<T> memory_mask = {};
  IntegerSequence token_counts = {};  // with cache: the real tokens of each row; default all
  EmbeddingInputs embedding = {};     // token types, positions
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct TransformerDecoder {
  using Scalar = ScalarOf<Format>;
  using Layer = DecoderLayer<Format, Norm, FeedForwardNetwork>;
  using Cache = DecoderCache<Scalar>;
  using Inputs = DecoderInputs<Scalar>;
  using Table = Embedding<Format>;
  template <class F>
  using WithFormat = TransformerDecoder<F, Norm, FeedForwardNetwork>;

  TransformerDecoderConfig config;
  Embeddings<Format> embeddings;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;
  LanguageModelHead<Format> head;

  explicit TransformerDecoder(const TransformerDecoderConfig& config_)
      : config(config_),
        embeddings(embeddings_config(config)),
        layers(make_layers<Layer, DecoderLayerConfig>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)),
        head(LanguageModelHead<Format>::config_from(config)) {
    if (config.attention_positions.has_relative_bias())
      relative_bias.emplace(RelativeBias<Format>::config_from(config, false));
  }

  template <class F, class... Decoder>
  static void visit(F&& f, Decoder&... decoder) {
    f("embeddings", decoder.embeddings...);
    f("relative_bias", decoder.relative_bias...);
    f("layers", decoder.layers...);
    f("final_norm", decoder.final_norm...);
    f("head", decoder.head...);
  }

  /// Logits (B, T, vocab_size) of all tokens. `shared` is the token table, if it is another
  /// module's.
  void forward(TensorView<const std::int32_t, 2> ids, const Inputs& inputs,
               TensorView<Scalar, 3> logits, Workspace& workspace,
               const Table* shared = nullptr) const {
    require_logits(logits.shape(), Shape<3>{ids.dim(0), ids.dim(1), config.vocab_size});
    Scratch scratch(workspace);
    const auto y = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    hidden(ids, inputs, y, workspace, shared);
    head.forward(y, table(shared).weight, logits, workspace);
  }

  /// The same for tokens that follow those in the cache, to which they are appended.
  void forward(TensorView<const std::int32_t, 2> ids, const Inputs& inputs, Cache& cache,
               TensorView<Scalar, 3> logits, Workspace& workspace,
               const Table* shared = nullptr) const {
    require_logits(logits.shape(), Shape<3>{ids.dim(0), ids.dim(1), config.vocab_size});
    Scratch scratch(workspace);
    const auto y = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    hidden(ids, inputs, cache, y, workspace, shared);
    head.forward(y, table(shared).weight, logits, workspace);
  }

  /// Logits (B, vocab_size) after the last real token of each row only: what generation needs. A
  /// row without new tokens gets no meaningful ones.
  void forward_last(TensorView<const std::int32_t, 2> ids, const Inputs& inputs, Cache& cache,
                    TensorView<Scalar, 2> logits, Workspace& workspace,
                    const Table* shared = nullptr) const {
    const Index batch = ids.dim(0), tokens = ids.dim(1), width = config.hidden_size;
    require_logits(logits.shape(), Shape<2>{batch, config.vocab_size});
    require(tokens > 0, "TransformerDecoder: forward_last needs a token; got ids ", ids.shape());
    Scratch scratch(workspace);
    const auto y = scratch.tensor<Scalar, 3>({batch, tokens, width});
    const auto last = scratch.tensor<Scalar, 2>({batch, width});
    hidden(ids, inputs, cache, y, workspace, shared);
    for (Index b = 0; b < batch; ++b) {
      const Index count = inputs.token_counts.given() ? inputs.token_counts[b] : tokens;
      std::copy_n(&y(b, std::max<Index>(count, 1) - 1, 0), width, &last(b, 0));
    }
    head.forward(last, table(shared).weight, logits, workspace);
  }

  /// What the head gets, (B, T, hidden_size).
  void hidden(TensorView<const std::int32_t, 2> ids, const Inputs& inputs, TensorView<Scalar, 3> y,
              Workspace& workspace, const Table* shared = nullptr) const {
    require(!inputs.token_counts.given(),
            "TransformerDecoder: token_counts are for calls with a cache");
    require_decoder_call("TransformerDecoder", *this, ids.dim(0), ids.dim(1), inputs.mask,
                         inputs.memory, inputs.memory_mask);
    embeddings.forward(ids, inputs.embedding.with_sequences(inputs.mask.sequence_lengths),
                       table(shared), y, workspace);
    run_decoder(*this, inputs.mask, inputs.memory, inputs.memory_mask, y, workspace);
  }

  /// The same with a cache.
  void hidden(TensorView<const std::int32_t, 2> ids, const Inputs& inputs, Cache& cache,
              TensorView<Scalar, 3> y, Workspace& workspace, const Table* shared = nullptr) const {
    require(!inputs.memory.has_value(),
            "TransformerDecoder: with a cache, the memory is given once, to remember");
    require_decoder_call("TransformerDecoder", *this, ids.dim(0), ids.dim(1), inputs.mask,
                         inputs.memory_mask, inputs.token_counts, cache);
    Scratch scratch(workspace);
    EmbeddingInputs embedding = inputs.embedding;
    if (config.position_embedding != PositionEmbedding::none && !embedding.positions) {
      embedding.positions = positions_after(cache, ids.shape(), inputs, scratch);
    }
    embeddings.forward(ids, embedding, table(shared), y, workspace);
    run_decoder(*this, inputs.mask, inputs.memory_mask, inputs.token_counts, cache, y, workspace);
  }

  /// Room for `capacity` tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const { return Cache(layers, batch, capacity); }

  /// Computes the keys and values of a memory (B, S, key_value_size) for all layers, once; of batch
  /// row b the first lengths[b] (default: all) are real.
  void remember(TensorView<const Scalar, 3> memory, const IntegerSequence& lengths, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "TransformerDecoder: a memory is given, but cross_attention is false");
    cache.remember(layers, memory_width(config), memory, lengths, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids,
                               const Inputs& inputs = {}) const {
    Tensor<Scalar, 3> logits({ids.dim(0), ids.dim(1), config.vocab_size});
    Workspace workspace;
    forward(ids, inputs, logits, workspace);
    return logits;
  }
  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids, Cache& cache,
                               const Inputs& inputs = {}) const {
    Tensor<Scalar, 3> logits({ids.dim(0), ids.dim(1), config.vocab_size});
    Workspace workspace;
    forward(ids, inputs, cache, logits, workspace);
    return logits;
  }

 private:
  static EmbeddingsConfig embeddings_config(const TransformerDecoderConfig& config) {
    EmbeddingsConfig c = Embeddings<Format>::config_from(config);
    if (!config.own_token_table) {
      c.vocab_size = 0;
      c.padding_id = {};
    }
    return c;
  }

  const Table& table(const Table* shared) const {
    return shared == nullptr ? embeddings.token : *shared;
  }

  template <int Rank>
  void require_logits(const Shape<Rank>& actual, const Shape<Rank>& wanted) const {
    require_shape("TransformerDecoder: logits", actual, wanted);
  }

  /// The positions (B, T) of tokens that follow those in the cache; padding stands at 0.
  TensorView<const std::int32_t, 2> positions_after(const Cache& cache, const Shape<2>& shape,
                                                    const Inputs& inputs, Scratch& scratch) const {
    require(inputs.embedding.first_position == 0,
            "TransformerDecoder: with a cache, which knows the positions, first_position must be "
            "0; got ",
            inputs.embedding.first_position);
    const auto positions = scratch.tensor<std::int32_t, 2>(shape);
    for (Index b = 0; b < shape[0]; ++b) {
      const Index count = inputs.token_counts.given() ? inputs.token_counts[b] : shape[1];
      for (Index t = 0; t < shape[1]; ++t) {
        positions(b, t) =
            embeddings.position_of(t < count ? cache.length(b) : 0, t < count ? t : 0);
      }
    }
    return positions;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
