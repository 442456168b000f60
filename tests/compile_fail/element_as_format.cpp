// SPDX-License-Identifier: MIT
// expected: the format of a module is a number type such as float or double, a Packed one such as
#include "eigenformer/models/pretrained.hpp"
#include "eigenformer/nn/packed.hpp"

#ifdef MUST_NOT_COMPILE
using Format = ef::bfloat16;
#else
using Format = ef::Packed<ef::bfloat16>;
#endif

void load() { ef::load_encoder<Format>("bert-base-uncased"); }
