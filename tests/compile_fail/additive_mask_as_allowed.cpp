// SPDX-License-Identifier: MIT
// expected: a boolean mask belongs in Mask::allowed
#include "eigenformer/eigenformer.hpp"

ef::Tensor<float, 3> attend(const ef::MultiHeadAttention<float>& attention,
                            const ef::Tensor<float, 3>& x, const ef::Tensor<float, 2>& scores) {
#ifdef MUST_NOT_COMPILE
  return attention(x, {.allowed = scores});
#else
  return attention(x, {.bias = scores});
#endif
}
