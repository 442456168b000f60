// SPDX-License-Identifier: MIT
#pragma once

// The gated feed-forward network (Shazeer, "GLU variants improve transformer", 2020):
//
//   y = down(activation(gate(x)) * up(x))
//
// The activation is on the gate. sigmoid gives GLU, identity Bilinear, relu ReGLU, gelu GEGLU, silu
// SwiGLU (Llama's MLP).
//
//   x, y: (..., hidden_size)   gate, up: hidden_size to intermediate_size   down: back

#include "eigenformer/nn/feed_forward.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format>
struct GatedFeedForward {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = GatedFeedForward<F>;

  FeedForwardConfig config;
  Linear<Format> gate;
  Linear<Format> up;
  Linear<Format> down;

  static FeedForwardConfig config_from(const TransformerConfig& c) {
    return feed_forward_config_from(c);
  }

  explicit GatedFeedForward(const FeedForwardConfig& config_)
      : config(checked_feed_forward("GatedFeedForward", config_)),
        gate({config.hidden_size, config.intermediate_size, config.bias}),
        up({config.hidden_size, config.intermediate_size, config.bias}),
        down({config.intermediate_size, config.hidden_size, config.bias}) {}
  EIGENFORMER_STRONG_COPIES(GatedFeedForward)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("gate", layer.gate...);
    f("up", layer.up...);
    f("down", layer.down...);
  }

  /// y must not overlap x.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("GatedFeedForward", x, config.hidden_size, y, config.hidden_size);
    require_disjoint("GatedFeedForward", {y}, {x});
    internal::require_linear("GatedFeedForward", "gate", gate, config.hidden_size,
                             config.intermediate_size);
    internal::require_linear("GatedFeedForward", "up", up, config.hidden_size,
                             config.intermediate_size);
    internal::require_linear("GatedFeedForward", "down", down, config.intermediate_size,
                             config.hidden_size);
    const auto gate_map = gate.map();
    kernels::feed_forward<Scalar>(x.view(),
                                  {.first = up.map(),
                                   .second = down.map(),
                                   .gate = &gate_map,
                                   .activation = config.activation,
                                   .hidden_size = config.hidden_size,
                                   .intermediate_size = config.intermediate_size},
                                  y.view(), workspace);
  }

  template <int Rank>
  Tensor<Scalar, Rank> operator()(const Tensor<Scalar, Rank>& x) const {
    return forward_to_new(*this, x, config.hidden_size);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
