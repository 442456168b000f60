// SPDX-License-Identifier: MIT
#pragma once

// A layer of a transformer's encoder: self-attention and a feed-forward network, each a branch
// beside a residual connection.
//
//   pre:   h = x + attention(attention_norm(x))   y = h + feed_forward(feed_forward_norm(h))
//   post:  h = attention_norm(x + attention(x))   y = feed_forward_norm(h + feed_forward(h))
//
// pre: GPT-2, ViT (Xiong et al. 2020). post: BERT (Vaswani et al. 2017).
//
//   x, y: (B, T, hidden_size)
//
// Norms are named after the branch that they guard, in either order; with the same parameters the two
// orders differ only in where the norms are. Norm and feed-forward are template parameters:
// EncoderLayer<float, RMSNorm, GatedFeedForward>.

#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "eigenformer/nn/observer.hpp"
#include "eigenformer/nn/residual_branch.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct EncoderLayer {
  using Scalar = ScalarOf<Format>;
  using Input = TensorView<const Scalar, 3>;
  using Result = TensorView<Scalar, 3>;
  using LayerNorms = internal::CheckedPart<Norm<Format>, LayerNorm<Format>>;
  using LayerFeedForward = internal::CheckedPart<FeedForwardNetwork<Format>, FeedForward<Format>>;
  static constexpr LayerPlace::Half half = LayerPlace::Half::encoder;
  template <class F>
  using WithFormat = EncoderLayer<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  LayerNorms attention_norm;
  MultiHeadAttention<Format> attention;
  LayerNorms feed_forward_norm;
  LayerFeedForward feed_forward;

  explicit EncoderLayer(const TransformerConfig& config_)
      : config(config_.with_defaults(layer_defaults())),
        attention_norm(LayerNorms::config_from(config)),
        attention(MultiHeadAttentionConfig::self_attention(config, true)),
        feed_forward_norm(LayerNorms::config_from(config)),
        feed_forward(LayerFeedForward::config_from(config)) {}
  EIGENFORMER_STRONG_COPIES(EncoderLayer)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("attention_norm", layer.attention_norm...);
    f("attention", layer.attention...);
    f("feed_forward_norm", layer.feed_forward_norm...);
    f("feed_forward", layer.feed_forward...);
  }

  /// y must not overlap x.
  void forward(Input x, const Mask<Scalar>& mask, Result y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_shape("EncoderLayer: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("EncoderLayer: y", y.shape(), x.shape());
    require_disjoint("EncoderLayer", {y}, {x});
    kernels::require_valid_mask("EncoderLayer", mask, attention.scores_shape(x, x.dim(1)));
    run(x, mask, y, observer, workspace);
  }
  void forward(Input x, const Mask<Scalar>& mask, Result y, Workspace& workspace) const {
    forward(x, mask, y, Observer<Scalar>(), workspace);
  }

  /// The same for stacks, which have checked the arguments.
  void run(Input x, const Mask<Scalar>& mask, Result y, const LayerObserver<Scalar>& observer,
           Workspace& workspace) const {
    Scratch scratch(workspace);
    const Result h = scratch.tensor<Scalar, 3>(x.shape());
    const auto attend = [&](Input from, Result to) {
      observe_attention(observer, LayerPlace::Attention::self,
                        attention.scores_shape(from, from.dim(1)), workspace,
                        [&](const std::optional<TensorView<Scalar, 4>>& attention_weights) {
                          attention.run(from, from, from, mask, to, attention_weights, workspace);
                        });
    };
    const auto feed = [&](Input from, Result to) { feed_forward.forward(from, to, workspace); };
    observer.see_hidden_states(x);
    add_branch<Scalar>(config.norm_placement, attention_norm, x, h, workspace, attend);
    add_branch<Scalar>(config.norm_placement, feed_forward_norm, h, y, workspace, feed);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, mask, y, workspace);
    return y;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
