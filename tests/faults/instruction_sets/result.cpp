// SPDX-License-Identifier: MIT

// Uses, copies, changes and destroys a tensor and a module that the other part made and returned by
// value.

#include "eigenformer/eigenformer.hpp"

ef::Tensor<float, 2> make_tensor();
ef::Linear<float> make_linear();

int main() {
  for (int repeat = 0; repeat < 7; ++repeat) {
    ef::Tensor<float, 2> x = make_tensor();
    const ef::Tensor<float, 2> copy = x;
    const ef::Linear<float> linear = make_linear();
    const ef::Tensor<float, 2> y = linear(x);
    if (y != copy) return 1;
    x = ef::Tensor<float, 2>({3, 4});
    if (x.size() != 12) return 1;
  }
  return 0;
}
