// SPDX-License-Identifier: MIT
// expected: one index for each axis of the tensor
#include "eigenformer/base/tensor.hpp"

float element(const ef::Tensor<float, 3>& x) {
#ifdef MUST_NOT_COMPILE
  return x(1, 2);
#else
  return x(1, 2, 3);
#endif
}
