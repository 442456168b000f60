// SPDX-License-Identifier: MIT
// Attention modules and encoder layers against plain loops.
#include <gtest/gtest.h>

#include "eigenformer/nn/additive_attention.hpp"
#include "eigenformer/nn/encoder_layer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/kernels/attention_cases.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/encoder_layer.hpp"
#include "tests/reference/error_text.hpp"

namespace attention_modules_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::agrees;
using reference::random_module;
using reference::Real;
using reference::Reals;
using reference::widen;

template <class T>
class AttentionModulesTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionModulesTest, Scalars);

TYPED_TEST(AttentionModulesTest, SelfAttentionWithEveryMaskAndAllHeads) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({3, 11, 13}, 5);
  for (const auto& [heads, groups, size] :
       {std::tuple<Index, Index, Index>{1, 1, 13}, {13, 13, 0}, {6, 0, 5}, {6, 2, 5}, {6, 1, 7}}) {
    const auto module = random_module<ef::MultiHeadAttention<T>>(
        ef::MultiHeadAttentionConfig{.hidden_size = 13,
                                     .num_attention_heads = heads,
                                     .num_key_value_heads = groups,
                                     .head_size = size});
    for (const auto& kind : reference::mask_kinds) {
      const reference::RandomMask<T> mask(kind, {3, heads, heads, 11, 11, 1, 1}, 3);
      EXPECT_TRUE(agrees(
          module(x, mask.mask()),
          reference::multi_head_attention(module, widen(x), widen(x), widen(x), mask.plain())))
          << kind.name << ", " << heads << " heads, " << groups;
    }
  }
}

TYPED_TEST(AttentionModulesTest, CrossAttentionWithMemoriesOfTheirOwnWidths) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({2, 5, 12}, 5);
  const auto keys = reference::random_tensor<T, 3>({2, 7, 11}, 6);
  const auto values = reference::random_tensor<T, 3>({2, 7, 3}, 7);
  for (bool bias : {false, true}) {
    const auto module = random_module<ef::MultiHeadAttention<T>>(
        ef::MultiHeadAttentionConfig{.hidden_size = 12,
                                     .num_attention_heads = 4,
                                     .num_key_value_heads = 2,
                                     .key_value_size = 11,
                                     .value_size = 3,
                                     .query_bias = bias,
                                     .key_bias = !bias,
                                     .value_bias = bias,
                                     .output_bias = !bias,
                                     .scale = 0.3});
    const std::vector<int> lengths = {7, 2};
    reference::Visibility plain;
    plain.key_lengths = {7, 2};
    EXPECT_TRUE(agrees(
        module(x, keys, values, {.key_lengths = lengths}),
        reference::multi_head_attention(module, widen(x), widen(keys), widen(values), plain)));
  }
}

TYPED_TEST(AttentionModulesTest, WeightsAreThoseOfTheResult) {
  using T = TypeParam;
  const auto module = random_module<ef::MultiHeadAttention<T>>(ef::MultiHeadAttentionConfig{
      .hidden_size = 12, .num_attention_heads = 4, .num_key_value_heads = 2});
  const auto x = reference::random_tensor<T, 3>({2, 5, 12}, 5);
  const auto memory = reference::random_tensor<T, 3>({2, 7, 12}, 6);
  const std::vector<int> lengths = {7, 0};
  const ef::Mask<T> mask{.key_lengths = lengths};
  const Tensor<T, 4> weights = module.attention_weights(x, memory, mask);
  ASSERT_EQ(weights.shape(), (ef::Shape<4>{2, 4, 5, 7}));

  reference::Visibility plain;
  plain.key_lengths = {7, 0};
  const auto q = reference::split_heads(reference::linear(widen(x), module.query), 4);
  const auto k = reference::split_heads(reference::linear(widen(memory), module.key), 2);
  const auto v = reference::split_heads(reference::linear(widen(memory), module.value), 2);
  EXPECT_TRUE(
      agrees(weights, reference::attention(q, k, v, plain, 1 / std::sqrt(Real(3))).weights));

  Tensor<T, 3> y(x.shape());
  Tensor<T, 4> asked(weights.shape());
  ef::Workspace workspace;
  module.forward(x, memory, memory, mask, y, asked, workspace);
  EXPECT_TRUE(reference::same_bits(asked, weights));
  EXPECT_TRUE(reference::same_bits(y, module(x, memory, mask))) << "asking changes nothing";
  // Row 1 sees no key: exactly the output projection's bias.
  for (Index t = 0; t < 5; ++t) {
    for (Index c = 0; c < 12; ++c) EXPECT_EQ(y(1, t, c), module.output.bias(c));
  }
}

TEST(MultiHeadAttention, RefusesResultsThatOverlapTheMask) {
  const ef::MultiHeadAttention<float> module({.hidden_size = 12, .num_attention_heads = 3});
  const auto x = reference::random_tensor<float, 3>({2, 4, 12}, 5);
  ef::Tensor<float, 3> y(x.shape());
  ef::Tensor<float, 4> weights({2, 3, 4, 4});
  ef::Workspace workspace;
  const auto call = [&](const ef::Mask<float>& mask) {
    module.forward(x, x, x, mask, y, weights, workspace);
  };
  EXPECT_ERROR(call({.bias = weights}), std::invalid_argument, "overlap");
  const ef::TensorView<float, 2> in_y(y.data(), {4, 4});
  EXPECT_ERROR(call({.bias = in_y}), std::invalid_argument, "overlap");
  EXPECT_NO_THROW(call({.bias = ef::Tensor<float, 4>(weights.shape())}));
}

TEST(MultiHeadAttention, TakesSequencesOfOneTensorOnly) {
  const ef::MultiHeadAttention<float> module({.hidden_size = 12, .num_attention_heads = 3});
  const auto x = reference::random_tensor<float, 3>({1, 5, 12}, 5), other = x;
  ef::Tensor<float, 3> y(x.shape());
  ef::Workspace workspace;
  const std::vector<Index> lengths = {2, 3};
  const auto call = [&](const Tensor<float, 3>& key, const Tensor<float, 3>& value) {
    module.forward(x, key, value, {.sequence_lengths = lengths}, y, {}, workspace);
  };
  EXPECT_NO_THROW(call(x, x));
  EXPECT_ERROR(call(other, x), std::invalid_argument, "sequence_lengths");
  EXPECT_ERROR(call(x, other), std::invalid_argument, "sequence_lengths");
}

TEST(MultiHeadAttention, RefusesHeadsThatDoNotFitAndNamesTheNumbers) {
  struct Bad {
    Index hidden, heads, groups, size;
    const char *first, *second;
  };
  for (const Bad& bad :
       {Bad{8, 0, 0, 0, "8", "0"}, Bad{10, 4, 0, 0, "10", "4"}, Bad{8, -1, 0, 0, "8", "-1"},
        Bad{0, 1, 0, 0, "0", "1"}, Bad{12, 4, 3, 0, "4", "3"}, Bad{12, 4, 8, 0, "4", "8"},
        Bad{12, 4, -2, 0, "4", "-2"}, Bad{12, 4, 0, -3, "-3", ""}}) {
    try {
      const ef::MultiHeadAttention<float> module({.hidden_size = bad.hidden,
                                                  .num_attention_heads = bad.heads,
                                                  .num_key_value_heads = bad.groups,
                                                  .head_size = bad.size});
      ADD_FAILURE() << bad.hidden << " " << bad.heads << " " << bad.groups;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(bad.first), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(bad.second), std::string::npos) << error.what();
    }
  }
}

// s = score . tanh(query(q) + key(k)) in plain loops.
TYPED_TEST(AttentionModulesTest, AdditiveAttention) {
  using T = TypeParam;
  const auto module = random_module<ef::AdditiveAttention<T>>(
      ef::AdditiveAttentionConfig{.query_size = 5, .key_size = 3, .hidden_size = 13});
  const auto q = reference::random_tensor<T, 3>({2, 4, 5}, 1);
  const auto k = reference::random_tensor<T, 3>({2, 7, 3}, 2);
  const auto v = reference::random_tensor<T, 3>({2, 7, 11}, 3);
  const std::vector<int> by_row = {7, 2}, by_query = {1, 2, 3, 4, 0, 7, 5, 6};
  for (const std::vector<int>& lengths : {by_row, by_query}) {
    const auto projected_q = reference::linear(widen(q), widen(module.query.weight));
    const auto projected_k = reference::linear(widen(k), widen(module.key.weight));
    Reals<3> scores({2, 4, 7}), expected({2, 4, 11});
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 0; t < 4; ++t) {
        const int length = lengths[static_cast<std::size_t>(lengths.size() == 2 ? b : 4 * b + t)];
        for (Index j = 0; j < 7; ++j) {
          for (Index h = 0; h < 13; ++h) {
            scores(b, t, j) += Real(module.score.weight(0, h)) *
                               std::tanh(projected_q(b, t, h) + projected_k(b, j, h));
          }
          if (j >= length) scores(b, t, j) = -std::numeric_limits<Real>::infinity();
        }
      }
    }
    const Reals<3> weights = reference::softmax(scores);
    for (Index i = 0; i < expected.size(); ++i) {
      const Index e = i % 11, row = i / 11;
      for (Index j = 0; j < 7; ++j) {
        expected.data()[i] += weights.data()[row * 7 + j] * Real(v(row / 4, j, e));
      }
    }
    EXPECT_TRUE(agrees(module(q, k, v, lengths), expected));
    EXPECT_TRUE(agrees(module.attention_weights(q, k, lengths), weights));
  }
}

template <class Layer>
void compare_layers(ef::TransformerConfig config) {
  using T = typename Layer::Scalar;
  const auto x = reference::random_tensor<T, 3>({3, 11, 12}, 5);
  for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
    config.norm_placement = placement;
    const auto layer = random_module<Layer>(config);
    for (const auto& kind : reference::mask_kinds) {
      const reference::RandomMask<T> mask(kind, {3, 4, 4, 11, 11, 1, 1}, 3);
      EXPECT_TRUE(agrees(layer(x, mask.mask()),
                         reference::encoder_layer(layer, widen(x), mask.plain()), 1000))
          << kind.name << ", " << to_string(placement);
    }
  }
}

TYPED_TEST(AttentionModulesTest, EncoderLayerInBothOrders) {
  compare_layers<ef::EncoderLayer<TypeParam>>({.hidden_size = 12,
                                               .num_attention_heads = 4,
                                               .intermediate_size = 29,
                                               .layer_norm_eps = 1e-3});
}

TYPED_TEST(AttentionModulesTest, GatedEncoderLayerInBothOrders) {
  compare_layers<ef::EncoderLayer<TypeParam, ef::RMSNorm, ef::GatedFeedForward>>(
      {.hidden_size = 12,
       .num_attention_heads = 4,
       .num_key_value_heads = 2,
       .head_size = 5,
       .intermediate_size = 29,
       .activation = ef::Activation::silu,
       .rms_norm_eps = 1e-3,
       .query_bias = false,
       .feed_forward_bias = false,
       .attention_scale = 0.4});
}

// With branches that give zero, a layer is its norms alone.
TEST(EncoderLayer, PreNormReturnsItsInputAndPostNormNormsTwice) {
  ef::TransformerConfig config{.hidden_size = 4, .num_attention_heads = 2, .intermediate_size = 5};
  Tensor<double, 3> x({1, 1, 4});
  for (Index i = 0; i < 4; ++i) x(0, 0, i) = static_cast<double>(i + 1);
  config.norm_placement = ef::NormPlacement::pre;
  EXPECT_TRUE(reference::same_bits(ef::EncoderLayer<double>(config)(x), x));
  config.norm_placement = ef::NormPlacement::post;
  const Tensor<double, 3> y = ef::EncoderLayer<double>(config)(x);
  const double expected[] = {-1.34163, -0.44721, 0.44721, 1.34163};
  for (Index i = 0; i < 4; ++i) EXPECT_NEAR(y(0, 0, i), expected[i], 1e-4);
}

TEST(EncoderLayer, ShowsItsAttentionWeightsToAnObserver) {
  const auto layer = random_module<ef::EncoderLayer<float>>(
      ef::TransformerConfig{.hidden_size = 12, .num_attention_heads = 4, .intermediate_size = 5});
  const auto x = reference::random_tensor<float, 3>({2, 7, 12}, 5);
  Tensor<float, 3> y(x.shape());
  Tensor<float, 4> weights;
  ef::Workspace workspace;
  const ef::Observer<float> observer{
      .attention_weights = [&](const ef::LayerPlace&, ef::TensorView<const float, 4> seen) {
        weights = Tensor<float, 4>(seen);
      }};
  layer.forward(x, {.causal = true}, y, observer, workspace);
  EXPECT_TRUE(
      reference::same_bits(weights, layer.attention.attention_weights(x, x, {.causal = true})));
  EXPECT_TRUE(reference::same_bits(y, layer(x, {.causal = true})));
}

}  // namespace attention_modules_test
