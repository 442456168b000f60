// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/golden/golden.hpp"

namespace activations_test {

namespace ef = eigenformer;
using ef::Activation;
using ef::Index;
using ef::Tensor;

struct Kind {
  Activation activation = Activation::identity;
};
void read_fields(golden::Fields& read, Kind& c) { read("activation", c.activation); }

/// By the function of that name.
template <class T>
Tensor<T, 1> by_name(Activation activation, const Tensor<T, 1>& x) {
  switch (activation) {
    case Activation::identity:
      return x;
    case Activation::relu:
      return ef::relu(x);
    case Activation::gelu:
      return ef::gelu(x);
    case Activation::gelu_tanh:
      return ef::gelu_tanh(x);
    case Activation::silu:
      return ef::silu(x);
    case Activation::quick_gelu:
      return ef::quick_gelu(x);
    case Activation::sigmoid:
      return ef::sigmoid(x);
    case Activation::tanh:
      return ef::tanh(x);
  }
  return Tensor<T, 1>();
}

/// The inputs reach from the smallest to the largest numbers, so each element has a scale of its
/// own: that of y, or of x up to 1, since the tails of PyTorch's GELU have lost their relative
/// accuracy. Below the smallest normal number there is no relative accuracy to ask for.
template <class T>
void run_activation(golden::Case& test) {
  if (std::is_same_v<T, float> && test.needs_double("x")) return test.leave_out();
  const auto activation = test.config<Kind>().activation;
  const auto x = test.input<T, 1>("x");
  const auto expected = test.output<1>("y");
  const auto scale = [&](Index i) {
    const double in = std::abs(static_cast<double>(x.data()[i]));
    return std::max({std::abs(expected.data()[i]), std::min(1.0, in),
                     static_cast<double>(std::numeric_limits<T>::min())});
  };
  test.expect_near("y", ef::activate(activation, x), expected, scale);
  test.expect_near("y", by_name(activation, x), expected, scale);
  if (activation == Activation::gelu) {
    test.expect_near("y", ef::GELU<T>()(x), expected, scale);
  } else if (activation == Activation::gelu_tanh) {
    const ef::GELU<T> gelu({.approximate = ef::GELUApproximation::tanh});
    test.expect_near("y", gelu(x), expected, scale);
  }
}

TEST(GoldenActivations, Float) {
  golden::run_file("activations", 16, {{"Activation", run_activation<float>}});
}
TEST(GoldenActivations, Double) {
  golden::run_file("activations", 16, {{"Activation", run_activation<double>}});
}

}  // namespace activations_test
