// SPDX-License-Identifier: MIT
// Encoders of every depth and of odd sizes against plain loops, and that their answers don't vary.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/models/encoder_stack.hpp"
#include "eigenformer/models/transformer_encoder.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/embeddings.hpp"
#include "tests/reference/encoder_layer.hpp"
#include "tests/reference/error_text.hpp"

namespace encoder_test {

namespace ef = eigenformer;
using ef::Index;
using ef::NormPlacement;
using ef::Tensor;
using reference::random_module;
using reference::widen;
using Ids = Tensor<std::int32_t, 2>;

constexpr NormPlacement placements[] = {NormPlacement::pre, NormPlacement::post};

template <class T>
class EncoderTest : public ::testing::Test {
 protected:
  static ef::EncoderStack<T> stack(Index width, Index depth, NormPlacement placement) {
    return random_module<ef::EncoderStack<T>>(
        ef::TransformerConfig{.hidden_size = width,
                              .num_hidden_layers = depth,
                              .num_attention_heads = 3,
                              .head_size = 5,
                              .intermediate_size = 2 * width + 1,
                              .norm_placement = placement,
                              .final_norm = placement == NormPlacement::pre},
        7, 0.3);
  }

  static Ids ids(Index batch, Index tokens) {
    Ids x({batch, tokens});
    for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<std::int32_t>((i * 7 + 3) % 11);
    return x;
  }

  static ef::TransformerEncoder<T> encoder(Index width, Index depth, NormPlacement placement) {
    return random_module<ef::TransformerEncoder<T>>(
        ef::TransformerConfig{.vocab_size = 11,
                              .hidden_size = width,
                              .num_hidden_layers = depth,
                              .num_attention_heads = 3,
                              .head_size = 5,
                              .intermediate_size = 2 * width + 1,
                              .max_position_embeddings = 31,
                              .type_vocab_size = 2,
                              .norm_placement = placement,
                              .final_norm = placement == NormPlacement::pre},
        7, 0.3);
  }
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EncoderTest, Scalars);

// A layer passes an error on, at most a few times larger, and adds its own.
constexpr reference::Real roundings_of_a_layer = 1000;

TYPED_TEST(EncoderTest, StackKeepsTheShapeAtEveryDepth) {
  using T = TypeParam;
  for (NormPlacement placement : placements) {
    for (Index depth = 1; depth <= 16; ++depth) {
      const auto stack = this->stack(13, depth, placement);
      ASSERT_EQ(static_cast<Index>(stack.layers.size()), depth);
      const auto x = reference::random_tensor<T, 3>({3, 7, 13}, 5);
      const Tensor<T, 3> y = stack(x);
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_TRUE(reference::same_bits(stack(x), y)) << "two evaluations differ";
      EXPECT_TRUE(reference::agrees(y, reference::encoder_layers(stack, widen(x)),
                                    roundings_of_a_layer * reference::Real(depth)))
          << to_string(placement) << " " << depth;
    }
  }
}

TYPED_TEST(EncoderTest, StackKeepsTheShapeAtOddSizes) {
  using T = TypeParam;
  for (NormPlacement placement : placements) {
    for (Index width : {1, 3, 7, 17, 33}) {
      const auto stack = this->stack(width, 2, placement);
      for (Index batch : {0, 1, 3, 5}) {
        for (Index tokens : {0, 1, 3, 11, 129}) {
          const auto x = reference::random_tensor<T, 3>({batch, tokens, width}, 5);
          const Tensor<T, 3> y = stack(x);
          ASSERT_EQ(y.shape(), x.shape());
          EXPECT_TRUE(reference::same_bits(stack(x), y));
          if (tokens > 11) continue;  // the plain loops take their time
          EXPECT_TRUE(reference::agrees(y, reference::encoder_layers(stack, widen(x)),
                                        2 * roundings_of_a_layer))
              << to_string(placement) << " " << batch << " " << tokens << " " << width;
        }
      }
    }
  }
}

TYPED_TEST(EncoderTest, TransformerEncoderOfEveryDepthAndOddSizes) {
  using T = TypeParam;
  for (NormPlacement placement : placements) {
    for (Index depth : {1, 2, 5, 16}) {
      const auto encoder = this->encoder(13, depth, placement);
      for (Index batch : {1, 3}) {
        for (Index tokens : {1, 7, 31}) {
          const Ids ids = this->ids(batch, tokens);
          const Tensor<T, 3> y = encoder(ids);
          ASSERT_EQ(y.shape(), (ef::Shape<3>{batch, tokens, 13}));
          EXPECT_TRUE(reference::same_bits(encoder(ids), y));
          const auto expected =
              reference::encoder_layers(encoder, reference::embeddings(encoder.embeddings, ids));
          EXPECT_TRUE(reference::agrees(y, expected, roundings_of_a_layer * reference::Real(depth)))
              << to_string(placement) << " " << depth << " " << batch << " " << tokens;
        }
      }
    }
  }
}

TYPED_TEST(EncoderTest, MasksReachEveryLayer) {
  using T = TypeParam;
  const auto stack = this->stack(13, 3, NormPlacement::post);
  const auto x = reference::random_tensor<T, 3>({3, 7, 13}, 5);
  const std::vector<int> lengths = {7, 3, 0};
  reference::Visibility plain;
  plain.causal = true;
  plain.key_lengths = {7, 3, 0};
  EXPECT_TRUE(reference::agrees(stack(x, {.causal = true, .key_lengths = lengths}),
                                reference::encoder_layers(stack, widen(x), plain),
                                3 * roundings_of_a_layer));
  // The future doesn't change the past.
  auto changed = x;
  for (Index b = 0; b < 3; ++b) std::fill_n(&changed(b, 4, 0), 3 * 13, T(9));
  const Tensor<T, 3> y = stack(x, {.causal = true}), z = stack(changed, {.causal = true});
  for (Index b = 0; b < 3; ++b) {
    EXPECT_TRUE(reference::same_bits(&y(b, 0, 0), &z(b, 0, 0), 4 * 13));
    EXPECT_FALSE(reference::same_bits(&y(b, 4, 0), &z(b, 4, 0), 3 * 13));
  }
}

// Alone, in a batch, padded; with 1, 2 and 7 threads.
TYPED_TEST(EncoderTest, ATokenHasTheSameBitsEverywhere) {
  using T = TypeParam;
  for (NormPlacement placement : placements) {
    const auto encoder = this->encoder(61, 3, placement);
    const Ids batch = this->ids(29, 31);
    std::vector<Index> lengths;
    for (Index b = 0; b < 29; ++b) lengths.push_back(b + 1);
    const ef::Mask<T> mask{.key_lengths = lengths};
    const Tensor<T, 3> y = encoder(batch, mask);
    for (Index threads : {1, 2, 7}) {
      ef::ThreadPool pool(threads);
      ef::Workspace workspace(pool);
      Tensor<T, 3> z(y.shape());
      encoder.forward(batch, {}, mask, z, workspace);
      EXPECT_TRUE(reference::same_bits(z, y)) << threads;
    }
    for (Index b = 0; b < 29; ++b) {
      const Index length = lengths[static_cast<std::size_t>(b)];
      Ids alone({1, length});
      std::copy_n(&batch(b, 0), length, alone.data());
      const Tensor<T, 3> z = encoder(alone);
      EXPECT_TRUE(reference::same_bits(z.data(), &y(b, 0, 0), length * 61)) << length;
    }
  }
}

TEST(EncoderStack, WithoutLayersIsTheIdentityOrTheFinalNorm) {
  const auto x = reference::random_tensor<double, 3>({2, 3, 5}, 1);
  EXPECT_TRUE(reference::same_bits(
      ef::EncoderStack<double>({.hidden_size = 5, .num_hidden_layers = 0})(x), x));
  const ef::EncoderStack<double> normed(
      {.hidden_size = 5, .num_hidden_layers = 0, .final_norm = true});
  EXPECT_TRUE(reference::same_bits(normed(x), (*normed.final_norm)(x)));
  EXPECT_ERROR(ef::EncoderStack<double>({.hidden_size = 5, .num_hidden_layers = -1}),
               std::invalid_argument, "num_hidden_layers must be in [0, 1000000]; got -1");
}

TEST(EncoderStack, PostNormHasNoSecondNormAtItsEnd) {
  ef::TransformerConfig config{
      .hidden_size = 4, .num_hidden_layers = 2, .num_attention_heads = 2, .intermediate_size = 5};
  Tensor<double, 3> x({1, 1, 4});
  for (Index i = 0; i < 4; ++i) x(0, 0, i) = static_cast<double>(i + 1);
  ef::EncoderStack<double> stack(config);
  for (double& weight : stack.layers[1].feed_forward_norm.weight) weight = 2;
  const double expected[] = {-2.68327, -0.89442, 0.89442, 2.68327};
  Tensor<double, 3> y = stack(x);
  for (Index i = 0; i < 4; ++i) EXPECT_NEAR(y(0, 0, i), expected[i], 1e-4);
  config.norm_placement = NormPlacement::pre;
  config.final_norm = true;
  y = ef::EncoderStack<double>(config)(x);
  for (Index i = 0; i < 4; ++i) EXPECT_NEAR(y(0, 0, i), expected[i] / 2, 1e-4);
}

TEST(EncoderStack, EpsReachesEveryNorm) {
  for (double eps : {1e-12, 1e-3}) {
    const ef::EncoderStack<float> stack({.hidden_size = 4,
                                         .num_hidden_layers = 3,
                                         .intermediate_size = 5,
                                         .final_norm = true,
                                         .layer_norm_eps = eps});
    int norms = 0;
    for_each_module(stack, [&](const std::string& name, const auto& module) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(module)>, ef::LayerNorm<float>>) {
        EXPECT_EQ(module.config.eps, eps) << name;
        ++norms;
      }
    });
    EXPECT_EQ(norms, 7);
  }
}

// A parameter's first value depends on its name, not on what else the model has.
TEST(EncoderStack, InitOfALayerDoesNotDependOnTheOthers) {
  ef::TransformerConfig config{
      .hidden_size = 12, .num_hidden_layers = 2, .num_attention_heads = 4, .intermediate_size = 5};
  ef::EncoderStack<float> two(config);
  config.num_hidden_layers = 5;
  config.final_norm = true;
  ef::EncoderStack<float> five(config);
  ef::init(two, ef::Key{3});
  ef::init(five, ef::Key{3});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(parameters_equal(two.layers[i], five.layers[i]));
  }
  EXPECT_FALSE(parameters_equal(two.layers[0], two.layers[1]));
}

TEST(EncoderStack, ParametersMoveBetweenTheTwoOrders) {
  ef::TransformerConfig config{
      .hidden_size = 12, .num_hidden_layers = 2, .num_attention_heads = 4, .intermediate_size = 5};
  auto post = random_module<ef::EncoderStack<double>>(config);
  auto pre = post;
  for (auto& layer : pre.layers) layer.config.norm_placement = NormPlacement::pre;
  const auto x = reference::random_tensor<double, 3>({2, 3, 12}, 1);
  EXPECT_TRUE(reference::agrees(pre(x), reference::encoder_layers(pre, widen(x)), 3000));
  EXPECT_FALSE(reference::same_bits(pre(x), post(x)));
  for (auto& layer : pre.layers) layer.config.norm_placement = NormPlacement::post;
  EXPECT_TRUE(reference::same_bits(pre(x), post(x)));
}

TEST(TransformerEncoder, BadMaskLeavesTheResultAlone) {
  const ef::TransformerEncoder<float> encoder({.vocab_size = 3,
                                               .hidden_size = 4,
                                               .num_hidden_layers = 0,
                                               .num_attention_heads = 2,
                                               .intermediate_size = 5});
  const Ids ids({1, 2});
  Tensor<float, 3> y({1, 2, 4});
  ef::Workspace workspace;
  EXPECT_ERROR(encoder.forward(ids, {}, {.key_lengths = std::vector<int>{3}}, y, workspace),
               std::invalid_argument,
               "TransformerEncoder: mask.key_lengths must be in [0, 2]; got 3");
  for (float value : y) EXPECT_EQ(value, 0);
}

}  // namespace encoder_test
