// SPDX-License-Identifier: MIT
#pragma once

// An encoder layer in either order of its norms, and a stack of them.

#include "eigenformer/nn/encoder_layer.hpp"
#include "tests/reference/attention.hpp"
#include "tests/reference/feed_forward.hpp"
#include "tests/reference/normalization.hpp"

namespace reference {

inline Reals<3> sum(const Reals<3>& a, const Reals<3>& b) {
  Reals<3> y(a.shape());
  for (Index i = 0; i < y.size(); ++i) y.data()[i] = a.data()[i] + b.data()[i];
  return y;
}

/// `shared`: relative biases of a whole stack
template <class Layer>
Reals<3> encoder_layer(const Layer& layer, const Reals<3>& x, const Visibility& mask = {},
                       const Reals<2>& shared = {}) {
  if (layer.config.norm_placement == ef::NormPlacement::pre) {
    const Reals<3> seen = norm(x, layer.attention_norm);
    const Reals<3> h =
        sum(x, multi_head_attention(layer.attention, seen, seen, seen, mask, shared));
    return sum(h, feed_forward(layer.feed_forward, norm(h, layer.feed_forward_norm)));
  }
  const Reals<3> h = norm(sum(x, multi_head_attention(layer.attention, x, x, x, mask, shared)),
                          layer.attention_norm);
  return norm(sum(h, feed_forward(layer.feed_forward, h)), layer.feed_forward_norm);
}

/// Anything with `layers` and `final_norm`, from the layers' input on.
template <class Model>
Reals<3> encoder_layers(const Model& model, Reals<3> x, const Visibility& mask = {}) {
  Reals<2> shared;
  if constexpr (requires { model.relative_bias; }) {
    if (model.relative_bias) shared = spread_relative_bias(*model.relative_bias);
  }
  for (const auto& layer : model.layers) x = encoder_layer(layer, x, mask, shared);
  return model.final_norm ? norm(x, *model.final_norm) : x;
}

}  // namespace reference
