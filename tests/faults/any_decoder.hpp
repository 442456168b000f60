// SPDX-License-Identifier: MIT
#pragma once

// Decoders of every kind behind one interface, with random parameters: causal self-attention alone,
// a layer, a stack, a decoder from ids, an encoder-decoder. All take token ids (B, T); those that
// take vectors get a random one for each id. Token `nan_token` is made of NaN.

#include <memory>
#include <string>
#include <vector>

#include "tests/spec/values.hpp"

namespace any_decoder {

using namespace eigenformer;

inline constexpr Index vocabulary = 13;
inline constexpr std::int32_t nan_token = 12;

using Ids = Tensor<std::int32_t, 2>;

struct Settings {
  AttentionPositions positions = {};
  bool cross_attention = false;
  NormPlacement norm_placement = NormPlacement::pre;
  Index num_key_value_heads = 4;
  Index sliding_window = 0;
  bool query_key_norm = false;
  double soft_cap = 0;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  Index max_position_embeddings = 300;
};

/// What goes along with the tokens of one call.
struct Call {
  Mask<float> mask = {};
  Mask<float> memory_mask = {};
  std::optional<IntegerSequence> counts = {};
  EmbeddingInputs embedding = {};
};

/// A decoder with its cache.
class Session {
 public:
  virtual ~Session() = default;
  virtual Tensor<float, 3> append(const Ids& ids, const Call& call = {}) = 0;
  virtual Index length(Index b) const = 0;
  virtual void truncate(Index b, Index length) = 0;
  virtual void reorder(const std::vector<Index>& rows) = 0;
  virtual void clear() = 0;
};

class AnyDecoder {
 public:
  explicit AnyDecoder(std::string name_) : name(std::move(name_)) {}
  virtual ~AnyDecoder() = default;

  const std::string name;

  /// Results (B, T, ...) of all tokens at once. `source` (B, S) is read with cross-attention.
  virtual Tensor<float, 3> at_once(const Ids& ids, const Ids& source,
                                   const Call& call = {}) const = 0;

  virtual std::unique_ptr<Session> start(
      Index batch, Index capacity, const Ids& source,
      const std::optional<IntegerSequence>& source_lengths = {}) const = 0;
};

namespace internal {

/// A vector for each id; NaN for nan_token.
inline Tensor<float, 2> vectors(Index width, std::uint64_t seed) {
  auto table = values::random<float>(Shape<2>{vocabulary, width}, seed);
  table.matrix().row(nan_token).setConstant(std::numeric_limits<float>::quiet_NaN());
  return table;
}

inline Tensor<float, 3> look_up(const Tensor<float, 2>& table, const Ids& ids) {
  Tensor<float, 3> x({ids.dim(0), ids.dim(1), table.dim(1)});
  for (Index i = 0; i < ids.size(); ++i) x.matrix().row(i) = table.matrix().row(ids.data()[i]);
  return x;
}

inline constexpr Index width = 10, memory_width = 9;

inline TransformerConfig config_of(const Settings& settings) {
  return {.vocab_size = vocabulary,
          .hidden_size = width,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = settings.num_key_value_heads,
          .head_size = 6,
          .intermediate_size = 7,
          .cross_attention = settings.cross_attention,
          .key_value_size = memory_width,
          .max_position_embeddings = settings.max_position_embeddings,
          .position_embedding = settings.position_embedding,
          .norm_placement = settings.norm_placement,
          .final_norm = true,
          .attention_positions = settings.positions,
          .query_key_norm = settings.query_key_norm,
          .attn_logit_softcapping = settings.soft_cap,
          .sliding_window = settings.sliding_window,
          .tie_word_embeddings = false};
}

/// Causal self-attention alone.
class OfAttention : public AnyDecoder {
 public:
  explicit OfAttention(const Settings& settings)
      : AnyDecoder("attention"),
        attention_(MultiHeadAttentionConfig::self_attention(
            config_of(settings).with_defaults(layer_defaults()), true)),
        vectors_(vectors(width, 1)) {
    values::randomize(attention_, 2);
  }

  Tensor<float, 3> at_once(const Ids& ids, const Ids&, const Call& call) const override {
    return attention_(look_up(vectors_, ids), causal(call.mask));
  }

  std::unique_ptr<Session> start(Index batch, Index capacity, const Ids&,
                                 const std::optional<IntegerSequence>&) const override {
    struct Own : Session {
      const OfAttention& decoder;
      KeyValueCache<float> cache;
      Workspace workspace;

      Own(const OfAttention& decoder_, Index batch, Index capacity)
          : decoder(decoder_), cache(decoder_.attention_.make_cache(batch, capacity)) {}
      Tensor<float, 3> append(const Ids& ids, const Call& call) override {
        const auto x = look_up(decoder.vectors_, ids);
        Tensor<float, 3> y(x.shape());
        decoder.attention_.forward(x, call.counts, cache, causal(call.mask), y, workspace);
        return y;
      }
      Index length(Index b) const override { return cache.length(b); }
      void truncate(Index b, Index length) override { cache.truncate(b, length); }
      void reorder(const std::vector<Index>& rows) override { cache.reorder(rows); }
      void clear() override { cache.clear(); }
    };
    return std::make_unique<Own>(*this, batch, capacity);
  }

 private:
  static Mask<float> causal(Mask<float> mask) {
    mask.causal = true;
    return mask;
  }

  MultiHeadAttention<float> attention_;
  Tensor<float, 2> vectors_;
};

template <template <class> class Norm, template <class> class Network>
class OfLayer : public AnyDecoder {
 public:
  explicit OfLayer(const Settings& settings)
      : AnyDecoder("layer"),
        layer_(config_of(settings)),
        vectors_(vectors(width, 1)),
        memory_vectors_(vectors(memory_width, 3)) {
    values::randomize(layer_, 4);
  }

  Tensor<float, 3> at_once(const Ids& ids, const Ids& source, const Call& call) const override {
    const auto x = look_up(vectors_, ids);
    if (!layer_.config.cross_attention) return layer_(x, call.mask);
    return layer_(x, look_up(memory_vectors_, source), call.mask, call.memory_mask);
  }

  std::unique_ptr<Session> start(
      Index batch, Index capacity, const Ids& source,
      const std::optional<IntegerSequence>& source_lengths) const override {
    struct Own : Session {
      const OfLayer& decoder;
      DecoderLayerCache<float> cache;
      Workspace workspace;

      Own(const OfLayer& decoder_, Index batch, Index capacity, const Ids& source,
          const std::optional<IntegerSequence>& source_lengths)
          : decoder(decoder_), cache(decoder_.layer_.make_cache(batch, capacity, source.dim(1))) {
        if (decoder.layer_.config.cross_attention)
          decoder.layer_.remember(look_up(decoder.memory_vectors_, source), source_lengths, cache,
                                  workspace);
      }
      Tensor<float, 3> append(const Ids& ids, const Call& call) override {
        const auto x = look_up(decoder.vectors_, ids);
        Tensor<float, 3> y(x.shape());
        decoder.layer_.forward(x, call.counts, cache, call.mask, call.memory_mask, y, workspace);
        return y;
      }
      Index length(Index b) const override { return cache.self.length(b); }
      void truncate(Index b, Index length) override { cache.self.truncate(b, length); }
      void reorder(const std::vector<Index>& rows) override {
        cache.self.reorder(rows);
        if (decoder.layer_.config.cross_attention) cache.memory.reorder(rows);
      }
      void clear() override { cache.self.clear(); }
    };
    return std::make_unique<Own>(*this, batch, capacity, source, source_lengths);
  }

 private:
  DecoderLayer<float, Norm, Network> layer_;
  Tensor<float, 2> vectors_, memory_vectors_;
};

/// For those with a DecoderCache. Model: cache for a batch, and append(ids, call, cache).
template <class Model>
struct SessionOf : Session {
  const Model& decoder;
  DecoderCache<float> cache;
  Workspace workspace;

  SessionOf(const Model& decoder_, DecoderCache<float> cache_)
      : decoder(decoder_), cache(std::move(cache_)) {}
  Tensor<float, 3> append(const Ids& ids, const Call& call) override {
    return decoder.append(ids, call, cache, workspace);
  }
  Index length(Index b) const override { return cache.length(b); }
  void truncate(Index b, Index length) override { cache.truncate(b, length); }
  void reorder(const std::vector<Index>& rows) override { cache.reorder(rows); }
  void clear() override {
    for (Index b = 0; b < cache.batch(); ++b) cache.truncate(b, 0);
  }
};

template <template <class> class Norm, template <class> class Network>
class OfStack : public AnyDecoder {
 public:
  explicit OfStack(const Settings& settings)
      : AnyDecoder("stack"),
        stack_(config_of(settings)),
        vectors_(vectors(width, 1)),
        memory_vectors_(vectors(memory_width, 3)) {
    values::randomize(stack_, 5);
  }

  Tensor<float, 3> at_once(const Ids& ids, const Ids& source, const Call& call) const override {
    const auto x = look_up(vectors_, ids);
    if (!stack_.config.cross_attention) return stack_(x, call.mask);
    return stack_(x, look_up(memory_vectors_, source), call.mask, call.memory_mask);
  }

  std::unique_ptr<Session> start(
      Index batch, Index capacity, const Ids& source,
      const std::optional<IntegerSequence>& source_lengths) const override {
    auto session = std::make_unique<SessionOf<OfStack>>(*this, stack_.make_cache(batch, capacity));
    if (stack_.config.cross_attention)
      stack_.remember(look_up(memory_vectors_, source), source_lengths, session->cache,
                      session->workspace);
    return session;
  }

  Tensor<float, 3> append(const Ids& ids, const Call& call, DecoderCache<float>& cache,
                          Workspace& workspace) const {
    const auto x = look_up(vectors_, ids);
    Tensor<float, 3> y(x.shape());
    stack_.forward(x, call.counts, cache, call.mask, call.memory_mask, y, workspace);
    return y;
  }

 private:
  DecoderStack<float, Norm, Network> stack_;
  Tensor<float, 2> vectors_, memory_vectors_;
};

template <template <class> class Norm, template <class> class Network>
class OfDecoder : public AnyDecoder {
 public:
  explicit OfDecoder(const Settings& settings)
      : AnyDecoder("decoder"),
        decoder_(config_of(settings)),
        memory_vectors_(vectors(memory_width, 3)) {
    values::randomize(decoder_, 6);
    decoder_.embeddings.token.weight.matrix().row(nan_token).setConstant(
        std::numeric_limits<float>::quiet_NaN());
  }

  Tensor<float, 3> at_once(const Ids& ids, const Ids& source, const Call& call) const override {
    DecoderInputs<float> inputs{
        .mask = call.mask, .memory_mask = call.memory_mask, .embedding = call.embedding};
    if (!decoder_.config.cross_attention) return decoder_(ids, inputs);
    const auto memory = look_up(memory_vectors_, source);
    inputs.memory = memory;
    return decoder_(ids, inputs);
  }

  std::unique_ptr<Session> start(
      Index batch, Index capacity, const Ids& source,
      const std::optional<IntegerSequence>& source_lengths) const override {
    auto session =
        std::make_unique<SessionOf<OfDecoder>>(*this, decoder_.make_cache(batch, capacity));
    if (decoder_.config.cross_attention)
      decoder_.remember(look_up(memory_vectors_, source), source_lengths, session->cache,
                        session->workspace);
    return session;
  }

  Tensor<float, 3> append(const Ids& ids, const Call& call, DecoderCache<float>& cache,
                          Workspace&) const {
    return decoder_(ids, cache,
                    {.mask = call.mask,
                     .memory_mask = call.memory_mask,
                     .token_counts = call.counts,
                     .embedding = call.embedding});
  }

 private:
  TransformerDecoder<float, Norm, Network> decoder_;
  Tensor<float, 2> memory_vectors_;
};

template <template <class> class Norm, template <class> class Network>
class OfEncoderDecoder : public AnyDecoder {
 public:
  explicit OfEncoderDecoder(const Settings& settings)
      : AnyDecoder("encoder-decoder"), model_(config_of(settings)) {
    values::randomize(model_, 7);
    model_.encoder.embeddings.token.weight.matrix().row(nan_token).setConstant(
        std::numeric_limits<float>::quiet_NaN());
  }

  Tensor<float, 3> at_once(const Ids& ids, const Ids& source, const Call& call) const override {
    // What the decoder may not see of the source, the encoder may not see either.
    Mask<float> source_mask;
    source_mask.key_lengths = call.memory_mask.key_lengths;
    source_mask.key_allowed = call.memory_mask.key_allowed;
    return model_(
        source, ids, source_mask,
        {.mask = call.mask, .memory_mask = call.memory_mask, .embedding = call.embedding});
  }

  std::unique_ptr<Session> start(
      Index batch, Index capacity, const Ids& source,
      const std::optional<IntegerSequence>& source_lengths) const override {
    auto session =
        std::make_unique<SessionOf<OfEncoderDecoder>>(*this, model_.make_cache(batch, capacity));
    model_.start(source, source_lengths, session->cache, session->workspace);
    return session;
  }

  Tensor<float, 3> append(const Ids& ids, const Call& call, DecoderCache<float>& cache,
                          Workspace& workspace) const {
    Tensor<float, 3> logits({ids.dim(0), ids.dim(1), vocabulary});
    model_.forward(ids, cache,
                   {.mask = call.mask,
                    .memory_mask = call.memory_mask,
                    .token_counts = call.counts,
                    .embedding = call.embedding},
                   logits, workspace);
    return logits;
  }

 private:
  Transformer<float, Norm, Network> model_;
};

template <template <class> class Norm, template <class> class Network>
void add(std::vector<std::unique_ptr<AnyDecoder>>& all, const Settings& settings) {
  all.push_back(std::make_unique<OfLayer<Norm, Network>>(settings));
  all.push_back(std::make_unique<OfStack<Norm, Network>>(settings));
  all.push_back(std::make_unique<OfDecoder<Norm, Network>>(settings));
  if (settings.cross_attention)
    all.push_back(std::make_unique<OfEncoderDecoder<Norm, Network>>(settings));
}

}  // namespace internal

/// Decoders of every kind with these settings.
inline std::vector<std::unique_ptr<AnyDecoder>> decoders(const Settings& settings) {
  std::vector<std::unique_ptr<AnyDecoder>> all;
  if (!settings.cross_attention) all.push_back(std::make_unique<internal::OfAttention>(settings));
  internal::add<LayerNorm, FeedForward>(all, settings);
  return all;
}

/// All kinds of positions inside attention, for heads of 6.
inline std::vector<std::pair<std::string, AttentionPositions>> kinds_of_positions() {
  const auto rotary = [](const RotaryConfig& config) {
    return AttentionPositions{.kind = AttentionPosition::rotary, .rotary = config};
  };
  return {{"none", {}},
          {"rotary, halves", rotary({})},
          {"rotary, interleaved", rotary({.layout = RotaryLayout::interleaved})},
          {"rotary, partial", rotary({.partial_rotary_factor = 0.7})},
          {"rotary, linear",
           rotary({.rope_scaling = {.type = RotaryScalingType::linear, .factor = 3}})},
          {"rotary, yarn", rotary({.rope_scaling = {.type = RotaryScalingType::yarn,
                                                    .factor = 4,
                                                    .original_max_position_embeddings = 64}})},
          {"alibi", {.kind = AttentionPosition::alibi}},
          {"relative bias",
           {.kind = AttentionPosition::relative_bias,
            .relative_attention_num_buckets = 8,
            .relative_attention_max_distance = 11}},
          {"relative key", {.kind = AttentionPosition::relative_key, .max_position_embeddings = 5}},
          {"relative key and query",
           {.kind = AttentionPosition::relative_key_query, .max_position_embeddings = 5}}};
}

/// Ids (B, T) other than nan_token.
inline Ids random_ids(Index batch, Index tokens, std::uint64_t seed) {
  Ids ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = static_cast<std::int32_t>(Key{seed}.bits(static_cast<std::uint64_t>(i)) %
                                              static_cast<std::uint64_t>(nan_token));
  return ids;
}

/// Row b alone.
inline Ids row_of(const Ids& ids, Index b) {
  Ids row({1, ids.dim(1)});
  std::copy_n(ids.data() + b * ids.dim(1), ids.dim(1), row.data());
  return row;
}

/// Tokens begin ... end - 1 of all rows.
inline Ids part_of(const Ids& ids, Index begin, Index end) {
  Ids part({ids.dim(0), end - begin});
  for (Index b = 0; b < ids.dim(0); ++b)
    for (Index t = begin; t < end; ++t) part(b, t - begin) = ids(b, t);
  return part;
}

/// Whether token t of row b has the same bits in x as token u of row c in y.
inline bool same_token(const Tensor<float, 3>& x, Index b, Index t, const Tensor<float, 3>& y,
                       Index c, Index u) {
  const Index columns = x.dim(2);
  return columns == y.dim(2) && std::equal(&x(b, t, 0), &x(b, t, 0) + columns, &y(c, u, 0));
}

/// The largest difference of token t of row b in x and token u of row c in y; NaN if there is one.
inline double difference(const Tensor<float, 3>& x, Index b, Index t, const Tensor<float, 3>& y,
                         Index c, Index u) {
  double largest = 0;
  for (Index i = 0; i < x.dim(2); ++i) {
    const double d = std::abs(static_cast<double>(x(b, t, i)) - static_cast<double>(y(c, u, i)));
    if (!(d <= largest)) largest = d;
  }
  return largest;
}

}  // namespace any_decoder
