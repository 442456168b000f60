// SPDX-License-Identifier: MIT

// Two papers: Shazeer, "GLU variants improve transformer", and Zhang and Sennrich, "Root
// mean square layer normalization".

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace papers_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::rows;

const Tensor<double, 2> x = rows<double>({{1, -2, .5}});
const Tensor<double, 2> w = rows<double>({{.2, -.5, 1}, {1.5, .3, -.7}});
const Tensor<double, 2> v = rows<double>({{-1, .4, .6}, {.1, .9, -.2}});
const Tensor<double, 2> w2 = rows<double>({{.5, -1}, {2, .25}, {-.3, .7}});

// GLU on the vector x: W x = (1.7, .55), V x = (-1.5, -1.8). W2 gives three features, as many as x
// has.
TEST(GluVariants, GatedNetworks) {
  GatedFeedForward<double> network({.hidden_size = 3, .intermediate_size = 2, .bias = false});
  network.gate.weight = w;
  network.up.weight = v;
  network.down.weight = w2;
  expect_values(network.gate(x), {1.7, .55}, 1e-15);
  expect_values(network.up(x), {-1.5, -1.8}, 1e-15);

  const auto with = [&](Activation activation) {
    network.config.activation = activation;
    return network(x);
  };
  expect_values(with(Activation::sigmoid), {.5072930126, -2.8219652207, -.4185202140},
                5e-11);                                                      // GLU
  expect_values(with(Activation::identity), {-.285, -5.3475, .072}, 1e-14);  // Bilinear
  expect_values(with(Activation::relu), {-.285, -5.3475, .072}, 1e-14);      // ReGLU

  for (Activation activation :
       {Activation::gelu, Activation::silu}) {  // GEGLU, SwiGLU: down(act(gate) * up) by hand
    Tensor<double, 2> product({1, 2});
    for (Index i = 0; i < 2; ++i) {
      const double g = network.gate(x)(0, i);
      const double act = activation == Activation::gelu ? g * .5 * std::erfc(-g / std::sqrt(2.0))
                                                        : g / (1 + std::exp(-g));
      product(0, i) = act * network.up(x)(0, i);
    }
    EXPECT_LT(largest_difference(with(activation), network.down(product)), 1e-14);
  }
}

TEST(GluVariants, PlainNetworksWithoutBiases) {
  FeedForward<double> network({.hidden_size = 3, .intermediate_size = 2, .bias = false});
  network.linear_1.weight = w;
  network.linear_2.weight = w2;
  const auto with = [&](Activation activation) {
    network.config.activation = activation;
    return network(x);
  };
  expect_values(with(Activation::relu), {.3, 3.5375, -.125}, 1e-14);
  expect_values(with(Activation::gelu), {.4222571844, 3.3459429697, -.2143680934}, 5e-11);
  expect_values(with(Activation::silu), {.3699299496, 2.9620117425, -.1870805123}, 5e-11);
}

Index plain_size(Index hidden, Index intermediate, bool bias) {
  return count_parameters(FeedForward<ShapeOnly>(
      {.hidden_size = hidden, .intermediate_size = intermediate, .bias = bias}));
}
Index gated_size(Index hidden, Index intermediate, bool bias) {
  return count_parameters(GatedFeedForward<ShapeOnly>(
      {.hidden_size = hidden, .intermediate_size = intermediate, .bias = bias}));
}

// A third matrix is paid for by two thirds of the hidden width, exactly without biases, nearly
// with them.
TEST(GluVariants, GatedNetworkOfTwoThirdsTheWidthHasAsManyWeights) {
  EXPECT_EQ(plain_size(768, 3072, false), 4718592);  // T5-base
  EXPECT_EQ(gated_size(768, 2048, false), 4718592);
  EXPECT_EQ(plain_size(24, 48, false), 2304);
  EXPECT_EQ(gated_size(24, 32, false), 2304);
  EXPECT_EQ(plain_size(24, 48, true), 2376);
  EXPECT_EQ(gated_size(24, 32, true), 2392);
}

// LLaMA rounds two thirds of four times the width up to a multiple of 256.
TEST(GluVariants, WidthsOfLlama) {
  const auto width = [](Index hidden) { return (2 * 4 * hidden / 3 + 255) / 256 * 256; };
  EXPECT_EQ(width(4096), 11008);
  EXPECT_EQ(width(5120), 13824);
  EXPECT_EQ(gated_size(4096, width(4096), false), 3 * 4096 * 11008);
}

// Eps inside the root. The authors' program adds 1e-8 to the root instead.
TEST(RootMeanSquareNorm, EpsIsInsideTheRoot) {
  const auto a = rows<double>({{3, 4}});
  const RMSNorm<double> norm({.hidden_size = 2});
  EXPECT_EQ(norm.config.eps, 1e-5);
  expect_values(norm(a), {.8485277980, 1.1313703974}, 5e-11);

  const double outside[] = {.8485281350, 1.1313708467};
  const auto without = RMSNorm<double>({.hidden_size = 2, .eps = 0})(a);
  for (Index i = 0; i < 2; ++i) {  // y / (1 + 1e-8 / rms) from the norm without eps
    EXPECT_NEAR(without(0, i) / (1 + 1e-8 / std::sqrt(12.5)), outside[i], 5e-11);
    EXPECT_GT(std::abs(norm(a)(0, i) - outside[i]), 1e-7);
  }
}

// No centring and no bias: scaling the input changes nothing, shifting it does.
TEST(RootMeanSquareNorm, InvariantToScalingNotToShifting) {
  RMSNorm<double> norm({.hidden_size = 7, .eps = 0});
  EXPECT_EQ(count_parameters(norm), 7);
  values::randomize(norm, 1);
  const auto a = random<double>(Shape<2>{3, 7}, 2);
  Tensor<double, 2> scaled(a), shifted(a);
  scaled.vector() *= 3.7;
  shifted.vector().array() += 1.0;
  EXPECT_LT(largest_difference(norm(scaled), norm(a)), 1e-14);
  EXPECT_GT(largest_difference(norm(shifted), norm(a)), 1e-2);

  Linear<double> map(
      {.in_features = 7, .out_features = 7, .bias = false});  // rescaling a weight matrix in front
  values::randomize(map, 3);
  const auto before = norm(map(a));
  map.weight.vector() *= 11;
  EXPECT_LT(largest_difference(norm(map(a)), before), 1e-13);
}

// The partial norm takes the root mean square of the first part of the entries for all of them.
TEST(RootMeanSquareNorm, PartialNorm) {
  const Index width = 11, part = 4;
  const auto a = random<double>(Shape<2>{3, width}, 4);
  Tensor<double, 2> first({3, part});
  first.matrix() = a.matrix().leftCols(part);
  const auto normal = RMSNorm<double>({.hidden_size = part, .eps = 0})(first);
  for (Index row = 0; row < 3; ++row) {
    const double root_mean_square = std::sqrt(a.matrix().row(row).head(part).squaredNorm() / part);
    const double factor = normal(row, 0) / first(row, 0);
    for (Index c = 0; c < width; ++c)
      EXPECT_NEAR(a(row, c) * factor, a(row, c) / root_mean_square, 1e-13);
  }
}

}  // namespace papers_test
}  // namespace eigenformer
