// SPDX-License-Identifier: MIT

// Zhang, Lipton, Li, Smola, "Dive into Deep Learning", chapter "Attention mechanisms and
// transformers". The book's attention has no biases, its
// encoder is post-norm with ReLU, its vision transformer pre-norm with GELU.

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace dive_into_deep_learning_test {

using values::expect_values;
using values::filled;
using values::largest_difference;
using values::random;
using values::randomize;
using values::sum;

/// TransformerEncoderBlock(24, 48, 8, .5) and, pre-norm with GELU, ViTBlock(24, 24, 48, 8, .5).
TransformerConfig block_config(NormPlacement placement, Index hidden = 24, Index heads = 8,
                               Index intermediate = 48) {
  return {.hidden_size = hidden,
          .num_attention_heads = heads,
          .intermediate_size = intermediate,
          .activation = placement == NormPlacement::post ? Activation::relu : Activation::gelu,
          .norm_placement = placement,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .attention_probs_dropout_prob = 0.5,
          .hidden_dropout_prob = 0.5};
}

MultiHeadAttentionConfig attention_config(Index hidden, Index heads) {
  return {.hidden_size = hidden,
          .num_attention_heads = heads,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false};
}

TEST(DiveIntoDeepLearning, MaskedSoftmaxWithALengthForEachRowOfTheBatch) {
  const auto x =
      values::tensor<double>(Shape<3>{2, 2, 4}, {1, 2, 3, 4, 1, 1, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4});
  const std::vector<double> expected{.26894142, .73105858, 0,         0,       .5,      .5,
                                     0,         0,         1.0 / 3,   1.0 / 3, 1.0 / 3, 0,
                                     .09003057, .24472847, .66524096, 0};
  const auto copy = x;
  expect_values(masked_softmax(x, std::vector<int>{2, 3}), expected, 1e-8);
  expect_values(masked_softmax(x, std::vector<int>{2, 3}, -1e6), expected, 1e-8);
  EXPECT_EQ(x, copy) << "the scores are an input";
}

TEST(DiveIntoDeepLearning, MaskedSoftmaxWithALengthForEachQuery) {
  const auto x =
      values::tensor<double>(Shape<3>{2, 2, 4}, {1, 2, 3, 4, 1, 1, 1, 1, 0, 0, 0, 0, 1, 2, 3, 4});
  const Tensor<std::int32_t, 2> lengths =
      values::tensor<std::int32_t>(Shape<2>{2, 2}, {1, 3, 2, 4});
  expect_values(masked_softmax(x, lengths),
                {1, 0, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0, .5, .5, 0, 0, .03205860, .08714432,
                 .23688282, .64391426},
                1e-8);
}

// The book fills with -1e6, which makes length 0 uniform over the padding; without a fill value no
// key takes part.
TEST(DiveIntoDeepLearning, LengthZeroIsUniformOnlyWithTheBooksFillValue) {
  const auto x = values::tensor<float>(Shape<3>{1, 1, 3}, {1, 2, 3});
  expect_values(masked_softmax(x, std::vector<int>{0}, -1e6f), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-7);
  EXPECT_EQ(masked_softmax(x, std::vector<int>{0}), (Tensor<float, 3>({1, 1, 3})));
}

// Equal keys make the weights exactly uniform over the lengths 2 and 6.
TEST(DiveIntoDeepLearning, DotProductAttention) {
  const auto q = random<double>(Shape<4>{2, 1, 1, 2}, 1);
  const auto v = random<double>(Shape<4>{2, 1, 10, 4}, 2);
  Tensor<double, 4> weights;
  const auto y =
      scaled_dot_product_attention(q, filled<double>(Shape<4>{2, 1, 10, 2}, 1), v,
                                   {.key_lengths = std::vector<int>{2, 6}}, {}, &weights);
  EXPECT_EQ(y.shape(), (Shape<4>{2, 1, 1, 4}));
  for (Index j = 0; j < 10; ++j) {
    EXPECT_NEAR(weights(0, 0, 0, j), j < 2 ? 0.5 : 0.0, 1e-15);
    EXPECT_NEAR(weights(1, 0, 0, j), j < 6 ? 1.0 / 6 : 0.0, 1e-15);
  }

  const auto k = random<double>(Shape<4>{2, 1, 10, 2}, 3);
  const Index lengths[] = {2, 6};
  const auto z = scaled_dot_product_attention(q, k, v, {.key_lengths = lengths}, {}, &weights);
  const auto expected = values::plain_attention(
      q, k, v, 1 / std::sqrt(2.0), [&](Index b, Index, Index, Index j) { return j < lengths[b]; },
      values::no_bias);
  EXPECT_LT(largest_difference(z, expected.y), 1e-15);
  for (Index j = 2; j < 10; ++j) EXPECT_EQ(weights(0, 0, 0, j), 0.0);
  for (Index j = 6; j < 10; ++j) EXPECT_EQ(weights(1, 0, 0, j), 0.0);
}

// Score . tanh(query(q) + key(k)), no biases.
TEST(DiveIntoDeepLearning, AdditiveAttention) {
  AdditiveAttention<double> attention({.query_size = 20, .key_size = 2, .hidden_size = 8});
  EXPECT_EQ(count_parameters(attention), 20 * 8 + 2 * 8 + 8);
  randomize(attention, 4);
  const auto q = random<double>(Shape<3>{2, 1, 20}, 5), k = random<double>(Shape<3>{2, 10, 2}, 6),
             v = random<double>(Shape<3>{2, 10, 4}, 7);
  const std::vector<int> lengths{2, 6};
  const auto y = attention(q, k, v, lengths);
  const auto weights = attention.attention_weights(q, k, lengths);
  ASSERT_EQ(y.shape(), (Shape<3>{2, 1, 4}));
  ASSERT_EQ(weights.shape(), (Shape<3>{2, 1, 10}));

  for (Index b = 0; b < 2; ++b) {
    Eigen::RowVectorXd exponentials = Eigen::RowVectorXd::Zero(10);
    for (Index j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j) {
      const Eigen::VectorXd features =
          attention.query.weight.matrix() * q.matrix().row(b).transpose() +
          attention.key.weight.matrix() * k.matrix().row(b * 10 + j).transpose();
      exponentials(j) =
          std::exp(attention.score.weight.matrix().row(0).dot(features.array().tanh().matrix()));
    }
    const Eigen::RowVectorXd p = exponentials / exponentials.sum();
    EXPECT_LT((weights.matrix().row(b) - p).cwiseAbs().maxCoeff(), 1e-15);
    EXPECT_LT((y.matrix().row(b) - p * v.matrix().middleRows(b * 10, 10)).cwiseAbs().maxCoeff(),
              1e-14);
  }
}

TEST(DiveIntoDeepLearning, MultiHeadAttention) {
  MultiHeadAttention<double> attention(attention_config(100, 5));
  EXPECT_EQ(count_parameters(attention), 40000);
  randomize(attention, 8, 0.1);
  const auto x = random<double>(Shape<3>{2, 4, 100}, 9),
             y = random<double>(Shape<3>{2, 6, 100}, 10);
  const std::vector<int> lengths{3, 2};
  const auto cross = attention(x, y, {.key_lengths = lengths});
  EXPECT_EQ(cross.shape(), (Shape<3>{2, 4, 100}));
  EXPECT_EQ(attention(x, {.key_lengths = lengths}).shape(), (Shape<3>{2, 4, 100}));

  // Head i owns columns 20 i ... 20 i + 19; each head of a batch row has that row's length.
  const auto q = attention.query(x), k = attention.key(y), v = attention.value(y);
  Tensor<double, 3> concatenated({2, 4, 100});
  for (Index b = 0; b < 2; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    for (Index head = 0; head < 5; ++head) {
      const auto head_q = q.matrix().block(b * 4, head * 20, 4, 20);
      const auto head_k = k.matrix().block(b * 6, head * 20, length, 20);
      const auto head_v = v.matrix().block(b * 6, head * 20, length, 20);
      RowMajorMatrix<double> p = (head_q * head_k.transpose() / std::sqrt(20.0)).array().exp();
      p.array().colwise() /= p.rowwise().sum().array().eval();
      concatenated.matrix().block(b * 4, head * 20, 4, 20) = p * head_v;
    }
  }
  EXPECT_LT(largest_difference(cross, attention.output(concatenated)), 1e-13);
}

TEST(DiveIntoDeepLearning, PositionalEncodingNumbers) {
  const auto p = sinusoidal_positions<double>(60, 32);
  const double position_1[] = {.1768921862, .9842302345, .0998334166, .9950041653};
  const double position_59[] = {-.8757902465, -.4826918728, -.3738766648, .9274784307};
  for (Index i = 0; i < 4; ++i) {
    EXPECT_NEAR(p(1, 6 + i), position_1[i], 1e-10);
    EXPECT_NEAR(p(59, 6 + i), position_59[i], 1e-10);
  }
}

TEST(DiveIntoDeepLearning, MovingOnByADistanceIsARotation) {
  const Index width = 32, distance = 7;
  const auto p = sinusoidal_positions<double>(40, width);
  for (Index j = 0; j < width / 2; ++j) {
    const double omega =
        std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(width));
    const double c = std::cos(static_cast<double>(distance) * omega),
                 s = std::sin(static_cast<double>(distance) * omega);
    for (Index i = 0; i + distance < 40; ++i) {
      EXPECT_NEAR(p(i + distance, 2 * j), c * p(i, 2 * j) + s * p(i, 2 * j + 1), 1e-14);
      EXPECT_NEAR(p(i + distance, 2 * j + 1), -s * p(i, 2 * j) + c * p(i, 2 * j + 1), 1e-14);
    }
  }
}

// 4 features to 4 hidden to 8, ReLU between, biases: rows of equal input have equal results.
TEST(DiveIntoDeepLearning, PositionWiseFeedForwardNetwork) {
  Linear<float> dense_1({.in_features = 4, .out_features = 4}),
      dense_2({.in_features = 4, .out_features = 8});
  EXPECT_EQ(count_parameters(dense_1) + count_parameters(dense_2), 60);
  randomize(dense_1, 11);
  randomize(dense_2, 12);
  const auto y = dense_2(relu(dense_1(filled<float>(Shape<3>{2, 3, 4}, 1))));
  ASSERT_EQ(y.shape(), (Shape<3>{2, 3, 8}));
  for (Index row = 1; row < 6; ++row) EXPECT_EQ(y.matrix().row(row), y.matrix().row(0));
  EXPECT_NE(y(0, 0, 0), y(0, 0, 1));

  // With the same width on both ends it is the library's module.
  FeedForward<double> module(
      {.hidden_size = 5, .intermediate_size = 7, .activation = Activation::relu});
  randomize(module, 13);
  const auto x = random<double>(Shape<3>{2, 3, 5}, 14);
  Tensor<double, 3> hidden = module.linear_1(x);
  for (double& h : hidden) h = std::max(h, 0.0);
  EXPECT_LT(largest_difference(module(x), module.linear_2(hidden)), 1e-15);
}

TEST(DiveIntoDeepLearning, AddNorm) {
  const LayerNorm<float> norm({.hidden_size = 4});
  const auto ones = filled<float>(Shape<3>{2, 3, 4}, 1);
  EXPECT_EQ(norm(sum(ones, ones)), (Tensor<float, 3>({2, 3, 4})))
      << "a constant row gives exactly 0";

  // Layer normalisation takes rows; batch normalisation takes columns, here a norm of the
  // transposed matrix.
  const LayerNorm<double> two({.hidden_size = 2});
  const auto x = values::rows<double>({{1, 2}, {2, 3}});
  expect_values(two(x), {-.99998, .99998, -.99998, .99998}, 1e-6);
  Tensor<double, 2> columns({2, 2});
  columns.matrix() = x.matrix().transpose();
  Tensor<double, 2> result = two(columns);
  result.matrix().transposeInPlace();
  expect_values(result, {-.99998, -.99998, .99998, .99998}, 1e-6);
}

TEST(DiveIntoDeepLearning, EncoderBlockIsPostNorm) {
  EncoderLayer<float> block(block_config(NormPlacement::post));
  EXPECT_EQ(count_parameters(block), 4776);
  init(block, Key{15});
  const auto y =
      block(filled<float>(Shape<3>{2, 100, 24}, 1), {.key_lengths = std::vector<int>{3, 2}});
  EXPECT_EQ(y.shape(), (Shape<3>{2, 100, 24}));
  EXPECT_TRUE(values::all_finite(y));

  auto exact = EncoderLayer<double>(block_config(NormPlacement::post, 21, 3, 29));
  randomize(exact, 16);
  const auto x = random<double>(Shape<3>{2, 11, 21}, 17);
  const std::vector<int> lengths{7, 5};
  const auto h = exact.attention_norm(sum(x, exact.attention(x, {.key_lengths = lengths})));
  const auto expected = exact.feed_forward_norm(sum(h, exact.feed_forward(h)));
  EXPECT_LT(largest_difference(exact(x, {.key_lengths = lengths}), expected), 1e-14);
}

// Token vectors times sqrt(C), plus sinusoids, through the blocks; every block's weights can be
// had.
TEST(DiveIntoDeepLearning, Encoder) {
  const TransformerConfig config{.vocab_size = 200,
                                 .hidden_size = 24,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 8,
                                 .intermediate_size = 48,
                                 .activation = Activation::relu,
                                 .position_embedding = PositionEmbedding::sinusoidal,
                                 .scale_embeddings = true,
                                 .embedding_norm = false,
                                 .layer_norm_eps = 1e-5,
                                 .query_bias = false,
                                 .key_bias = false,
                                 .value_bias = false,
                                 .output_bias = false};
  TransformerEncoder<double> encoder(config);
  EXPECT_EQ(count_parameters(encoder), 14352);
  randomize(encoder, 18);
  Tensor<std::int32_t, 2> ids({2, 100});
  std::fill(ids.begin(), ids.end(), 1);
  const std::vector<int> lengths{3, 2};
  const Mask<double> mask{.key_lengths = lengths};
  const auto y = encoder(ids, mask);
  ASSERT_EQ(y.shape(), (Shape<3>{2, 100, 24}));

  Tensor<double, 3> x({2, 100, 24});
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 100; ++t)
      for (Index c = 0; c < 24; ++c) {
        const double omega = std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 24);
        const double angle = static_cast<double>(t) * omega;
        x(b, t, c) = encoder.embeddings.token.weight(1, c) * std::sqrt(24.0) +
                     (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
  Workspace workspace;
  for (const auto& block : encoder.layers) {
    Tensor<double, 3> next(x.shape());
    Tensor<double, 4> weights;  // (B h, T, T) in the book
    const Observer<double> observer{
        .attention_weights = [&](const LayerPlace&, TensorView<const double, 4> seen) {
          weights = Tensor<double, 4>(seen);
        }};
    block.forward(x, mask, next, observer, workspace);
    for (Index b = 0; b < 2; ++b) {
      const auto rows = weights.matrix().middleRows(b * 800, 800);
      const Index length = lengths[static_cast<std::size_t>(b)];
      EXPECT_LT((rows.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-14);
      EXPECT_EQ(rows.rightCols(100 - length).cwiseAbs().maxCoeff(), 0.0);
    }
    x = next;
  }
  EXPECT_LT(largest_difference(y, x), 1e-12);
}

// The sizes of the trained model.
TEST(DiveIntoDeepLearning, EncoderBlockOfTheTrainedModelHas296256Parameters) {
  EXPECT_EQ(
      count_parameters(EncoderLayer<ShapeOnly>(block_config(NormPlacement::post, 256, 4, 64))),
      296256);
}

TEST(DiveIntoDeepLearning, PatchEmbedding) {
  PatchEmbedding<float> embedding(
      {.image_size = 96, .patch_size = 16, .num_channels = 3, .hidden_size = 512});
  EXPECT_EQ(count_parameters(embedding), 393728);
  EXPECT_EQ(embedding(Tensor<float, 4>({4, 3, 96, 96})).shape(), (Shape<3>{4, 36, 512}));
}

// Patches row by row, each flattened as (channel, row, column); extents and patches needn't be
// square or divide: the rest is dropped.
TEST(DiveIntoDeepLearning, PatchIsALinearMapOfItsPixels) {
  const Index height = 17, width = 23, channels = 2, hidden = 7;
  PatchEmbedding<double> embedding({.image_size = {height, width},
                                    .patch_size = {3, 5},
                                    .num_channels = channels,
                                    .hidden_size = hidden});
  randomize(embedding, 19);
  const auto images = random<double>(Shape<4>{2, channels, height, width}, 20);
  const auto y = embedding(images);
  ASSERT_EQ(y.shape(), (Shape<3>{2, 5 * 4, hidden}));
  for (Index b = 0; b < 2; ++b)
    for (Index n = 0; n < 20; ++n)
      for (Index o = 0; o < hidden; ++o) {
        double expected = embedding.projection.bias(o);
        for (Index c = 0; c < channels; ++c)
          for (Index i = 0; i < 3; ++i)
            for (Index j = 0; j < 5; ++j)
              expected += embedding.projection.weight(o, (c * 3 + i) * 5 + j) *
                          images(b, c, n / 4 * 3 + i, n % 4 * 5 + j);
        EXPECT_NEAR(y(b, n, o), expected, 1e-14);
      }
}

TEST(DiveIntoDeepLearning, VisionFeedForwardIsExactGELUAndDeterministicAtInference) {
  FeedForward<double> mlp({.hidden_size = 7,
                           .intermediate_size = 11,
                           .activation_dropout_prob = 0.5,
                           .hidden_dropout_prob = 0.5});
  randomize(mlp, 21);
  const auto x = random<double>(Shape<3>{2, 3, 7}, 22);
  Tensor<double, 3> hidden = mlp.linear_1(x);
  for (double& h : hidden) h = h * 0.5 * std::erfc(-h / std::sqrt(2.0));
  const auto y = mlp(x);
  EXPECT_LT(largest_difference(y, mlp.linear_2(hidden)), 1e-14);
  EXPECT_EQ(y, mlp(x));
}

TEST(DiveIntoDeepLearning, VisionBlockIsPreNorm) {
  EncoderLayer<float> block(block_config(NormPlacement::pre));
  EXPECT_EQ(count_parameters(block), 4776);
  init(block, Key{23});
  const auto ones = filled<float>(Shape<3>{2, 100, 24}, 1);
  const auto y = block(ones);
  EXPECT_EQ(y.shape(), (Shape<3>{2, 100, 24}));
  EXPECT_EQ(y, block(ones)) << "dropout has no part in inference";

  EncoderLayer<double> exact(block_config(NormPlacement::pre, 21, 3, 29));
  randomize(exact, 24);
  const auto x = random<double>(Shape<3>{2, 11, 21}, 25);
  const std::vector<int> lengths{7, 5};
  const auto h = sum(x, exact.attention(exact.attention_norm(x), {.key_lengths = lengths}));
  const auto expected = sum(h, exact.feed_forward(exact.feed_forward_norm(h)));
  EXPECT_LT(largest_difference(exact(x, {.key_lengths = lengths}), expected), 1e-14);
}

TransformerConfig vision_config() {
  return {.image_size = 96,
          .patch_size = 16,
          .num_channels = 1,
          .hidden_size = 512,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .intermediate_size = 2048,
          .num_labels = 10,
          .layer_norm_eps = 1e-5,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false};
}

TEST(DiveIntoDeepLearning, VisionTransformer) {
  VisionTransformer<float> model(vision_config());
  EXPECT_EQ(count_parameters(model), 6457866);
  EXPECT_EQ(model.sequence_length(), 1 + 36);
  for (auto& layer : model.layers) init(layer, Key{26});
  init(model.head, Key{27});
  const auto logits = model(Tensor<float, 4>({1, 1, 96, 96}));
  EXPECT_EQ(logits.shape(), (Shape<2>{1, 10}));
  EXPECT_TRUE(values::all_finite(logits));
}

// Class token first, positions on all tokens, blocks, norm, head on the class token.
TEST(DiveIntoDeepLearning, VisionTransformerStepByStep) {
  TransformerConfig config = vision_config();
  config.image_size = {13, 11};
  config.patch_size = {3, 2};
  config.num_channels = 3;
  config.hidden_size = 10;
  config.num_attention_heads = 5;
  config.intermediate_size = 7;
  VisionTransformer<double> model(config);
  randomize(model, 28);
  const auto images = random<double>(Shape<4>{2, 3, 13, 11}, 29);
  const Index patches = 4 * 5;
  const auto embedded = model.patch_embedding(images);
  Tensor<double, 3> x({2, 1 + patches, 10});
  for (Index b = 0; b < 2; ++b)
    for (Index n = 0; n <= patches; ++n)
      for (Index c = 0; c < 10; ++c)
        x(b, n, c) = model.position_embedding(n, c) +
                     (n == 0 ? model.class_token(c) : embedded(b, n - 1, c));
  for (const auto& layer : model.layers) x = layer(x);
  x = (*model.final_norm)(x);
  Tensor<double, 2> first({2, 10});
  for (Index b = 0; b < 2; ++b)
    for (Index c = 0; c < 10; ++c) first(b, c) = x(b, 0, c);
  EXPECT_LT(largest_difference(model(images), model.head(first)), 1e-13);
}

// Turning a post-norm block into a pre-norm one moves the two norms and touches no parameter.
TEST(DiveIntoDeepLearning, PostNormBlockToPreNorm) {
  EncoderLayer<double> post(block_config(NormPlacement::post, 21, 3, 29));
  randomize(post, 30);
  EncoderLayer<double> pre(post);
  pre.config.norm_placement = NormPlacement::pre;
  EXPECT_TRUE(parameters_equal(pre, post));
  const auto x = random<double>(Shape<3>{2, 5, 21}, 31);
  EXPECT_GT(largest_difference(pre(x), post(x)), 0.1);

  const auto before_1 = post.attention_norm(sum(x, post.attention(x)));
  const auto before = post.feed_forward_norm(sum(before_1, post.feed_forward(before_1)));
  const auto after_1 = sum(x, pre.attention(pre.attention_norm(x)));
  const auto after = sum(after_1, pre.feed_forward(pre.feed_forward_norm(after_1)));
  EXPECT_LT(largest_difference(post(x), before), 1e-14);
  EXPECT_LT(largest_difference(pre(x), after), 1e-13);
}

TEST(DiveIntoDeepLearning, WithoutBranchesPreNormIsTheIdentityAndPostNormTwoNorms) {
  EncoderLayer<double> post(block_config(NormPlacement::post, 21, 3, 29));
  randomize(post, 32);
  post.attention.output = zeros_like(post.attention.output);
  post.feed_forward.linear_2 = zeros_like(post.feed_forward.linear_2);
  EncoderLayer<double> pre(post);
  pre.config.norm_placement = NormPlacement::pre;
  const auto x = random<double>(Shape<3>{2, 5, 21}, 33);
  EXPECT_EQ(pre(x), x);
  EXPECT_LT(largest_difference(post(x), post.feed_forward_norm(post.attention_norm(x))), 1e-15);
}

}  // namespace dive_into_deep_learning_test
}  // namespace eigenformer
