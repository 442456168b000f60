// SPDX-License-Identifier: MIT
#pragma once

// An encoder stack and a decoder stack that attends to its result, without embeddings and head:
// PyTorch's nn.Transformer (whose two halves end with a norm each, in either placement).
//
//   source: (B, S, hidden_size)   target, y: (B, T, hidden_size)
//
//   ef::TransformerStack<float> stack({.encoder = {...}, .decoder = {...}});
//   auto y = stack(source, target, {.source = {.key_lengths = lengths}});

#include "eigenformer/models/decoder_stack.hpp"
#include "eigenformer/models/encoder_stack.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// The three places of a mask in an encoder-decoder.
template <class T>
struct TransformerMasks {
  Mask<T> source = {};
  Mask<T> target = {};  // causal in any case
  Mask<T> memory = {};  // targets' attention to the encoder's result
};

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct TransformerStack {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = TransformerStack<F, Norm, FeedForwardNetwork>;

  EncoderDecoderConfig config;
  EncoderStack<Format, Norm, FeedForwardNetwork> encoder;
  DecoderStack<Format, Norm, FeedForwardNetwork> decoder;

  /// The decoder attends to the encoder's result, whatever its fields say about a memory.
  explicit TransformerStack(const EncoderDecoderConfig& config_)
      : config(config_.joined()), encoder(config.encoder), decoder(config.decoder) {
    config = {encoder.config, decoder.config};
  }
  EIGENFORMER_STRONG_COPIES(TransformerStack)

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("encoder", stack.encoder...);
    f("decoder", stack.decoder...);
  }

  /// y must not overlap source or target. The observer is told of both halves.
  void forward(TensorView<const Scalar, 3> source, TensorView<const Scalar, 3> target,
               const TransformerMasks<Scalar>& masks, TensorView<Scalar, 3> y,
               const Observer<Scalar>& observer, Workspace& workspace) const {
    require_disjoint("TransformerStack", {y}, {source});
    kernels::require_no_sequences("TransformerStack: source", masks.source);
    require_shape("TransformerStack: source", source.shape(),
                  {target.dim(0), source.dim(1), encoder.config.hidden_size});
    Scratch scratch(workspace);
    const auto memory = scratch.tensor<Scalar, 3>(source.shape());
    encoder.forward(source, masks.source, memory, observer, workspace);
    decoder.forward(target, memory, masks.target, masks.memory, y, observer, workspace);
  }
  void forward(TensorView<const Scalar, 3> source, TensorView<const Scalar, 3> target,
               const TransformerMasks<Scalar>& masks, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    forward(source, target, masks, y, Observer<Scalar>(), workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& source, const Tensor<Scalar, 3>& target,
                               const TransformerMasks<Scalar>& masks = {}) const {
    Tensor<Scalar, 3> y(target.shape());
    Workspace workspace;
    forward(source, target, masks, y, workspace);
    return y;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
