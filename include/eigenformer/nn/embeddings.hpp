// SPDX-License-Identifier: MIT
#pragma once

// The input of a transformer: y = norm(scale * token[id] + position + token_type[type]), each part
// optional but the first.
//
//   ids, token_types, positions: (B, T)   y: (B, T, hidden_size)
//   scale: sqrt(hidden_size) if `scale_embeddings`, else 1
//
// Position t of the call takes row first_position + t + position_offset of the learned table
// (RoBERTa: offset padding_id + 1, BART: 2), or the sinusoid of that number. Explicit positions are
// taken as they are, without offset.

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "eigenformer/kernels/sinusoidal.hpp"
#include "eigenformer/nn/embedding.hpp"
#include "eigenformer/nn/embeddings_config.hpp"
#include "eigenformer/nn/layer_norm.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format>
struct Embeddings {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = Embeddings<F>;

  EmbeddingsConfig config;
  Embedding<Format> token;
  std::optional<Embedding<Format>> position;
  std::optional<Embedding<Format>> token_type;
  std::optional<LayerNorm<Format>> norm;

  explicit Embeddings(const EmbeddingsConfig& config_)
      : config(checked(config_)),
        token({config.vocab_size, config.hidden_size, config.padding_id}) {
    if (config.position_embedding == PositionEmbedding::learned) {
      position.emplace(EmbeddingConfig{config.max_position_embeddings, config.hidden_size});
    }
    if (config.type_vocab_size > 0)
      token_type.emplace(EmbeddingConfig{config.type_vocab_size, config.hidden_size});
    if (config.embedding_norm)
      norm.emplace(LayerNormConfig{config.hidden_size, config.layer_norm_eps, config.norm_bias});
  }
  EIGENFORMER_STRONG_COPIES(Embeddings)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("token", layer.token...);
    f("position", layer.position...);
    f("token_type", layer.token_type...);
    f("norm", layer.norm...);
  }

  /// Throws std::invalid_argument for ids, token types or positions outside their tables, naming
  /// them; y is unchanged then.
  void forward(TensorView<const std::int32_t, 2> ids, const EmbeddingInputs& inputs,
               TensorView<Scalar, 3> y, Workspace& workspace) const {
    forward(ids, inputs, token, y, workspace);
  }

  /// The same with a token table that is shared with another module.
  void forward(TensorView<const std::int32_t, 2> ids, const EmbeddingInputs& inputs,
               const Embedding<Format>& table, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    const Index batch = ids.dim(0), tokens = ids.dim(1);
    require_shape("Embeddings: y", y.shape(), {batch, tokens, config.hidden_size});
    require(table.config.embedding_dim == config.hidden_size, "Embeddings: the token table has ",
            table.config.embedding_dim, " columns; hidden_size is ", config.hidden_size);
    kernels::require_ids("Embeddings: token", ids.data(), ids.size(), table.config.num_embeddings);
    const bool types_given = inputs.token_types.has_value(),
               positions_given = inputs.positions.has_value();
    if (types_given) {
      require(token_type.has_value(),
              "Embeddings: token_types are given, but type_vocab_size is 0");
      require_shape("Embeddings: token_types", inputs.token_types->shape(), ids.shape());
      kernels::require_ids("Embeddings: token type", inputs.token_types->data(), ids.size(),
                           config.type_vocab_size);
    }
    if (positions_given)
      require_shape("Embeddings: positions", inputs.positions->shape(), ids.shape());
    if (inputs.sequence_lengths)
      kernels::require_sequences("Embeddings", *inputs.sequence_lengths, batch, tokens);
    require_parts();

    Scratch scratch(workspace);
    std::int32_t* rows = nullptr;  // the position of each token
    if (config.position_embedding != PositionEmbedding::none) {
      rows = scratch.array<std::int32_t>(ids.size());
      Index sequence = -1, rest = 0, place = 0;  // of token i
      for (Index i = 0; i < ids.size(); ++i, ++place, --rest) {
        while (inputs.sequence_lengths && rest == 0) {
          rest = (*inputs.sequence_lengths)[++sequence];
          place = 0;
        }
        rows[i] = positions_given ? inputs.positions->data()[i]
                                  : position_of(inputs.first_position, place % tokens);
      }
      if (position) require_positions(rows, ids.size());
    }

    const auto folded = y.folded();
    const Scalar scale =
        config.scale_embeddings
            ? static_cast<Scalar>(std::sqrt(static_cast<double>(config.hidden_size)))
            : Scalar(1);
    kernels::look_up<Scalar>(table.table(), ids.data(), scale, false, folded, workspace);
    if (token_type) {
      const std::int32_t* types = types_given ? inputs.token_types->data() : nullptr;
      if (!types_given) {
        auto* zeros = scratch.array<std::int32_t>(ids.size());
        std::fill_n(zeros, ids.size(), 0);
        types = zeros;
      }
      kernels::look_up<Scalar>(token_type->table(), types, Scalar(1), true, folded, workspace);
    }
    if (position) {
      kernels::look_up<Scalar>(position->table(), rows, Scalar(1), true, folded, workspace);
    } else if (rows != nullptr) {
      kernels::add_sinusoids<Scalar>(config.sinusoidal_layout, rows, folded, workspace);
    }
    if (norm) norm->forward(y, y, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids,
                               const EmbeddingInputs& inputs = {}) const {
    Tensor<Scalar, 3> y({ids.dim(0), ids.dim(1), config.hidden_size});
    Workspace workspace;
    forward(ids, inputs, y, workspace);
    return y;
  }

  /// How many positions there are, from 0 on: those of the learned table, or as many as fit an Index.
  Index longest_sequence() const {
    return config.position_embedding == PositionEmbedding::learned
               ? config.max_position_embeddings - config.position_offset
               : (std::numeric_limits<Index>::max)();
  }

  /// The row of the position table for token t of a sequence whose first token has position `first`.
  std::int32_t position_of(Index first, Index t) const {
    constexpr Index largest = (std::numeric_limits<std::int32_t>::max)();
    const auto fits = [](Index i) { return i >= -largest && i <= largest; };
    require(fits(first) && fits(config.position_offset) && fits(first + t + config.position_offset),
            "Embeddings: first_position ", first, " and position_offset ", config.position_offset,
            " lead beyond 32 bits");
    const Index at = first + t + config.position_offset;
    return static_cast<std::int32_t>(at);
  }

 private:
  /// Throws unless the parts are those of the configuration.
  void require_parts() const {
    const bool learned = config.position_embedding == PositionEmbedding::learned;
    require(position.has_value() == learned &&
                token_type.has_value() == (config.type_vocab_size > 0) &&
                norm.has_value() == config.embedding_norm,
            "Embeddings: position, token_type and norm must be those of the configuration");
    require(!position || (position->config.num_embeddings == config.max_position_embeddings &&
                          position->config.embedding_dim == config.hidden_size),
            "Embeddings: the table of positions doesn't fit the configuration");
    require(!token_type || (token_type->config.num_embeddings == config.type_vocab_size &&
                            token_type->config.embedding_dim == config.hidden_size),
            "Embeddings: the table of token types doesn't fit the configuration");
  }

  static const EmbeddingsConfig& checked(const EmbeddingsConfig& c) {
    require(c.vocab_size >= 0 && c.hidden_size >= 0 && c.type_vocab_size >= 0 &&
                c.max_position_embeddings >= 0,
            "Embeddings: vocab_size, hidden_size, type_vocab_size and max_position_embeddings must "
            "be >= 0; got ",
            c.vocab_size, ", ", c.hidden_size, ", ", c.type_vocab_size, " and ",
            c.max_position_embeddings);
    require_probability("Embeddings: hidden_dropout_prob", c.hidden_dropout_prob);
    return c;
  }

  void require_positions(const std::int32_t* rows, Index count) const {
    for (Index i = 0; i < count; ++i) {
      require(rows[i] >= 0 && rows[i] < config.max_position_embeddings, "Embeddings: position ",
              rows[i],
              " is outside the table of max_position_embeddings = ", config.max_position_embeddings,
              " rows");
    }
  }
};

/// RoBERTa's positions: padding gets `padding_id`, the other tokens padding_id + 1, padding_id + 2,
/// ... in their order.
inline Tensor<std::int32_t, 2> positions_after_padding(const Tensor<std::int32_t, 2>& ids,
                                                       std::int32_t padding_id) {
  Tensor<std::int32_t, 2> positions(ids.shape());
  for (Index b = 0; b < ids.dim(0); ++b) {
    std::int32_t next = padding_id;
    for (Index t = 0; t < ids.dim(1); ++t)
      positions(b, t) = ids(b, t) == padding_id ? padding_id : ++next;
  }
  return positions;
}

/// Positions counted over the tokens with keep(b, t) only, so that padding on the left shifts
/// nothing; the others get 0.
inline Tensor<std::int32_t, 2> positions_of_kept(const Tensor<bool, 2>& keep) {
  Tensor<std::int32_t, 2> positions(keep.shape());
  for (Index b = 0; b < keep.dim(0); ++b) {
    std::int32_t next = 0;
    for (Index t = 0; t < keep.dim(1); ++t) positions(b, t) = keep(b, t) ? next++ : 0;
  }
  return positions;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
