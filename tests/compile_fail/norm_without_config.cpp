// SPDX-License-Identifier: MIT
// expected: a norm or feed-forward network of a layer needs `static config_from(const TransformerConfig&)`
#include <algorithm>

#include "eigenformer/nn/encoder_layer.hpp"

template <class Format>
struct NoNorm {
  using Scalar = ef::ScalarOf<Format>;
  template <class F>
  using WithFormat = NoNorm<F>;
  struct Config {};
  Config config;

  explicit NoNorm(const Config&) {}
#ifndef MUST_NOT_COMPILE
  static Config config_from(const ef::TransformerConfig&) { return {}; }
#endif
  template <class F, class... Layer>
  static void visit(F&&, Layer&...) {}
  void forward(ef::RowsView<const Scalar> x, ef::RowsView<Scalar> y, ef::Workspace&) const {
    if (x.data() != y.data()) std::copy_n(x.data(), x.size(), y.data());
  }
};

void use(const ef::Tensor<float, 3>& x) {
  ef::EncoderLayer<float, NoNorm> layer(
      {.hidden_size = 8, .num_attention_heads = 2, .intermediate_size = 16});
  layer(x);
}
