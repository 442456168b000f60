// SPDX-License-Identifier: MIT
#pragma once

// The configuration of embeddings (nn/embeddings.hpp), and what a call is given besides the ids.

#include <cstdint>
#include <optional>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct EmbeddingsConfig {
  Index vocab_size = 0;  // 0: no token table, `forward` is given another module's
  Index hidden_size = 0;
  Index max_position_embeddings = 512;  // rows of the learned table; unused otherwise
  Index type_vocab_size = 0;            // 0: no token types
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  SinusoidalLayout sinusoidal_layout = SinusoidalLayout::interleaved;
  Index position_offset = 0;
  bool scale_embeddings = false;
  bool embedding_norm = true;
  double layer_norm_eps = 1e-12;
  bool norm_bias = true;
  std::optional<Index> padding_id = {};
  double hidden_dropout_prob = 0;  // training: on the result

  friend bool operator==(const EmbeddingsConfig&, const EmbeddingsConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("vocab_size", c.vocab_size...);
    f("hidden_size", c.hidden_size...);
    f("max_position_embeddings", c.max_position_embeddings...);
    f("type_vocab_size", c.type_vocab_size...);
    f("position_embedding", c.position_embedding...);
    f("sinusoidal_layout", c.sinusoidal_layout...);
    f("position_offset", c.position_offset...);
    f("scale_embeddings", c.scale_embeddings...);
    f("embedding_norm", c.embedding_norm...);
    f("layer_norm_eps", c.layer_norm_eps...);
    f("norm_bias", c.norm_bias...);
    f("padding_id", c.padding_id...);
    f("hidden_dropout_prob", c.hidden_dropout_prob...);
  }

  /// The embeddings of a model.
  static EmbeddingsConfig from(const TransformerConfig& c) {
    return {.vocab_size = c.vocab_size,
            .hidden_size = c.hidden_size,
            .max_position_embeddings = c.max_position_embeddings,
            .type_vocab_size = c.type_vocab_size,
            .position_embedding = c.position_embedding,
            .sinusoidal_layout = c.sinusoidal_layout,
            .position_offset = c.position_offset,
            .scale_embeddings = c.scale_embeddings,
            .embedding_norm = c.embedding_norm,
            .layer_norm_eps = c.layer_norm_eps,
            .norm_bias = c.norm_bias,
            .padding_id = c.padding_id,
            .hidden_dropout_prob = c.hidden_dropout_prob};
  }
};

/// What goes along with the ids; everything is optional. Positions are those of the position
/// embeddings, if there are any; attention with positions of its own counts tokens.
struct EmbeddingInputs {
  std::optional<TensorView<const std::int32_t, 2>> token_types =
      {};  // (B, T); default: type 0 everywhere
  std::optional<TensorView<const std::int32_t, 2>> positions =
      {};                    // (B, T); default: counted from first_position
  Index first_position = 0;  // position of the call's first token
  std::optional<IntegerSequence> sequence_lengths = {};  // ids (1, T) hold sequences one after the
                                                         // other: kernels/mask.hpp

  /// The same for a model with attention, with the lengths of its mask. Throws if others were given.
  EmbeddingInputs with_sequences(const std::optional<IntegerSequence>& lengths) const {
    require(!sequence_lengths || sequence_lengths == lengths,
            "EmbeddingInputs: sequence_lengths of a model belong into its mask, for attention too");
    EmbeddingInputs result = *this;
    result.sequence_lengths = lengths;
    return result;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
