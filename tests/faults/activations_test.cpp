// SPDX-License-Identifier: MIT

// Faults that others had with activations, softmax and gated networks.

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace activations_test {

using values::expect_values;
using values::rows;

constexpr float infinity = std::numeric_limits<float>::infinity();

const Tensor<float, 2> points = rows<float>({{-3, -1, 0.5, 1, 2.2, 3}});
const std::vector<double> exact{-.00404969, -.15865525, .34573123,
                                .84134475,  2.16941242, 2.99595031};
const std::vector<double> by_tanh{-.00363739, -.15880801, .34571401,
                                  .84119199,  2.16967853, 2.99636261};

// The two forms, through every way in.
TEST(ActivationFaults, ExactAndTanhGELUAreToldApart) {
  expect_values(gelu(points), exact, 2e-6);
  expect_values(gelu_tanh(points), by_tanh, 2e-6);
  expect_values(activate(Activation::gelu, points), exact, 2e-6);
  expect_values(activate(Activation::gelu_tanh, points), by_tanh, 2e-6);
  expect_values(GELU<float>{}(points), exact, 2e-6);
  expect_values(GELU<float>({.approximate = GELUApproximation::none})(points), exact, 2e-6);
  expect_values(GELU<float>({.approximate = GELUApproximation::tanh})(points), by_tanh, 2e-6);

  // A network whose maps are the identity shows the activation itself; gated with an `up` of
  // constant 1 as well.
  for (Activation activation : {Activation::gelu, Activation::gelu_tanh}) {
    const auto& expected = activation == Activation::gelu ? exact : by_tanh;
    FeedForward<float> plain({.hidden_size = 6, .intermediate_size = 6, .activation = activation});
    values::set_identity(plain.linear_1);
    values::set_identity(plain.linear_2);
    expect_values(plain(points), expected, 2e-6);
    GatedFeedForward<float> gated(
        {.hidden_size = 6, .intermediate_size = 6, .activation = activation});
    values::set_identity(gated.gate);
    values::set_identity(gated.down);
    std::fill(gated.up.bias.begin(), gated.up.bias.end(), 1.0f);
    expect_values(gated(points), expected, 2e-6);
  }
}

// The two forms differ by at most 4.732e-4, at |x| = 2.699.
TEST(ActivationFaults, LargestGapBetweenTheForms) {
  Tensor<double, 1> x({40001});
  for (Index i = 0; i < x.size(); ++i) x(i) = static_cast<double>(i - 20000) * 2.5e-4;
  const auto a = gelu(x), b = gelu_tanh(x);
  Index at = 0;
  const double gap = (a.vector() - b.vector()).cwiseAbs().maxCoeff(&at);
  EXPECT_NEAR(gap, 4.732e-4, 5e-8);
  EXPECT_NEAR(std::abs(x(at)), 2.699, 1e-3);
}

struct Limit {
  Activation activation;
  double at_minus_infinity, at_plus_infinity;
};
const Limit limits[] = {{Activation::identity, -HUGE_VAL, HUGE_VAL},
                        {Activation::relu, 0, HUGE_VAL},
                        {Activation::gelu, 0, HUGE_VAL},
                        {Activation::gelu_tanh, 0, HUGE_VAL},
                        {Activation::silu, 0, HUGE_VAL},
                        {Activation::quick_gelu, 0, HUGE_VAL},
                        {Activation::sigmoid, 0, 1},
                        {Activation::tanh, -1, 1}};

// Extreme inputs, alone and at every place of vectors that end in the middle of a register;
// the neighbours are unharmed.
TEST(ActivationFaults, ExtremeInputsAtEveryPlace) {
  ASSERT_EQ(std::size(limits), std::size(Enumeration<Activation>::all));
  for (const Limit& limit : limits) {
    const auto one = [&](float x) {
      return activate(limit.activation,
                      values::filled<float>(Shape<1>{1}, 1.0 * static_cast<double>(x)))(0);
    };
    const float neighbour = 0.3f, beside = one(neighbour);
    for (float x : {13.24f, -13.24f, 40.0f, -40.0f, 1e20f, -1e20f, 3e38f, -3e38f, infinity,
                    -infinity, std::nanf(""), -5.0f, -6.0f, 0.0f, -0.0f, 1e-40f}) {
      const float alone = one(x);
      EXPECT_EQ(std::isnan(alone), std::isnan(x)) << to_string(limit.activation) << " of " << x;
      if (x >= 40) {
        EXPECT_TRUE(alone == static_cast<float>(limit.at_plus_infinity) || alone == x) << x;
      }
      if (x == -infinity || x <= -1e20f) {
        const bool grows = limit.activation == Activation::identity;
        EXPECT_EQ(alone, grows ? x : static_cast<float>(limit.at_minus_infinity))
            << to_string(limit.activation) << " of " << x;
      }
      for (Index length : {1, 7, 8, 9, 16, 17}) {
        for (Index at = 0; at < length; ++at) {
          Tensor<float, 1> vector({length});
          std::fill(vector.begin(), vector.end(), neighbour);
          vector(at) = x;
          const auto y = activate(limit.activation, vector);
          for (Index i = 0; i < length; ++i) {
            const float expected = i == at ? alone : beside;
            ASSERT_TRUE(y(i) == expected || (std::isnan(y(i)) && std::isnan(expected)))
                << to_string(limit.activation) << " of " << x << " at " << at << " of " << length;
          }
        }
      }
    }
  }
}

// GELU of both forms far out: x or 0, never NaN.
TEST(ActivationFaults, GELUFarOut) {
  for (Activation form : {Activation::gelu, Activation::gelu_tanh}) {
    const auto of = [&](double x) {
      return activate(form, values::filled<float>(Shape<1>{1}, x))(0);
    };
    EXPECT_EQ(of(13.24), 13.24f);
    EXPECT_LE(std::abs(of(-13.24)), 1e-30f);
    EXPECT_EQ(of(40), 40.0f);
    EXPECT_EQ(of(1e20), 1e20f);
    EXPECT_EQ(of(-1e20), 0.0f);
    EXPECT_EQ(of(3e38), 3e38f);
    EXPECT_EQ(of(-3e38), 0.0f);
    EXPECT_EQ(of(HUGE_VAL), infinity);
    EXPECT_EQ(of(-HUGE_VAL), 0.0f);
    EXPECT_TRUE(std::isnan(of(std::nan(""))));
  }
}

// The tail keeps its digits.
TEST(ActivationFaults, LeftTailOfGELU) {
  const auto x = rows<float>({{-5, -6}});
  const auto y = gelu_tanh(x);
  EXPECT_NEAR(y(0, 0), -2.29180e-7, 2.3e-10);
  EXPECT_NEAR(y(0, 1), -8.43965e-11, 8.5e-14);
  for (double a = -4; a > -9; a -= 0.25) {
    const double expected = a * 0.5 * std::erfc(-a / std::sqrt(2.0));
    EXPECT_NEAR(gelu(values::filled<float>(Shape<1>{1}, a))(0), expected, 1e-5 * std::abs(expected))
        << a;
    EXPECT_NEAR(gelu(values::filled<double>(Shape<1>{1}, a))(0), expected,
                1e-13 * std::abs(expected))
        << a;
  }
}

// Softmax, alone, masked and in attention.
const std::vector<std::pair<std::vector<double>, std::vector<double>>> softmax_cases{
    {{7999.99, 8000, 2, 1}, {.4975586, .5024414, 0, 0}},
    {{-1000, -1001}, {.7310586, .2689414}},
    {{-249.87, -424.13, -460.29, 378.10, -292.61}, {0, 0, 0, 1, 0}},
    {{-1e38, 0, 1e38}, {0, 0, 1}},
    {{-3e38, -3e38}, {.5, .5}},
    {{3e38, 3e38, -3e38}, {.5, .5, 0}},
    {{-HUGE_VAL, -5000, -HUGE_VAL}, {0, 1, 0}},
    {{-HUGE_VAL, -HUGE_VAL}, {0, 0}}};

TEST(ActivationFaults, SoftmaxOfLargeAndVeryNegativeScores) {
  for (const auto& [scores, expected] : softmax_cases) {
    const Index n = static_cast<Index>(scores.size());
    const auto x = values::tensor<float>(Shape<3>{1, 1, n}, scores);
    Tensor<double, 1> rounded({n});  // floats near 8000 are 4.9e-4 apart: the same scores in double
    std::copy(x.begin(), x.end(), rounded.begin());
    const double tolerance = 1e-6;
    expect_values(softmax(x), expected, tolerance);
    expect_values(softmax(rounded), expected, 5e-8);
    expect_values(masked_softmax(x, std::vector<Index>{n}), expected, tolerance);
    Tensor<float, 4> weights;
    const Tensor<float, 4> q({1, 1, 1, 1}), k({1, 1, n, 1});
    scaled_dot_product_attention(q, k, k, {.bias = x}, {}, &weights);
    expect_values(weights, expected, tolerance);
  }
}

// Rows of every length whose scores are all negative (or all huge): sums to 1 and equals the
// row moved by a constant.
TEST(ActivationFaults, MovingAllScoresChangesNothing) {
  for (Index n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 127, 128, 129, 257}) {
    const auto x = values::random<double>(Shape<1>{n}, 1);
    const auto p = softmax(x);
    EXPECT_NEAR(p.vector().sum(), 1.0, 1e-14);
    for (double shift : {-1e6, -1000.0, -50.0, 50.0, 1000.0, 1e6}) {
      Tensor<double, 1> moved(x);
      moved.vector().array() += shift;
      EXPECT_LT(values::largest_difference(softmax(moved), p), 1e-9) << n << " moved by " << shift;
    }
  }
}

// As documented, a row with +infinity or NaN gives NaN in all of its elements, -infinity alone
// gives zeros.
TEST(ActivationFaults, InfinityAndNanInARow) {
  for (float bad : {infinity, std::nanf("")}) {
    for (Index n : {2, 3, 7, 8, 9, 17}) {
      for (Index at = 0; at < n; ++at) {
        Tensor<float, 1> x({n});
        x(at) = bad;
        const auto y = softmax(x);
        for (float p : y) ASSERT_TRUE(std::isnan(p)) << n << " " << at;
      }
    }
  }
  EXPECT_EQ(softmax(values::filled<float>(Shape<2>{3, 5}, -HUGE_VAL)), (Tensor<float, 2>({3, 5})));
}

// The activation is on the gate.
TEST(ActivationFaults, ActivationIsOnTheGate) {
  const auto gated = [](Activation activation, float gate, float up) {
    GatedFeedForward<float> network(
        {.hidden_size = 1, .intermediate_size = 1, .activation = activation, .bias = false});
    network.gate.weight(0, 0) = gate;
    network.up.weight(0, 0) = up;
    network.down.weight(0, 0) = 1;
    return network(values::filled<float>(Shape<1>{1}, 1))(0);
  };
  EXPECT_NEAR(gated(Activation::silu, 1, 2), 1.4621172, 1e-6);
  EXPECT_NEAR(gated(Activation::silu, 2, 1), 1.7615942, 1e-6);
  EXPECT_NEAR(gated(Activation::gelu, 1, 2), 1.6826895, 1e-6);
  EXPECT_NEAR(gated(Activation::gelu, 2, 1), 1.9544997, 1e-6);
}

// For every activation and awkward widths, down(activation(gate x) * up x) from the parts.
TEST(ActivationFaults, GatedNetworkFromItsParts) {
  for (const auto& [activation, name_of_activation] : Enumeration<Activation>::all) {
    static_cast<void>(name_of_activation);
    for (Index width : {1, 5, 16, 17, 37}) {
      GatedFeedForward<double> network(
          {.hidden_size = 3, .intermediate_size = width, .activation = activation});
      values::randomize(network, 2);
      for (Index count : {1, 2, 7}) {
        const auto x = values::random<double>(Shape<2>{count, 3}, 3);
        Tensor<double, 2> product = activate(activation, network.gate(x));
        product.vector().array() *= network.up(x).vector().array();
        EXPECT_LT(values::largest_difference(network(x), network.down(product)), 1e-14)
            << to_string(activation);
      }
    }
  }
}

}  // namespace activations_test
}  // namespace eigenformer
