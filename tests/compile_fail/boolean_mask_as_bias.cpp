// SPDX-License-Identifier: MIT
// expected: a boolean mask belongs in Mask::allowed
#include "eigenformer/eigenformer.hpp"

ef::Tensor<float, 3> attend(const ef::MultiHeadAttention<float>& attention,
                            const ef::Tensor<float, 3>& x, const ef::Tensor<bool, 2>& keep) {
#ifdef MUST_NOT_COMPILE
  return attention(x, {.bias = keep});
#else
  return attention(x, {.allowed = keep});
#endif
}
