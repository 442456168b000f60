// SPDX-License-Identifier: MIT
// expected: this needs a module in a plain format
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"

#ifdef MUST_NOT_COMPILE
using Format = ef::Packed<float>;
#else
using Format = float;
#endif

void initialize(ef::Linear<Format>& module) { ef::init(module, ef::Key{1}); }
