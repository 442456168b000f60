// SPDX-License-Identifier: MIT
// expected: a norm or feed-forward network of a layer needs `void forward(RowsView<const Scalar> x,
#include <algorithm>

#include "eigenformer/nn/decoder_layer.hpp"

template <class Format>
struct Copy {
  using Scalar = ef::ScalarOf<Format>;
  template <class F>
  using WithFormat = Copy<F>;
  struct Config {};
  Config config;

  explicit Copy(const Config&) {}
  static Config config_from(const ef::TransformerConfig&) { return {}; }
  template <class F, class... Layer>
  static void visit(F&&, Layer&...) {}
#ifdef MUST_NOT_COMPILE
  void forward(ef::RowsView<const Scalar> x, ef::RowsView<Scalar> y) const {
#else
  void forward(ef::RowsView<const Scalar> x, ef::RowsView<Scalar> y, ef::Workspace&) const {
#endif
      std::copy_n(x.data(), x.size(), y.data());
}
}
;

void use(const ef::Tensor<float, 3>& x) {
  ef::DecoderLayer<float, ef::LayerNorm, Copy> layer(
      {.hidden_size = 8, .num_attention_heads = 2, .intermediate_size = 16});
  layer(x);
}
