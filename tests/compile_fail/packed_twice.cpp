// SPDX-License-Identifier: MIT
// expected: pack: takes a module in a plain format
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"

using Module = ef::Linear<float>;

auto packed(const Module& module) {
#ifdef MUST_NOT_COMPILE
  return ef::pack(ef::pack(module));
#else
  return ef::pack(module);
#endif
}
