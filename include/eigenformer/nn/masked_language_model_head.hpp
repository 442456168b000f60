// SPDX-License-Identifier: MIT
#pragma once

// The masked-language-model head of BERT: logits over the vocabulary for every token, through the
// token embeddings themselves.
//
//   logits = norm(activation(transform(x))) E^T + bias
//
//   x: (..., hidden_size)   logits: (..., vocab_size)   E: (vocab_size, hidden_size)

#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/linear.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct MaskedLanguageModelHeadConfig {
  Index hidden_size = 0;
  Index vocab_size = 0;
  Activation activation = Activation::gelu;
  double layer_norm_eps = 1e-12;
  bool norm_bias = true;

  friend bool operator==(const MaskedLanguageModelHeadConfig&,
                         const MaskedLanguageModelHeadConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("vocab_size", c.vocab_size...);
    f("activation", c.activation...);
    f("layer_norm_eps", c.layer_norm_eps...);
    f("norm_bias", c.norm_bias...);
  }

  /// The head of a model.
  static MaskedLanguageModelHeadConfig from(const TransformerConfig& c) {
    return {.hidden_size = c.hidden_size,
            .vocab_size = c.vocab_size,
            .activation = c.activation,
            .layer_norm_eps = c.layer_norm_eps,
            .norm_bias = c.norm_bias};
  }
};

template <class Format>
struct MaskedLanguageModelHead {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = MaskedLanguageModelHead<F>;

  MaskedLanguageModelHeadConfig config;
  Linear<Format> transform;
  LayerNorm<Format> norm;
  Parameter<Format, 1> bias;  // (vocab_size)

  explicit MaskedLanguageModelHead(const MaskedLanguageModelHeadConfig& config_)
      : config(config_),
        transform({config.hidden_size, config.hidden_size}),
        norm({config.hidden_size, config.layer_norm_eps, config.norm_bias}),
        bias({config.vocab_size}) {}
  EIGENFORMER_STRONG_COPIES(MaskedLanguageModelHead)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("transform", layer.transform...);
    f("norm", layer.norm...);
    f("bias", layer.bias...);
  }

  void init_own(Key) { std::fill(bias.begin(), bias.end(), Scalar(0)); }

  /// `table` is the token embedding (vocab_size, hidden_size) that the head is tied to.
  void forward(RowsView<const Scalar> x, const Weight<Format>& table, RowsView<Scalar> y,
               Workspace& workspace) const {
    require_rows("MaskedLanguageModelHead", x, config.hidden_size, y, config.vocab_size);
    require_shape("MaskedLanguageModelHead: table", table.shape(),
                  {config.vocab_size, config.hidden_size});
    require_shape("MaskedLanguageModelHead: bias", bias.shape(), {config.vocab_size});
    Scratch scratch(workspace);
    const auto hidden = scratch.tensor<Scalar, 2>({x.rows(), config.hidden_size});
    transform.forward(x.view(), hidden, workspace, {.activation = config.activation});
    norm.forward(hidden, hidden, workspace);
    kernels::linear<Scalar>(hidden, {kernels::right_factor(table), bias.data()}, y.view(), {},
                            workspace);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
