// SPDX-License-Identifier: MIT

// Faults that others had with LayerNorm and RMSNorm.

#include "tests/reference/error_text.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace norms_test {

using values::expect_values;
using values::filled;
using values::largest_difference;
using values::random;
using values::randomize;
using values::rows;

TEST(NormFaults, ConstantAndNearlyConstantRows) {
  LayerNorm<float> wide({.hidden_size = 256});
  randomize(wide, 1);
  const auto y = wide(filled<float>(Shape<2>{3, 256}, 1234.0));
  for (Index row = 0; row < 3; ++row)
    for (Index c = 0; c < 256; ++c) ASSERT_EQ(y(row, c), wide.bias(c));

  const LayerNorm<float> norm({.hidden_size = 4});
  const std::vector<double> expected{-1.341635, -0.447212, 0.447212, 1.341635};
  expect_values(norm(rows<float>({{40000, 40001, 40002, 40003}})), expected, 1e-4);
  expect_values(norm(rows<float>({{80000, 80001, 80002, 80003}})), expected, 1e-4);
}

// Constant rows of every width and many values give exactly the bias, also without eps to hide
// behind.
template <class T>
void expect_bias_for_constant_rows() {
  for (Index width = 1; width <= 67; ++width) {
    LayerNorm<T> norm({.hidden_size = width});
    randomize(norm, 2, 100.0);
    for (double value : {0.0, 1.0, 0.1, -1.0 / 3, 1234.0, 1e-30, 3.3e7, -7.7e15, 1e30}) {
      const auto y = norm(filled<T>(Shape<2>{1, width}, value));
      for (Index c = 0; c < width; ++c)
        ASSERT_EQ(y(0, c), norm.bias(c)) << width << " times " << value;
    }
  }
}

TEST(NormFaults, ConstantRowOfAnyWidthGivesExactlyTheBias) {
  expect_bias_for_constant_rows<float>();
  expect_bias_for_constant_rows<double>();
}

// Rows far from zero with small deviations, every width: the result of exact arithmetic within
// a few roundings.
TEST(NormFaults, RowsFarFromZero) {
  for (Index width : {2, 3, 7, 8, 9, 17, 64, 257, 768}) {
    const LayerNorm<float> norm({.hidden_size = width});
    for (float offset : {0.0f, 1e3f, -4e4f, 1e6f}) {
      Tensor<float, 2> x({1, width});
      for (Index c = 0; c < width; ++c) x(0, c) = offset + static_cast<float>((c * 7) % 5);
      const Eigen::VectorXd exact = x.vector().cast<double>();
      const double variance = (exact.array() - exact.mean()).square().mean();
      const auto y = norm(x);
      for (Index c = 0; c < width; ++c)
        ASSERT_NEAR(y(0, c), (exact(c) - exact.mean()) / std::sqrt(variance + 1e-5), 2e-5)
            << width << " at " << offset;
    }
  }
}

TEST(NormFaults, PopulationVariance) {
  const LayerNorm<float> norm({.hidden_size = 4});
  expect_values(norm(rows<float>({{1, 0, 0, 0}})), {1.732005, -.577335, -.577335, -.577335}, 1e-6);
}

TEST(NormFaults, PopulationVarianceAtEveryWidth) {
  for (Index width = 2; width <= 37; ++width) {
    const LayerNorm<double> norm({.hidden_size = width, .eps = 0});
    const auto y = norm(random<double>(Shape<2>{3, width}, 3));
    for (Index row = 0; row < 3; ++row)
      ASSERT_NEAR(y.matrix().row(row).squaredNorm() / static_cast<double>(width), 1.0, 1e-13)
          << width;
  }
}

// Eps inside the root, and the configured one.
TEST(NormFaults, EpsOnRowsOfSmallVariance) {
  const auto x = rows<double>({{1e-3, -1e-3}});
  const std::pair<double, double> cases[] = {{1e-5, .301511}, {1e-6, .707107}, {1e-12, 1.000000}};
  for (const auto& [eps, expected] : cases) {
    expect_values(LayerNorm<double>({.hidden_size = 2, .eps = eps})(x), {expected, -expected},
                  5e-7);
    expect_values(RMSNorm<double>({.hidden_size = 2, .eps = eps})(x), {expected, -expected}, 5e-7);
    expect_values(cast<float>(LayerNorm<double>({.hidden_size = 2, .eps = eps}))(
                      rows<float>({{1e-3, -1e-3}})),
                  {expected, -expected}, 1e-6);
  }
  LayerNorm<double> norm({.hidden_size = 6, .eps = 1e-12});
  randomize(norm, 4);
  const auto y = norm(filled<double>(Shape<1>{6}, 2));
  EXPECT_EQ(y, norm.bias);
}

/// Every norm inside has this eps.
template <class M>
void expect_eps_everywhere(const M& module, double eps, Index count) {
  Index norms = 0;
  for_each_module(module, [&](const std::string& name, const auto& part) {
    if constexpr (requires { part.config.eps; }) {
      ++norms;
      EXPECT_EQ(part.config.eps, eps) << name;
    }
  });
  EXPECT_EQ(norms, count);
}

TEST(NormFaults, EveryNormInsideReportsTheConfiguredEps) {
  for (double eps : {1e-12, 1e-6, 0.5}) {
    expect_eps_everywhere(
        EncoderLayer<ShapeOnly>({.hidden_size = 2, .intermediate_size = 3, .layer_norm_eps = eps}),
        eps, 2);
    expect_eps_everywhere(EncoderStack<ShapeOnly>({.hidden_size = 2,
                                                   .num_hidden_layers = 3,
                                                   .intermediate_size = 3,
                                                   .final_norm = true,
                                                   .layer_norm_eps = eps}),
                          eps, 7);
    expect_eps_everywhere(EncoderStack<ShapeOnly, RMSNorm>({.hidden_size = 2,
                                                            .num_hidden_layers = 3,
                                                            .intermediate_size = 3,
                                                            .final_norm = true,
                                                            .rms_norm_eps = eps}),
                          eps, 7);
    const TransformerConfig config{.vocab_size = 3,
                                   .hidden_size = 2,
                                   .num_hidden_layers = 3,
                                   .intermediate_size = 3,
                                   .final_norm = true,
                                   .layer_norm_eps = eps};
    expect_eps_everywhere(TransformerEncoder<ShapeOnly>(config), eps, 8);
    expect_eps_everywhere(MaskedLanguageModel<ShapeOnly>(config), eps, 9);
    expect_eps_everywhere(SequenceClassifier<ShapeOnly>(config), eps, 8);
    expect_eps_everywhere(VisionTransformer<ShapeOnly>({.image_size = 2,
                                                        .patch_size = 1,
                                                        .hidden_size = 2,
                                                        .num_hidden_layers = 3,
                                                        .num_attention_heads = 1,
                                                        .intermediate_size = 3,
                                                        .layer_norm_eps = eps}),
                          eps, 7);
  }
}

// And uses it: with zero branches a post-norm layer is two norms, a stack of pre-norm layers
// its final one.
TEST(NormFaults, EpsReachesTheResultOfEveryNorm) {
  const auto x = values::tensor<double>(Shape<3>{1, 1, 2}, {1e-3, -1e-3});
  for (double eps : {1e-12, 1e-5}) {
    const auto once = [&](double value) { return value / std::sqrt(value * value + eps); };
    EncoderLayer<double> layer({.hidden_size = 2, .intermediate_size = 3, .layer_norm_eps = eps});
    expect_values(layer(x), {once(once(1e-3)), -once(once(1e-3))}, 1e-12);
    EncoderStack<double> stack({.hidden_size = 2,
                                .num_hidden_layers = 2,
                                .intermediate_size = 3,
                                .norm_placement = NormPlacement::pre,
                                .final_norm = true,
                                .layer_norm_eps = eps});
    expect_values(stack(x), {once(1e-3), -once(1e-3)}, 1e-12);
    Embeddings<double> embeddings({.vocab_size = 1,
                                   .hidden_size = 2,
                                   .position_embedding = PositionEmbedding::none,
                                   .layer_norm_eps = eps});
    values::set(embeddings.token.weight, {1e-3, -1e-3});
    expect_values(embeddings(Tensor<std::int32_t, 2>({1, 1})), {once(1e-3), -once(1e-3)}, 1e-12);
  }
}

TEST(NormFaults, NegativeEpsIsRefused) {
  for (double eps : {-1e-5, -1e-300, std::nan("")}) {
    EXPECT_ERROR(LayerNorm<float>({.hidden_size = 2, .eps = eps}), std::invalid_argument,
                 "LayerNorm: eps must be finite and >= 0");
    EXPECT_ERROR(RMSNorm<float>({.hidden_size = 2, .eps = eps}), std::invalid_argument,
                 "RMSNorm: eps must be finite and >= 0");
    EXPECT_ERROR(
        EncoderLayer<float>({.hidden_size = 2, .intermediate_size = 3, .layer_norm_eps = eps}),
        std::invalid_argument, "LayerNorm: eps must be finite and >= 0");
    EXPECT_ERROR(Embeddings<float>({.vocab_size = 2, .hidden_size = 2, .layer_norm_eps = eps}),
                 std::invalid_argument, "LayerNorm: eps must be finite and >= 0");
  }
}

// X * scale + (bias - mean * scale) would round away the bias.
TEST(NormFaults, HugeWeight) {
  LayerNorm<double> norm({.hidden_size = 1, .eps = 0.1});
  norm.weight(0) = 1e15;
  norm.bias(0) = -1;
  EXPECT_EQ(norm(filled<double>(Shape<1>{1}, -3))(0), -1.0);
  LayerNorm<float> single({.hidden_size = 1, .eps = 0.1});
  single.weight(0) = 1e8f;
  single.bias(0) = -1;
  EXPECT_EQ(single(filled<float>(Shape<1>{1}, -3))(0), -1.0f);
}

TEST(NormFaults, HugeWeightsAtEveryWidth) {
  for (Index width = 1; width <= 19; ++width) {
    LayerNorm<float> norm({.hidden_size = width});
    for (Index c = 0; c < width; ++c) {
      norm.weight(c) = c % 2 == 0 ? 1e8f : -1e30f;
      norm.bias(c) = static_cast<float>(c) - 1;
    }
    for (double value : {-3.0, 0.1, 1e7})
      EXPECT_EQ(norm(filled<float>(Shape<1>{width}, value)), norm.bias);
  }
}

// A row of zeros: the bias from LayerNorm, zeros from RMSNorm, nothing infinite.
TEST(NormFaults, ZeroRow) {
  for (Index width : {1, 4, 7, 8, 33}) {
    LayerNorm<float> layer_norm({.hidden_size = width});
    RMSNorm<float> rms_norm({.hidden_size = width});
    randomize(layer_norm, 5);
    randomize(rms_norm, 6);
    const Tensor<float, 1> zero({width});
    EXPECT_EQ(layer_norm(zero), layer_norm.bias);
    EXPECT_EQ(rms_norm(zero), zero);
  }
}

// The input of a norm stays as it is; in place gives the same bits; other overlaps are
// refused.
template <class Norm>
void expect_input_unchanged(const Norm& norm) {
  for (Index count : {1, 3, 131}) {
    const Index width = norm.config.hidden_size;
    auto x = random<float>(Shape<2>{count, width}, 7);
    const auto copy = x;
    Tensor<float, 2> y(x.shape());
    Workspace workspace;
    norm.forward(x, y, workspace);
    EXPECT_EQ(x, copy);
    norm.forward(x, x, workspace);
    EXPECT_EQ(x, y);

    std::vector<float> memory(static_cast<std::size_t>((count + 1) * width), 1.0f);
    const TensorView<float, 2> first(memory.data(), {count, width});
    for (Index distance : {Index{1}, width - 1, width}) {
      const TensorView<float, 2> shifted(memory.data() + distance, {count, width});
      if (distance == 0 || distance >= count * width) continue;
      EXPECT_ERROR(norm.forward(first, shifted, workspace), std::invalid_argument,
                   "Norm: y and other results must not overlap an input");
      EXPECT_ERROR(norm.forward(shifted, first, workspace), std::invalid_argument,
                   "Norm: y and other results must not overlap an input");
    }
  }
}

TEST(NormFaults, InputIsUnchanged) {
  RMSNorm<float> norm({.hidden_size = 2, .eps = 1e-6});
  const auto x = rows<float>({{3, 4}});
  expect_values(norm(x), {.848528, 1.131371}, 5e-7);
  EXPECT_EQ(x, rows<float>({{3, 4}}));
  for (Index width : {2, 7, 24}) {
    expect_input_unchanged(LayerNorm<float>({.hidden_size = width}));
    expect_input_unchanged(RMSNorm<float>({.hidden_size = width}));
  }
}

// Pre-norm layers add to the input itself, not to its norm, and leave it alone.
TEST(NormFaults, ResidualTakesTheInputItself) {
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    EncoderLayer<float, RMSNorm> layer({.hidden_size = 6,
                                        .num_attention_heads = 3,
                                        .intermediate_size = 5,
                                        .norm_placement = placement});
    randomize(layer, 8);
    const auto x = random<float>(Shape<3>{2, 5, 6}, 9);
    const auto copy = x;
    const auto y = layer(x);
    EXPECT_EQ(x, copy);
    EXPECT_EQ(layer(x), y);
  }
}

TEST(NormFaults, WeightsStoredWithoutTheirUnit) {
  const auto x = rows<float>({{3, 4}});
  RMSNorm<float> with({.hidden_size = 2, .unit_offset = true}), without({.hidden_size = 2});
  std::fill(without.weight.begin(), without.weight.end(), 0.0f);
  EXPECT_EQ(with.weight, without.weight)
      << "stored weights start at 0, so that the factor starts at 1";
  expect_values(with(x), {.848528, 1.131371}, 1e-6);
  expect_values(without(x), {0, 0}, 0);
}

TEST(NormFaults, OffsetOfOneIsAddedOnce) {
  for (Index width : {1, 2, 7, 8, 33}) {
    RMSNorm<double> with({.hidden_size = width, .unit_offset = true}),
        without({.hidden_size = width});
    randomize(with, 10);
    without.weight.vector() = with.weight.vector().array() + 1.0;
    const auto x = random<double>(Shape<2>{3, width}, 11);
    EXPECT_EQ(with(x), without(x));
    init(with, Key{12});
    init(without, Key{13});
    EXPECT_EQ(with(x), without(x)) << "both start with a factor of 1";
  }
}

}  // namespace norms_test
}  // namespace eigenformer
