// SPDX-License-Identifier: MIT
#pragma once

// Small decoders with every kind of positions, and their ways from ids to logits: all tokens at
// once, or in pieces with a cache.

#include <string>
#include <vector>

#include "eigenformer/models/transformer_decoder.hpp"
#include "tests/nn/pieces.hpp"

namespace decoding {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using Ids = Tensor<std::int32_t, 2>;
using pieces::Counts;
using pieces::Piece;

inline constexpr Index vocabulary = 13;

inline ef::TransformerConfig small_decoder() {
  return {.vocab_size = vocabulary,
          .hidden_size = 29,
          .num_hidden_layers = 2,
          .num_attention_heads = 6,
          .head_size = 10,
          .intermediate_size = 31,
          .max_position_embeddings = 400};
}

struct NamedDecoder {
  std::string name;
  ef::TransformerConfig config;
};

/// Positions inside attention, or learned ones or sinusoids in the embeddings.
inline std::vector<NamedDecoder> decoders_with_all_positions() {
  std::vector<NamedDecoder> list;
  for (const auto& [name, positions] : pieces::all_positions()) {
    auto config = small_decoder();
    config.position_embedding = ef::PositionEmbedding::none;
    config.attention_positions = positions;
    list.push_back({name, config});
  }
  auto config = small_decoder();
  config.position_offset = 2;
  list.push_back({"learned", config});
  config.position_embedding = ef::PositionEmbedding::sinusoidal;
  list.push_back({"sinusoidal", config});
  return list;
}

inline Ids random_ids(Index batch, Index tokens, std::uint64_t seed = 1) {
  Ids ids({batch, tokens});
  const ef::Key key(seed);
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = static_cast<std::int32_t>(key.bits(std::uint64_t(i)) % vocabulary);
  return ids;
}

template <class Model, class Config>
Model random_model(const Config& config) {
  Model model(config);
  reference::randomize(model, 1);
  return model;
}

/// Logits of tokens that follow those in the cache; of row b the first are tokens of ids from
/// cache.length(b) on.
template <class Model, class T>
Tensor<T, 3> in_pieces(const Model& model, const Ids& ids, const std::vector<Piece>& list,
                       ef::DecoderCache<T>& cache, ef::Workspace& workspace) {
  const Counts begin(cache.lengths().begin(), cache.lengths().end());
  return pieces::in_pieces<T>(
      ids, vocabulary, begin, list, [&](const Piece& piece, const Ids& part, Tensor<T, 3>& logits) {
        model.forward(part, cache, {.token_counts = piece.token_counts()}, logits, workspace);
      });
}

inline std::vector<Piece> joined(std::vector<Piece> a, const std::vector<Piece>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Single steps over the end of the first key tile, a long piece, single steps to the end.
inline std::vector<Piece> prompt_and_steps(Index batch, Index length) {
  const Index last = std::max<Index>(137, length - 19);
  return joined(
      joined(pieces::equal_pieces(batch, 0, 119, 119), pieces::equal_pieces(batch, 119, 137, 1)),
      joined(pieces::equal_pieces(batch, 137, last, last),
             pieces::equal_pieces(batch, last, length, 1)));
}

template <class T>
Counts lengths(const ef::DecoderCache<T>& cache) {
  return Counts(cache.lengths().begin(), cache.lengths().end());
}

}  // namespace decoding
