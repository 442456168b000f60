// SPDX-License-Identifier: MIT
#pragma once

// A decoder layer in either order of its norms, with or without memory, and a stack of them.

#include "eigenformer/nn/decoder_layer.hpp"
#include "tests/reference/encoder_layer.hpp"

namespace reference {

/// memory: (B, S, ...), or empty for none   `shared`: relative biases of a whole stack
template <class Layer>
Reals<3> decoder_layer(const Layer& layer, const Reals<3>& x, const Reals<3>& memory = {},
                       Visibility mask = {}, const Visibility& memory_mask = {},
                       const Reals<2>& shared = {}) {
  mask.causal = true;
  const bool pre = layer.config.norm_placement == ef::NormPlacement::pre;
  const auto add_branch = [&](const Reals<3>& h, const auto& own_norm, const auto& branch) {
    return pre ? sum(h, branch(norm(h, own_norm))) : norm(sum(h, branch(h)), own_norm);
  };
  Reals<3> h = add_branch(x, layer.self_attention_norm, [&](const Reals<3>& from) {
    return multi_head_attention(layer.self_attention, from, from, from, mask, shared);
  });
  if (layer.cross_attention) {
    h = add_branch(h, *layer.cross_attention_norm, [&](const Reals<3>& from) {
      return multi_head_attention(*layer.cross_attention, from, memory, memory, memory_mask);
    });
  }
  return add_branch(h, layer.feed_forward_norm,
                    [&](const Reals<3>& from) { return feed_forward(layer.feed_forward, from); });
}

/// Anything with `relative_bias`, `layers` and `final_norm`, from the layers' input on.
template <class Model>
Reals<3> decoder_layers(const Model& model, Reals<3> x, const Reals<3>& memory = {},
                        const Visibility& mask = {}, const Visibility& memory_mask = {}) {
  Reals<2> shared;
  if (model.relative_bias) shared = spread_relative_bias(*model.relative_bias);
  for (const auto& layer : model.layers)
    x = decoder_layer(layer, x, memory, mask, memory_mask, shared);
  return model.final_norm ? norm(x, *model.final_norm) : x;
}

}  // namespace reference
