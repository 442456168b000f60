// SPDX-License-Identifier: MIT
#pragma once

// A stack of decoder layers without embeddings (PyTorch's nn.TransformerDecoder):
//
//   y = final_norm(layer_{L-1}(... layer_0(x, memory), memory))
//
//   x, y: (B, T, hidden_size)   memory: (B, S, key_value_size), with cross_attention
//
// No layers: the identity, or the final norm alone.

#include "eigenformer/models/decoder_layers.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct DecoderStack {
  using Scalar = ScalarOf<Format>;
  using Layer = DecoderLayer<Format, Norm, FeedForwardNetwork>;
  using Cache = DecoderCache<Scalar>;
  using Input = TensorView<const Scalar, 3>;
  using Result = TensorView<Scalar, 3>;
  using Counts = std::optional<IntegerSequence>;
  template <class F>
  using WithFormat = DecoderStack<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit DecoderStack(const TransformerConfig& config_)
      : config(config_.with_defaults(layer_defaults())),
        relative_bias(make_relative_bias<Format>(config, false)),
        layers(make_layers<Layer>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {}
  EIGENFORMER_STRONG_COPIES(DecoderStack)

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("relative_bias", stack.relative_bias...);
    f("layers", stack.layers...);
    f("final_norm", stack.final_norm...);
  }

  /// Without memory. y must not overlap x.
  void forward(Input x, const Mask<Scalar>& mask, Result y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    run(x, std::nullopt, mask, {}, y, observer, workspace);
  }
  void forward(Input x, const Mask<Scalar>& mask, Result y, Workspace& workspace) const {
    forward(x, mask, y, Observer<Scalar>(), workspace);
  }

  /// With memory (B, S, key_value_size), which `memory_mask` is for.
  void forward(Input x, Input memory, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, const LayerObserver<Scalar>& observer, Workspace& workspace) const {
    require_disjoint("DecoderStack", {y}, {memory});
    run(x, memory, mask, memory_mask, y, observer, workspace);
  }
  void forward(Input x, Input memory, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, Workspace& workspace) const {
    forward(x, memory, mask, memory_mask, y, Observer<Scalar>(), workspace);
  }

  /// With a cache, to which the tokens are appended (of batch row b the first token_counts[b],
  /// default all), after `remember` if there is cross-attention. A call that throws leaves the cache
  /// as it was.
  void forward(Input x, const Counts& token_counts, Cache& cache, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Result y, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_x_and_y(x, y);
    require_decoder_call("DecoderStack", *this, x.dim(0), x.dim(1), token_counts, cache, mask,
                         memory_mask);
    cache.extend(x.dim(1), token_counts, [&](std::vector<DecoderLayerCache<Scalar>>& caches) {
      std::copy(x.begin(), x.end(), y.begin());
      run_decoder(*this, token_counts, caches, mask, memory_mask, y, observer, workspace);
    });
  }
  void forward(Input x, const Counts& token_counts, Cache& cache, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Result y, Workspace& workspace) const {
    forward(x, token_counts, cache, mask, memory_mask, y, Observer<Scalar>(), workspace);
  }
  void forward(Input x, Cache& cache, const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask,
               Result y, Workspace& workspace) const {
    forward(x, std::nullopt, cache, mask, memory_mask, y, workspace);
  }

  /// Room for `capacity` tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const { return Cache(layers, batch, capacity); }

  /// Computes the keys and values of a memory (B, S, key_value_size) for all layers, once; of batch
  /// row b the first token_counts[b] (default: all) are real.
  void remember(Input memory, const Counts& token_counts, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderStack: a memory is given, but cross_attention is false");
    cache.remember(layers, config.memory_size(), memory, token_counts, workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Mask<Scalar>& mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, mask, y, workspace);
    return y;
  }
  Tensor<Scalar, 3> operator()(const Tensor<Scalar, 3>& x, const Tensor<Scalar, 3>& memory,
                               const Mask<Scalar>& mask = {},
                               const Mask<Scalar>& memory_mask = {}) const {
    Tensor<Scalar, 3> y(x.shape());
    Workspace workspace;
    forward(x, memory, mask, memory_mask, y, workspace);
    return y;
  }

 private:
  void require_x_and_y(Input x, Result y) const {
    require_shape("DecoderStack: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("DecoderStack: y", y.shape(), x.shape());
    require_disjoint("DecoderStack", {y}, {x});
  }

  void run(Input x, const std::optional<Input>& memory, const Mask<Scalar>& mask,
           const Mask<Scalar>& memory_mask, Result y, const LayerObserver<Scalar>& observer,
           Workspace& workspace) const {
    require_x_and_y(x, y);
    require_decoder_call("DecoderStack", *this, x.dim(0), x.dim(1), memory, mask, memory_mask);
    std::copy(x.begin(), x.end(), y.begin());
    run_decoder(*this, memory, mask, memory_mask, y, observer, workspace);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
