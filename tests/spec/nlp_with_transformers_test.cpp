// SPDX-License-Identifier: MIT

// The encoder of Tunstall, von Werra, Wolf, "Natural Language Processing with Transformers",
// chapter 3. BERT-base's sizes: vocabulary 30522, hidden 768, intermediate
// 3072, 12 heads, 12 layers, 512 positions.

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace nlp_with_transformers_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;
using values::sum;

// "time flies like an arrow" in bert-base-uncased.
const Tensor<std::int32_t, 2> text =
    values::tensor<std::int32_t>(Shape<2>{1, 5}, {2051, 10029, 2066, 2019, 8612});

TransformerConfig layer_config(Index hidden = 768, Index heads = 12, Index intermediate = 3072) {
  return {.hidden_size = hidden,
          .num_attention_heads = heads,
          .intermediate_size = intermediate,
          .norm_placement = NormPlacement::pre};
}

TransformerConfig encoder_config() {
  return {.vocab_size = 30522,
          .hidden_size = 768,
          .num_hidden_layers = 12,
          .num_attention_heads = 12,
          .intermediate_size = 3072,
          .norm_placement = NormPlacement::pre};
}

// The same model with small prime-ish sizes.
TransformerConfig small_encoder_config() {
  TransformerConfig config = encoder_config();
  config.vocab_size = 31;
  config.hidden_size = 21;
  config.num_attention_heads = 3;
  config.num_hidden_layers = 2;
  config.intermediate_size = 37;
  config.max_position_embeddings = 13;
  return config;
}

const Tensor<std::int32_t, 2> small_text =
    values::tensor<std::int32_t>(Shape<2>{2, 5}, {7, 0, 30, 11, 7, 3, 29, 7, 1, 2});

/// Tokens of x (B, T, C) in another order: y_t = x_order[t].
template <class T>
Tensor<T, 3> permuted(const Tensor<T, 3>& x, const std::vector<Index>& order) {
  Tensor<T, 3> y(x.shape());
  for (Index b = 0; b < x.dim(0); ++b)
    for (Index t = 0; t < x.dim(1); ++t)
      for (Index c = 0; c < x.dim(2); ++c) y(b, t, c) = x(b, order[static_cast<std::size_t>(t)], c);
  return y;
}

// Scores over the root of the last extent, softmax, values; from ids to (1, 5, 5) weights and
// (1, 5, 768).
TEST(NlpWithTransformers, AttentionOverFiveTokensOfBert) {
  Embedding<float> embedding({.num_embeddings = 30522, .embedding_dim = 768});
  for (std::int32_t id : text)
    for (Index c = 0; c < 768; ++c)
      embedding.weight(id, c) = static_cast<float>(
          Key{static_cast<std::uint64_t>(id)}.normal(static_cast<std::uint64_t>(c)));
  const Tensor<float, 3> embedded = embedding(text);
  ASSERT_EQ(embedded.shape(), (Shape<3>{1, 5, 768}));

  const auto x = values::reshaped(embedded, Shape<4>{1, 1, 5, 768});
  Tensor<float, 4> weights;
  const Tensor<float, 4> y = scaled_dot_product_attention(x, x, x, {}, {}, &weights);
  EXPECT_EQ(weights.shape(), (Shape<4>{1, 1, 5, 5}));
  EXPECT_EQ(y.shape(), (Shape<4>{1, 1, 5, 768}));
  const auto expected = values::plain_attention(x, x, x, 1 / std::sqrt(768.0),
                                                values::everything_visible, values::no_bias);
  EXPECT_LT(largest_difference(weights, expected.weights), 1e-5);
  EXPECT_LT(largest_difference(y, expected.y), 1e-4);
}

// Where the mask is 0, the score becomes -infinity.
TEST(NlpWithTransformers, MaskedScoresGetNoWeight) {
  const auto q = random<double>(Shape<4>{3, 1, 5, 7}, 1),
             k = random<double>(Shape<4>{3, 1, 5, 7}, 2),
             v = random<double>(Shape<4>{3, 1, 5, 11}, 3);
  Tensor<bool, 2> mask({5, 5});
  for (Index t = 0; t < 5; ++t)
    for (Index j = 0; j < 5; ++j) mask(t, j) = (t * 3 + j * 2) % 5 != 1;
  Tensor<double, 4> weights;
  const auto y = scaled_dot_product_attention(q, k, v, {.allowed = mask}, {}, &weights);
  const auto expected = values::plain_attention(
      q, k, v, 1 / std::sqrt(7.0), [&](Index, Index, Index t, Index j) { return mask(t, j); },
      values::no_bias);
  EXPECT_LT(largest_difference(y, expected.y), 1e-14);
  EXPECT_LT(largest_difference(weights, expected.weights), 1e-15);
  for (Index t = 0; t < 5; ++t)
    for (Index j = 0; j < 5; ++j) EXPECT_EQ(weights(2, 0, t, j) == 0, !mask(t, j));
}

// One head is three biased maps from 768 to 64.
TEST(NlpWithTransformers, HeadHas147648Parameters) {
  const Linear<ShapeOnly> map({.in_features = 768, .out_features = 64});
  EXPECT_EQ(3 * count_parameters(map), 147648);
}

// Heads side by side, concatenated in head order, then one biased map. The library keeps the
// heads' maps stacked in one matrix.
TEST(NlpWithTransformers, SeparateHeadsEqualOneStackedAttention) {
  const Index hidden = 768, heads = 12, size = 64;
  const MultiHeadAttention<ShapeOnly> counted(
      {.hidden_size = hidden, .num_attention_heads = heads});
  EXPECT_EQ(count_parameters(counted), 2362368);

  MultiHeadAttention<float> attention({.hidden_size = hidden, .num_attention_heads = heads});
  randomize(attention, 5, 0.05);
  const auto x = random<float>(Shape<3>{1, 5, hidden}, 6);
  const Tensor<float, 3> y = attention(x);
  EXPECT_EQ(y.shape(), (Shape<3>{1, 5, hidden}));

  const auto head_of = [&](const Linear<float>& packed, Index head) {
    Linear<float> own({.in_features = hidden, .out_features = size});
    own.weight.matrix() = packed.weight.matrix().middleRows(head * size, size);
    own.bias.vector() = packed.bias.vector().segment(head * size, size);
    return values::reshaped(own(x), Shape<4>{1, 1, 5, size});
  };
  Tensor<float, 3> concatenated({1, 5, hidden});
  for (Index head = 0; head < heads; ++head) {
    const auto result =
        scaled_dot_product_attention(head_of(attention.query, head), head_of(attention.key, head),
                                     head_of(attention.value, head));
    concatenated.matrix().middleCols(head * size, size) = result.matrix();
  }
  EXPECT_LT(largest_difference(y, attention.output(concatenated)), 1e-5);
}

// Linear_1, exact GELU, linear_2; nothing else at inference.
TEST(NlpWithTransformers, FeedForward) {
  const FeedForward<ShapeOnly> counted({.hidden_size = 768, .intermediate_size = 3072});
  EXPECT_EQ(count_parameters(counted), 4722432);

  FeedForward<double> feed_forward(
      {.hidden_size = 7, .intermediate_size = 29, .hidden_dropout_prob = 0.1});
  randomize(feed_forward, 7);
  const auto x = random<double>(Shape<3>{2, 5, 7}, 8);
  Tensor<double, 3> hidden = feed_forward.linear_1(x);
  for (double& h : hidden) h = h * 0.5 * std::erfc(-h / std::sqrt(2.0));
  const auto y = feed_forward(x);
  EXPECT_LT(largest_difference(y, feed_forward.linear_2(hidden)), 1e-14);

  // Each token by itself: another order of tokens gives the same bits in that order.
  const std::vector<Index> order{3, 0, 4, 1, 2};
  EXPECT_EQ(feed_forward(permuted(x, order)), permuted(y, order));
}

// Pre-norm, eps 1e-5 in both norms.
TEST(NlpWithTransformers, EncoderLayerNormsTheInputOfEachBranch) {
  const EncoderLayer<ShapeOnly> counted(layer_config());
  EXPECT_EQ(count_parameters(counted), 7087872);
  EXPECT_EQ(counted.attention_norm.config.eps, 1e-5);
  EXPECT_EQ(counted.feed_forward_norm.config.eps, 1e-5);

  EncoderLayer<double> layer(layer_config(21, 3, 37));
  randomize(layer, 9);
  const auto x = random<double>(Shape<3>{2, 5, 21}, 10);
  const auto h = sum(x, layer.attention(layer.attention_norm(x)));
  const auto expected = sum(h, layer.feed_forward(layer.feed_forward_norm(h)));
  EXPECT_LT(largest_difference(layer(x), expected), 1e-13);
}

TEST(NlpWithTransformers, LayerOfBertsSizeKeepsTheShape) {
  EncoderLayer<float> layer(layer_config());
  init(layer, Key{11});
  const auto y = layer(random<float>(Shape<3>{1, 5, 768}, 12));
  EXPECT_EQ(y.shape(), (Shape<3>{1, 5, 768}));
  EXPECT_TRUE(values::all_finite(y));
}

// Token table plus position table, then a norm with eps 1e-12; no token types, no factor
// sqrt(C).
TEST(NlpWithTransformers, Embeddings) {
  const Embeddings<ShapeOnly> counted({.vocab_size = 30522, .hidden_size = 768});
  EXPECT_EQ(count_parameters(counted), 23835648);
  EXPECT_EQ(counted.norm->config.eps, 1e-12);

  Embeddings<double> embeddings({.vocab_size = 31,
                                 .hidden_size = 7,
                                 .max_position_embeddings = 13,
                                 .hidden_dropout_prob = 0.5});
  randomize(embeddings, 13);
  Tensor<double, 3> both({2, 5, 7});
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 5; ++t)
      for (Index c = 0; c < 7; ++c)
        both(b, t, c) =
            embeddings.token.weight(small_text(b, t), c) + embeddings.position->weight(t, c);
  EXPECT_LT(largest_difference(embeddings(small_text), (*embeddings.norm)(both)), 1e-14);
}

TEST(NlpWithTransformers, MoreTokensThanPositionsIsAnError) {
  Embeddings<float> embeddings({.vocab_size = 3, .hidden_size = 5});
  EXPECT_NO_THROW(embeddings(Tensor<std::int32_t, 2>({1, 512})));
  try {
    embeddings(Tensor<std::int32_t, 2>({1, 513}));
    FAIL() << "513 tokens in a table of 512 positions";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("512"), std::string::npos) << error.what();
  }
}

// Embeddings and layers, without a final norm, which is an option.
TEST(NlpWithTransformers, Encoder) {
  const TransformerEncoder<ShapeOnly> counted(encoder_config());
  EXPECT_EQ(count_parameters(counted), 108890112);
  EXPECT_FALSE(counted.final_norm.has_value());

  TransformerEncoder<double> encoder(small_encoder_config());
  randomize(encoder, 14);
  const auto y = encoder(small_text);
  EXPECT_EQ(y.shape(), (Shape<3>{2, 5, 21}));
  const auto expected = encoder.layers[1](encoder.layers[0](encoder.embeddings(small_text)));
  EXPECT_EQ(y, expected);

  TransformerConfig with_norm = small_encoder_config();
  with_norm.final_norm = true;
  TransformerEncoder<double> normed(with_norm);
  randomize(normed, 14);
  randomize(*normed.final_norm, 15);
  EXPECT_EQ(normed(small_text), (*normed.final_norm)(y));
}

TEST(NlpWithTransformers, FiveIdsGiveFiveVectorsOf768) {
  TransformerConfig config = encoder_config();
  config.num_hidden_layers = 1;
  config.vocab_size = 10030;  // one more than the largest id
  TransformerEncoder<float> encoder(config);
  init(encoder.layers[0], Key{16});
  EXPECT_EQ(encoder(text).shape(), (Shape<3>{1, 5, 768}));
}

// Learned, fixed sinusoidal and relative positions all tell one order of tokens from another;
// without any, order is lost.
TEST(NlpWithTransformers, ThreeFamiliesOfPositions) {
  const std::vector<Index> order{3, 0, 4, 1, 2};
  Tensor<std::int32_t, 2> reordered(small_text.shape());
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 5; ++t)
      reordered(b, t) = small_text(b, order[static_cast<std::size_t>(t)]);

  const auto order_matters = [&](PositionEmbedding kind, const Mask<double>& mask) {
    TransformerConfig config = small_encoder_config();
    config.position_embedding = kind;
    TransformerEncoder<double> encoder(config);
    randomize(encoder, 17);
    return largest_difference(encoder(reordered, mask), permuted(encoder(small_text, mask), order));
  };
  EXPECT_LT(order_matters(PositionEmbedding::none, {}), 1e-12);
  EXPECT_GT(order_matters(PositionEmbedding::learned, {}), 1e-2);
  EXPECT_GT(order_matters(PositionEmbedding::sinusoidal, {}), 1e-2);

  Tensor<double, 2> relative({5, 5});  // one number for each distance, added to the scores
  for (Index t = 0; t < 5; ++t)
    for (Index j = 0; j < 5; ++j) relative(t, j) = 0.7 * static_cast<double>(j - t);
  EXPECT_GT(order_matters(PositionEmbedding::none, {.bias = relative}), 1e-2);
}

// The head reads token 0 alone.
TEST(NlpWithTransformers, SequenceClassification) {
  TransformerConfig whole = encoder_config(), small = small_encoder_config();
  whole.num_labels = small.num_labels = 3;
  whole.pooler = small.pooler = false;
  const SequenceClassifier<ShapeOnly> counted(whole);
  EXPECT_EQ(count_parameters(counted), 108892419);

  SequenceClassifier<double> model(small);
  randomize(model, 18);
  const auto logits = model(small_text);
  EXPECT_EQ(logits.shape(), (Shape<2>{2, 3}));
  const auto hidden = model.encoder(small_text);
  Tensor<double, 2> first({2, 21});
  for (Index b = 0; b < 2; ++b)
    for (Index c = 0; c < 21; ++c) first(b, c) = hidden(b, 0, c);
  EXPECT_LT(largest_difference(logits, model.classifier(first)), 1e-14);
}

// The decoder's mask is tril(ones(T, T)) with a leading batch axis: row i has i + 1 ones, and
// -infinity goes where it is 0. The decoder layer has it without being told.
TEST(NlpWithTransformers, MaskOfTheDecoder) {
  const Index tokens = 5;
  Tensor<bool, 3> tril({1, tokens, tokens});
  Tensor<double, 3> filled({1, tokens, tokens});
  for (Index i = 0; i < tokens; ++i)
    for (Index j = 0; j < tokens; ++j) {
      tril(0, i, j) = j <= i;
      filled(0, i, j) = tril(0, i, j) ? 0 : -std::numeric_limits<double>::infinity();
    }
  DecoderLayer<double> layer({.hidden_size = 21,
                              .num_attention_heads = 3,
                              .intermediate_size = 37,
                              .norm_placement = NormPlacement::pre});
  randomize(layer, 40);
  const auto x = random<double>(Shape<3>{2, tokens, 21}, 41);
  EXPECT_EQ(layer(x, {.allowed = tril}), layer(x));
  EXPECT_EQ(layer(x, {.bias = filled}), layer(x));
  const auto weights = layer.self_attention.attention_weights(x, x, {.allowed = tril});
  for (Index row = 0; row < weights.matrix().rows(); ++row)
    EXPECT_EQ((weights.matrix().row(row).array() > 0).count(), row % tokens + 1) << "i + 1 ones";
}

// Two attentions: masked self-attention, then attention of the decoder's queries to keys and
// values from the encoder, whose length may differ.
TEST(NlpWithTransformers, DecoderLayerHasTwoAttentions) {
  DecoderLayer<double> layer({.hidden_size = 21,
                              .num_attention_heads = 3,
                              .intermediate_size = 37,
                              .cross_attention = true,
                              .norm_placement = NormPlacement::pre});
  randomize(layer, 42);
  const auto x = random<double>(Shape<3>{2, 5, 21}, 43),
             encoded = random<double>(Shape<3>{2, 11, 21}, 44);
  Tensor<bool, 3> tril({1, 5, 5});
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j <= i; ++j) tril(0, i, j) = true;
  const auto h = sum(x, layer.self_attention(layer.self_attention_norm(x), {.allowed = tril}));
  const auto g = sum(h, (*layer.cross_attention)((*layer.cross_attention_norm)(h), encoded));
  const auto y = layer(x, encoded);
  EXPECT_LT(largest_difference(y, sum(g, layer.feed_forward(layer.feed_forward_norm(g)))), 1e-13);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(layer.cross_attention->attention_weights(h, encoded).shape(), (Shape<4>{2, 3, 5, 11}));

  // Every token of the encoder reaches every token of the decoder.
  for (Index j : {0, 10}) {
    Tensor<double, 3> other(encoded);
    for (Index c = 0; c < 21; ++c) other(0, j, c) = -other(0, j, c);
    const auto changed = layer(x, other);
    for (Index t = 0; t < 5; ++t) {
      EXPECT_NE(changed(0, t, 0), y(0, t, 0));
      EXPECT_EQ(changed(1, t, 0), y(1, t, 0));
    }
  }
}

// A layer without positions is permutation equivariant (not invariant), in either placement of
// the norms.
TEST(NlpWithTransformers, LayerWithoutPositionsIsPermutationEquivariant) {
  const std::vector<Index> order{4, 2, 0, 1, 6, 5, 3};
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    TransformerConfig config = layer_config(21, 3, 37);
    config.norm_placement = placement;
    EncoderLayer<float> layer(config);
    randomize(layer, 19, 0.2);
    const auto x = random<float>(Shape<3>{2, 7, 21}, 20);
    const auto y = layer(x), z = layer(permuted(x, order));
    EXPECT_LT(largest_difference(z, permuted(y, order)), 1e-6);
    EXPECT_GT(largest_difference(z, y), 1e-2) << "the order of the result must follow";
  }
}

TEST(NlpWithTransformers, AddingPositionsBreaksEquivariance) {
  const std::vector<Index> order{4, 2, 0, 1, 6, 5, 3};
  EncoderLayer<float> layer(layer_config(21, 3, 37));
  randomize(layer, 21);
  const auto x = random<float>(Shape<3>{1, 7, 21}, 22);
  const auto positions = values::reshaped(sinusoidal_positions<float>(7, 21), Shape<3>{1, 7, 21});
  const auto y = layer(sum(x, positions)), z = layer(sum(permuted(x, order), positions));
  EXPECT_GT(largest_difference(z, permuted(y, order)), 1e-2);
}

// Layer normalisation gives zero mean and unit variance over the features.
TEST(NlpWithTransformers, NormalisedFeaturesHaveMean0AndVariance1) {
  const LayerNorm<double> norm({.hidden_size = 23});
  const auto y = norm(random<double>(Shape<3>{2, 3, 23}, 23, 5.0));
  for (Index row = 0; row < 6; ++row) {
    EXPECT_NEAR(y.matrix().row(row).mean(), 0.0, 1e-14);
    EXPECT_NEAR(y.matrix().row(row).squaredNorm() / 23, 1.0, 1e-5);
  }
}

// Post-norm ends in the norm, so every row of its result is normalised; pre-norm lets the
// residual grow.
TEST(NlpWithTransformers, PostNormBoundsTheResidualPreNormDoesNot) {
  TransformerConfig config = layer_config(21, 3, 37);
  const auto x = random<double>(Shape<3>{2, 5, 21}, 24, 100.0);
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    config.norm_placement = placement;
    EncoderLayer<double> layer(config);
    init(layer, Key{25});
    const double variance = layer(x).matrix().squaredNorm() / static_cast<double>(x.size());
    if (placement == NormPlacement::post) {
      EXPECT_NEAR(variance, 1.0, 1e-4);
    } else {
      EXPECT_GT(variance, 5000.0);
    }
  }
}

}  // namespace nlp_with_transformers_test
}  // namespace eigenformer
