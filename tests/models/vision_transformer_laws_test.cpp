// SPDX-License-Identifier: MIT
#include "eigenformer/models/vision_transformer.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace vision_transformer_laws_test {

template <class T>
struct VisionTransformerCase : OnImages {
  using Module = ef::VisionTransformer<T>;
  static constexpr int rank = 2;
  static Traits traits() { return {.overlap = Overlap::harmless, .pads = false}; }
  static Module make() {
    return Module({.image_size = image_size,
                   .patch_size = patch_size,
                   .hidden_size = 53,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 5,
                   .head_size = 7,
                   .intermediate_size = 61,
                   .num_labels = 13});
  }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "patch_embedding.projection", 53, 30);
    list.emplace_back("class_token", "(53)");
    list.emplace_back("position_embedding", "(7, 53)");
    add_layers(list, "layers", 2);
    add_norm(list, "final_norm", 53);
    add_linear(list, "head", 13, 53);
    return list;
  }
  static ef::Shape<2> output_shape(const Input& in) { return {in.images.dim(0), 13}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 2> y,
                   ef::Workspace& workspace) {
    module.forward(in.images, y, workspace);
  }
  static ef::Tensor<T, 2> convenient(const Module& module, const Owned<T>& in) {
    return module(in.images);
  }
};

/// All tokens instead of the logits.
template <class T>
struct VisionFeaturesCase : VisionTransformerCase<T> {
  using Module = ef::VisionTransformer<T>;
  static constexpr int rank = 3;
  static Traits traits() {
    Traits traits = VisionTransformerCase<T>::traits();
    traits.unread = "head.";
    return traits;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.images.dim(0), 7, 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.features(in.images, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    ef::Tensor<T, 3> y({in.images.dim(0), 7, 53});
    ef::Workspace workspace;
    module.features(in.images, y, workspace);
    return y;
  }
};

LAWS_HOLD_FOR(VisionTransformer, VisionTransformerCase);
LAWS_HOLD_FOR(VisionTransformerFeatures, VisionFeaturesCase);

}  // namespace vision_transformer_laws_test
}  // namespace laws
