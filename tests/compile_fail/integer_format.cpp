// SPDX-License-Identifier: MIT
// expected: the format of a module is a number type such as float or double
#include "eigenformer/nn/linear.hpp"

#ifdef MUST_NOT_COMPILE
using Format = int;
#else
using Format = double;
#endif

ef::Linear<Format> make() { return ef::Linear<Format>({.in_features = 2, .out_features = 3}); }
