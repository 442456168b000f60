// SPDX-License-Identifier: MIT
// The laws for the first and last modules of models: patches, pooler, language-model head.
#include "eigenformer/nn/masked_language_model_head.hpp"
#include "eigenformer/nn/patch_embedding.hpp"
#include "eigenformer/nn/pooler.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace heads_laws_test {

template <class T>
struct PatchEmbeddingCase : OnImages {
  using Module = ef::PatchEmbedding<T>;
  static constexpr int rank = 3;
  static Module make() {
    return Module({.image_size = image_size, .patch_size = patch_size, .hidden_size = 53});
  }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "projection", 53, 3 * 2 * 5);
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.images.dim(0), num_patches, 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.images, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.images);
  }
};

template <class T>
struct PoolerCase : OnTokens<53> {
  using Module = ef::Pooler<T>;
  static constexpr int rank = 2;
  static Traits traits() {
    return {.overlap = Overlap::harmless, .splits_work = false, .needs_a_token = true};
  }
  static Module make() { return Module({.hidden_size = 53}); }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "dense", 53, 53);
    return list;
  }
  static ef::Shape<2> output_shape(const Input& in) { return {in.x.dim(0), 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 2> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, y, workspace);
  }
  static ef::Tensor<T, 2> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x);
  }
};

template <class T>
struct MaskedLanguageModelHeadCase : OnTokens<53> {
  using Module = ef::MaskedLanguageModelHead<T>;
  static Traits traits() { return {.overlap = Overlap::harmless}; }
  static Module make() { return Module({.hidden_size = 53, .vocab_size = 29}); }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "transform", 53, 53);
    add_norm(list, "norm", 53);
    list.emplace_back("bias", "(29)");
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.x.dim(0), in.x.dim(1), 29}; }
  static const ef::Tensor<T, 2>& table() {
    static const auto table = reference::random_tensor<T, 2>({29, 53}, 77);
    return table;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, table(), y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    ef::Tensor<T, 3> y({in.x.dim(0), in.x.dim(1), 29});
    ef::Workspace workspace;
    module.forward(in.x, table(), y, workspace);
    return y;
  }
};

LAWS_HOLD_FOR(PatchEmbedding, PatchEmbeddingCase);
LAWS_HOLD_FOR(Pooler, PoolerCase);
LAWS_HOLD_FOR(MaskedLanguageModelHead, MaskedLanguageModelHeadCase);

}  // namespace heads_laws_test
}  // namespace laws
