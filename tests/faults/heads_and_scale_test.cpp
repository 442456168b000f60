// SPDX-License-Identifier: MIT

// Faults that others had with the number of heads and with the scale of the scores, in
// encoders and decoders.

#include "tests/faults/decoder_paths.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace heads_and_scale_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;

template <class F>
void expect_refused(F&& f, const std::vector<Index>& numbers) {
  try {
    f();
    ADD_FAILURE() << "not refused";
  } catch (const std::invalid_argument& error) {
    for (Index number : numbers)
      EXPECT_NE(std::string(error.what()).find(std::to_string(number)), std::string::npos)
          << error.what();
  }
}

// Refused with both numbers by everything that has heads, before anything is divided by them.
TEST(HeadFaults, HeadsThatCannotBeAreRefusedWithTheNumbers) {
  const std::pair<Index, Index> cases[] = {{8, 0},  {10, 4}, {8, -1},  {0, 1},
                                           {-8, 2}, {7, 14}, {-8, -2}, {0, 0}};
  for (const auto& [hidden, heads] : cases) {
    const std::vector<Index> numbers{hidden, heads};
    const Index c = hidden, h = heads;
    expect_refused([&] { MultiHeadAttention<float>({.hidden_size = c, .num_attention_heads = h}); },
                   numbers);
    expect_refused(
        [&] { MultiHeadAttention<ShapeOnly>({.hidden_size = c, .num_attention_heads = h}); },
        numbers);
    if (hidden < 0) continue;  // other modules of a layer may refuse a negative width first
    expect_refused(
        [&] {
          EncoderLayer<float>({.hidden_size = c, .num_attention_heads = h, .intermediate_size = 3});
        },
        numbers);
    expect_refused(
        [&] {
          TransformerEncoder<float>({.vocab_size = 3,
                                     .hidden_size = c,
                                     .num_attention_heads = h,
                                     .intermediate_size = 3});
        },
        numbers);
    for (bool cross_attention : {false, true}) {
      expect_refused(
          [&] {
            DecoderLayer<float>({.hidden_size = c,
                                 .num_attention_heads = h,
                                 .intermediate_size = 3,
                                 .cross_attention = cross_attention,
                                 .key_value_size = 5});
          },
          numbers);
      expect_refused(
          [&] {
            DecoderStack<ShapeOnly>({.hidden_size = c,
                                     .num_attention_heads = h,
                                     .intermediate_size = 3,
                                     .cross_attention = cross_attention});
          },
          numbers);
      expect_refused(
          [&] {
            TransformerDecoder<float>({.vocab_size = 3,
                                       .hidden_size = c,
                                       .num_attention_heads = h,
                                       .intermediate_size = 3,
                                       .cross_attention = cross_attention});
          },
          numbers);
    }
    expect_refused(
        [&] {
          TransformerStack<float>(
              {.encoder = {.hidden_size = 4, .intermediate_size = 3},
               .decoder = {.hidden_size = c, .num_attention_heads = h, .intermediate_size = 3}});
        },
        numbers);
    expect_refused(
        [&] {
          Transformer<float>({.vocab_size = 3,
                              .hidden_size = c,
                              .num_attention_heads = h,
                              .intermediate_size = 3});
        },
        numbers);
  }
}

// The number of heads is checked before anything is divided by it, whatever positions need of the
// heads' size.
TEST(HeadFaults, ZeroHeadsWithEveryKindOfPositions) {
  for (AttentionPosition kind :
       {AttentionPosition::none, AttentionPosition::rotary, AttentionPosition::alibi,
        AttentionPosition::relative_bias, AttentionPosition::relative_key,
        AttentionPosition::relative_key_query}) {
    for (Index heads : {0, -1, 3}) {
      expect_refused(
          [&] {
            MultiHeadAttention<float>({.hidden_size = 8,
                                       .num_attention_heads = heads,
                                       .attention_positions = {.kind = kind}});
          },
          {8, heads});
      expect_refused(
          [&] {
            DecoderLayer<float>({.hidden_size = 8,
                                 .num_attention_heads = heads,
                                 .intermediate_size = 3,
                                 .attention_positions = {.kind = kind}});
          },
          {8, heads});
    }
    // A stack may meet the table of relative biases first, which has one column for each head.
    for (Index heads : {0, -1})
      expect_refused(
          [&] {
            TransformerDecoder<float>({.vocab_size = 3,
                                       .hidden_size = 8,
                                       .num_attention_heads = heads,
                                       .intermediate_size = 3,
                                       .attention_positions = {.kind = kind}});
          },
          {heads});
  }
}

TEST(HeadFaults, KeyValueHeadsThatDontDivideAreRefused) {
  for (Index key_value_heads : {4, 5, 7, -1, -2, -3, 12})
    expect_refused(
        [&] {
          MultiHeadAttention<float>({.hidden_size = 12,
                                     .num_attention_heads = 6,
                                     .num_key_value_heads = key_value_heads});
        },
        {6, key_value_heads});
  for (Index key_value_heads : {4, 5, 7, -1, -2, -3, 12})
    expect_refused(
        [&] {
          Transformer<float>({.vocab_size = 3,
                              .hidden_size = 12,
                              .num_attention_heads = 6,
                              .num_key_value_heads = key_value_heads,
                              .intermediate_size = 3});
        },
        {6, key_value_heads});
  for (Index key_value_heads : {0, 1, 2, 3, 6})
    EXPECT_NO_THROW(MultiHeadAttention<float>(
        {.hidden_size = 12, .num_attention_heads = 6, .num_key_value_heads = key_value_heads}));
}

/// The module's result from its own projections and a plain loop over heads; key j takes part for
/// query t if visible(b, h, t, j).
template <class T, class Visible>
Tensor<T, 3> head_by_head(const MultiHeadAttention<T>& attention, const Tensor<T, 3>& x,
                          const Tensor<T, 3>& memory, Visible&& visible) {
  const auto& c = attention.config;
  const Index heads = c.num_attention_heads, size = c.size_of_head();
  const auto split = [&](const Tensor<T, 3>& a, Index count) {
    Tensor<T, 4> result({a.dim(0), count, a.dim(1), size});
    for (Index b = 0; b < a.dim(0); ++b)
      for (Index h = 0; h < count; ++h)
        for (Index t = 0; t < a.dim(1); ++t)
          for (Index d = 0; d < size; ++d) result(b, h, t, d) = a(b, t, h * size + d);
    return result;
  };
  const auto y = values::plain_attention(
      split(attention.query(x), heads), split(attention.key(memory), c.key_value_heads()),
      split(attention.value(memory), c.key_value_heads()), 1 / std::sqrt(static_cast<double>(size)),
      visible, values::no_bias);
  Tensor<T, 3> concatenated({x.dim(0), x.dim(1), heads * size});
  for (Index b = 0; b < x.dim(0); ++b)
    for (Index t = 0; t < x.dim(1); ++t)
      for (Index i = 0; i < heads * size; ++i)
        concatenated(b, t, i) = static_cast<T>(y.y(b, i / size, t, i % size));
  return attention.output(concatenated);
}

template <class T>
Tensor<T, 3> head_by_head(const MultiHeadAttention<T>& attention, const Tensor<T, 3>& x,
                          const std::vector<int>& lengths) {
  return head_by_head(attention, x, x, [&](Index b, Index, Index, Index j) {
    return j < lengths[static_cast<std::size_t>(b)];
  });
}

// Odd widths and heads, one head, heads of width 1: with and without biases and padding, in
// both precisions.
TEST(HeadFaults, EveryNumberOfHeadsMatchesHeadByHead) {
  const std::pair<Index, Index> cases[] = {{7, 7},  {9, 3},  {8, 1},  {1, 1},   {8, 8},
                                           {15, 5}, {22, 2}, {34, 2}, {13, 13}, {51, 3}};
  for (const auto& [hidden, heads] : cases) {
    for (bool bias : {false, true}) {
      MultiHeadAttention<double> attention({.hidden_size = hidden,
                                            .num_attention_heads = heads,
                                            .query_bias = bias,
                                            .key_bias = bias,
                                            .value_bias = bias,
                                            .output_bias = bias});
      randomize(attention, 1);
      const auto rounded = cast<float>(attention);
      for (Index tokens : {1, 5, 131}) {
        const auto x = random<double>(Shape<3>{2, tokens, hidden}, 2);
        Tensor<float, 3> x_float(x.shape());
        std::transform(x.begin(), x.end(), x_float.begin(),
                       [](double a) { return static_cast<float>(a); });
        const int all = static_cast<int>(tokens);
        for (const std::vector<int>& lengths :
             {std::vector<int>{all, all}, std::vector<int>{all / 2 + 1, all}}) {
          const auto expected = head_by_head(attention, x, lengths);
          const Mask<double> mask{.key_lengths = lengths};
          ASSERT_LT(largest_difference(attention(x, mask), expected), 1e-12)
              << hidden << " " << heads;
          // Softmax turns the rounding of a large score into a relative error of its weight.
          ASSERT_LT(largest_difference(rounded(x_float, {.key_lengths = lengths}), expected), 1e-4)
              << hidden << " " << heads;
        }
        ASSERT_EQ(attention(x), attention(x, {.key_lengths = std::vector<int>{all, all}}));
      }
    }
  }
}

// A head width that isn't hidden_size / heads, and grouped key/value heads.
TEST(HeadFaults, HeadWidthsAndGroupsOfTheirOwn) {
  for (Index key_value_heads : {1, 2, 3, 6}) {
    for (Index size : {1, 5, 8, 17}) {
      MultiHeadAttention<double> attention({.hidden_size = 7,
                                            .num_attention_heads = 6,
                                            .num_key_value_heads = key_value_heads,
                                            .head_size = size});
      randomize(attention, 3);
      EXPECT_EQ(attention.query.weight.shape(), (Shape<2>{6 * size, 7}));
      EXPECT_EQ(attention.key.weight.shape(), (Shape<2>{key_value_heads * size, 7}));
      const auto x = random<double>(Shape<3>{2, 5, 7}, 4);
      EXPECT_LT(largest_difference(attention(x), head_by_head(attention, x, {5, 5})), 1e-13);
    }
  }
}

// In a decoder layer: causal self-attention and attention to a memory of another length and
// width, at once and from caches, for odd heads too.
TEST(HeadFaults, EveryNumberOfHeadsOfADecoderLayer) {
  struct Case {
    Index hidden, heads, key_value_heads, size;
  };
  for (const Case& c : {Case{7, 7, 0, 0},
                        {9, 3, 1, 0},
                        {8, 1, 0, 0},
                        {1, 1, 0, 0},
                        {15, 5, 0, 0},
                        {51, 3, 0, 0},
                        {7, 6, 2, 5},
                        {10, 9, 3, 17}}) {
    for (bool bias : {false, true}) {
      DecoderLayer<double> layer({.hidden_size = c.hidden,
                                  .num_attention_heads = c.heads,
                                  .num_key_value_heads = c.key_value_heads,
                                  .head_size = c.size,
                                  .intermediate_size = 4,
                                  .cross_attention = true,
                                  .key_value_size = 3,
                                  .query_bias = bias,
                                  .key_bias = bias,
                                  .value_bias = bias,
                                  .output_bias = bias});
      randomize(layer, 7);
      EXPECT_EQ(layer.cross_attention->key.weight.dim(1), 3);
      const Index tokens = 5, keys = 11;
      const auto x = random<double>(Shape<3>{2, tokens, c.hidden}, 8);
      const auto memory = random<double>(Shape<3>{2, keys, 3}, 9);
      const std::vector<Index> lengths{keys, 4};
      const auto h = layer.self_attention_norm(
          values::sum(x, head_by_head(layer.self_attention, x, x, values::causally_visible)));
      const auto g = (*layer.cross_attention_norm)(values::sum(
          h, head_by_head(*layer.cross_attention, h, memory, [&](Index b, Index, Index, Index j) {
            return j < lengths[static_cast<std::size_t>(b)];
          })));
      const auto expected = layer.feed_forward_norm(values::sum(g, layer.feed_forward(g)));
      const auto y = layer(x, memory, {}, {.key_lengths = lengths});
      EXPECT_LT(largest_difference(y, expected), 1e-10) << c.hidden << " " << c.heads;

      Workspace workspace;
      auto cache = layer.make_cache(2, tokens, keys);
      layer.remember(memory, lengths, cache, workspace);
      for (Index t = 0; t < tokens; ++t) {
        Tensor<double, 3> step({2, 1, c.hidden});
        layer.forward(decoder_paths::tokens_of(x, t, t + 1), cache, {}, {}, step, workspace);
        EXPECT_EQ(step, decoder_paths::tokens_of(y, t, t + 1)) << c.hidden << " " << c.heads;
      }
    }
  }
}

// The scale is the root of one head's width, not of the model's, and is there at all.
TEST(HeadFaults, ScoresAreDividedByTheRootOfTheHeadWidth) {
  const auto attention = values::attention_identity<double>(8, 2);
  const auto x = values::filled<double>(Shape<3>{1, 1, 8}, 1);
  Tensor<double, 3> memory({1, 2, 8});
  for (Index c = 0; c < 8; ++c) memory(0, 0, c) = 1;
  expect_values(attention.attention_weights(x, memory), {.8807971, .1192029, .8807971, .1192029},
                5e-8);
}

// The bias is added to the scaled scores; it isn't scaled itself.
TEST(HeadFaults, BiasIsNotScaled) {
  const Tensor<double, 2> bias = values::rows<double>({{0, -10}});
  for (Index size : {1, 3, 8, 64, 129}) {
    Tensor<double, 4> weights;
    const Tensor<double, 4> q({1, 1, 1, size}), k({1, 1, 2, size});
    scaled_dot_product_attention(q, k, k, {.bias = bias}, {}, &weights);
    expect_values(weights, {.9999546, .0000454}, 5e-8);
  }
}

// Two keys with products s and 0: the first one's weight is 1 / (1 + exp(-(s scale + bias))),
// on every path: one query or many, few or many keys, grouped heads, any width, both precisions,
// with and without bias, given scale or the default.
template <class T>
void expect_scale_everywhere(double tolerance) {
  for (Index size : {1, 2, 3, 7, 8, 13, 64, 80, 129}) {
    for (Index queries : {1, 2, 7, 97}) {
      for (double given : {0.0, 0.37}) {
        const std::optional<double> scale =
            given == 0.0 ? std::nullopt : std::optional<double>(given);
        const double s = 1.3, factor = scale.value_or(1 / std::sqrt(static_cast<double>(size)));
        auto q = values::filled<T>(Shape<4>{1, 4, queries, size}, s / static_cast<double>(size));
        Tensor<T, 4> k({1, 2, 2, size});
        for (Index g = 0; g < 2; ++g)
          for (Index d = 0; d < size; ++d) k(0, g, 0, d) = T(1);
        for (double added : {0.0, 0.8}) {
          const auto bias = values::rows<T>({{added, 0}});
          Tensor<T, 4> weights;
          scaled_dot_product_attention(q, k, k, {.bias = bias}, scale, &weights);
          const double expected = 1 / (1 + std::exp(-(s * factor + added)));
          for (Index row = 0; row < 4 * queries; ++row)
            ASSERT_NEAR(weights.matrix()(row, 0), expected, tolerance) << size << " " << queries;
        }
      }
    }
  }
}

TEST(HeadFaults, TheSameScaleOnEveryPath) {
  expect_scale_everywhere<double>(1e-14);
  expect_scale_everywhere<float>(2e-7);
}

// A module's own scale replaces the default in the module and in its layer.
TEST(HeadFaults, ConfiguredScaleReachesTheAttention) {
  EncoderLayer<double> layer(
      {.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 5, .attention_scale = 0.9});
  randomize(layer, 5);
  ASSERT_EQ(layer.attention.config.scale, 0.9);
  EncoderLayer<double> scaled_queries(
      layer);  // the default scale with queries that carry the difference
  scaled_queries.attention.config.scale.reset();
  scaled_queries.attention.query.weight.vector() *= 0.9 * std::sqrt(2.0);
  scaled_queries.attention.query.bias.vector() *= 0.9 * std::sqrt(2.0);
  const auto x = random<double>(Shape<3>{2, 5, 6}, 6);
  EXPECT_LT(largest_difference(layer(x), scaled_queries(x)), 1e-14);
}

/// A layer without norms and feed-forward, whose attentions (to itself or to a memory) have
/// identity maps: y = x + attention.
decoder_paths::Layer plain_layer(Index size, bool cross_attention, std::optional<double> scale,
                                 double soft_cap, const AttentionPositions& positions = {}) {
  decoder_paths::Layer layer({.hidden_size = 2 * size,
                              .num_attention_heads = 2,
                              .intermediate_size = 1,
                              .cross_attention = cross_attention,
                              .attention_scale = scale,
                              .attention_positions = positions,
                              .attn_logit_softcapping = soft_cap});
  auto& attention = cross_attention ? *layer.cross_attention : layer.self_attention;
  for (Linear<float>* map : {&attention.query, &attention.key, &attention.value, &attention.output})
    values::set_identity(*map);
  return layer;
}

// In decoders: one key is 1 in all its elements and one is 0, so that the result is the weight
// of the first: 1 / (1 + exp(-(cap(size scale) + bias))), with the default scale or a given one, a
// cap or none, for attention to the past and to a memory, at once and from caches.
TEST(HeadFaults, TheSameScaleOnEveryPathOfADecoder) {
  for (Index size : {1, 3, 4, 8, 64, 129}) {
    for (std::optional<double> given : {std::optional<double>(), std::optional<double>(0.037)}) {
      for (double cap : {0.0, 1.5}) {
        for (float added : {0.0f, -10.0f}) {
          const double scale = given.value_or(1 / std::sqrt(static_cast<double>(size)));
          const double product = static_cast<double>(size) * scale;
          const double score = cap == 0 ? product : cap * std::tanh(product / cap);
          const double expected = 1 / (1 + std::exp(-(score + static_cast<double>(added))));
          SCOPED_TRACE(std::to_string(size) + " cap " + std::to_string(cap) + " bias " +
                       std::to_string(added));
          const auto expect_weight = [&](const Tensor<float, 3>& y, Index token, double x,
                                         const std::string& what) {
            for (Index c = 0; c < 2 * size; ++c)
              ASSERT_NEAR(static_cast<double>(y(0, token, c)) - x, expected, 2e-6) << what;
          };
          // Of the two tokens 0 and 1, the second one sees both.
          const auto bias_of_own = values::rows<float>({{0, 0}, {0, added}});
          Tensor<float, 3> x({1, 2, 2 * size});
          for (Index c = 0; c < 2 * size; ++c) x(0, 1, c) = 1;
          const auto self = plain_layer(size, false, given, cap);
          expect_weight(self(x, {.bias = bias_of_own}), 1, 1, "self");
          Workspace workspace;
          auto cache = self.make_cache(1, 2);
          for (Index t = 0; t < 2; ++t) {
            const auto bias_so_far = values::tensor<float>(
                Shape<2>{1, t + 1}, t == 0 ? std::vector<double>{0}
                                           : std::vector<double>{0, static_cast<double>(added)});
            Tensor<float, 3> step({1, 1, 2 * size});
            self.forward(decoder_paths::tokens_of(x, t, t + 1), cache, {.bias = bias_so_far}, {},
                         step, workspace);
            if (t == 1) expect_weight(step, 0, 1, "self, cached");
          }
          // One query of ones sees a memory of two tokens, 1 and 0.
          const auto bias_of_memory = values::rows<float>({{added, 0}});
          const auto one = decoder_paths::tokens_of(x, 1, 2);
          Tensor<float, 3> memory({1, 2, 2 * size});
          for (Index c = 0; c < 2 * size; ++c) memory(0, 0, c) = 1;
          const auto cross = plain_layer(size, true, given, cap);
          expect_weight(cross(one, memory, {}, {.bias = bias_of_memory}), 0, 1, "memory");
          auto with_memory = cross.make_cache(1, 1, 2);
          cross.remember(memory, {}, with_memory, workspace);
          Tensor<float, 3> y(one.shape());
          cross.forward(one, with_memory, {}, {.bias = bias_of_memory}, y, workspace);
          expect_weight(y, 0, 1, "memory, cached");
        }
      }
    }
  }
}

// Nothing that is added to the scores is scaled or capped: biases by offset, ALiBi, T5's
// table. With zero queries the result is the weight of the older of two tokens, 1 and 0.
TEST(HeadFaults, BiasesOfPositionsAreNotScaled) {
  for (Index size : {1, 4, 64}) {
    for (std::optional<double> scale : {std::optional<double>(), std::optional<double>(5.0)}) {
      for (double cap : {0.0, 1.5}) {
        const auto weight_of_older = [&](const AttentionPositions& positions,
                                         const Mask<float>& mask) {
          decoder_paths::Stack stack({.hidden_size = 2 * size,
                                      .num_attention_heads = 2,
                                      .intermediate_size = 1,
                                      .attention_scale = scale,
                                      .attention_positions = positions,
                                      .attn_logit_softcapping = cap});
          AttentionPositions own = positions.without_table();
          stack.layers.at(0) = plain_layer(size, false, scale, cap, own);
          auto& attention = stack.layers.at(0).self_attention;
          attention.query = zeros_like(attention.query);
          if (stack.relative_bias) {
            values::set(stack.relative_bias->weight, {0, 0, -10, -10, 7, 7, 7, 7});
          }
          Tensor<float, 3> x({1, 2, 2 * size});
          for (Index c = 0; c < 2 * size; ++c) x(0, 0, c) = 1;
          const auto y = stack(x, mask);
          // Asked for in another way: with a cache.
          auto cache = stack.make_cache(1, 2);
          Workspace workspace;
          for (Index t = 0; t < 2; ++t) {
            Tensor<float, 3> step({1, 1, 2 * size});
            stack.forward(decoder_paths::tokens_of(x, t, t + 1), cache, mask, {}, step, workspace);
            EXPECT_EQ(step, decoder_paths::tokens_of(y, t, t + 1));
          }
          return y;
        };
        const auto expect_both = [&](const Tensor<float, 3>& y, double first, double second) {
          for (Index c = 0; c < 2 * size; ++c)
            ASSERT_NEAR(y(0, 1, c), c < size ? first : second, 5e-8) << size;
        };
        const auto table = values::rows<float>({{-10, 0, 3}});
        expect_both(weight_of_older({}, {.offset_bias = table}), .0000454, .0000454);
        // Slopes 2^-4 and 2^-8.
        expect_both(weight_of_older({.kind = AttentionPosition::alibi}, {}),
                    1 / (1 + std::exp(0.0625)), 1 / (1 + std::exp(0.00390625)));
        // Bucket 1, the offset -1, of 4 looking back.
        expect_both(weight_of_older({.kind = AttentionPosition::relative_bias,
                                     .relative_attention_num_buckets = 4,
                                     .relative_attention_max_distance = 8},
                                    {}),
                    .0000454, .0000454);
      }
    }
  }
}

// A decoder's own scale replaces the default in both of its attentions.
TEST(HeadFaults, ConfiguredScaleReachesBothAttentionsOfADecoder) {
  TransformerDecoder<double> decoder({.vocab_size = 5,
                                      .hidden_size = 6,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 3,
                                      .intermediate_size = 5,
                                      .cross_attention = true,
                                      .attention_scale = 0.9});
  randomize(decoder, 10);
  const auto ids = values::tensor<std::int32_t>(Shape<2>{1, 4}, {0, 3, 1, 4});
  const auto memory = random<double>(Shape<3>{1, 7, 6}, 11);
  const auto expected = decoder(ids, {.memory = memory});
  const auto with_scaled_queries = [&](bool self, bool cross) {
    TransformerDecoder<double> other(decoder);
    for (auto& layer : other.layers) {
      EXPECT_EQ(layer.self_attention.config.scale, 0.9);
      EXPECT_EQ(layer.cross_attention->config.scale, 0.9);
      for (auto* attention : {&layer.self_attention, &*layer.cross_attention}) {
        if (attention == &layer.self_attention ? !self : !cross) continue;
        attention->config.scale.reset();  // queries carry the difference
        attention->query.weight.vector() *= 0.9 * std::sqrt(2.0);
        attention->query.bias.vector() *= 0.9 * std::sqrt(2.0);
      }
    }
    return largest_difference(other(ids, {.memory = memory}), expected);
  };
  EXPECT_LT(with_scaled_queries(true, true), 1e-13);
  EXPECT_LT(with_scaled_queries(true, false), 1e-13);
  EXPECT_LT(with_scaled_queries(false, true), 1e-13);
}

}  // namespace heads_and_scale_test
}  // namespace eigenformer
