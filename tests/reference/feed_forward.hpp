// SPDX-License-Identifier: MIT
#pragma once

// Feed-forward networks, plain and gated.

#include "tests/reference/activation.hpp"
#include "tests/reference/matrix_product.hpp"

namespace reference {

template <class Module>
Reals<3> feed_forward(const Module& module, const Reals<3>& x) {
  if constexpr (requires { module.gate; }) {
    Reals<3> hidden = activate(module.config.activation, linear(x, module.gate));
    const Reals<3> up = linear(x, module.up);
    for (Index i = 0; i < hidden.size(); ++i) hidden.data()[i] *= up.data()[i];
    return linear(hidden, module.down);
  } else {
    return linear(activate(module.config.activation, linear(x, module.linear_1)), module.linear_2);
  }
}

}  // namespace reference
