// SPDX-License-Identifier: MIT
#include "eigenformer/models/transformer_encoder.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace transformer_encoder_laws_test {

template <class T>
struct EncoderCase : OnIds<true> {
  using Module = ef::TransformerEncoder<T>;
  static Module make() { return Module(small_encoder()); }
  static Parameters parameters() { return encoder_parameters(""); }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {}, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.ids, in.mask());
  }
};

template <class T>
using Gated = ef::TransformerEncoder<T, ef::RMSNorm, ef::GatedFeedForward>;

template <class T>
struct GatedEncoderCase : OnIds<true> {
  using Module = Gated<T>;
  static Module make() {
    auto config = small_encoder();
    config.position_embedding = ef::PositionEmbedding::none;
    config.type_vocab_size = 0;
    config.embedding_norm = false;
    config.norm_placement = ef::NormPlacement::pre;
    config.final_norm = true;
    return Module(config);
  }
  static Parameters parameters() {
    Parameters list = {{"embeddings.token.weight", "(11, 53)"}};
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      add_norm(list, layer + "attention_norm", 53, false);
      add_linear(list, layer + "attention.query", 35, 53);
      add_linear(list, layer + "attention.key", 35, 53);
      add_linear(list, layer + "attention.value", 35, 53);
      add_linear(list, layer + "attention.output", 53, 35);
      add_norm(list, layer + "feed_forward_norm", 53, false);
      add_linear(list, layer + "feed_forward.gate", 61, 53);
      add_linear(list, layer + "feed_forward.up", 61, 53);
      add_linear(list, layer + "feed_forward.down", 53, 61);
    }
    add_norm(list, "final_norm", 53, false);
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {}, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.ids, in.mask());
  }
};

LAWS_HOLD_FOR(TransformerEncoder, EncoderCase);
LAWS_HOLD_FOR(GatedEncoder, GatedEncoderCase);

}  // namespace transformer_encoder_laws_test
}  // namespace laws
