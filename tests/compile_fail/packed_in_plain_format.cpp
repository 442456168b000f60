// SPDX-License-Identifier: MIT
// expected: pack: the format must be a Packed one
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"

#ifdef MUST_NOT_COMPILE
using Format = ef::bfloat16;
#else
using Format = ef::Packed<ef::bfloat16>;
#endif

auto packed(const ef::Linear<float>& module) { return ef::pack<Format>(module); }
