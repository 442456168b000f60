// SPDX-License-Identifier: MIT
#pragma once

// An encoder stack and a decoder stack that attends to its result, without embeddings and head:
// PyTorch's nn.Transformer (whose two halves end with a norm each, in either placement).
//
//   source: (B, S, hidden_size)   target, y: (B, T, hidden_size)
//
//   auto y = stack(source, target, {.source = {.key_lengths = lengths}});

#include "eigenformer/models/decoder_stack.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct TransformerStackConfig {
  EncoderStackConfig encoder;
  DecoderStackConfig decoder;
};

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

  TransformerStackConfig config;
  EncoderStack<Format, Norm, FeedForwardNetwork> encoder;
  DecoderStack<Format, Norm, FeedForwardNetwork> decoder;

  /// The decoder attends to the encoder's result, whatever its own fields say about a memory.
  explicit TransformerStack(const TransformerStackConfig& config_)
      : config(joined(config_)), encoder(config.encoder), decoder(config.decoder) {}

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("encoder", stack.encoder...);
    f("decoder", stack.decoder...);
  }

  /// y must not overlap source or target.
  void forward(TensorView<const Scalar, 3> source, TensorView<const Scalar, 3> target,
               const TransformerMasks<Scalar>& masks, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require_disjoint("TransformerStack", y, source);
    kernels::require_no_sequences("TransformerStack: source", masks.source);
    require_shape("TransformerStack: source", source.shape(),
                  {target.dim(0), source.dim(1), config.encoder.hidden_size});
    Scratch scratch(workspace);
    const auto memory = scratch.tensor<Scalar, 3>(source.shape());
    encoder.forward(source, masks.source, memory, workspace);
    decoder.forward(target, memory, masks.target, masks.memory, y, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& source, const Tensor<Scalar, 3>& target,
                               const TransformerMasks<Scalar>& masks = {}) const {
    Tensor<Scalar, 3> y(target.shape());
    Workspace workspace;
    forward(source, target, masks, y, workspace);
    return y;
  }

 private:
  static TransformerStackConfig joined(TransformerStackConfig c) {
    c.decoder.cross_attention = true;
    c.decoder.key_value_size = c.encoder.hidden_size;
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
