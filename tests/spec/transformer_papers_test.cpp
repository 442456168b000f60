// SPDX-License-Identifier: MIT

// Papers on whole transformers and on positions inside attention: Vaswani et al., "Attention is all
// you need" (row G1: sizes and order); Raffel et al., T5 (G5); Press et al., ALiBi (G6); Su et al.,
// RoFormer (G7); Radford et al., GPT-2 (G8).

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace transformer_papers_test {

using values::largest_difference;
using values::random;
using values::rows;

// ---------------------------------------------------------------------- attention is all you need

// One matrix for both embeddings and the layer before the softmax; without biases in attention.
// The paper prints 65 and 213 million.
TEST(AttentionIsAllYouNeed, Sizes) {
  const auto size = [](Index hidden, Index heads, Index intermediate) {
    return count_parameters(Transformer<ShapeOnly>({.vocab_size = 37000,
                                                    .hidden_size = hidden,
                                                    .num_hidden_layers = 6,
                                                    .num_attention_heads = heads,
                                                    .intermediate_size = intermediate,
                                                    .query_bias = false,
                                                    .key_bias = false,
                                                    .value_bias = false,
                                                    .output_bias = false}));
  };
  EXPECT_EQ(size(512, 8, 2048) - 37000 * 512, 44101632);
  EXPECT_EQ(size(512, 8, 2048), 63045632);
  EXPECT_EQ(size(1024, 16, 4096), 214171648);
}

// LN(x + sublayer(x)) in both halves, token vectors times sqrt(C), sinusoids, one shared
// matrix.
TEST(AttentionIsAllYouNeed, StepByStep) {
  Transformer<double> model({.vocab_size = 17,
                             .hidden_size = 12,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 3,
                             .intermediate_size = 13});
  values::randomize(model, 5);
  const auto source = values::tensor<std::int32_t>(Shape<2>{1, 5}, {3, 16, 0, 7, 7});
  const auto target = values::tensor<std::int32_t>(Shape<2>{1, 4}, {1, 3, 16, 9});
  const auto& table = model.encoder.embeddings.token.weight;
  const auto embedded = [&](const Tensor<std::int32_t, 2>& ids) {
    Tensor<double, 3> e({1, ids.dim(1), 12});
    const auto waves = sinusoidal_positions<double>(ids.dim(1), 12);
    for (Index t = 0; t < ids.dim(1); ++t)
      for (Index c = 0; c < 12; ++c)
        e(0, t, c) = table(ids(0, t), c) * std::sqrt(12.0) + waves(t, c);
    return e;
  };
  auto memory = embedded(source), y = embedded(target);
  for (const auto& layer : model.encoder.layers) {
    memory = layer.attention_norm(values::sum(memory, layer.attention(memory)));
    memory = layer.feed_forward_norm(values::sum(memory, layer.feed_forward(memory)));
  }
  for (const auto& layer : model.decoder.layers) {
    y = layer.self_attention_norm(values::sum(y, layer.self_attention(y, {.causal = true})));
    y = (*layer.cross_attention_norm)(values::sum(y, (*layer.cross_attention)(y, memory)));
    y = layer.feed_forward_norm(values::sum(y, layer.feed_forward(y)));
  }
  const auto logits = model(source, target);
  const RowMajorMatrix<double> expected = y.matrix() * table.matrix().transpose();
  EXPECT_LT((logits.matrix() - expected).cwiseAbs().maxCoeff(), 1e-12);
}

// ------------------------------------------------------------------------------------ T5's biases

const kernels::RelativeBuckets looking_back{32, 128, false};
const kernels::RelativeBuckets both_ways{32, 128, true};

// The first distances of buckets 16 to 31, looking back; and of 8 to 15, both ways.
TEST(RelativeBiases, FirstDistancesOfBuckets) {
  const auto expect_starts = [](const kernels::RelativeBuckets& buckets, Index bucket,
                                const std::vector<Index>& starts) {
    for (Index start : starts) {
      EXPECT_EQ(buckets.of(-start), bucket) << start;
      EXPECT_EQ(buckets.of(-(start - 1)), bucket - 1) << start;
      ++bucket;
    }
  };
  expect_starts(looking_back, 16,
                {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113});
  for (Index n = 0; n < 16; ++n) EXPECT_EQ(looking_back.of(-n), n);
  for (Index n = 113; n < 1100; ++n) EXPECT_EQ(looking_back.of(-n), 31) << n;
  for (Index n = 1; n < 1100; ++n)
    EXPECT_EQ(looking_back.of(n), 0) << "the future: n = max(-rel, 0)";

  expect_starts(both_ways, 8, {8, 12, 16, 23, 32, 46, 64, 91});
  for (Index n = 0; n < 8; ++n) EXPECT_EQ(both_ways.of(-n), n);
  for (Index n = 91; n < 1100; ++n) EXPECT_EQ(both_ways.of(-n), 15) << n;
  EXPECT_EQ(both_ways.of(1), 17);
  EXPECT_EQ(both_ways.of(8), 24);
  EXPECT_EQ(both_ways.of(128), 31);
  for (Index n = 1; n < 1100; ++n) EXPECT_EQ(both_ways.of(n), both_ways.of(-n) + 16) << n;
}

// The formula in float and in double gives the same buckets.
TEST(RelativeBiases, FormulaInFloatAndDouble) {
  const auto formula = [](auto one, Index n, Index count) {
    using T = decltype(one);
    const Index exact = count / 2;
    if (n < exact) return n;
    const T part = std::log(static_cast<T>(n) / static_cast<T>(exact)) /
                   std::log(T(128) / static_cast<T>(exact)) * static_cast<T>(count - exact);
    return std::min(count - 1, exact + static_cast<Index>(part));
  };
  for (Index n = 0; n < 1100; ++n) {
    EXPECT_EQ(looking_back.of(-n), formula(1.0, n, 32)) << n;
    EXPECT_EQ(looking_back.of(-n), formula(1.0f, n, 32)) << n;
    EXPECT_EQ(both_ways.of(-n), formula(1.0, n, 16)) << n;
    EXPECT_EQ(both_ways.of(-n), formula(1.0f, n, 16)) << n;
  }
}

// One table (32, heads) for all layers of a stack; scores aren't divided by the root of the
// head size (a configured scale of 1); the bias of the bucket is added before the softmax. Both
// ways in the encoder, looking back in the decoder, none in its attention to the memory.
TEST(RelativeBiases, OneTableForAllLayers) {
  const AttentionPositions positions{.kind = AttentionPosition::relative_bias};
  TransformerConfig config{.vocab_size = 19,
                           .hidden_size = 10,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 2,
                           .head_size = 3,
                           .intermediate_size = 7,
                           .position_embedding = PositionEmbedding::none,
                           .scale_embeddings = false,
                           .norm_placement = NormPlacement::pre,
                           .final_norm = true,
                           .query_bias = false,
                           .key_bias = false,
                           .value_bias = false,
                           .output_bias = false,
                           .feed_forward_bias = false,
                           .attention_scale = 1.0,
                           .attention_positions = positions};
  Transformer<double, RMSNorm> model(config);
  std::vector<std::string> tables;
  for_each_parameter(model, [&](const std::string& name, const auto& parameter) {
    if (name.find("relative_bias") == std::string::npos) return;
    tables.push_back(name);
    EXPECT_EQ(parameter.dim(0), 32);
    EXPECT_EQ(parameter.size(), 32 * 2);
  });
  EXPECT_EQ(tables, (std::vector<std::string>{"encoder.relative_bias.weight",
                                              "decoder.relative_bias.weight"}));
  values::randomize(model, 6, 0.7);

  const Index queries = 23, keys = 29;
  Tensor<std::int32_t, 2> source({1, keys}), target({1, queries});
  for (Index j = 0; j < keys; ++j) source(0, j) = static_cast<std::int32_t>(j * j % 19);
  for (Index t = 0; t < queries; ++t) target(0, t) = static_cast<std::int32_t>((t * t + 2) % 19);
  const auto attend = [](const MultiHeadAttention<double>& attention, const Tensor<double, 3>& to,
                         const Tensor<double, 3>& from, auto&& visible, auto&& bias) {
    const auto heads = [](const Tensor<double, 3>& a) {
      Tensor<double, 4> split({1, 2, a.dim(1), 3});
      for (Index h = 0; h < 2; ++h)
        for (Index t = 0; t < a.dim(1); ++t)
          for (Index d = 0; d < 3; ++d) split(0, h, t, d) = a(0, t, h * 3 + d);
      return split;
    };
    const auto y = values::plain_attention(heads(attention.query(to)), heads(attention.key(from)),
                                           heads(attention.value(from)), 1.0, visible, bias);
    Tensor<double, 3> concatenated({1, to.dim(1), 6});
    for (Index t = 0; t < to.dim(1); ++t)
      for (Index c = 0; c < 6; ++c) concatenated(0, t, c) = y.y(0, c / 3, t, c % 3);
    return attention.output(concatenated);
  };
  const auto embedded = [&](const Tensor<std::int32_t, 2>& ids) {
    return model.encoder.embeddings.token(ids);
  };
  auto memory = embedded(source), y = embedded(target);
  for (const auto& layer : model.encoder.layers) {
    const auto normal = layer.attention_norm(memory);
    memory = values::sum(memory, attend(layer.attention, normal, normal, values::everything_visible,
                                        [&](Index, Index h, Index t, Index j) {
                                          return model.encoder.relative_bias->weight(
                                              both_ways.of(j - t), h);
                                        }));
    memory = values::sum(memory, layer.feed_forward(layer.feed_forward_norm(memory)));
  }
  memory = (*model.encoder.final_norm)(memory);
  for (const auto& layer : model.decoder.layers) {
    const auto normal = layer.self_attention_norm(y);
    y = values::sum(y, attend(layer.self_attention, normal, normal, values::causally_visible,
                              [&](Index, Index h, Index t, Index j) {
                                return model.decoder.relative_bias->weight(looking_back.of(j - t),
                                                                           h);
                              }));
    y = values::sum(y, attend(*layer.cross_attention, (*layer.cross_attention_norm)(y), memory,
                              values::everything_visible, values::no_bias));
    y = values::sum(y, layer.feed_forward(layer.feed_forward_norm(y)));
  }
  y = (*model.decoder.final_norm)(y);
  const RowMajorMatrix<double> expected =
      y.matrix() * model.encoder.embeddings.token.weight.matrix().transpose();
  EXPECT_LT((model(source, target).matrix() - expected).cwiseAbs().maxCoeff(), 1e-11);
}

// ------------------------------------------------------------------------------------------ ALiBi

TEST(Alibi, Slopes) {
  const auto expect_exponents = [](Index heads, const std::vector<double>& exponents) {
    ASSERT_EQ(static_cast<Index>(exponents.size()), heads);
    for (Index h = 0; h < heads; ++h)
      EXPECT_NEAR(kernels::alibi_slope(h, heads),
                  std::pow(2.0, -exponents[static_cast<std::size_t>(h)]), 1e-16)
          << heads << " heads, head " << h;
  };
  expect_exponents(8, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_exponents(16, {.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8});
  expect_exponents(12, {1, 2, 3, 4, 5, 6, 7, 8, .5, 1.5, 2.5, 3.5});
  expect_exponents(6, {2, 4, 6, 8, 1, 3});
}

// The bias -m (i - j) is added to the scaled scores; there are no position embeddings, and no
// end: the first tokens' results don't depend on how many follow.
TEST(Alibi, BiasInsteadOfPositionEmbeddings) {
  TransformerDecoder<double> decoder({.vocab_size = 11,
                                      .hidden_size = 12,
                                      .num_attention_heads = 6,
                                      .intermediate_size = 7,
                                      .max_position_embeddings = 4,
                                      .position_embedding = PositionEmbedding::none,
                                      .attention_positions = {.kind = AttentionPosition::alibi}});
  values::randomize(decoder, 7);
  for_each_parameter(decoder, [](const std::string& name, const auto&) {
    EXPECT_EQ(name.find("position"), std::string::npos) << name;
  });
  Tensor<std::int32_t, 2> ids({1, 9});
  for (Index t = 0; t < 9; ++t) ids(0, t) = static_cast<std::int32_t>(t * 7 % 11);
  const double slopes[] = {.25, .0625, .015625, .00390625, .5, .125};
  Tensor<double, 3> bias({6, 9, 9});
  for (Index h = 0; h < 6; ++h)
    for (Index i = 0; i < 9; ++i)
      for (Index j = 0; j < 9; ++j) bias(h, i, j) = -slopes[h] * static_cast<double>(i - j);
  TransformerDecoder<double> plain(decoder);
  for (auto& layer : plain.layers) layer.self_attention.config.attention_positions = {};
  EXPECT_LT(largest_difference(decoder(ids), plain(ids, {.mask = {.bias = bias}})), 1e-13);
  EXPECT_GT(largest_difference(decoder(ids), plain(ids)), 1e-3);
}

// ----------------------------------------------------------------------------------------- rotary

/// A row of four at a position.
std::vector<double> rotated(RotaryLayout layout, Index position) {
  Workspace workspace;
  Scratch scratch(workspace);
  auto y = rows<double>({{1, 2, 3, 4}});
  kernels::RotaryTable<double>({.layout = layout}, 4, 1, 1, position, nullptr, scratch, workspace)
      .rotate(y, 4, workspace);
  return {y.begin(), y.end()};
}

TEST(Rotary, NumbersOfBothLayouts) {
  const auto expect_near = [](const std::vector<double>& actual,
                              const std::vector<double>& expected) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(actual[i], expected[i], 6e-11) << i;
  };
  expect_near(rotated(RotaryLayout::interleaved, 1),
              {-1.1426396637, 1.9220755965, 2.9598506679, 4.0297995017});
  expect_near(rotated(RotaryLayout::halves, 1),
              {-1.9841106486, 1.9599006675, 2.4623779024, 4.0197996683});
  expect_near(rotated(RotaryLayout::interleaved, 3),
              {-1.2722325127, -1.8388649851, 2.8786681004, 4.0881866356});
  expect_near(rotated(RotaryLayout::halves, 3),
              {-1.4133525208, 1.8791180667, -2.8288574817, 4.0581911354});
}

// W.view(h, k / 2, 2, in).transpose(1, 2) of the query and key maps turns a model for
// neighbours into one for halves, view(h, 2, k / 2, in).transpose(1, 2) turns it back.
template <class Parameter>
void permute_rows(Parameter& parameter, Index head_size, bool to_halves) {
  const auto copy = parameter;
  const Index columns = parameter.size() / parameter.dim(0), half = head_size / 2;
  for (Index row = 0; row < parameter.dim(0); ++row) {
    const Index head = row / head_size, place = row % head_size;
    const Index pair = to_halves ? place % half : place / 2,
                side = to_halves ? place / half : place % 2;
    const Index from = head * head_size + (to_halves ? 2 * pair + side : side * half + pair);
    std::copy_n(copy.data() + from * columns, columns, parameter.data() + row * columns);
  }
}

TEST(Rotary, LayoutsByPermutingTheRowsOfEachHead) {
  for (Index key_value_heads : {4, 2, 1}) {
    DecoderLayer<double> neighbours(
        {.hidden_size = 14,
         .num_attention_heads = 4,
         .num_key_value_heads = key_value_heads,
         .head_size = 10,
         .intermediate_size = 5,
         .attention_positions = {.kind = AttentionPosition::rotary,
                                 .rotary = {.layout = RotaryLayout::interleaved}}});
    values::randomize(neighbours, 8);
    DecoderLayer<double> halves(neighbours);
    halves.self_attention.config.attention_positions.rotary.layout = RotaryLayout::halves;
    const auto x = random<double>(Shape<3>{2, 7, 14}, 9);
    EXPECT_GT(largest_difference(halves(x), neighbours(x)), 1e-3) << "the wrong layout is an error";
    for (Linear<double>* map : {&halves.self_attention.query, &halves.self_attention.key}) {
      permute_rows(map->weight, 10, true);
      permute_rows(map->bias, 10, true);
    }
    EXPECT_LT(largest_difference(halves(x), neighbours(x)), 1e-13);

    DecoderLayer<double> back(halves);
    back.self_attention.config.attention_positions.rotary.layout = RotaryLayout::interleaved;
    for (Linear<double>* map : {&back.self_attention.query, &back.self_attention.key}) {
      permute_rows(map->weight, 10, false);
      permute_rows(map->bias, 10, false);
    }
    EXPECT_TRUE(parameters_equal(back, neighbours));
    EXPECT_EQ(back(x), neighbours(x));
  }
}

// Queries and keys are rotated, values are not: with one key, whatever its position, the result
// is the value itself.
TEST(Rotary, ValuesAreNotTurned) {
  MultiHeadAttention<double> attention(
      {.hidden_size = 12,
       .num_attention_heads = 3,
       .attention_positions = {.kind = AttentionPosition::rotary}});
  values::randomize(attention, 10);
  const auto x = random<double>(Shape<3>{2, 9, 12}, 11);
  Tensor<bool, 2> itself({9, 9});
  for (Index t = 0; t < 9; ++t) itself(t, t) = true;
  EXPECT_LT(
      largest_difference(attention(x, {.allowed = itself}), attention.output(attention.value(x))),
      1e-14);
}

// ------------------------------------------------------------------------------------------ GPT-2

TransformerConfig gpt2_config(Index width, Index layers, Index heads) {
  return {.vocab_size = 50257,
          .hidden_size = width,
          .num_hidden_layers = layers,
          .num_attention_heads = heads,
          .intermediate_size = 4 * width};
}

TEST(Gpt2, Sizes) {
  const TransformerDecoder<ShapeOnly> model(gpt2_config(768, 12, 12));
  EXPECT_EQ(count_parameters(model), 124439808);
  EXPECT_EQ(count_parameters(model.embeddings.token), 38597376);
  EXPECT_EQ(count_parameters(*model.embeddings.position), 786432);
  EXPECT_EQ(count_parameters(model.layers[0]), 7087872);
  EXPECT_EQ(count_parameters(*model.final_norm), 1536);
  EXPECT_EQ(count_parameters(model.head), 0) << "tied";

  const auto size = [](Index width, Index layers, Index heads, Index block) {
    const TransformerDecoder<ShapeOnly> other(gpt2_config(width, layers, heads));
    EXPECT_EQ(count_parameters(other.layers[0]), block);
    return count_parameters(other);
  };
  EXPECT_EQ(size(1024, 24, 16, 12596224), 354823168);   // medium
  EXPECT_EQ(size(1280, 36, 20, 19677440), 774030080);   // large
  EXPECT_EQ(size(1600, 48, 25, 30740800), 1557611200);  // xl

  TransformerConfig without_biases = gpt2_config(768, 12, 12);
  without_biases.query_bias = without_biases.key_bias = without_biases.value_bias = false;
  without_biases.output_bias = without_biases.feed_forward_bias = without_biases.norm_bias = false;
  EXPECT_EQ(count_parameters(TransformerDecoder<ShapeOnly>(without_biases)), 124337664);

  TransformerConfig untied = gpt2_config(768, 12, 12);
  untied.tie_word_embeddings = false;
  EXPECT_EQ(count_parameters(TransformerDecoder<ShapeOnly>(untied)), 124439808 + 38597376);
}

// A Llama of 260,032 parameters: half as many key/value heads, gated network, rotary, tied.
TEST(Gpt2, SizeOfASmallLlama) {
  const TransformerConfig config{.vocab_size = 512,
                                 .hidden_size = 64,
                                 .num_hidden_layers = 5,
                                 .num_attention_heads = 8,
                                 .num_key_value_heads = 4,
                                 .intermediate_size = 172,
                                 .activation = Activation::silu,
                                 .position_embedding = PositionEmbedding::none,
                                 .query_bias = false,
                                 .key_bias = false,
                                 .value_bias = false,
                                 .output_bias = false,
                                 .feed_forward_bias = false,
                                 .attention_positions = {.kind = AttentionPosition::rotary}};
  EXPECT_EQ(count_parameters(TransformerDecoder<ShapeOnly, RMSNorm, GatedFeedForward>(config)),
            260032);
}

// Keys and values of a token: 2 L H D numbers. GPT-2 in float 73,728 bytes, GPT-3 in 16 bits
// 4,718,592, so twice that in float. The cache adds one flag for each head and tile of 128 tokens.
TEST(Gpt2, BytesOfACache) {
  const auto bytes_of_layer = [](Index heads, Index size) {
    const KeyValueCache<float> cache(
        {.batch = 1, .capacity = 256, .num_key_value_heads = heads, .head_size = size});
    return cache.bytes() - heads * 2;
  };
  EXPECT_EQ(12 * bytes_of_layer(12, 64), 256 * Index{73728});
  EXPECT_EQ(96 * bytes_of_layer(96, 128), 256 * 2 * Index{4718592});
}

// Pre-norm with eps 1e-5, a norm behind the last layer, the head is the token table; matrices
// as in the published file: (in, out), queries, keys and values side by side in c_attn (C, 3 C).
TEST(Gpt2, StepByStepWithTransposedMatrices) {
  const Index width = 10, heads = 2, size = 5, hidden = 40, vocabulary = 23, tokens = 7;
  TransformerDecoder<double> model({.vocab_size = vocabulary,
                                    .hidden_size = width,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = heads,
                                    .intermediate_size = hidden,
                                    .activation = Activation::gelu_tanh,
                                    .max_position_embeddings = 8});
  EXPECT_EQ(model.config.layer_norm_eps, 1e-5);
  EXPECT_TRUE(model.config.final_norm);
  EXPECT_TRUE(model.config.tie_word_embeddings);
  EXPECT_EQ(model.config.norm_placement, NormPlacement::pre);
  values::randomize(model, 12);
  using Matrix = RowMajorMatrix<double>;
  const auto normalise = [](const LayerNorm<double>& norm, const Matrix& a) {
    Matrix y = a.colwise() - a.rowwise().mean();
    const Eigen::VectorXd deviation = (y.array().square().rowwise().mean() + 1e-5).sqrt().matrix();
    y = deviation.cwiseInverse().asDiagonal() * y * norm.weight.vector().asDiagonal();
    return Matrix(y.rowwise() + norm.bias.vector().transpose());
  };
  const auto conv1d = [](const Matrix& a, const Matrix& weight, const Eigen::VectorXd& bias) {
    return Matrix((a * weight).rowwise() + bias.transpose());
  };
  const auto transposed = [](const Linear<double>& map) {
    return Matrix(map.weight.matrix().transpose());
  };

  Tensor<std::int32_t, 2> ids({1, tokens});
  Matrix h(tokens, width);
  for (Index t = 0; t < tokens; ++t) {
    ids(0, t) = static_cast<std::int32_t>(t * t % vocabulary);
    h.row(t) = model.embeddings.token.weight.matrix().row(ids(0, t)) +
               model.embeddings.position->weight.matrix().row(t);
  }
  for (const auto& layer : model.layers) {
    const auto& attention = layer.self_attention;
    Matrix c_attn(width, 3 * width);
    c_attn << transposed(attention.query), transposed(attention.key), transposed(attention.value);
    Eigen::VectorXd bias(3 * width);
    bias << attention.query.bias.vector(), attention.key.bias.vector(),
        attention.value.bias.vector();
    const Matrix qkv = conv1d(normalise(layer.self_attention_norm, h), c_attn, bias);
    Matrix attended(tokens, width);
    for (Index head = 0; head < heads; ++head) {
      const Matrix q = qkv.middleCols(head * size, size),
                   k = qkv.middleCols(width + head * size, size),
                   v = qkv.middleCols(2 * width + head * size, size);
      Matrix p = (q * k.transpose() / std::sqrt(static_cast<double>(size))).array().exp();
      p = p.triangularView<Eigen::Lower>();
      p.array().colwise() /= p.rowwise().sum().array().eval();
      attended.middleCols(head * size, size) = p * v;
    }
    h += conv1d(attended, transposed(attention.output), attention.output.bias.vector());
    const auto& mlp = layer.feed_forward;
    Matrix u = conv1d(normalise(layer.feed_forward_norm, h), transposed(mlp.linear_1),
                      mlp.linear_1.bias.vector());
    u = u.unaryExpr([](double a) {
      return 0.5 * a *
             (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a)));
    });
    h += conv1d(u, transposed(mlp.linear_2), mlp.linear_2.bias.vector());
  }
  const Matrix expected =
      normalise(*model.final_norm, h) * model.embeddings.token.weight.matrix().transpose();
  EXPECT_LT((model(ids).matrix() - expected).cwiseAbs().maxCoeff(), 1e-11);
}

// The paper's start: deviation 0.02, for the maps that write into the residual stream divided
// by the root of their number, 2 N; found by their names.
TEST(Gpt2, ScaledStart) {
  const Index layers = 3;
  TransformerDecoder<double> model({.vocab_size = 97,
                                    .hidden_size = 48,
                                    .num_hidden_layers = layers,
                                    .num_attention_heads = 3,
                                    .intermediate_size = 192,
                                    .max_position_embeddings = 64});
  init(model, Key{13});
  const auto deviation = [](const auto& parameter) {
    return std::sqrt(parameter.vector().squaredNorm() / static_cast<double>(parameter.size()));
  };
  EXPECT_NEAR(deviation(model.embeddings.token.weight), 0.02, 1e-3);
  EXPECT_NEAR(deviation(model.embeddings.position->weight), 0.02, 1e-3);

  Index residual_maps = 0, others = 0;
  std::uint64_t number = 0;
  for_each_parameter(model, [&](const std::string& name, auto& parameter) {
    if constexpr (std::remove_reference_t<decltype(parameter)>::rank == 2) {
      const bool residual = name.ends_with("self_attention.output.weight") ||
                            name.ends_with("feed_forward.linear_2.weight");
      (residual ? residual_maps : others) += 1;
      const double wanted = residual ? 0.02 / std::sqrt(2.0 * layers) : 0.02;
      const Key key = Key{14}.fold_in(number++);
      for (Index i = 0; i < parameter.size(); ++i)
        parameter.data()[i] = wanted * key.normal(static_cast<std::uint64_t>(i));
    }
  });
  EXPECT_EQ(residual_maps, 2 * layers);
  EXPECT_EQ(others, 2 + 4 * layers) << "two tables; queries, keys, values, first maps";
  EXPECT_NEAR(deviation(model.layers[2].self_attention.output.weight), 0.02 / std::sqrt(6.0), 5e-4);
  EXPECT_NEAR(deviation(model.layers[0].feed_forward.linear_2.weight), 0.02 / std::sqrt(6.0), 5e-4);
  EXPECT_NEAR(deviation(model.layers[0].feed_forward.linear_1.weight), 0.02, 1e-3);

  // So that all branches together add little to the embeddings.
  Tensor<std::int32_t, 2> ids({1, 9});
  for (Index t = 0; t < 9; ++t) ids(0, t) = static_cast<std::int32_t>(t * 11 % 97);
  TransformerDecoder<double> no_layers(model);
  no_layers.layers.clear();
  no_layers.config.num_hidden_layers = 0;
  const auto logits = model(ids), of_embeddings = no_layers(ids);
  EXPECT_LT(largest_difference(logits, of_embeddings), 0.5);
  EXPECT_GT(largest_difference(logits, of_embeddings), 1e-3);
}

}  // namespace transformer_papers_test
}  // namespace eigenformer
