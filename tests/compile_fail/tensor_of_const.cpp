// SPDX-License-Identifier: MIT
// expected: Tensor holds plain numbers
#include "eigenformer/base/tensor.hpp"

#ifdef MUST_NOT_COMPILE
using Elements = ef::Tensor<const float, 2>;
#else
using Elements = ef::TensorView<const float, 2>;
#endif

ef::Index count(const Elements& x) { return x.size(); }
