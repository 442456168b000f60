// SPDX-License-Identifier: MIT
#pragma once

// A stack of decoder layers without embeddings (PyTorch's nn.TransformerDecoder):
//
//   y = final_norm(layer_{L-1}(... layer_0(x, memory), memory))
//
//   x, y: (B, T, hidden_size)   memory: (B, S, key_value_size), with cross_attention
//
// No layers: the identity, or the final norm alone.

#include "eigenformer/models/decoder_cache.hpp"
#include "eigenformer/models/encoder_stack.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct DecoderStackConfig {
  Index hidden_size = 0;
  Index num_hidden_layers = 1;
  Index num_attention_heads = 1;
  Index num_key_value_heads = 0;  // 0: as many as attention heads
  Index head_size = 0;            // 0: hidden_size / num_attention_heads
  Index intermediate_size = 0;
  bool cross_attention = false;
  Index key_value_size = 0;  // width of the memory; 0: hidden_size
  Activation activation = Activation::gelu;
  NormPlacement norm_placement = NormPlacement::post;
  bool final_norm = false;
  double layer_norm_eps = 1e-5;
  double rms_norm_eps = 1e-5;
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool norm_bias = true;
  std::optional<double> attention_scale = {};
  AttentionPositions attention_positions = {};
  bool query_key_norm = false;
  double attn_logit_softcapping = 0;  // 0: none
  Index sliding_window = 0;           // 0: none
  double attention_probs_dropout_prob = 0;
  double activation_dropout_prob = 0;
  double hidden_dropout_prob = 0;
};

/// Sends `y` through the layers and the norm of a decoder, in place. `memory` may be none.
template <class Decoder, class T>
void run_decoder(const Decoder& decoder, Mask<T> mask,
                 const std::optional<TensorView<const T, 3>>& memory, const Mask<T>& memory_mask,
                 TensorView<T, 3> y, Workspace& workspace) {
  Scratch scratch(workspace);
  if (decoder.relative_bias) mask = decoder.relative_bias->add_to(mask, scratch);
  run_layers(decoder.layers, decoder.final_norm, y, workspace,
             [&](const auto& layer, std::size_t, TensorView<const T, 3> from, TensorView<T, 3> to) {
               if (memory) {
                 layer.forward(from, *memory, mask, memory_mask, to, workspace);
               } else {
                 layer.forward(from, mask, to, workspace);
               }
             });
}

/// The same for tokens that follow those in the cache, to which they are appended.
template <class Decoder, class T>
void run_decoder(const Decoder& decoder, Mask<T> mask, const Mask<T>& memory_mask,
                 const IntegerSequence& counts, DecoderCache<T>& cache, TensorView<T, 3> y,
                 Workspace& workspace) {
  Scratch scratch(workspace);
  if (decoder.relative_bias) mask = decoder.relative_bias->add_to(mask, scratch);
  cache.extend(y.dim(1), counts, [&](std::vector<DecoderLayerCache<T>>& caches) {
    run_layers(
        decoder.layers, decoder.final_norm, y, workspace,
        [&](const auto& layer, std::size_t i, TensorView<const T, 3> from, TensorView<T, 3> to) {
          layer.forward(from, mask, memory_mask, caches[i], to, workspace, counts);
        });
  });
}

/// Width of the memory of a decoder with these fields.
template <class ModelConfig>
Index memory_width(const ModelConfig& config) {
  return config.key_value_size == 0 ? config.hidden_size : config.key_value_size;
}

/// Throws unless B rows of T tokens can pass through a decoder, with this memory if it attends to
/// one.
template <class Decoder, class T>
void require_decoder_call(std::string_view who, const Decoder& decoder, Index batch, Index tokens,
                          const Mask<T>& mask, const std::optional<TensorView<const T, 3>>& memory,
                          const Mask<T>& memory_mask) {
  const auto& config = decoder.config;
  require(memory.has_value() == config.cross_attention, who,
          ": a memory must be given if and only if cross_attention is true");
  require_stack_mask(who, decoder, mask, batch, tokens, tokens);
  require(mask.query_offset <= 0, who,
          ": mask.query_offset must not be > 0, queries would see later tokens; got ",
          mask.query_offset);
  if (!memory) return;
  const Index keys = memory->dim(1);
  const Shape<3> wanted{batch, keys, memory_width(config)};  // no text is made for calls that fit
  require(memory->shape() == wanted, who, ": memory: shape must be ", wanted, "; got ",
          memory->shape());
  kernels::require_no_sequences(who, memory_mask);
  kernels::require_valid_mask(who, memory_mask, {batch, config.num_attention_heads, tokens, keys});
}

/// The same with a cache, which must have a memory if the decoder attends to one.
template <class Decoder, class T>
void require_decoder_call(std::string_view who, const Decoder& decoder, Index batch, Index tokens,
                          const Mask<T>& mask, const Mask<T>& memory_mask,
                          const IntegerSequence& counts, const DecoderCache<T>& cache) {
  const auto& config = decoder.config;
  require(cache.batch() == batch && cache.layers() == decoder.layers.size(), who,
          ": the cache must be for ", decoder.layers.size(), " layers and ", batch,
          " batch rows; got ", cache.layers(), " and ", cache.batch());
  require(!config.cross_attention || cache.has_memory(), who,
          ": cross_attention is true, but the cache has no memory: call remember (Transformer: "
          "start) first");
  cache.require_room(tokens, counts);
  kernels::require_no_sequences(who, mask);
  require_stack_mask(who, decoder, mask, batch, tokens, cache.longest_after(tokens, counts));
  require(mask.query_offset == 0, who,
          ": with a cache, which knows the positions, mask.query_offset must be 0; got ",
          mask.query_offset);
  if (config.cross_attention) {
    kernels::require_no_sequences(who, memory_mask);
    kernels::require_valid_mask(
        who, memory_mask, {batch, config.num_attention_heads, tokens, cache.longest_memory()});
  }
}

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct DecoderStack {
  using Scalar = ScalarOf<Format>;
  using Layer = DecoderLayer<Format, Norm, FeedForwardNetwork>;
  using Cache = DecoderCache<Scalar>;
  template <class F>
  using WithFormat = DecoderStack<F, Norm, FeedForwardNetwork>;

  DecoderStackConfig config;
  std::optional<RelativeBias<Format>> relative_bias;  // if attention_positions has one
  std::vector<Layer> layers;
  std::optional<Norm<Format>> final_norm;

  explicit DecoderStack(const DecoderStackConfig& config_)
      : config(config_),
        layers(make_layers<Layer, DecoderLayerConfig>(config)),
        final_norm(make_final_norm<Norm<Format>>(config)) {
    if (config.attention_positions.has_relative_bias())
      relative_bias.emplace(RelativeBias<Format>::config_from(config, false));
  }

  template <class F, class... Stack>
  static void visit(F&& f, Stack&... stack) {
    f("relative_bias", stack.relative_bias...);
    f("layers", stack.layers...);
    f("final_norm", stack.final_norm...);
  }

  /// Without memory. y must not overlap x.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    start(x, mask, std::nullopt, {}, y);
    run_decoder<DecoderStack, Scalar>(*this, mask, std::nullopt, {}, y, workspace);
  }

  /// With memory (B, S, key_value_size), which `memory_mask` is for.
  void forward(TensorView<const Scalar, 3> x, TensorView<const Scalar, 3> memory,
               const Mask<Scalar>& mask, const Mask<Scalar>& memory_mask, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require_disjoint("DecoderStack", y, memory);
    start(x, mask, memory, memory_mask, y);
    run_decoder<DecoderStack, Scalar>(*this, mask, memory, memory_mask, y, workspace);
  }

  /// With a cache, to which the tokens are appended (of batch row b the first counts[b], default
  /// all), after `remember` if there is cross-attention.
  void forward(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask,
               const Mask<Scalar>& memory_mask, Cache& cache, TensorView<Scalar, 3> y,
               Workspace& workspace, const IntegerSequence& counts = {}) const {
    require_x_and_y(x, y);
    require_decoder_call("DecoderStack", *this, x.dim(0), x.dim(1), mask, memory_mask, counts,
                         cache);
    std::copy(x.begin(), x.end(), y.begin());
    run_decoder(*this, mask, memory_mask, counts, cache, y, workspace);
  }

  /// Room for `capacity` tokens of each batch row.
  Cache make_cache(Index batch, Index capacity) const { return Cache(layers, batch, capacity); }

  /// Computes the keys and values of a memory (B, S, key_value_size) for all layers, once; of batch
  /// row b the first counts[b] (default: all) are real.
  void remember(TensorView<const Scalar, 3> memory, const IntegerSequence& counts, Cache& cache,
                Workspace& workspace) const {
    require(config.cross_attention,
            "DecoderStack: a memory is given, but cross_attention is false");
    cache.remember(layers, memory_width(config), memory, counts, workspace);
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
  void require_x_and_y(TensorView<const Scalar, 3> x, TensorView<Scalar, 3> y) const {
    require_shape("DecoderStack: x", x.shape(), {x.dim(0), x.dim(1), config.hidden_size});
    require_shape("DecoderStack: y", y.shape(), x.shape());
    require_disjoint("DecoderStack", y, x);
  }

  void start(TensorView<const Scalar, 3> x, const Mask<Scalar>& mask,
             const std::optional<TensorView<const Scalar, 3>>& memory,
             const Mask<Scalar>& memory_mask, TensorView<Scalar, 3> y) const {
    require_x_and_y(x, y);
    require_decoder_call("DecoderStack", *this, x.dim(0), x.dim(1), mask, memory, memory_mask);
    std::copy(x.begin(), x.end(), y.begin());
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
