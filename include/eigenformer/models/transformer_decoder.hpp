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
//
// With `share_embeddings` the decoder has no token table: each call is given that of another module
// behind the ids.

#include "eigenformer/models/decoder_inputs.hpp"
#include "eigenformer/models/decoder_layers.hpp"
#include "eigenformer/nn/embeddings.hpp"
#include "eigenformer/nn/language_model_head.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct TransformerDecoder {
  using Scalar = ScalarOf<Format>;
  using Layer = DecoderLayer<Format, Norm, FeedForwardNetwork>;
  using Cache = DecoderCache<Scalar>;
  using Inputs = DecoderInputs<Scalar>;
  using Table = Embedding<Format>;
  using Ids = TensorView<const std::int32_t, 2>;
  template <class F>
  using WithFormat = TransformerDecoder<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  Embeddings<Format> embeddings;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;
  LanguageModelHead<Format> head;

  explicit TransformerDecoder(const TransformerConfig& config_)
      : config(config_.with_defaults(decoder_defaults())),
        embeddings(embeddings_config(config)),
        relative_bias(make_relative_bias<Format>(config, false)),
        layers(make_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)),
        head(LanguageModelHeadConfig::from(config)) {}
  EIGENFORMER_STRONG_COPIES(TransformerDecoder)

  template <class F, class... Decoder>
  static void visit(F&& f, Decoder&... decoder) {
    f("embeddings", decoder.embeddings...);
    f("relative_bias", decoder.relative_bias...);
    f("layers", decoder.layers...);
    f("final_norm", decoder.final_norm...);
    f("head", decoder.head...);
  }

  Index vocab_size() const { return config.vocab_size; }

  /// Positions 0 ... n - 1 that a sequence may have.
  Index longest_sequence() const { return embeddings.longest_sequence(); }

  // ------------------------------------------------------------------ all tokens at once

  /// Logits (B, T, vocab_size) of all tokens. `table` is the token table.
  void forward(Ids ids, const Table& table, const Inputs& inputs, TensorView<Scalar, 3> logits,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require_logits(logits.shape(), Shape<3>{ids.dim(0), ids.dim(1), config.vocab_size});
    Scratch scratch(workspace);
    const auto y = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    hidden(ids, table, inputs, y, observer, workspace);
    head.forward(y, table.weight, logits, workspace);
  }
  void forward(Ids ids, const Inputs& inputs, TensorView<Scalar, 3> logits,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    forward(ids, token_table(), inputs, logits, observer, workspace);
  }
  void forward(Ids ids, const Inputs& inputs, TensorView<Scalar, 3> logits,
               Workspace& workspace) const {
    forward(ids, inputs, logits, Observer<Scalar>(), workspace);
  }

  /// What the head gets, (B, T, hidden_size).
  void hidden(Ids ids, const Table& table, const Inputs& inputs, TensorView<Scalar, 3> y,
              const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require(!inputs.token_counts, "TransformerDecoder: token_counts are for calls with a cache");
    require_decoder_call("TransformerDecoder", *this, ids.dim(0), ids.dim(1), inputs.memory,
                         inputs.mask, inputs.memory_mask);
    embeddings.forward(ids, inputs.embedding.with_sequences(inputs.mask.sequence_lengths), table, y,
                       workspace);
    run_decoder(*this, inputs.memory, inputs.mask, inputs.memory_mask, y, observer, workspace);
  }
  void hidden(Ids ids, const Inputs& inputs, TensorView<Scalar, 3> y, Workspace& workspace) const {
    hidden(ids, token_table(), inputs, y, Observer<Scalar>(), workspace);
  }

  // ------------------------------------------------------------------ with a cache

  /// Logits (B, T, vocab_size) of tokens that follow those in the cache, to which they are appended. A
  /// call that throws leaves the cache as it was.
  void forward(Ids ids, const Table& table, Cache& cache, const Inputs& inputs,
               TensorView<Scalar, 3> logits, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_logits(logits.shape(), Shape<3>{ids.dim(0), ids.dim(1), config.vocab_size});
    extend(ids, table, cache, inputs, observer, workspace, [&](TensorView<const Scalar, 3> y) {
      head.forward(y, table.weight, logits, workspace);
    });
  }
  void forward(Ids ids, Cache& cache, const Inputs& inputs, TensorView<Scalar, 3> logits,
               const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    forward(ids, token_table(), cache, inputs, logits, observer, workspace);
  }
  void forward(Ids ids, Cache& cache, const Inputs& inputs, TensorView<Scalar, 3> logits,
               Workspace& workspace) const {
    forward(ids, cache, inputs, logits, Observer<Scalar>(), workspace);
  }

  /// Logits (B, vocab_size) after the last real token of each row only: what generation needs. A
  /// row without new tokens gets no meaningful ones.
  void forward_last(Ids ids, const Table& table, Cache& cache, const Inputs& inputs,
                    TensorView<Scalar, 2> logits, Workspace& workspace) const {
    const Index batch = ids.dim(0), tokens = ids.dim(1), width = config.hidden_size;
    require_logits(logits.shape(), Shape<2>{batch, config.vocab_size});
    require(tokens > 0, "TransformerDecoder: forward_last needs a token; got ids ", ids.shape());
    extend(ids, table, cache, inputs, Observer<Scalar>(), workspace,
           [&](TensorView<const Scalar, 3> y) {
             Scratch scratch(workspace);
             const auto last = scratch.tensor<Scalar, 2>({batch, width});
             for (Index b = 0; b < batch; ++b) {
               const Index count = token_count(inputs.token_counts, b, tokens);
               std::copy_n(&y(b, std::max<Index>(count, 1) - 1, 0), width, &last(b, 0));
             }
             head.forward(last, table.weight, logits, workspace);
           });
  }
  void forward_last(Ids ids, Cache& cache, const Inputs& inputs, TensorView<Scalar, 2> logits,
                    Workspace& workspace) const {
    forward_last(ids, token_table(), cache, inputs, logits, workspace);
  }

  /// What the head gets, (B, T, hidden_size).
  void hidden(Ids ids, Cache& cache, const Inputs& inputs, TensorView<Scalar, 3> y,
              Workspace& workspace) const {
    require_shape("TransformerDecoder: y", y.shape(), {ids.dim(0), ids.dim(1), config.hidden_size});
    extend(ids, token_table(), cache, inputs, Observer<Scalar>(), workspace,
           [&](TensorView<const Scalar, 3> h) { std::copy(h.begin(), h.end(), y.begin()); });
  }

  /// Room for `capacity` tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const { return Cache(layers, batch, capacity); }

  /// Computes the keys and values of a memory (B, S, key_value_size) for all layers, once; of batch
  /// row b the first token_counts[b] (default: all) are real.
  void remember(TensorView<const Scalar, 3> memory,
                const std::optional<IntegerSequence>& token_counts, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "TransformerDecoder: a memory is given, but cross_attention is false");
    cache.remember(layers, config.memory_size(), memory, token_counts, workspace);
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
    forward(ids, cache, inputs, logits, workspace);
    return logits;
  }

 private:
  static EmbeddingsConfig embeddings_config(const TransformerConfig& config) {
    EmbeddingsConfig c = EmbeddingsConfig::from(config);
    if (config.share_embeddings) {
      c.vocab_size = 0;
      c.padding_id = {};
    }
    return c;
  }

  const Table& token_table() const {
    require(!config.share_embeddings,
            "TransformerDecoder: share_embeddings is true, but no token table is given");
    return embeddings.token;
  }

  template <int Rank>
  void require_logits(const Shape<Rank>& actual, const Shape<Rank>& wanted) const {
    require_shape("TransformerDecoder: logits", actual, wanted);
  }

  /// Sends tokens that follow those in the cache through embeddings and layers, then
  /// finish(hidden states (B, T, hidden_size)); when nothing can throw any more, the cache has them.
  template <class Finish>
  void extend(Ids ids, const Table& table, Cache& cache, const Inputs& inputs,
              const LayerObserver<Scalar>& observer, Workspace& workspace, Finish&& finish) const {
    require(!inputs.memory,
            "TransformerDecoder: with a cache, the memory is given once, to remember");
    require_decoder_call("TransformerDecoder", *this, ids.dim(0), ids.dim(1), inputs.token_counts,
                         cache, inputs.mask, inputs.memory_mask);
    Scratch scratch(workspace);
    const auto y = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    EmbeddingInputs embedding = inputs.embedding;
    if (config.position_embedding != PositionEmbedding::none && !embedding.positions) {
      embedding.positions = positions_after(cache, ids.shape(), inputs, scratch);
    }
    embeddings.forward(ids, embedding, table, y, workspace);
    cache.extend(ids.dim(1), inputs.token_counts,
                 [&](std::vector<DecoderLayerCache<Scalar>>& caches) {
                   run_decoder(*this, inputs.token_counts, caches, inputs.mask, inputs.memory_mask,
                               y, observer, workspace);
                   finish(TensorView<const Scalar, 3>(y));
                 });
  }

  /// The positions (B, T) of tokens that follow those in the cache; padding has position 0.
  TensorView<const std::int32_t, 2> positions_after(const Cache& cache, const Shape<2>& shape,
                                                    const Inputs& inputs, Scratch& scratch) const {
    require(inputs.embedding.first_position == 0,
            "TransformerDecoder: with a cache, which knows the positions, first_position must be "
            "0; got ",
            inputs.embedding.first_position);
    const auto positions = scratch.tensor<std::int32_t, 2>(shape);
    for (Index b = 0; b < shape[0]; ++b) {
      const Index count = token_count(inputs.token_counts, b, shape[1]);
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
