// SPDX-License-Identifier: MIT

// The problems of TrenTorch on transformer blocks.
// Everything is in double, eps 1e-5, GELU exact. Its attention has no query, key and value maps:
// the input is split into heads as it is, so those maps are the identity here.

#include "tests/spec/numpy_random.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace trentorch_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;
using values::rows;
using values::sum;

const double infinity = std::numeric_limits<double>::infinity();

TEST(TrenTorch, LayerNorm) {
  LayerNorm<double> norm({.hidden_size = 4});
  values::set(norm.weight,
              {-.10321885179355784, .41059850193837233, .144043571160878, 1.454273506962975});
  values::set(norm.bias,
              {.7610377251469934, .12167501649282841, .44386323274542566, .33367432737426683});
  const auto x = rows<double>(
      {{1.764052345967664, .4001572083672233, .9787379841057392, 2.240893199201458},
       {1.8675579901499675, -.977277879876411, .9500884175255894, -.1513572082976979}});
  expect_values(norm(x),
                {.7000856460231688, -.4268235690867649, .36915296657592617, 2.1718799813652927,
                 .6227524183736523, -.4109937761863005, .514340654534904, -.4395763264590258},
                1e-13);
}

TEST(TrenTorch, ConstantRowGivesZeroAndScaledRowsNormaliseAlike) {
  const LayerNorm<double> norm({.hidden_size = 4});
  const auto y = norm(rows<double>({{7, 7, 7, 7}, {1, 2, 3, 4}, {100, 200, 300, 400}}));
  for (Index c = 0; c < 4; ++c) {
    EXPECT_EQ(y(0, c), 0.0);
    EXPECT_NEAR(y(1, c), y(2, c), 1e-5);
  }
}

TEST(TrenTorch, RootMeanSquareNorm) {
  RMSNorm<double> norm({.hidden_size = 4, .eps = 1e-6});
  values::set(norm.weight,
              {2.2697546239876076, -1.4543656745987648, .04575851730144607, -.1871838500258336});
  const auto x = rows<double>(
      {{1.4940790731576061, -.20515826376580087, .31306770165090136, -.8540957393017248},
       {-2.5529898158340787, .6536185954403606, .8644361988595057, -.7421650204064419}});
  expect_values(norm(x),
                {3.8509829366657, .3388299041320479, .016267818209958512, .18154907185643146,
                 -4.036587393717138, -.6621926911747296, .02755441888868035, .09677322733003796},
                1e-13);
  const RMSNorm<double> without_eps({.hidden_size = 2, .eps = 0});
  expect_values(without_eps(rows<double>({{3, 4}})), {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)},
                1e-15);
}

/// A block with split-only attention: output map, feed-forward, both norms at 1 and 0.
EncoderLayer<double> split_only_block(NormPlacement placement, Index hidden, Index heads,
                                      Index intermediate) {
  EncoderLayer<double> block({.hidden_size = hidden,
                              .num_attention_heads = heads,
                              .intermediate_size = intermediate,
                              .norm_placement = placement,
                              .query_bias = false,
                              .key_bias = false,
                              .value_bias = false});
  for (Linear<double>* map : {&block.attention.query, &block.attention.key, &block.attention.value})
    values::set_identity(*map);
  return block;
}

/// The output map and the feed-forward from a seed, in the order of the published problems.
EncoderLayer<double> seeded_block(NormPlacement placement, NumpyRandom& numpy) {
  EncoderLayer<double> block = split_only_block(placement, 16, 2, 32);
  block.attention.output.weight = numpy.randn<double>(Shape<2>{16, 16}, .3);
  block.attention.output.bias = numpy.randn<double>(Shape<1>{16}, .1);
  block.feed_forward.linear_1.weight = numpy.randn<double>(Shape<2>{32, 16}, .3);
  block.feed_forward.linear_1.bias = numpy.randn<double>(Shape<1>{32}, .1);
  block.feed_forward.linear_2.weight = numpy.randn<double>(Shape<2>{16, 32}, .3);
  block.feed_forward.linear_2.bias = numpy.randn<double>(Shape<1>{16}, .1);
  return block;
}

// X + sublayer(x), seen on a layer whose feed-forward is zero and whose norm is the identity up
// to its factor.
TEST(TrenTorch, ResidualConnection) {
  EncoderLayer<double> block = split_only_block(NormPlacement::pre, 6, 2, 5);
  randomize(block.attention.output, 1);
  const auto x = random<double>(Shape<3>{2, 3, 6}, 2);
  EXPECT_LT(largest_difference(block(x), sum(x, block.attention(block.attention_norm(x)))), 1e-15);
}

TEST(TrenTorch, FeedForward) {
  FeedForward<double> network({.hidden_size = 3, .intermediate_size = 5});
  randomize(network, 3);
  const auto x = random<double>(Shape<3>{2, 7, 3}, 4);
  const RowMajorMatrix<double> u =
      (x.matrix() * network.linear_1.weight.matrix().transpose()).rowwise() +
      network.linear_1.bias.vector().transpose();
  const RowMajorMatrix<double> g =
      u.unaryExpr([](double a) { return a * 0.5 * (1 + std::erf(a / std::sqrt(2.0))); });
  Tensor<double, 3> expected(x.shape());
  expected.matrix() = (g * network.linear_2.weight.matrix().transpose()).rowwise() +
                      network.linear_2.bias.vector().transpose();
  EXPECT_LT(largest_difference(network(x), expected), 1e-14);
}

// Down(swish(gate(x)) * up(x)), no biases.
TEST(TrenTorch, SwiGLU) {
  GatedFeedForward<double> network(
      {.hidden_size = 3, .intermediate_size = 5, .activation = Activation::silu, .bias = false});
  randomize(network, 5, 1.0);
  const auto x = random<double>(Shape<3>{2, 7, 3}, 6);
  const RowMajorMatrix<double> g = x.matrix() * network.gate.weight.matrix().transpose();
  const RowMajorMatrix<double> u = x.matrix() * network.up.weight.matrix().transpose();
  const RowMajorMatrix<double> swish = g.array() / (1 + (-g.array()).exp());
  Tensor<double, 3> expected(x.shape());
  expected.matrix() = swish.cwiseProduct(u) * network.down.weight.matrix().transpose();
  EXPECT_LT(largest_difference(network(x), expected), 1e-14);

  Tensor<double, 3> added(x.shape());
  added.matrix() = (swish + u) * network.down.weight.matrix().transpose();
  EXPECT_GT(largest_difference(network(x), added), 1e-2) << "a product, not a sum";

  GatedFeedForward<double> shared(network);
  shared.up = shared.gate;
  EXPECT_GT(largest_difference(shared(x), network(x)), 1e-2) << "two maps, not one";

  network.up = zeros_like(network.up);
  EXPECT_EQ(network(x), (Tensor<double, 3>(x.shape())));
}

// With zero output map and zero second feed-forward map the pre-norm block gives back its
// input, bit for bit.
TEST(TrenTorch, BlockWithZeroBranchesIsTheIdentity) {
  EncoderLayer<double> block = split_only_block(NormPlacement::pre, 6, 3, 11);
  randomize(block.feed_forward.linear_1, 7);
  randomize(block.attention_norm, 8);
  const auto x = random<double>(Shape<3>{2, 5, 6}, 9);
  EXPECT_EQ(block(x), x);
  EXPECT_EQ(block(x, {.causal = true}), x);
}

TEST(TrenTorch, AdditiveCausalMaskStaysFinite) {
  NumpyRandom numpy(10);
  const auto block = seeded_block(NormPlacement::pre, numpy);
  const auto x = random<double>(Shape<3>{2, 7, 16}, 11);
  Tensor<double, 2> mask({7, 7});
  for (Index t = 0; t < 7; ++t)
    for (Index j = t + 1; j < 7; ++j) mask(t, j) = -infinity;
  const auto y = block(x, {.bias = mask});
  EXPECT_TRUE(values::all_finite(y));
  EXPECT_EQ(y, block(x, {.causal = true}));
}

TEST(TrenTorch, StackAppliesBlocksInOrderAndSharesTheMask) {
  TransformerConfig config{.hidden_size = 6,
                           .num_hidden_layers = 0,
                           .num_attention_heads = 3,
                           .intermediate_size = 11,
                           .norm_placement = NormPlacement::pre};
  const auto x = random<double>(Shape<3>{2, 5, 6}, 12);
  EXPECT_EQ(EncoderStack<double>(config)(x), x) << "no blocks: the identity";

  config.num_hidden_layers = 3;
  EncoderStack<double> stack(config);
  randomize(stack, 13);
  const auto& blocks = stack.layers;
  const Mask<double> mask{.causal = true};
  const auto y = stack(x, mask);
  EXPECT_EQ(y, blocks[2](blocks[1](blocks[0](x, mask), mask), mask));
  EncoderStack<double> reversed(stack);
  std::reverse(reversed.layers.begin(), reversed.layers.end());
  EXPECT_GT(largest_difference(reversed(x, mask), y), 1e-2);
}

double frobenius_norm(const Tensor<double, 3>& x) { return x.vector().norm(); }

// One block's parameters used 1 to 16 times. Pre-norm lets the residual stream grow, post-norm
// holds it at sqrt(B T C).
TEST(TrenTorch, NormsOfPreAndPostNormStacks) {
  NumpyRandom numpy(4);
  const auto x = numpy.randn<double>(Shape<3>{1, 6, 16}, .1);
  EXPECT_NEAR(frobenius_norm(x), .96713265, 1e-8);
  EncoderLayer<double> block = seeded_block(NormPlacement::pre, numpy);

  const auto norm_at_depth = [&](NormPlacement placement, std::size_t depth) {
    EncoderStack<double> stack({.hidden_size = 16,
                                .num_attention_heads = 2,
                                .intermediate_size = 32,
                                .norm_placement = placement,
                                .query_bias = false,
                                .key_bias = false,
                                .value_bias = false});
    EncoderLayer<double> layer(block);
    layer.config.norm_placement = placement;
    stack.layers.assign(depth, layer);
    stack.config.num_hidden_layers = static_cast<Index>(depth);
    const auto y = stack(x);
    if (depth == 1) {
      EXPECT_EQ(y, layer(x));
    }
    if (placement == NormPlacement::post) {
      for (Index t = 0; t < 6; ++t) EXPECT_NEAR(y.matrix().row(t).norm() / 4, 1.0, 1e-2);
    }
    return frobenius_norm(y);
  };
  const std::size_t depths[] = {1, 2, 4, 8, 16};
  const double pre[] = {18.42166608, 29.25591860, 55.02538750, 111.05087618, 225.59336602};
  const double post[] = {9.79794156, 9.79794531, 9.79794518, 9.79794370, 9.79794561};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(norm_at_depth(NormPlacement::pre, depths[i]), pre[i], 1e-7);
    EXPECT_NEAR(norm_at_depth(NormPlacement::post, depths[i]), post[i], 1e-8);
  }
  EXPECT_GT(pre[4], 2 * pre[1]);
  EXPECT_LT(post[4], 1.5 * post[1]);
  EXPECT_NEAR(pre[4] / pre[1], 7.711, 5e-4);
}

TEST(TrenTorch, PreAndPostNormDiffer) {
  NumpyRandom numpy(5);
  const auto x = numpy.randn<double>(Shape<3>{1, 6, 16}, .1);
  const EncoderLayer<double> pre = seeded_block(NormPlacement::pre, numpy);
  EncoderLayer<double> post(pre);
  post.config.norm_placement = NormPlacement::post;
  EXPECT_GT(largest_difference(pre(x), post(x)), 0.1);
}

// Without a mask every token sees every other; with the causal mask later tokens don't reach
// earlier ones.
TEST(TrenTorch, EncoderSeesTheFutureDecoderDoesNot) {
  NumpyRandom numpy(6);
  const auto block = seeded_block(NormPlacement::pre, numpy);
  const auto x = numpy.randn<double>(Shape<3>{1, 7, 16});
  const auto row_change = [](const Tensor<double, 3>& a, const Tensor<double, 3>& b, Index row) {
    return (a.matrix().row(row) - b.matrix().row(row)).cwiseAbs().maxCoeff();
  };
  Tensor<double, 3> last(x), first(x);
  for (Index c = 0; c < 16; ++c) last(0, 6, c) += 10 * numpy.normal();
  for (Index c = 0; c < 16; ++c) first(0, 0, c) += 10 * numpy.normal();
  const Mask<double> causal{.causal = true};
  EXPECT_GT(row_change(block(last), block(x), 0), 1e-4);
  EXPECT_EQ(row_change(block(last, causal), block(x, causal), 0), 0.0);
  EXPECT_EQ(row_change(block(last, causal), block(x, causal), 5), 0.0);
  EXPECT_GT(row_change(block(last, causal), block(x, causal), 6), 1e-4);
  EXPECT_GT(row_change(block(first, causal), block(x, causal), 6), 1e-4);
}

/// A decoder block with the parameters of an encoder block.
DecoderLayer<double> decoder_block(const EncoderLayer<double>& block) {
  DecoderLayer<double> decoder({.hidden_size = block.config.hidden_size,
                                .num_attention_heads = block.config.num_attention_heads,
                                .intermediate_size = block.config.intermediate_size,
                                .norm_placement = block.config.norm_placement,
                                .query_bias = false,
                                .key_bias = false,
                                .value_bias = false});
  decoder.self_attention = block.attention;
  decoder.self_attention_norm = block.attention_norm;
  decoder.feed_forward = block.feed_forward;
  decoder.feed_forward_norm = block.feed_forward_norm;
  return decoder;
}

// Encoder_block_forward sees everything, decoder_block_forward is the same block with the
// causal mask, which no caller can forget here.
TEST(TrenTorch, DecoderBlockIsTheEncoderBlockWithTheCausalMask) {
  NumpyRandom numpy(6);
  const auto block = seeded_block(NormPlacement::pre, numpy);
  const auto decoder = decoder_block(block);
  EXPECT_EQ(count_parameters(decoder), count_parameters(block));
  const auto x = numpy.randn<double>(Shape<3>{1, 7, 16});
  EXPECT_EQ(decoder(x), block(x, {.causal = true}));
  EXPECT_GT(largest_difference(decoder(x), block(x)), 1e-2);

  const auto row_change = [](const Tensor<double, 3>& a, const Tensor<double, 3>& b, Index row) {
    return (a.matrix().row(row) - b.matrix().row(row)).cwiseAbs().maxCoeff();
  };
  Tensor<double, 3> last(x), first(x);
  for (Index c = 0; c < 16; ++c) last(0, 6, c) += 10 * numpy.normal();
  for (Index c = 0; c < 16; ++c) first(0, 0, c) += 10 * numpy.normal();
  EXPECT_GT(row_change(block(last), block(x), 0), 1e-4);
  for (Index t = 0; t < 6; ++t) EXPECT_EQ(row_change(decoder(last), decoder(x), t), 0.0) << t;
  EXPECT_GT(row_change(decoder(last), decoder(x), 6), 1e-4);
  EXPECT_GT(row_change(decoder(first), decoder(x), 6), 1e-4);
}

// Encoder_decoder_cross_attention inside a block, 4 tokens on 7: queries from the decoder, keys
// and values from the encoder.
TEST(TrenTorch, CrossAttentionInsideADecoderBlock) {
  DecoderLayer<double> decoder({.hidden_size = 12,
                                .num_attention_heads = 3,
                                .intermediate_size = 5,
                                .cross_attention = true,
                                .norm_placement = NormPlacement::pre});
  randomize(decoder, 24);
  decoder.cross_attention = values::attention_identity<double>(12, 3);
  const auto x = random<double>(Shape<3>{2, 4, 12}, 25),
             memory = random<double>(Shape<3>{2, 7, 12}, 26);
  const auto y = decoder(x, memory);
  EXPECT_EQ(y.shape(), (Shape<3>{2, 4, 12}));

  const auto heads = [](const Tensor<double, 3>& a) {
    Tensor<double, 4> result({2, 3, a.dim(1), 4});
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 3; ++h)
        for (Index t = 0; t < a.dim(1); ++t)
          for (Index d = 0; d < 4; ++d) result(b, h, t, d) = a(b, t, h * 4 + d);
    return result;
  };
  const auto h = sum(x, decoder.self_attention(decoder.self_attention_norm(x), {.causal = true}));
  const auto q = heads((*decoder.cross_attention_norm)(h)), k = heads(memory);
  const auto attended =
      values::plain_attention(q, k, k, 0.5, values::everything_visible, values::no_bias);
  Tensor<double, 3> g(h);
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 4; ++t)
      for (Index c = 0; c < 12; ++c) g(b, t, c) += attended.y(b, c / 4, t, c % 4);
  EXPECT_LT(largest_difference(y, sum(g, decoder.feed_forward(decoder.feed_forward_norm(g)))),
            1e-13);
}

TEST(TrenTorch, CrossAttentionOfFourQueriesAndSevenKeys) {
  const auto attention = values::attention_identity<double>(12, 3);
  const auto x = random<double>(Shape<3>{2, 4, 12}, 14),
             memory = random<double>(Shape<3>{2, 7, 12}, 15);
  EXPECT_EQ(attention(x, memory).shape(), (Shape<3>{2, 4, 12}));
  EXPECT_EQ(attention.attention_weights(x, memory).shape(), (Shape<4>{2, 3, 4, 7}));
}

// Heads are consecutive chunks of the features: of 0 ... 7, head 0 has 0 ... 3.
TEST(TrenTorch, HeadsAreConsecutiveChunks) {
  auto attention = values::attention_identity<double>(8, 2);
  // Two keys; head 0 prefers the one that carries features 0 ... 3, which no other grouping of the
  // features could tell apart.
  Tensor<double, 3> query({1, 1, 8}), keys({1, 2, 8}), memory({1, 2, 8});
  for (Index c = 0; c < 8; ++c) {
    query(0, 0, c) = 100;
    keys(0, c / 4, c) = 1;
    memory(0, 0, c) = static_cast<double>(c);
    memory(0, 1, c) = static_cast<double>(10 + c);
  }
  expect_values(attention(query, keys, memory), {0, 1, 2, 3, 14, 15, 16, 17}, 1e-12);
}

TEST(TrenTorch, OneHeadAfterTheOther) {
  const auto attention = values::attention_identity<double>(12, 3);
  const auto x = random<double>(Shape<3>{2, 5, 12}, 16);
  const auto y = attention(x);
  Tensor<double, 4> heads({2, 3, 5, 4});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index t = 0; t < 5; ++t)
        for (Index d = 0; d < 4; ++d) heads(b, h, t, d) = x(b, t, h * 4 + d);
  const auto expected = values::plain_attention(heads, heads, heads, 0.5,
                                                values::everything_visible, values::no_bias);
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 5; ++t)
      for (Index c = 0; c < 12; ++c) EXPECT_NEAR(y(b, t, c), expected.y(b, c / 4, t, c % 4), 1e-14);
  EXPECT_LT(largest_difference(attention.attention_weights(x, x), expected.weights), 1e-15);

  Tensor<double, 2> mask({5, 5});
  for (Index t = 0; t < 5; ++t) mask(t, 2) = -1e9;
  const auto weights = attention.attention_weights(x, x, {.bias = mask});
  for (Index row = 0; row < 2 * 3 * 5; ++row) EXPECT_EQ(weights.matrix()(row, 2), 0.0);
}

// The output map comes after the concatenation; the identity leaves it as it is.
TEST(TrenTorch, OutputMapAfterConcatenation) {
  auto attention = values::attention_identity<double>(12, 3);
  const auto x = random<double>(Shape<3>{2, 5, 12}, 17);
  const auto concatenated = attention(x);
  randomize(attention.output, 18);
  EXPECT_LT(largest_difference(attention(x), attention.output(concatenated)), 1e-14);
  EXPECT_EQ(attention.attention_weights(x, x).shape(), (Shape<4>{2, 3, 5, 5}));
}

// Additive mask, softmax stable for any size of the scores.
TEST(TrenTorch, ScaledDotProductAttention) {
  const auto q = random<double>(Shape<4>{2, 3, 5, 7}, 19, 100.0),
             k = random<double>(Shape<4>{2, 3, 11, 7}, 20),
             v = random<double>(Shape<4>{2, 3, 11, 4}, 21);
  const auto bias = random<double>(Shape<2>{5, 11}, 22);
  Tensor<double, 4> weights;
  const auto y = scaled_dot_product_attention(q, k, v, {.bias = bias}, {}, &weights);
  const auto expected =
      values::plain_attention(q, k, v, 1 / std::sqrt(7.0), values::everything_visible,
                              [&](Index, Index, Index t, Index j) { return bias(t, j); });
  EXPECT_LT(largest_difference(y, expected.y), 1e-12);
  EXPECT_LT(largest_difference(weights, expected.weights), 1e-12);
}

// 0 on and below the diagonal, -infinity above.
TEST(TrenTorch, CausalMask) {
  const auto mask = rows<double>({{0, -infinity, -infinity}, {0, 0, -infinity}, {0, 0, 0}});
  const auto x = random<double>(Shape<4>{1, 2, 3, 5}, 23);
  Tensor<double, 4> with_matrix, with_flag;
  EXPECT_EQ(scaled_dot_product_attention(x, x, x, {.bias = mask}, {}, &with_matrix),
            scaled_dot_product_attention(x, x, x, {.causal = true}, {}, &with_flag));
  EXPECT_EQ(with_matrix, with_flag);
  for (Index t = 0; t < 3; ++t)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(with_flag(0, 1, t, j) > 0, j <= t);
}

/// build_causal_mask(n).
Tensor<double, 2> causal_mask(Index n) {
  Tensor<double, 2> mask({n, n});
  for (Index t = 0; t < n; ++t)
    for (Index j = t + 1; j < n; ++j) mask(t, j) = -infinity;
  return mask;
}

// A decoder block has this mask already: adding it changes no bit, adding its transpose, which
// blocks the past, leaves each token itself alone.
TEST(TrenTorch, CausalMaskOfADecoderBlock) {
  NumpyRandom numpy(27);
  const auto block = seeded_block(NormPlacement::post, numpy);
  const auto decoder = decoder_block(block);
  for (Index n : {1, 3, 11}) {
    const auto x = numpy.randn<double>(Shape<3>{2, n, 16});
    const auto mask = causal_mask(n);
    EXPECT_EQ(decoder(x, {.bias = mask}), decoder(x));
    EXPECT_EQ(block(x, {.bias = mask}), decoder(x));
    Tensor<double, 2> transposed(mask);
    transposed.matrix().transposeInPlace();
    Tensor<double, 2> itself({n, n});
    for (Index t = 0; t < n; ++t)
      for (Index j = 0; j < n; ++j) itself(t, j) = t == j ? 0 : -infinity;
    EXPECT_EQ(decoder(x, {.bias = transposed}), block(x, {.bias = itself}));
  }
}

TEST(TrenTorch, SinusoidalPositions) {
  const auto table = sinusoidal_positions<double>(5, 8);
  expect_values(
      values::tensor<double>(Shape<1>{16}, std::vector<double>(table.begin(), table.begin() + 16)),
      {0, 1, 0, 1, 0, 1, 0, 1, .8414709848, .5403023059, .0998334166, .9950041653, .0099998333,
       .9999500004, .0009999998, .9999995},
      6e-11);
  for (Index t = 0; t < 5; ++t)
    for (Index c = 0; c < 8; ++c) {
      const double angle = static_cast<double>(t) *
                           std::exp(static_cast<double>(c / 2 * 2) * (-std::log(10000.0) / 8));
      EXPECT_NEAR(table(t, c), c % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-14);
    }
}

// Token and position vectors are simply added.
TEST(TrenTorch, EmbeddingsAreAddedUnscaled) {
  Embeddings<double> embeddings(
      {.vocab_size = 2, .hidden_size = 2, .max_position_embeddings = 2, .embedding_norm = false});
  values::set(embeddings.token.weight, {1, 2, 3, 4});
  values::set(embeddings.position->weight, {10, 10, 20, 20});
  expect_values(embeddings(values::tensor<std::int32_t>(Shape<2>{1, 2}, {0, 1})), {11, 12, 23, 24},
                0);
}

/// x (T, D), row t rotated by position first + t, pairs of neighbours.
Tensor<double, 2> apply_rope(const Tensor<double, 2>& x, Index first = 0) {
  Workspace workspace;
  Scratch scratch(workspace);
  Tensor<double, 2> y(x);
  kernels::RotaryTable<double>({.layout = RotaryLayout::interleaved}, x.dim(1), 1, x.dim(0), first,
                               nullptr, scratch, workspace)
      .rotate(y, x.dim(1), workspace);
  return y;
}

// Angles (T, d / 2) are position * 10000^(-2 i / d), for pairs (2 i, 2 i + 1).
TEST(TrenTorch, RopeAngles) {
  const Index tokens = 9, width = 10;
  std::vector<double> frequencies(5);
  kernels::rotary_frequencies({}, width, frequencies.data());
  Tensor<double, 2> x({tokens, width});
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < width; i += 2) x(t, i) = 1;
  const auto y = apply_rope(x);
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / 10);
      EXPECT_NEAR(static_cast<double>(t) * frequencies[static_cast<std::size_t>(i)], angle, 1e-14);
      EXPECT_NEAR(y(t, 2 * i), std::cos(angle), 1e-14);
      EXPECT_NEAR(y(t, 2 * i + 1), std::sin(angle), 1e-14);
    }
}

// Norms stay, products depend on the difference of positions alone.
TEST(TrenTorch, RopeKeepsNormsAndDifferences) {
  const auto q = random<double>(Shape<2>{1, 10}, 28), k = random<double>(Shape<2>{1, 10}, 29);
  for (Index m : {0, 1, 7, 100}) {
    EXPECT_NEAR(apply_rope(q, m).matrix().norm(), q.matrix().norm(), 1e-13);
    for (Index n : {0, 1, 7, 100}) {
      const auto product = [&](Index shift) {
        return apply_rope(q, m + shift).vector().dot(apply_rope(k, n + shift).vector());
      };
      EXPECT_NEAR(product(0), product(1), 1e-12);
      EXPECT_NEAR(product(0), product(1000), 1e-10);
    }
  }
  const double near = apply_rope(q, 1).vector().dot(apply_rope(k, 0).vector());
  const double far = apply_rope(q, 7).vector().dot(apply_rope(k, 0).vector());
  EXPECT_GT(std::abs(near - far), 1e-3);
}

/// The scores that ALiBi adds, seen as logarithms of weights under zero queries.
Tensor<double, 4> alibi_scores(Index heads, Index tokens, const Mask<double>& mask) {
  MultiHeadAttention<double> attention({.hidden_size = heads,
                                        .num_attention_heads = heads,
                                        .attention_positions = {.kind = AttentionPosition::alibi}});
  const Tensor<double, 3> x({1, tokens, heads});
  auto scores = attention.attention_weights(x, x, mask);
  for (Index h = 0; h < heads; ++h)
    for (Index t = 0; t < tokens; ++t) {
      const double own = scores(0, h, t, t);
      for (Index j = 0; j < tokens; ++j) scores(0, h, t, j) = std::log(scores(0, h, t, j) / own);
    }
  return scores;
}

// Slope i is r^(i + 1) with r = 2^(-8 / n); the bias of key j for query i is -slope (i - j), 0
// on the diagonal, and -infinity above it with the causal mask.
TEST(TrenTorch, AlibiSlopesBiasAndCausalMask) {
  const std::vector<double> slopes{.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625};
  for (Index h = 0; h < 8; ++h) {
    EXPECT_EQ(kernels::alibi_slope(h, 8), slopes[static_cast<std::size_t>(h)]);
    EXPECT_NEAR(kernels::alibi_slope(h, 8),
                std::pow(std::pow(2.0, -8.0 / 8), static_cast<double>(h + 1)), 1e-16);
  }
  const auto bias = alibi_scores(8, 6, {}), causal = alibi_scores(8, 6, {.causal = true});
  for (Index h = 0; h < 8; ++h)
    for (Index i = 0; i < 6; ++i)
      for (Index j = 0; j < 6; ++j) {
        const double distance = static_cast<double>(std::abs(i - j));
        const double expected = -slopes[static_cast<std::size_t>(h)] * distance;
        EXPECT_NEAR(bias(0, h, i, j), expected, 1e-14);
        if (j > i) {
          EXPECT_EQ(causal(0, h, i, j), -infinity);
        } else {
          EXPECT_NEAR(causal(0, h, i, j), expected, 1e-14);
        }
        if (i == j) {
          EXPECT_EQ(causal(0, h, i, j), 0.0);
        }
      }
}

// Its rule is a single series for any number of heads, unlike the paper's; where the two
// differ, a bias by offset has the same effect as its alibi_causal_mask.
TEST(TrenTorch, SeriesForSixHeadsByOffsets) {
  const Index heads = 6, tokens = 7;
  const double ratio = std::pow(2.0, -8.0 / 6);
  Tensor<double, 2> by_offset({heads, 2 * tokens - 1});
  Tensor<double, 3> matrix({heads, tokens, tokens});
  for (Index h = 0; h < heads; ++h) {
    const double slope = std::pow(ratio, static_cast<double>(h + 1));
    for (Index offset = 1 - tokens; offset < tokens; ++offset)
      by_offset(h, offset + tokens - 1) = slope * static_cast<double>(offset);
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < tokens; ++j)
        matrix(h, i, j) = j > i ? -infinity : -slope * static_cast<double>(i - j);
  }
  EXPECT_GT(std::abs(kernels::alibi_slope(0, heads) - ratio), 0.1) << "the paper's is 1/4";
  const auto q = random<double>(Shape<4>{1, heads, tokens, 5}, 30),
             k = random<double>(Shape<4>{1, heads, tokens, 5}, 31),
             v = random<double>(Shape<4>{1, heads, tokens, 5}, 32);
  EXPECT_LT(largest_difference(
                scaled_dot_product_attention(q, k, v, {.causal = true, .offset_bias = by_offset}),
                scaled_dot_product_attention(q, k, v, {.bias = matrix})),
            1e-14);
}

TEST(TrenTorch, ExactGELU) {
  const auto x = rows<double>({{-3, -1, -.5, .5, 1, 3}});
  expect_values(gelu(x), {-.00404987, -.15865529, -.15426879, .34573120, .84134471, 2.99595022},
                5e-7);
  for (Index i = 0; i < 6; ++i)
    EXPECT_NEAR(gelu(x)(0, i), x(0, i) / 2 * (1 + std::erf(x(0, i) / std::sqrt(2.0))), 1e-15);
}

}  // namespace trentorch_test
}  // namespace eigenformer
