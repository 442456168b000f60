// SPDX-License-Identifier: MIT

// Deep-ML problems on attention and encoder layers, by their numbers there: 53, 94, 107, 109, 156,
// 490, 491, 904, 905. Weights that a problem stores as (in, out) are transposed into the library's
// (out, in).

#include "tests/reference/error_text.hpp"
#include "tests/spec/numpy_random.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace deep_ml_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;
using values::rows;
using values::sum;

/// x with axes of extent 1 in front.
template <int Rank>
Tensor<double, Rank> batch_of_one(const Tensor<double, 2>& x) {
  Shape<Rank> shape;
  for (int axis = 0; axis < Rank; ++axis) shape[axis] = 1;
  shape[Rank - 2] = x.dim(0);
  shape[Rank - 1] = x.dim(1);
  return values::reshaped(x, shape);
}

/// Self-attention with maps stored as (in, out), no biases, no output map.
MultiHeadAttention<double> attention_of(const Tensor<double, 2>& w_q, const Tensor<double, 2>& w_k,
                                        const Tensor<double, 2>& w_v, Index heads) {
  MultiHeadAttention<double> attention({.hidden_size = w_q.dim(0),
                                        .num_attention_heads = heads,
                                        .query_bias = false,
                                        .key_bias = false,
                                        .value_bias = false,
                                        .output_bias = false});
  attention.query.weight.matrix() = w_q.matrix().transpose();
  attention.key.weight.matrix() = w_k.matrix().transpose();
  attention.value.weight.matrix() = w_v.matrix().transpose();
  attention.output.weight.matrix().setIdentity();
  return attention;
}

Tensor<double, 2> identity(Index n) {
  Tensor<double, 2> result({n, n});
  result.matrix().setIdentity();
  return result;
}

TEST(DeepMl, SelfAttention) {
  const auto w = rows<double>({{1, 2}, {3, 4}});
  const auto attention = attention_of(identity(2), identity(2), w, 1);
  expect_values(attention(batch_of_one<3>(identity(2))), {1.660477, 2.660477, 2.339523, 3.339523},
                5e-7);
  expect_values(attention(batch_of_one<3>(rows<double>({{1, 1}, {1, 0}}))),
                {3.00928465, 4.6790462, 2.5, 4.0}, 5e-9);

  const auto w_qk = rows<double>({{1, 1, 0}, {0, 1, 1}, {1, 0, 1}});
  const auto three = attention_of(w_qk, w_qk, rows<double>({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}), 1);
  expect_values(
      three(batch_of_one<3>(rows<double>({{1, 0, 1}, {0, 1, 1}, {1, 1, 0}}))),
      {8, 10, 12, 8.61987385, 10.61987385, 12.61987385, 7.38012615, 9.38012615, 11.38012615}, 5e-9);
}

// The published inputs are square, so the number of tokens could stand in for the width unnoticed;
// these aren't.
TEST(DeepMl, ScoresAreDividedByTheRootOfTheWidthOfTheKeys) {
  const auto x = random<double>(Shape<2>{5, 3}, 1);
  const auto w_q = random<double>(Shape<2>{3, 3}, 2), w_k = random<double>(Shape<2>{3, 3}, 3),
             w_v = random<double>(Shape<2>{3, 3}, 4);
  const RowMajorMatrix<double> q = x.matrix() * w_q.matrix(), k = x.matrix() * w_k.matrix(),
                               v = x.matrix() * w_v.matrix();
  RowMajorMatrix<double> p = (q * k.transpose() / std::sqrt(3.0)).array().exp();
  p.array().colwise() /= p.rowwise().sum().array().eval();
  Tensor<double, 3> expected({1, 5, 3});
  expected.matrix() = p * v;
  EXPECT_LT(largest_difference(attention_of(w_q, w_k, w_v, 1)(batch_of_one<3>(x)), expected),
            1e-14);
}

// Output and weights; a mask of 0 and 1 blocks where it is 0; a row without any 1 gets zeros.
TEST(DeepMl, CausalMaskOnTheFirstCaseOfE53) {
  const auto q = batch_of_one<4>(identity(2)), v = batch_of_one<4>(rows<double>({{1, 2}, {3, 4}}));
  const Tensor<bool, 2> mask = values::tensor<bool>(Shape<2>{2, 2}, {1, 0, 1, 1});
  Tensor<double, 4> weights;
  expect_values(scaled_dot_product_attention(q, q, v, {.allowed = mask}, {}, &weights),
                {1, 2, 2.3395230987, 3.3395230987}, 1e-10);
  expect_values(weights, {1, 0, .3302384507, .6697615493}, 1e-10);
}

TEST(DeepMl, ExtentsThatAllDiffer) {
  const auto q = random<double>(Shape<4>{1, 1, 3, 7}, 5),
             k = random<double>(Shape<4>{1, 1, 5, 7}, 6),
             v = random<double>(Shape<4>{1, 1, 5, 2}, 7);
  const Tensor<bool, 2> mask =
      values::tensor<bool>(Shape<2>{3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0});
  Tensor<double, 4> weights;
  const auto y = scaled_dot_product_attention(q, k, v, {.allowed = mask}, {}, &weights);
  const auto expected = values::plain_attention(
      q, k, v, 1 / std::sqrt(7.0), [&](Index, Index, Index t, Index j) { return mask(t, j); },
      values::no_bias);
  EXPECT_LT(largest_difference(y, expected.y), 1e-14);
  EXPECT_LT(largest_difference(weights, expected.weights), 1e-15);
  for (Index j = 0; j < 5; ++j) EXPECT_EQ(weights(0, 0, 1, j), 0.0);
  for (Index e = 0; e < 2; ++e) EXPECT_EQ(y(0, 0, 1, e), 0.0);
}

// Post-norm, attention without biases, ReLU; every map stored as (in, out).
TEST(DeepMl, EncoderLayer) {
  const Index batch = 2, tokens = 5, width = 14, heads = 7, intermediate = 11;
  const auto x = random<double>(Shape<3>{batch, tokens, width}, 8);
  const auto w_q = random<double>(Shape<2>{width, width}, 9, .3),
             w_k = random<double>(Shape<2>{width, width}, 10, .3),
             w_v = random<double>(Shape<2>{width, width}, 11, .3),
             w_o = random<double>(Shape<2>{width, width}, 12, .3),
             w_1 = random<double>(Shape<2>{width, intermediate}, 13, .3),
             w_2 = random<double>(Shape<2>{intermediate, width}, 14, .3);
  EncoderLayer<double> layer({.hidden_size = width,
                              .num_attention_heads = heads,
                              .intermediate_size = intermediate,
                              .activation = Activation::relu,
                              .query_bias = false,
                              .key_bias = false,
                              .value_bias = false,
                              .output_bias = false});
  EXPECT_EQ(layer.config.norm_placement, NormPlacement::post);
  randomize(layer, 15);
  layer.attention.query.weight.matrix() = w_q.matrix().transpose();
  layer.attention.key.weight.matrix() = w_k.matrix().transpose();
  layer.attention.value.weight.matrix() = w_v.matrix().transpose();
  layer.attention.output.weight.matrix() = w_o.matrix().transpose();
  layer.feed_forward.linear_1.weight.matrix() = w_1.matrix().transpose();
  layer.feed_forward.linear_2.weight.matrix() = w_2.matrix().transpose();

  const auto normalise = [](const LayerNorm<double>& norm, RowMajorMatrix<double> a) {
    for (Index i = 0; i < a.rows(); ++i) {
      a.row(i).array() -= a.row(i).mean();
      a.row(i) /= std::sqrt(a.row(i).squaredNorm() / static_cast<double>(a.cols()) + 1e-5);
      a.row(i) =
          a.row(i).cwiseProduct(norm.weight.vector().transpose()) + norm.bias.vector().transpose();
    }
    return a;
  };
  RowMajorMatrix<double> h = x.matrix();
  for (Index b = 0; b < batch; ++b) {
    const RowMajorMatrix<double> own = x.matrix().middleRows(b * tokens, tokens);
    const RowMajorMatrix<double> q = own * w_q.matrix(), k = own * w_k.matrix(),
                                 v = own * w_v.matrix();
    RowMajorMatrix<double> concatenated(tokens, width);
    for (Index head = 0; head < heads; ++head) {
      RowMajorMatrix<double> p =
          (q.middleCols(head * 2, 2) * k.middleCols(head * 2, 2).transpose() / std::sqrt(2.0))
              .array()
              .exp();
      p.array().colwise() /= p.rowwise().sum().array().eval();
      concatenated.middleCols(head * 2, 2) = p * v.middleCols(head * 2, 2);
    }
    h.middleRows(b * tokens, tokens) += concatenated * w_o.matrix();
  }
  h = normalise(layer.attention_norm, h);
  const RowMajorMatrix<double> hidden =
      ((h * w_1.matrix()).rowwise() + layer.feed_forward.linear_1.bias.vector().transpose())
          .cwiseMax(0);
  const RowMajorMatrix<double> branch =
      (hidden * w_2.matrix()).rowwise() + layer.feed_forward.linear_2.bias.vector().transpose();
  Tensor<double, 3> expected(x.shape());
  expected.matrix() = normalise(layer.feed_forward_norm, h + branch);
  EXPECT_LT(largest_difference(layer(x), expected), 1e-13);
}

// No biases anywhere, additive mask, heads must divide the width.
TEST(DeepMl, MultiHeadSelfAttention) {
  const MultiHeadAttentionConfig config{.hidden_size = 12,
                                        .num_attention_heads = 3,
                                        .query_bias = false,
                                        .key_bias = false,
                                        .value_bias = false,
                                        .output_bias = false};
  MultiHeadAttention<double> attention(config);
  EXPECT_EQ(count_parameters(attention), 4 * 12 * 12);
  randomize(attention, 16);
  const auto x = random<double>(Shape<3>{2, 5, 12}, 17);
  const auto mask = random<double>(Shape<2>{5, 5}, 18);
  const auto weights = attention.attention_weights(x, x, {.bias = mask});
  const auto q = attention.query(x), k = attention.key(x);
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h) {
      RowMajorMatrix<double> p = (q.matrix().block(b * 5, h * 4, 5, 4) *
                                      k.matrix().block(b * 5, h * 4, 5, 4).transpose() / 2 +
                                  mask.matrix())
                                     .array()
                                     .exp();
      p.array().colwise() /= p.rowwise().sum().array().eval();
      EXPECT_LT((weights.matrix().middleRows((b * 3 + h) * 5, 5) - p).cwiseAbs().maxCoeff(), 1e-14);
    }
  MultiHeadAttentionConfig indivisible = config;
  indivisible.num_attention_heads = 5;
  EXPECT_ERROR(MultiHeadAttention<double>{indivisible}, std::invalid_argument,
               "MultiHeadAttention: num_attention_heads must divide");
}

// Biased attention and a GELU network, accepted in both orders; both exist and keep the
// shape.
TEST(DeepMl, EncoderBlockInBothOrders) {
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    EncoderLayer<double> block({.hidden_size = 12,
                                .num_attention_heads = 3,
                                .intermediate_size = 17,
                                .norm_placement = placement,
                                .hidden_dropout_prob = 0.1});
    EXPECT_EQ(count_parameters(block), 4 * (12 * 12 + 12) + 2 * 2 * 12 + 2 * 12 * 17 + 17 + 12);
    randomize(block, 19);
    const auto x = random<double>(Shape<3>{2, 5, 12}, 20);
    EXPECT_EQ(block(x).shape(), x.shape());
    const bool pre = placement == NormPlacement::pre;
    const auto h = pre ? sum(x, block.attention(block.attention_norm(x)))
                       : block.attention_norm(sum(x, block.attention(x)));
    const auto expected = pre ? sum(h, block.feed_forward(block.feed_forward_norm(h)))
                              : block.feed_forward_norm(sum(h, block.feed_forward(h)));
    EXPECT_LT(largest_difference(block(x), expected), 1e-13);
  }
}

// 94 and, with the causal mask, 107.
TEST(DeepMl, MultiHeadAttentionWithLargeScores) {
  const auto x =
      batch_of_one<3>(rows<double>({{0, 1, 5, 14}, {13, 11, 8, 9}, {2, 15, 4, 7}, {10, 12, 3, 6}}));
  const auto w_q = rows<double>({{0, 1, 3, 3}, {1, 1, 1, 3}, {3, 0, 0, 3}, {1, 1, 0, 3}}),
             w_k = rows<double>({{0, 0, 2, 2}, {1, 3, 3, 2}, {3, 3, 0, 2}, {4, 2, 4, 0}}),
             w_v = rows<double>({{1, 3, 0, 3}, {5, 1, 1, 0}, {1, 4, 1, 3}, {3, 3, 3, 4}});
  const auto attention = attention_of(w_q, w_k, w_v, 2);
  const std::vector<double> row{103, 109, 46, 99};
  std::vector<double> all;
  for (int i = 0; i < 4; ++i) all.insert(all.end(), row.begin(), row.end());
  expect_values(attention(x), all, 1e-6);
  std::vector<double> causal(all);
  const double first[] = {52, 63, 48, 71};
  std::copy(first, first + 4, causal.begin());
  expect_values(attention(x, {.causal = true}), causal, 1e-6);
}

TEST(DeepMl, LayerNormOfSeed42) {
  NumpyRandom numpy(42);
  const LayerNorm<double> norm({.hidden_size = 3});
  expect_values(norm(numpy.randn<double>(Shape<3>{2, 2, 3})),
                {.47373971, -1.39079736, .91705765, 1.41420326, -.70711154, -.70709172, 1.13192477,
                 .16823009, -1.30015486, 1.4141794, -.70465482, -.70952458},
                5e-9);
}

// 156 activates the second half of its input; the library's gate is named, so the caller says which
// half it is.
TEST(DeepMl, SwiGLUActivatesTheSecondHalf) {
  GatedFeedForward<double> network(
      {.hidden_size = 4, .intermediate_size = 2, .activation = Activation::silu, .bias = false});
  network.up.weight.matrix().leftCols(2).setIdentity();
  network.gate.weight.matrix().rightCols(2).setIdentity();
  network.down.weight.matrix().topRows(2).setIdentity();
  expect_values(network(rows<double>({{1, -1, 2, -2}})), {1.7616, .2384, 0, 0}, 5e-5);
}

}  // namespace deep_ml_test
}  // namespace eigenformer
