// SPDX-License-Identifier: MIT

// Hands a tensor to the other part.

#include "eigenformer/eigenformer.hpp"

float first_element(const ef::Tensor<float, 2>& x);

int main() {
  ef::Tensor<float, 2> x({2, 3});
  x(0, 0) = 7;
  return first_element(x) == 7 ? 0 : 1;
}
