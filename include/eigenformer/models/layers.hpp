// SPDX-License-Identifier: MIT
#pragma once

// What all stacks of layers have in common: making the layers, checking a call once, running through
// them.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/nn/observer.hpp"
#include "eigenformer/nn/relative_bias.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// The layers of a stack or model; throws for a number of layers that makes no sense.
template <class Layer>
std::vector<Layer> make_layers(const TransformerConfig& config) {
  constexpr Index most = 1'000'000;
  const Index count = config.layers();
  require(count >= 0 && count <= most, "num_hidden_layers must be in [0, ", most, "]; got ", count);
  std::vector<Layer> layers;
  layers.reserve(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) layers.emplace_back(config.of_layer(i));
  return layers;
}

/// The final norm of a stack or model, if it has one.
template <class Norm>
std::optional<Norm> make_final_norm(const TransformerConfig& config) {
  if (!config.final_norm) return std::nullopt;
  return Norm(Norm::config_from(config));
}

/// The table of relative biases that all layers share, if there is one.
template <class Format>
std::optional<RelativeBias<Format>> make_relative_bias(const TransformerConfig& config,
                                                       bool bidirectional) {
  if (!config.attention_positions.has_relative_bias()) return std::nullopt;
  return RelativeBias<Format>(RelativeBiasConfig::from(config.attention_positions,
                                                       config.num_attention_heads, bidirectional));
}

/// Throws unless the parts are those of the configuration, and the mask one for T tokens of B rows that
/// see S keys in the layers of a stack.
template <class Stack, class T>
void require_stack_call(std::string_view who, const Stack& stack, Index batch, Index tokens,
                        Index keys, const Mask<T>& mask) {
  const TransformerConfig& config = stack.config;
  require(static_cast<Index>(stack.layers.size()) == config.layers() &&
              stack.final_norm.has_value() == config.final_norm &&
              stack.relative_bias.has_value() == config.attention_positions.has_relative_bias(),
          who, ": layers, final_norm and relative_bias must be those of the configuration");
  require(!stack.relative_bias || !mask.offset_bias, who,
          ": mask.offset_bias is given, but relative_bias has its place");
  kernels::require_valid_mask(who, mask, {batch, config.num_attention_heads, tokens, keys});
}

/// Sends `y` through the layers and the norm, in place. `run(layer, i, from, to)` runs one layer.
template <class Stack, class T, class Run>
void run_layers(const Stack& stack, TensorView<T, 3> y, const LayerObserver<T>& observer,
                Workspace& workspace, Run&& run) {
  const auto& layers = stack.layers;
  if (!layers.empty()) {
    Scratch scratch(workspace);
    TensorView<T, 3> from = y, to = scratch.tensor<T, 3>(y.shape());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      run(layers[i], i, TensorView<const T, 3>(from), to);
      std::swap(from, to);
    }
    if (from.data() != y.data()) std::copy(from.begin(), from.end(), y.begin());
  }
  observer.at(Stack::Layer::half, static_cast<Index>(layers.size())).see_hidden_states(y);
  if (stack.final_norm) stack.final_norm->forward(y, y, workspace);
}

/// The stack's mask: with its relative biases, which are put into `scratch`.
template <class Stack, class T>
Mask<T> mask_of(const Stack& stack, const Mask<T>& mask, Scratch& scratch) {
  return stack.relative_bias ? stack.relative_bias->add_to(mask, scratch) : mask;
}

/// Sends `y` through the layers and the norm of an encoder, in place.
template <class Encoder, class T>
void run_encoder(const Encoder& encoder, const Mask<T>& mask, TensorView<T, 3> y,
                 const LayerObserver<T>& observer, Workspace& workspace) {
  Scratch scratch(workspace);
  const Mask<T> whole = mask_of(encoder, mask, scratch);
  run_layers(
      encoder, y, observer, workspace,
      [&](const auto& layer, std::size_t i, TensorView<const T, 3> from, TensorView<T, 3> to) {
        layer.run(from, whole, to, observer.at(layer.half, static_cast<Index>(i)), workspace);
      });
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
