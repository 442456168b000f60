// SPDX-License-Identifier: MIT

// Makes and takes objects of the library, for another part of the program.

#include "eigenformer/eigenformer.hpp"

ef::Tensor<float, 2> make_tensor();
ef::Linear<float> make_linear();
float first_element(const ef::Tensor<float, 2>& x);

ef::Tensor<float, 2> make_tensor() {
  ef::Tensor<float, 2> x({67, 5});
  for (ef::Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  return x;
}

ef::Linear<float> make_linear() {
  ef::Linear<float> linear({.in_features = 5, .out_features = 5});
  linear.weight.matrix().setIdentity();
  return linear;
}

float first_element(const ef::Tensor<float, 2>& x) { return x(0, 0); }
