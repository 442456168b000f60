// SPDX-License-Identifier: MIT
#pragma once

// The ways that a mask has into a decoder: through a layer, a stack, a decoder from ids and an
// encoder-decoder, each at once and in pieces with a cache, to the tokens before and to a memory.
//
// The parameters are chosen so that the results can be checked by eye: queries are zero, values are
// j + 1, feed-forward networks and norms do nothing, so that a layer returns x plus the mean of j +
// 1 over the keys that a query sees.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/spec/values.hpp"

namespace decoder_paths {

using namespace eigenformer;

/// A norm without parameters that changes nothing.
template <class Format>
struct NoNorm {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = NoNorm<F>;
  struct Config {};

  Config config;

  template <class LayerConfig>
  static Config config_from(const LayerConfig&) {
    return {};
  }
  explicit NoNorm(const Config&) {}

  template <class F, class... Layer>
  static void visit(F&&, Layer&...) {}

  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace&) const {
    if (x.data() != y.data()) std::copy_n(x.data(), x.size(), y.data());
  }
};

using Layer = DecoderLayer<float, NoNorm>;
using Stack = DecoderStack<float, NoNorm>;
using Decoder = TransformerDecoder<float, NoNorm>;
using EncoderDecoder = Transformer<float, NoNorm>;

/// Tokens begin ... end - 1 of x (B, T, C).
template <class T>
Tensor<T, 3> tokens_of(const Tensor<T, 3>& x, Index begin, Index end) {
  Tensor<T, 3> part({x.dim(0), end - begin, x.dim(2)});
  for (Index b = 0; b < x.dim(0); ++b)
    std::copy_n(x.data() + (b * x.dim(1) + begin) * x.dim(2), (end - begin) * x.dim(2),
                part.data() + b * (end - begin) * x.dim(2));
  return part;
}

inline Tensor<std::int32_t, 2> tokens_of(const Tensor<std::int32_t, 2>& ids, Index begin,
                                         Index end) {
  Tensor<std::int32_t, 2> part({ids.dim(0), end - begin});
  for (Index b = 0; b < ids.dim(0); ++b)
    for (Index t = begin; t < end; ++t) part(b, t - begin) = ids(b, t);
  return part;
}

/// What queries begin ... end - 1 need of a mask for scores (B, H, T, S), if there are only `keys`
/// keys yet.
class PartOfMask {
 public:
  PartOfMask(const Mask<float>& whole, const Shape<4>& scores, Index begin, Index end, Index keys)
      : shape_{scores[0], scores[1], end - begin, keys} {
    mask.causal = whole.causal;
    mask.window = whole.window;
    if (whole.key_lengths) {
      for (Index b = 0; b < scores[0]; ++b)
        lengths_.push_back(std::min((*whole.key_lengths)[b], keys));
      mask.key_lengths = lengths_;
    }
    if (whole.key_allowed) {
      keep_ = Tensor<bool, 2>({scores[0], keys});
      for (Index b = 0; b < scores[0]; ++b)
        for (Index j = 0; j < keys; ++j) keep_(b, j) = (*whole.key_allowed)(b, j);
      mask.key_allowed = keep_;
    }
    if (whole.allowed) mask.allowed = allowed_ = part_of(*whole.allowed, begin);
    if (whole.bias) mask.bias = bias_ = part_of(*whole.bias, begin);
  }
  PartOfMask(const PartOfMask&) = delete;
  PartOfMask& operator=(const PartOfMask&) = delete;

  Mask<float> mask;

 private:
  template <class T>
  Tensor<T, 4> part_of(const Broadcast<T>& whole, Index begin) const {
    Tensor<T, 4> part(shape_);
    for (Index b = 0; b < shape_[0]; ++b)
      for (Index h = 0; h < shape_[1]; ++h)
        for (Index t = 0; t < shape_[2]; ++t)
          for (Index j = 0; j < shape_[3]; ++j)
            part(b, h, t, j) = whole.keys(b, h, begin + t)[j * whole.key_stride()];
    return part;
  }

  Shape<4> shape_;
  std::vector<Index> lengths_;
  Tensor<bool, 2> keep_;
  Tensor<bool, 4> allowed_;
  Tensor<float, 4> bias_;
};

/// The result of one way: means (B, T, H) of j + 1.
struct Means {
  std::string way;
  Tensor<float, 3> means;
};

/// Calls step(begin, end, part) for pieces of `size` tokens, where part (B, end - begin, C)
/// receives their results; the result (B, T, C) of all.
template <class Step>
Tensor<float, 3> in_pieces(const Shape<3>& shape, Index size, Step&& step) {
  Tensor<float, 3> all(shape);
  for (Index begin = 0; begin < shape[1]; begin += size) {
    const Index end = std::min(shape[1], begin + size);
    Tensor<float, 3> part({shape[0], end - begin, shape[2]});
    step(begin, end, part);
    for (Index b = 0; b < shape[0]; ++b)
      for (Index t = begin; t < end; ++t)
        for (Index c = 0; c < shape[2]; ++c) all(b, t, c) = part(b, t - begin, c);
  }
  return all;
}

/// Sizes of pieces in which `tokens` tokens are fed: all at once, by threes, one by one if few.
inline std::vector<Index> piece_sizes(Index tokens) {
  std::vector<Index> sizes{tokens};
  if (tokens > 3) sizes.push_back(3);
  if (tokens > 1 && tokens <= 16) sizes.push_back(1);
  return sizes;
}

/// Token t is t + 1 in all of its `width` features.
inline Tensor<float, 3> counting_tokens(Index batch, Index tokens, Index width) {
  Tensor<float, 3> x({batch, tokens, width});
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i / width % tokens + 1);
  return x;
}

/// One layer: the values of its attentions are what they attend to, one feature for each head.
inline Layer mean_layer(Index heads, bool cross_attention) {
  Layer layer({.hidden_size = heads,
               .num_attention_heads = heads,
               .intermediate_size = 1,
               .cross_attention = cross_attention});
  auto& attention = cross_attention ? *layer.cross_attention : layer.self_attention;
  values::set_identity(attention.key);
  values::set_identity(attention.value);
  values::set_identity(attention.output);
  return layer;
}

inline Stack mean_stack(Index heads, bool cross_attention) {
  Stack stack({.hidden_size = heads,
               .num_attention_heads = heads,
               .intermediate_size = 1,
               .cross_attention = cross_attention});
  stack.layers.at(0) = mean_layer(heads, cross_attention);
  return stack;
}

/// Token embeddings are zero; position t is t + 1, or 0 with a memory. Logits are hidden states.
inline Decoder mean_decoder(Index heads, Index positions, bool cross_attention) {
  Decoder decoder({.vocab_size = heads,
                   .hidden_size = heads,
                   .num_attention_heads = heads,
                   .intermediate_size = 1,
                   .cross_attention = cross_attention,
                   .max_position_embeddings = positions,
                   .final_norm = false,
                   .tie_word_embeddings = false});
  decoder.layers.at(0) = mean_layer(heads, cross_attention);
  if (!cross_attention) {
    for (Index t = 0; t < positions; ++t)
      for (Index c = 0; c < heads; ++c)
        decoder.embeddings.position->weight(t, c) = static_cast<float>(t + 1);
  }
  decoder.head.weight.matrix().setIdentity();
  return decoder;
}

/// The decoder counts over its own tokens, or over the memory: an encoder without layers, whose
/// position t is t + 1.
inline EncoderDecoder mean_encoder_decoder(Index heads, Index positions, bool over_memory) {
  EncoderDecoder model({.vocab_size = heads,
                        .hidden_size = heads,
                        .num_hidden_layers = 0,
                        .num_decoder_layers = 1,
                        .num_attention_heads = heads,
                        .intermediate_size = 1,
                        .max_position_embeddings = positions,
                        .position_embedding = PositionEmbedding::learned,
                        .tie_word_embeddings = false});
  Layer& layer = model.decoder.layers.at(0);
  auto& attention = over_memory ? *layer.cross_attention : layer.self_attention;
  values::set_identity(attention.key);
  values::set_identity(attention.value);
  values::set_identity(attention.output);
  auto& position =
      over_memory ? model.encoder.embeddings.position : model.decoder.embeddings.position;
  for (Index t = 0; t < positions; ++t)
    for (Index c = 0; c < heads; ++c) position->weight(t, c) = static_cast<float>(t + 1);
  model.decoder.head.weight.matrix().setIdentity();
  return model;
}

/// The means over a decoder's own tokens. With a cache only if the mask has no query_offset, which
/// the cache knows itself.
inline std::vector<Means> self_means(Index batch, Index heads, Index tokens,
                                     const Mask<float>& mask) {
  const auto x = counting_tokens(batch, tokens, heads);
  const Tensor<std::int32_t, 2> ids({batch, tokens}), source({batch, 1});
  const Shape<4> scores{batch, heads, tokens, tokens};
  const Layer layer = mean_layer(heads, false);
  const Stack stack = mean_stack(heads, false);
  const Decoder decoder = mean_decoder(heads, tokens, false);
  const EncoderDecoder model = mean_encoder_decoder(heads, tokens, false);
  Workspace workspace;

  std::vector<Means> all{{"layer", layer(x, mask)},
                         {"stack", stack(x, mask)},
                         {"decoder", decoder(ids, {.mask = mask})},
                         {"encoder-decoder", model(source, ids, {}, {.mask = mask})}};
  if (mask.query_offset == 0) {
    for (Index size : piece_sizes(tokens)) {
      const std::string pieces = " with cache, pieces of " + std::to_string(size);
      auto layer_cache = layer.make_cache(batch, tokens);
      all.push_back(
          {"layer" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
             const PartOfMask part(mask, scores, begin, end, end);
             layer.forward(tokens_of(x, begin, end), layer_cache, part.mask, {}, y, workspace);
           })});
      auto stack_cache = stack.make_cache(batch, tokens);
      all.push_back(
          {"stack" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
             const PartOfMask part(mask, scores, begin, end, end);
             stack.forward(tokens_of(x, begin, end), stack_cache, part.mask, {}, y, workspace);
           })});
      auto decoder_cache = decoder.make_cache(batch, tokens);
      all.push_back(
          {"decoder" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
             const PartOfMask part(mask, scores, begin, end, end);
             decoder.forward(tokens_of(ids, begin, end), decoder_cache, {.mask = part.mask}, y,
                             workspace);
           })});
      auto model_cache = model.make_cache(batch, tokens);
      model.start(source, {}, model_cache, workspace);
      all.push_back({"encoder-decoder" + pieces,
                     in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
                       const PartOfMask part(mask, scores, begin, end, end);
                       model.forward(tokens_of(ids, begin, end), model_cache, {.mask = part.mask},
                                     y, workspace);
                     })});
    }
  }
  for (Means& one : all) one.means.vector() -= x.vector();
  return all;
}

/// The means over a memory of `keys` tokens. If `lengths` are given, they are what the cache is
/// told of the memory, instead of a mask, and only the ways with a cache are taken.
inline std::vector<Means> memory_means(Index batch, Index heads, Index queries, Index keys,
                                       const Mask<float>& mask,
                                       const std::optional<IntegerSequence>& lengths = {}) {
  const Tensor<float, 3> x({batch, queries, heads});
  const auto memory = counting_tokens(batch, keys, heads);
  const Tensor<std::int32_t, 2> ids({batch, queries}), source({batch, keys});
  const Shape<4> scores{batch, heads, queries, keys};
  const Layer layer = mean_layer(heads, true);
  const Stack stack = mean_stack(heads, true);
  const Decoder decoder = mean_decoder(heads, queries, true);
  const EncoderDecoder model = mean_encoder_decoder(heads, std::max(queries, keys), true);
  Workspace workspace;

  std::vector<Means> all;
  if (!lengths) {
    all.push_back({"layer", layer(x, memory, {}, mask)});
    all.push_back({"stack", stack(x, memory, {}, mask)});
    all.push_back({"decoder", decoder(ids, {.memory = memory, .memory_mask = mask})});
    all.push_back({"encoder-decoder", model(source, ids, {}, {.memory_mask = mask})});
  }
  for (Index size : piece_sizes(queries)) {
    const std::string pieces = " with cache, pieces of " + std::to_string(size);
    const auto part_of = [&](Index begin, Index end) {
      auto part = std::make_unique<PartOfMask>(mask, scores, begin, end, keys);
      part->mask.query_offset = mask.query_offset + begin;
      return part;
    };
    auto layer_cache = layer.make_cache(batch, queries, keys);
    layer.remember(memory, lengths, layer_cache, workspace);
    all.push_back(
        {"layer" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
           layer.forward(tokens_of(x, begin, end), layer_cache, {}, part_of(begin, end)->mask, y,
                         workspace);
         })});
    auto stack_cache = stack.make_cache(batch, queries);
    stack.remember(memory, lengths, stack_cache, workspace);
    all.push_back(
        {"stack" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
           stack.forward(tokens_of(x, begin, end), stack_cache, {}, part_of(begin, end)->mask, y,
                         workspace);
         })});
    auto decoder_cache = decoder.make_cache(batch, queries);
    decoder.remember(memory, lengths, decoder_cache, workspace);
    all.push_back(
        {"decoder" + pieces, in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
           decoder.forward(tokens_of(ids, begin, end), decoder_cache,
                           {.memory_mask = part_of(begin, end)->mask}, y, workspace);
         })});
    auto model_cache = model.make_cache(batch, queries);
    model.start(source, lengths, model_cache, workspace);
    all.push_back({"encoder-decoder" + pieces,
                   in_pieces(x.shape(), size, [&](Index begin, Index end, auto& y) {
                     model.forward(tokens_of(ids, begin, end), model_cache,
                                   {.memory_mask = part_of(begin, end)->mask}, y, workspace);
                   })});
  }
  return all;
}

/// Every way to the mean over the keys with visible(b, h, t, j); 0 without keys.
template <class Visible>
void expect_means(const std::vector<Means>& all, Index keys, Visible&& visible,
                  const std::string& what) {
  Tensor<double, 3> expected(all.front().means.shape()), counts(expected.shape());
  for (Index b = 0; b < expected.dim(0); ++b)
    for (Index t = 0; t < expected.dim(1); ++t)
      for (Index h = 0; h < expected.dim(2); ++h) {
        double sum = 0, count = 0;
        for (Index j = 0; j < keys; ++j)
          if (visible(b, h, t, j)) ++count, sum += static_cast<double>(j + 1);
        counts(b, t, h) = count;
        expected(b, t, h) = count == 0 ? 0 : sum / count;
      }
  const double tolerance = 1e-5 * static_cast<double>(keys);
  for (const auto& [way, means] : all) {
    ASSERT_EQ(means.shape(), expected.shape()) << what << ", " << way;
    for (Index i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(static_cast<double>(means.data()[i]) - expected.data()[i]);
      ASSERT_TRUE(difference <= (counts.data()[i] == 0 ? 0 : tolerance))
          << what << ", " << way << ", element " << i << " of (B, T, H) "
          << to_string(expected.shape()) << ": " << means.data()[i] << " instead of "
          << expected.data()[i];
    }
  }
}

}  // namespace decoder_paths
