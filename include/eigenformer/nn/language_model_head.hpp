// SPDX-License-Identifier: MIT
#pragma once

// From hidden states to the scores of the next token:
//
//   logits = cap(scale * x weight^T + bias)      x: (..., hidden_size)   logits: (..., vocab_size)
//
// The weight is the token table if the two are tied (GPT-2; Press and Wolf, "Using the output
// embedding to improve language models", 2017). scale: T5 with a tied table has hidden_size^-1/2.
// cap(s) = c tanh(s / c): Gemma 2. bias: BART.

#include "eigenformer/kernels/linear.hpp"
#include "eigenformer/kernels/logits.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct LanguageModelHeadConfig {
  Index hidden_size = 0;
  Index vocab_size = 0;
  bool tie_word_embeddings = true;
  bool bias = false;
  double logit_scale = 1;
  double final_logit_softcapping = 0;  // c; 0: none

  friend bool operator==(const LanguageModelHeadConfig&, const LanguageModelHeadConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("vocab_size", c.vocab_size...);
    f("tie_word_embeddings", c.tie_word_embeddings...);
    f("bias", c.bias...);
    f("logit_scale", c.logit_scale...);
    f("final_logit_softcapping", c.final_logit_softcapping...);
  }

  /// The head of a model.
  static LanguageModelHeadConfig from(const TransformerConfig& c) {
    return {.hidden_size = c.hidden_size,
            .vocab_size = c.vocab_size,
            .tie_word_embeddings = c.tie_word_embeddings,
            .bias = c.head_bias,
            .logit_scale = c.logit_scale,
            .final_logit_softcapping = c.final_logit_softcapping};
  }
};

template <class Format>
struct LanguageModelHead {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = LanguageModelHead<F>;

  LanguageModelHeadConfig config;
  Weight<Format> weight;      // (vocab_size, hidden_size); empty if tied
  Parameter<Format, 1> bias;  // (vocab_size); empty without bias

  explicit LanguageModelHead(const LanguageModelHeadConfig& config_)
      : config(checked(config_)),
        weight(config.tie_word_embeddings ? Shape<2>{0, 0}
                                          : Shape<2>{config.vocab_size, config.hidden_size}),
        bias({config.bias ? config.vocab_size : 0}) {}
  EIGENFORMER_STRONG_COPIES(LanguageModelHead)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    if ((!layer.config.tie_word_embeddings && ...)) f("weight", layer.weight...);
    if ((layer.config.bias && ...)) f("bias", layer.bias...);
  }

  /// Normal with deviation 0.02; zero bias.
  void init_own(Key key) {
    fill_normal(weight, key);
    std::fill(bias.begin(), bias.end(), Scalar(0));
  }

  /// `table` (vocab_size, hidden_size) is the token table, which is read if the head is tied to it.
  void forward(RowsView<const Scalar> x, const Weight<Format>& table, RowsView<Scalar> logits,
               Workspace& workspace) const {
    require_rows("LanguageModelHead", x, config.hidden_size, logits, config.vocab_size);
    require_disjoint("LanguageModelHead", {logits}, {x});
    require_shape("LanguageModelHead: bias", bias.shape(), {config.bias ? config.vocab_size : 0});
    const Weight<Format>& used = config.tie_word_embeddings ? table : weight;
    require_shape("LanguageModelHead: table", used.shape(),
                  {config.vocab_size, config.hidden_size});
    kernels::linear<Scalar>(x.view(), {kernels::right_factor(used)}, logits.view(), {}, workspace);
    kernels::scale_and_cap_logits<Scalar>(
        logits.view(), static_cast<Scalar>(config.logit_scale), config.bias ? bias.data() : nullptr,
        static_cast<Scalar>(config.final_logit_softcapping), workspace);
  }

 private:
  static const LanguageModelHeadConfig& checked(const LanguageModelHeadConfig& c) {
    constexpr double largest_factor = 1e30;  // finite in float
    require(c.hidden_size >= 0 && c.vocab_size >= 0,
            "LanguageModelHead: hidden_size and vocab_size must be >= 0; got ", c.hidden_size,
            " and ", c.vocab_size);
    require(std::abs(c.logit_scale) <= largest_factor,
            "LanguageModelHead: logit_scale must be within +-1e30; got ", c.logit_scale);
    require(c.final_logit_softcapping >= 0 && c.final_logit_softcapping <= largest_factor,
            "LanguageModelHead: final_logit_softcapping must be in [0, 1e30] (0: none); got ",
            c.final_logit_softcapping);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
