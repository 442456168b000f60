// SPDX-License-Identifier: MIT

// Faults that others had with the number of heads (H02) and with the scale of the scores (H03).

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace {

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

// H02: refused with both numbers by everything that has heads, before anything is divided by them.
TEST(HeadFaults, H02HeadsThatCannotBeAreRefusedWithTheNumbers) {
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
  }
}

TEST(HeadFaults, H02KeyValueHeadsThatDontDivideAreRefused) {
  for (Index key_value_heads : {4, 5, 7, -1, -2, -3, 12})
    expect_refused(
        [&] {
          MultiHeadAttention<float>({.hidden_size = 12,
                                     .num_attention_heads = 6,
                                     .num_key_value_heads = key_value_heads});
        },
        {6, key_value_heads});
  for (Index key_value_heads : {0, 1, 2, 3, 6})
    EXPECT_NO_THROW(MultiHeadAttention<float>(
        {.hidden_size = 12, .num_attention_heads = 6, .num_key_value_heads = key_value_heads}));
}

/// The module's result from its own projections and a plain loop over heads.
template <class T>
Tensor<T, 3> head_by_head(const MultiHeadAttention<T>& attention, const Tensor<T, 3>& x,
                          const std::vector<int>& lengths) {
  const auto& c = attention.config;
  const Index heads = c.num_attention_heads, size = c.size_of_head(), tokens = x.dim(1);
  const auto split = [&](const Tensor<T, 3>& a, Index count) {
    Tensor<T, 4> result({a.dim(0), count, tokens, size});
    for (Index b = 0; b < a.dim(0); ++b)
      for (Index h = 0; h < count; ++h)
        for (Index t = 0; t < tokens; ++t)
          for (Index d = 0; d < size; ++d) result(b, h, t, d) = a(b, t, h * size + d);
    return result;
  };
  const auto y = values::plain_attention(
      split(attention.query(x), heads), split(attention.key(x), c.key_value_heads()),
      split(attention.value(x), c.key_value_heads()), 1 / std::sqrt(static_cast<double>(size)),
      [&](Index b, Index, Index, Index j) { return j < lengths[static_cast<std::size_t>(b)]; },
      values::no_bias);
  Tensor<T, 3> concatenated({x.dim(0), tokens, heads * size});
  for (Index b = 0; b < x.dim(0); ++b)
    for (Index t = 0; t < tokens; ++t)
      for (Index i = 0; i < heads * size; ++i)
        concatenated(b, t, i) = static_cast<T>(y.y(b, i / size, t, i % size));
  return attention.output(concatenated);
}

// H02: odd widths and heads, one head, heads of width 1: with and without biases and padding, in
// both precisions.
TEST(HeadFaults, H02EveryNumberOfHeadsMatchesHeadByHead) {
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

// H02: a head width that isn't hidden_size / heads, and grouped key/value heads.
TEST(HeadFaults, H02HeadWidthsAndGroupsOfTheirOwn) {
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

// H03: the scale is the root of one head's width, not of the model's, and is there at all.
TEST(HeadFaults, H03ScoresAreDividedByTheRootOfTheHeadWidth) {
  const auto attention = values::attention_identity<double>(8, 2);
  const auto x = values::filled<double>(Shape<3>{1, 1, 8}, 1);
  Tensor<double, 3> memory({1, 2, 8});
  for (Index c = 0; c < 8; ++c) memory(0, 0, c) = 1;
  expect_values(attention.weights(x, memory), {.8807971, .1192029, .8807971, .1192029}, 5e-8);
}

// H03: the bias is added to the scaled scores; it isn't scaled itself.
TEST(HeadFaults, H03BiasIsNotScaled) {
  const Tensor<double, 2> bias = values::rows<double>({{0, -10}});
  for (Index size : {1, 3, 8, 64, 129}) {
    Tensor<double, 4> weights;
    const Tensor<double, 4> q({1, 1, 1, size}), k({1, 1, 2, size});
    scaled_dot_product_attention(q, k, k, {.bias = bias}, {}, &weights);
    expect_values(weights, {.9999546, .0000454}, 5e-8);
  }
}

// H03: two keys with products s and 0: the first one's weight is 1 / (1 + exp(-(s scale + bias))),
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

TEST(HeadFaults, H03TheSameScaleOnEveryPath) {
  expect_scale_everywhere<double>(1e-14);
  expect_scale_everywhere<float>(2e-7);
}

// H03: a module's own scale replaces the default in the module and in its layer.
TEST(HeadFaults, H03ConfiguredScaleReachesTheAttention) {
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

}  // namespace
}  // namespace eigenformer
