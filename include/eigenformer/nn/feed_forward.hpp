// SPDX-License-Identifier: MIT
#pragma once

// The position-wise feed-forward network (Vaswani et al. 2017), applied to every token by itself:
//
//   y = linear_2(activation(linear_1(x)))
//
//   x, y: (..., hidden_size)   linear_1: hidden_size to intermediate_size   linear_2: back

#include "eigenformer/kernels/feed_forward.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct FeedForwardConfig {
  Index hidden_size = 0;
  Index intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool bias = true;
  double activation_dropout_prob = 0;  // training: on the hidden activation
  double hidden_dropout_prob = 0;      // training: on the result

  friend bool operator==(const FeedForwardConfig&, const FeedForwardConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("hidden_size", c.hidden_size...);
    f("intermediate_size", c.intermediate_size...);
    f("activation", c.activation...);
    f("bias", c.bias...);
    f("activation_dropout_prob", c.activation_dropout_prob...);
    f("hidden_dropout_prob", c.hidden_dropout_prob...);
  }
};

/// The configuration shared by FeedForward and GatedFeedForward, checked.
inline const FeedForwardConfig& checked_feed_forward(const std::string& who,
                                                     const FeedForwardConfig& c) {
  require(c.hidden_size > 0 && c.intermediate_size > 0, who,
          ": hidden_size and intermediate_size must be > 0; got ", c.hidden_size, " and ",
          c.intermediate_size);
  require_probability(who + ": activation_dropout_prob", c.activation_dropout_prob);
  require_probability(who + ": hidden_dropout_prob", c.hidden_dropout_prob);
  return c;
}

/// The feed-forward network of a layer or model.
inline FeedForwardConfig feed_forward_config_from(const TransformerConfig& c) {
  return {.hidden_size = c.hidden_size,
          .intermediate_size = c.intermediate_size,
          .activation = c.activation,
          .bias = c.feed_forward_bias,
          .activation_dropout_prob = c.activation_dropout_prob,
          .hidden_dropout_prob = c.hidden_dropout_prob};
}

template <class Format>
struct FeedForward {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = FeedForward<F>;

  FeedForwardConfig config;
  Linear<Format> linear_1;
  Linear<Format> linear_2;

  static FeedForwardConfig config_from(const TransformerConfig& c) {
    return feed_forward_config_from(c);
  }

  explicit FeedForward(const FeedForwardConfig& config_)
      : config(checked_feed_forward("FeedForward", config_)),
        linear_1({config.hidden_size, config.intermediate_size, config.bias}),
        linear_2({config.intermediate_size, config.hidden_size, config.bias}) {}
  EIGENFORMER_STRONG_COPIES(FeedForward)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("linear_1", layer.linear_1...);
    f("linear_2", layer.linear_2...);
  }

  /// y must not overlap x.
  void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace& workspace) const {
    require_rows("FeedForward", x, config.hidden_size, y, config.hidden_size);
    require_disjoint("FeedForward", {y}, {x});
    internal::require_linear("FeedForward", "linear_1", linear_1, config.hidden_size,
                             config.intermediate_size);
    internal::require_linear("FeedForward", "linear_2", linear_2, config.intermediate_size,
                             config.hidden_size);
    kernels::feed_forward<Scalar>(x.view(),
                                  {.first = linear_1.map(),
                                   .second = linear_2.map(),
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
