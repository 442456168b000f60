// SPDX-License-Identifier: MIT
#pragma once

// What the cases of several models share: a small encoder, the names and shapes of its parameters,
// the call from ids on.

#include "eigenformer/models/transformer_encoder.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {

inline ef::TransformerConfig small_encoder() {
  return {.vocab_size = 11,
          .hidden_size = 53,
          .num_hidden_layers = 2,
          .num_attention_heads = 5,
          .head_size = 7,
          .intermediate_size = 61,
          .max_position_embeddings = 151,
          .type_vocab_size = 2,
          .layer_norm_eps = 1e-5};
}

/// Layers with plain feed-forward networks and LayerNorm.
inline void add_layers(Parameters& list, const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string layer = name + "." + std::to_string(i) + ".";
    add_norm(list, layer + "attention_norm", 53);
    add_linear(list, layer + "attention.query", 35, 53);
    add_linear(list, layer + "attention.key", 35, 53);
    add_linear(list, layer + "attention.value", 35, 53);
    add_linear(list, layer + "attention.output", 53, 35);
    add_norm(list, layer + "feed_forward_norm", 53);
    add_linear(list, layer + "feed_forward.linear_1", 61, 53);
    add_linear(list, layer + "feed_forward.linear_2", 53, 61);
  }
}

/// Decoder layers likewise; `memory`: the width of the memory, 0 for none.
inline void add_decoder_layers(Parameters& list, const std::string& name, int count, Index memory) {
  for (int i = 0; i < count; ++i) {
    const std::string layer = name + "." + std::to_string(i) + ".";
    for (const auto& [branch, width] :
         {std::pair<std::string, Index>{"self_attention", 53}, {"cross_attention", memory}}) {
      if (width == 0) continue;
      add_norm(list, layer + branch + "_norm", 53);
      add_linear(list, layer + branch + ".query", 35, 53);
      add_linear(list, layer + branch + ".key", 35, width);
      add_linear(list, layer + branch + ".value", 35, width);
      add_linear(list, layer + branch + ".output", 53, 35);
    }
    add_norm(list, layer + "feed_forward_norm", 53);
    add_linear(list, layer + "feed_forward.linear_1", 61, 53);
    add_linear(list, layer + "feed_forward.linear_2", 53, 61);
  }
}

inline Parameters encoder_parameters(const std::string& prefix) {
  Parameters list = {{prefix + "embeddings.token.weight", "(11, 53)"},
                     {prefix + "embeddings.position.weight", "(151, 53)"},
                     {prefix + "embeddings.token_type.weight", "(2, 53)"}};
  add_norm(list, prefix + "embeddings.norm", 53);
  add_layers(list, prefix + "layers", 2);
  return list;
}

/// Models from ids on.
template <class T, class M>
struct TextModelCase : OnIds<true> {
  using Module = M;
  template <int Rank>
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, Rank> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {}, in.mask, y, workspace);
  }
  static auto convenient(const M& module, const Owned<T>& in) { return module(in.ids, in.mask()); }
};

}  // namespace laws
