// SPDX-License-Identifier: MIT
// Linear maps, norms and feed-forward networks against plain loops, and what their constructors
// refuse.
#include <gtest/gtest.h>

#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/feed_forward.hpp"
#include "tests/reference/matrix_product.hpp"
#include "tests/reference/normalization.hpp"

namespace linear_modules_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::agrees;
using reference::random_module;
using reference::widen;

template <class T>
class LinearModulesTest : public ::testing::Test {
 protected:
  static Tensor<T, 3> tokens(Index width) {
    return reference::random_tensor<T, 3>({3, 7, width}, 5, 2);
  }
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinearModulesTest, Scalars);

TYPED_TEST(LinearModulesTest, Linear) {
  using T = TypeParam;
  for (bool bias : {false, true}) {
    for (const auto& [in, out] : {std::pair<Index, Index>{1, 1}, {13, 29}, {61, 3}}) {
      const auto module = random_module<ef::Linear<T>>(ef::LinearConfig{in, out, bias});
      EXPECT_TRUE(
          agrees(module(this->tokens(in)), reference::linear(widen(this->tokens(in)), module)));
    }
  }
}

TYPED_TEST(LinearModulesTest, LinearOfEveryRank) {
  using T = TypeParam;
  const auto module = random_module<ef::Linear<T>>(ef::LinearConfig{5, 7});
  const auto x = reference::random_tensor<T, 4>({2, 3, 4, 5}, 1);
  const Tensor<T, 4> y = module(x);
  ASSERT_EQ(y.shape(), (ef::Shape<4>{2, 3, 4, 7}));
  const Tensor<T, 1> row(x.view()[1][2][3]);
  EXPECT_TRUE(reference::same_bits(module(row).data(), &y(1, 2, 3, 0), 7));
}

TYPED_TEST(LinearModulesTest, Norms) {
  using T = TypeParam;
  const Tensor<T, 3> x = this->tokens(29);
  for (double eps : {1e-5, 1e-12, 0.1}) {
    for (bool flag : {false, true}) {
      const auto layer = random_module<ef::LayerNorm<T>>(
          ef::LayerNormConfig{.hidden_size = 29, .eps = eps, .bias = flag});
      EXPECT_TRUE(agrees(layer(x), reference::norm(widen(x), layer)));
      const auto rms = random_module<ef::RMSNorm<T>>(
          ef::RMSNormConfig{.hidden_size = 29, .eps = eps, .unit_offset = flag});
      EXPECT_TRUE(agrees(rms(x), reference::norm(widen(x), rms)));
    }
  }
}

TEST(Norms, StartAsTheIdentityAfterNormalising) {
  const auto x = reference::random_tensor<double, 2>({3, 5}, 1);
  const ef::RMSNorm<double> plain({.hidden_size = 5}),
      offset({.hidden_size = 5, .unit_offset = true});
  EXPECT_TRUE(reference::same_bits(plain(x), offset(x)));
  const ef::LayerNorm<double> layer({.hidden_size = 5});
  EXPECT_EQ(layer.weight(3), 1);
  EXPECT_EQ(layer.bias(3), 0);
}

TYPED_TEST(LinearModulesTest, FeedForwardWithEveryActivation) {
  using T = TypeParam;
  const Tensor<T, 3> x = this->tokens(13);
  for (const auto& [activation, name_of_activation] : ef::Enumeration<ef::Activation>::all) {
    static_cast<void>(name_of_activation);
    for (bool bias : {false, true}) {
      const ef::FeedForwardConfig config{
          .hidden_size = 13, .intermediate_size = 29, .activation = activation, .bias = bias};
      const auto plain = random_module<ef::FeedForward<T>>(config);
      EXPECT_TRUE(agrees(plain(x), reference::feed_forward(plain, widen(x))))
          << to_string(activation);
      const auto gated = random_module<ef::GatedFeedForward<T>>(config);
      EXPECT_TRUE(agrees(gated(x), reference::feed_forward(gated, widen(x))))
          << to_string(activation);
    }
  }
}

// Gate 1 and value 2: the activation is on the gate.
TEST(GatedFeedForward, ActivatesTheGate) {
  ef::GatedFeedForward<double> module({.hidden_size = 1,
                                       .intermediate_size = 1,
                                       .activation = ef::Activation::silu,
                                       .bias = false});
  module.gate.weight(0, 0) = 1;
  module.up.weight(0, 0) = 2;
  module.down.weight(0, 0) = 1;
  Tensor<double, 2> x({1, 1});
  x(0, 0) = 1;
  EXPECT_NEAR(module(x)(0, 0), 1.4621172, 1e-7);
  module.config.activation = ef::Activation::gelu;
  EXPECT_NEAR(module(x)(0, 0), 1.6826895, 1e-7);
}

TEST(Constructors, RefuseWhatMakesNoSense) {
  EXPECT_ERROR(ef::Linear<float>({.in_features = -1, .out_features = 2}), std::invalid_argument,
               "Linear: in_features and out_features must be >= 0; got -1 and 2");
  EXPECT_ERROR(ef::LayerNorm<float>({.hidden_size = 4, .eps = -1e-5}), std::invalid_argument,
               "LayerNorm: eps must be finite and >= 0; got -1e-05");
  EXPECT_ERROR(ef::RMSNorm<float>({.hidden_size = -4}), std::invalid_argument,
               "RMSNorm: hidden_size must be >= 0; got -4");
  EXPECT_ERROR(ef::FeedForward<float>({.hidden_size = 4, .intermediate_size = -1}),
               std::invalid_argument,
               "FeedForward: hidden_size and intermediate_size must be > 0; got");
  EXPECT_ERROR(ef::FeedForward<float>(
                   {.hidden_size = 4, .intermediate_size = 4, .hidden_dropout_prob = 1.5}),
               std::invalid_argument,
               "FeedForward: hidden_dropout_prob must be in [0, 1]; got 1.5");
  EXPECT_NO_THROW(ef::Linear<float>({.in_features = 0, .out_features = 2}));
}

TEST(Linear, NoInputsGiveTheBias) {
  auto module = random_module<ef::Linear<float>>(ef::LinearConfig{0, 3});
  const Tensor<float, 2> y = module(Tensor<float, 2>({2, 0}));
  for (Index i = 0; i < 3; ++i) EXPECT_EQ(y(1, i), module.bias(i));
}

}  // namespace linear_modules_test
