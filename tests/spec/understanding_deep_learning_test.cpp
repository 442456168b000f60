// SPDX-License-Identifier: MIT

// Prince, "Understanding Deep Learning", chapter 12. The book writes tokens as
// columns (D, N) and softmax over columns; the library has tokens as rows, so everything appears
// transposed.

#include "tests/spec/numpy_random.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace understanding_deep_learning_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;
using values::sum;

using Matrix = RowMajorMatrix<double>;

Matrix normal(NumpyRandom& numpy, Index rows, Index columns) {
  Matrix result(rows, columns);
  for (Index i = 0; i < result.size(); ++i) result.data()[i] = numpy.normal();
  return result;
}

/// Softmax of each column.
Matrix softmax_columns(const Matrix& scores) {
  Matrix e = (scores.rowwise() - scores.colwise().maxCoeff()).array().exp();
  e.array().rowwise() /= e.colwise().sum().array().eval();
  return e;
}

/// One head's parameters in the order in which the book's notebooks make them.
struct Head {
  Matrix omega_q, omega_k, omega_v, beta_q, beta_k, beta_v;

  Head(NumpyRandom& numpy, Index size, Index inputs)
      : omega_q(normal(numpy, size, inputs)),
        omega_k(normal(numpy, size, inputs)),
        omega_v(normal(numpy, size, inputs)),
        beta_q(normal(numpy, size, 1)),
        beta_k(normal(numpy, size, 1)),
        beta_v(normal(numpy, size, 1)) {}

  Matrix map(const Matrix& omega, const Matrix& beta, const Matrix& x) const {
    return (omega * x).colwise() + beta.col(0);
  }
  /// V Softmax[scale K^T Q]
  Matrix attention(const Matrix& x, double scale) const {
    const Matrix scores = scale * map(omega_k, beta_k, x).transpose() * map(omega_q, beta_q, x);
    return map(omega_v, beta_v, x) * softmax_columns(scores);
  }
};

void set_head(MultiHeadAttention<double>& attention, const Head& head, Index number) {
  const Index size = head.omega_q.rows();
  const auto put = [&](Linear<double>& map, const Matrix& omega, const Matrix& beta) {
    map.weight.matrix().middleRows(number * size, size) = omega;
    map.bias.vector().segment(number * size, size) = beta.col(0);
  };
  put(attention.query, head.omega_q, head.beta_q);
  put(attention.key, head.omega_k, head.beta_k);
  put(attention.value, head.omega_v, head.beta_v);
}

/// The book's columns as the library's rows.
Tensor<double, 3> tokens(const Matrix& columns) {
  Tensor<double, 3> x({1, columns.cols(), columns.rows()});
  x.matrix() = columns.transpose();
  return x;
}

// Notebook 12.1: three vectors from seed 3, parameters from seed 0, no scaling (equation 12.8).
TEST(UnderstandingDeepLearning, SelfAttentionNotebook) {
  NumpyRandom inputs(3);
  Matrix x(4, 3);
  for (Index n = 0; n < 3; ++n) x.col(n) = normal(inputs, 4, 1);
  NumpyRandom parameters(0);
  const Head head(parameters, 4, 4);

  MultiHeadAttention<double> attention(
      {.hidden_size = 4, .num_attention_heads = 1, .output_bias = false, .scale = 1.0});
  set_head(attention, head, 0);
  attention.output.weight.matrix().setIdentity();
  const auto y = attention(tokens(x));
  expect_values(y,
                {.94744244, -.24348429, -.91310441, -.44522983, 1.64201168, -.08470004, 4.02764044,
                 2.18690791, 1.61949281, -.06641533, 3.96863308, 2.15858316},
                1e-8);

  // Equation 12.9: the scores divided by the root of the queries' length, the library's default.
  attention.config.scale.reset();
  EXPECT_LT(largest_difference(attention(tokens(x)), tokens(head.attention(x, 0.5))), 1e-14);
}

// Notebook 12.2: two heads of 4 on (8, 6), concatenated, then Omega_c without a bias; the
// notebook prints these numbers.
TEST(UnderstandingDeepLearning, MultiHeadSelfAttentionNotebook) {
  NumpyRandom inputs(3);
  const Matrix x = normal(inputs, 8, 6);
  NumpyRandom parameters(0);
  MultiHeadAttention<double> attention(
      {.hidden_size = 8, .num_attention_heads = 2, .output_bias = false});
  std::vector<Head> heads;
  for (Index h = 0; h < 2; ++h) {
    heads.emplace_back(parameters, 4, 8);
    set_head(attention, heads.back(), h);
  }
  attention.output.weight.matrix() = normal(parameters, 8, 8);

  const Tensor<double, 3> y = attention(tokens(x));
  Matrix stacked(8, 6);
  stacked << heads[0].attention(x, 0.5), heads[1].attention(x, 0.5);
  EXPECT_LT(largest_difference(y, tokens(attention.output.weight.matrix() * stacked)), 1e-13);

  Tensor<double, 2> printed({8, 6});
  printed.matrix() = y.matrix().transpose();
  expect_values(printed, {-21.207, -5.373, -20.933, -9.179, -11.319, -17.812,  //
                          -1.995,  7.906,  -10.516, 3.452,  9.863,   -7.240,   //
                          5.479,   1.115,  9.244,   .453,   5.656,   7.089,    //
                          -7.413,  -7.416, .363,    -5.573, -6.736,  -.848,    //
                          -11.261, -9.937, -4.848,  -8.915, -13.378, -5.761,   //
                          3.548,   10.036, -2.244,  1.604,  12.113,  -2.557,   //
                          4.888,   -5.814, 2.407,   3.228,  -4.232,  3.710,    //
                          1.248,   18.894, -6.409,  3.224,  19.717,  -5.629},
                5.01e-4);
}

// Equation 12.13: add, normalise, the same network for every column, normalise.
TEST(UnderstandingDeepLearning, TransformerLayer) {
  EncoderLayer<double> layer({.hidden_size = 15,
                              .num_attention_heads = 3,
                              .intermediate_size = 31,
                              .activation = Activation::relu,
                              .norm_placement = NormPlacement::post});
  randomize(layer, 1);
  const auto x = random<double>(Shape<3>{1, 7, 15}, 2);

  // The norm of one column: mean and variance over its D entries.
  const auto normalise = [](const LayerNorm<double>& norm, Eigen::VectorXd column) {
    column.array() -= column.mean();
    column /= std::sqrt(column.squaredNorm() / static_cast<double>(column.size()) + 1e-5);
    return Eigen::VectorXd(column.cwiseProduct(norm.weight.vector()) + norm.bias.vector());
  };
  const Matrix added = (x.matrix() + layer.attention(x).matrix()).transpose();
  Matrix expected(15, 7);
  for (Index n = 0; n < 7; ++n) {
    const Eigen::VectorXd h = normalise(layer.attention_norm, added.col(n));
    const auto& mlp = layer.feed_forward;
    const Eigen::VectorXd hidden =
        (mlp.linear_1.weight.matrix() * h + mlp.linear_1.bias.vector()).cwiseMax(0);
    expected.col(n) = normalise(layer.feed_forward_norm, h + mlp.linear_2.weight.matrix() * hidden +
                                                             mlp.linear_2.bias.vector());
  }
  EXPECT_LT(largest_difference(layer(x), tokens(expected)), 1e-13);
}

// BERT with a vocabulary of 30,000, 1024 wide, 24 layers, 16 heads of 64, one hidden layer of
// 4096; with 512 positions, two token types and the pooler.
TEST(UnderstandingDeepLearning, SizeOfBert) {
  const TransformerConfig config{.vocab_size = 30000,
                                 .hidden_size = 1024,
                                 .num_hidden_layers = 24,
                                 .num_attention_heads = 16,
                                 .intermediate_size = 4096,
                                 .type_vocab_size = 2};
  const TransformerEncoder<ShapeOnly> encoder(config);
  EXPECT_EQ(encoder.layers[0].attention.config.size_of_head(), 64);
  EXPECT_EQ(encoder.config.max_position_embeddings, 512);
  EXPECT_EQ(count_parameters(encoder) + count_parameters(Pooler<ShapeOnly>({.hidden_size = 1024})),
            334607360);
}

// Text classification maps the class token's vector to one number, squashed to a probability.
TEST(UnderstandingDeepLearning, ClassTokenThroughALogisticSigmoid) {
  SequenceClassifier<double> model({.vocab_size = 17,
                                    .hidden_size = 10,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 5,
                                    .intermediate_size = 11,
                                    .num_labels = 1,
                                    .pooler = false});
  randomize(model, 3);
  const auto ids = values::tensor<std::int32_t>(Shape<2>{2, 3}, {0, 5, 16, 0, 2, 2});
  const auto probability = sigmoid(model(ids));
  ASSERT_EQ(probability.shape(), (Shape<2>{2, 1}));
  const auto hidden = model.encoder(ids);
  for (Index b = 0; b < 2; ++b) {
    double logit = model.classifier.bias(0);
    for (Index c = 0; c < 10; ++c) logit += model.classifier.weight(0, c) * hidden(b, 0, c);
    EXPECT_NEAR(probability(b, 0), 1 / (1 + std::exp(-logit)), 1e-14);
  }
}

// Masked self-attention sets the dot products with later tokens to -infinity.
TEST(UnderstandingDeepLearning, MaskedSelfAttention) {
  MultiHeadAttention<double> attention({.hidden_size = 10, .num_attention_heads = 2});
  randomize(attention, 4);
  const auto x = random<double>(Shape<3>{2, 7, 10}, 5);
  Tensor<double, 2> scores({7, 7});
  for (Index t = 0; t < 7; ++t)
    for (Index j = t + 1; j < 7; ++j) scores(t, j) = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(attention(x, {.causal = true}), attention(x, {.bias = scores}));
  EXPECT_GT(largest_difference(attention(x, {.causal = true}), attention(x)), 1e-2);
}

// GPT-3 is 12288 wide, with 96 layers of 96 heads of 128 and 2048 positions; counted by parts,
// and as one model, of which nothing is allocated.
TEST(UnderstandingDeepLearning, SizeOfGpt3) {
  const TransformerConfig config{.vocab_size = 50257,
                                 .hidden_size = 12288,
                                 .num_hidden_layers = 96,
                                 .num_attention_heads = 96,
                                 .intermediate_size = 4 * 12288,
                                 .max_position_embeddings = 2048};
  const TransformerDecoder<ShapeOnly> model(config);
  const auto& layer = model.layers[0];
  EXPECT_EQ(layer.self_attention.config.size_of_head(), 128);
  EXPECT_EQ(count_parameters(model.embeddings.token), 617558016);
  EXPECT_EQ(count_parameters(*model.embeddings.position), 25165824);
  EXPECT_EQ(count_parameters(layer), 1812099072);
  EXPECT_EQ(96 * count_parameters(layer), 173961510912);
  EXPECT_EQ(count_parameters(*model.final_norm), 24576);
  EXPECT_EQ(count_parameters(model.head), 0) << "tied to the token table";
  EXPECT_EQ(count_parameters(model), 174604259328);

  // The matrices alone: 12 L D^2, a third of them in attention.
  Index attention = 0, network = 0;
  for_each_parameter(layer, [&](const std::string& name, const auto& parameter) {
    if constexpr (std::remove_reference_t<decltype(parameter)>::rank == 2)
      (name.find("attention") == std::string::npos ? network : attention) += parameter.size();
  });
  EXPECT_EQ(96 * attention, 57982058496);
  EXPECT_EQ(96 * network, 115964116992);
  EXPECT_EQ(96 * (attention + network), 173946175488);
}

// Equation 12.15: the probability of a text is the product of those of its tokens given the
// ones before. So all texts of three tokens have probabilities that sum to 1, and each factor is
// what the decoder says after the text so far alone.
TEST(UnderstandingDeepLearning, ProbabilityOfATextIsAProduct) {
  const Index vocabulary = 4, length = 3;
  const std::int32_t start = 0;
  TransformerDecoder<double> model({.vocab_size = vocabulary,
                                    .hidden_size = 10,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 11,
                                    .max_position_embeddings = 5});
  randomize(model, 15, 0.7);
  const auto probability = [](const Tensor<double, 3>& logits, Index row, Index t, Index token) {
    double total = 0;
    for (Index i = 0; i < logits.dim(2); ++i) total += std::exp(logits(row, t, i));
    return std::exp(logits(row, t, token)) / total;
  };
  const Index texts = 4 * 4 * 4;
  Tensor<std::int32_t, 2> ids({texts, 1 + length});
  for (Index text = 0; text < texts; ++text) {
    ids(text, 0) = start;
    for (Index t = 0, rest = text; t < length; ++t, rest /= vocabulary)
      ids(text, 1 + t) = static_cast<std::int32_t>(rest % vocabulary);
  }
  const auto logits = model(ids);
  double sum_of_all = 0, smallest = 1, largest = 0;
  for (Index text = 0; text < texts; ++text) {
    double product = 1;
    for (Index t = 0; t < length; ++t) {
      Tensor<std::int32_t, 2> before({1, t + 1});
      std::copy_n(&ids(text, 0), t + 1, before.data());
      const auto of_prefix = model(before);
      for (Index i = 0; i < vocabulary; ++i) ASSERT_EQ(of_prefix(0, t, i), logits(text, t, i));
      product *= probability(logits, text, t, ids(text, t + 1));
    }
    sum_of_all += product;
    smallest = std::min(smallest, product);
    largest = std::max(largest, product);
  }
  EXPECT_NEAR(sum_of_all, 1, 1e-13);
  EXPECT_GT(largest, 1.5 * smallest);
}

// Figures 12.13 and 12.14: the decoder's layer: masked self-attention, attention with queries
// from X_dec and keys and values from X_enc, and the network, in columns as in the book.
TEST(UnderstandingDeepLearning, DecoderLayer) {
  DecoderLayer<double> layer({.hidden_size = 15,
                              .num_attention_heads = 3,
                              .intermediate_size = 31,
                              .cross_attention = true,
                              .activation = Activation::relu,
                              .norm_placement = NormPlacement::post});
  randomize(layer, 16);
  const auto x_dec = random<double>(Shape<3>{1, 4, 15}, 17),
             x_enc = random<double>(Shape<3>{1, 7, 15}, 18);

  const auto map = [](const Linear<double>& linear, const Matrix& x) {
    return Matrix((linear.weight.matrix() * x).colwise() + linear.bias.vector());
  };
  const auto attend = [&](const MultiHeadAttention<double>& attention, const Matrix& to,
                          const Matrix& from, bool masked) {
    const Matrix q = map(attention.query, to), k = map(attention.key, from),
                 v = map(attention.value, from);
    Matrix stacked(15, to.cols());
    for (Index h = 0; h < 3; ++h) {
      Matrix products =
          k.middleRows(h * 5, 5).transpose() * q.middleRows(h * 5, 5) / std::sqrt(5.0);
      for (Index n = 0; n < to.cols() && masked; ++n)
        for (Index j = n + 1; j < from.cols(); ++j)
          products(j, n) = -std::numeric_limits<double>::infinity();
      stacked.middleRows(h * 5, 5) = v.middleRows(h * 5, 5) * softmax_columns(products);
    }
    return map(attention.output, stacked);
  };
  const auto normalise = [](const LayerNorm<double>& norm, const Matrix& x) {
    Matrix y(x);
    for (Index n = 0; n < x.cols(); ++n) {
      y.col(n).array() -= y.col(n).mean();
      y.col(n) /= std::sqrt(y.col(n).squaredNorm() / 15 + 1e-5);
      y.col(n) = y.col(n).cwiseProduct(norm.weight.vector()) + norm.bias.vector();
    }
    return y;
  };
  const Matrix dec = x_dec.matrix().transpose(), enc = x_enc.matrix().transpose();
  const Matrix h =
      normalise(layer.self_attention_norm, dec + attend(layer.self_attention, dec, dec, true));
  const Matrix g =
      normalise(*layer.cross_attention_norm, h + attend(*layer.cross_attention, h, enc, false));
  const auto& mlp = layer.feed_forward;
  const Matrix expected =
      normalise(layer.feed_forward_norm, g + map(mlp.linear_2, map(mlp.linear_1, g).cwiseMax(0)));
  const auto y = layer(x_dec, x_enc);
  EXPECT_EQ(y.shape(), (Shape<3>{1, 4, 15})) << "the decoder's length";
  EXPECT_LT(largest_difference(y, tokens(expected)), 1e-13);
}

// Figure 12.13: the encoder's result goes to every layer of the decoder.
TEST(UnderstandingDeepLearning, EveryLayerOfTheDecoderSeesTheEncodersResult) {
  TransformerStack<double> model({.encoder = {.hidden_size = 10,
                                              .num_hidden_layers = 2,
                                              .num_attention_heads = 2,
                                              .intermediate_size = 11},
                                  .decoder = {.hidden_size = 10,
                                              .num_hidden_layers = 3,
                                              .num_attention_heads = 2,
                                              .intermediate_size = 11}});
  randomize(model, 19);
  const auto source = random<double>(Shape<3>{2, 7, 10}, 20),
             target = random<double>(Shape<3>{2, 4, 10}, 21);
  const auto encoded = model.encoder(source);
  Tensor<double, 3> x(target);
  for (const auto& layer : model.decoder.layers) {
    ASSERT_TRUE(layer.cross_attention);
    x = layer(x, encoded);
  }
  EXPECT_EQ(model(source, target), x);
}

// In cross-attention the queries come from one sequence, keys and values from another; the
// result has the first one's length.
TEST(UnderstandingDeepLearning, CrossAttentionHasTheLengthOfTheQueries) {
  MultiHeadAttention<double> attention({.hidden_size = 10, .num_attention_heads = 2});
  randomize(attention, 6);
  const auto decoder = random<double>(Shape<3>{2, 3, 10}, 7),
             encoder = random<double>(Shape<3>{2, 7, 10}, 8);
  const auto y = attention(decoder, encoder);
  EXPECT_EQ(y.shape(), (Shape<3>{2, 3, 10}));
  EXPECT_EQ(attention.attention_weights(decoder, encoder).shape(), (Shape<4>{2, 2, 3, 7}));

  const auto heads = [](const Tensor<double, 3>& x) {
    Tensor<double, 4> result({x.dim(0), 2, x.dim(1), 5});
    for (Index b = 0; b < x.dim(0); ++b)
      for (Index h = 0; h < 2; ++h)
        for (Index t = 0; t < x.dim(1); ++t)
          for (Index d = 0; d < 5; ++d) result(b, h, t, d) = x(b, t, h * 5 + d);
    return result;
  };
  const auto attended =
      values::plain_attention(heads(attention.query(decoder)), heads(attention.key(encoder)),
                              heads(attention.value(encoder)), 1 / std::sqrt(5.0),
                              values::everything_visible, values::no_bias);
  Tensor<double, 3> concatenated(decoder.shape());
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 3; ++t)
      for (Index c = 0; c < 10; ++c) concatenated(b, t, c) = attended.y(b, c / 5, t, c % 5);
  EXPECT_LT(largest_difference(y, attention.output(concatenated)), 1e-13);
}

// Absolute positions may be added to the input or to queries and keys alone; relative ones are
// numbers for each distance that are added to the attention matrix.
TEST(UnderstandingDeepLearning, KindsOfPositions) {
  MultiHeadAttention<double> attention({.hidden_size = 10, .num_attention_heads = 2});
  randomize(attention, 9);
  const auto x = random<double>(Shape<3>{1, 5, 10}, 10),
             positions = random<double>(Shape<3>{1, 5, 10}, 11);
  const auto moved = sum(x, positions);
  const auto everywhere = attention(moved), only_in_scores = attention(moved, moved, x);
  EXPECT_GT(largest_difference(everywhere, only_in_scores), 1e-2);

  // Q = beta + Omega (X + Pi): by hand, Q and K are the maps of X plus Omega Pi.
  MultiHeadAttention<double> unbiased(attention);
  for (Linear<double>* map : {&unbiased.query, &unbiased.key})
    std::fill(map->bias.begin(), map->bias.end(), 0.0);
  const auto q = sum(attention.query(x), unbiased.query(positions)),
             k = sum(attention.key(x), unbiased.key(positions)), v = attention.value(x);
  Tensor<double, 3> attended({1, 5, 10});
  for (Index h = 0; h < 2; ++h) {
    const Matrix scores = q.matrix().middleCols(h * 5, 5) *
                          k.matrix().middleCols(h * 5, 5).transpose() / std::sqrt(5.0);
    attended.matrix().middleCols(h * 5, 5) =
        softmax_columns(scores.transpose()).transpose() * v.matrix().middleCols(h * 5, 5);
  }
  EXPECT_LT(largest_difference(only_in_scores, attention.output(attended)), 1e-13);

  const std::vector<double> learned{.3, -1, 2, .5, -.2, .9, -.4, 1.3, .1};  // distances -4 ... 4
  Tensor<double, 2> bias({5, 5});
  for (Index t = 0; t < 5; ++t)
    for (Index j = 0; j < 5; ++j) bias(t, j) = learned[static_cast<std::size_t>(j - t + 4)];
  const auto weights = attention.attention_weights(x, x),
             biased = attention.attention_weights(x, x, {.bias = bias});
  for (Index h = 0; h < 2; ++h)
    for (Index t = 0; t < 5; ++t) {
      double total = 0;
      for (Index j = 0; j < 5; ++j) total += weights(0, h, t, j) * std::exp(bias(t, j));
      for (Index j = 0; j < 5; ++j)
        EXPECT_NEAR(biased(0, h, t, j), weights(0, h, t, j) * std::exp(bias(t, j)) / total, 1e-14);
    }
}

// Sa[X P] = Sa[X] P for every permutation.
TEST(UnderstandingDeepLearning, SelfAttentionIsCovariantUnderPermutations) {
  MultiHeadAttention<double> attention({.hidden_size = 10, .num_attention_heads = 2});
  randomize(attention, 12);
  NumpyRandom numpy(13);
  const auto x = random<double>(Shape<3>{1, 11, 10}, 14);
  const auto y = attention(x);
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto order = numpy.permutation(11);
    Tensor<double, 3> permuted(x.shape()), expected(x.shape());
    for (Index t = 0; t < 11; ++t) {
      permuted.matrix().row(t) = x.matrix().row(order[static_cast<std::size_t>(t)]);
      expected.matrix().row(t) = y.matrix().row(order[static_cast<std::size_t>(t)]);
    }
    EXPECT_LT(largest_difference(attention(permuted), expected), 1e-13);
  }
}

}  // namespace understanding_deep_learning_test
}  // namespace eigenformer
