// SPDX-License-Identifier: MIT
#include "eigenformer/nn/embeddings.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace embeddings_laws_test {

template <class T>
struct EmbeddingCase : OnIds<false> {
  using Module = ef::Embedding<T>;
  static Module make() { return Module({.num_embeddings = 11, .embedding_dim = 53}); }
  static Parameters parameters() { return {{"weight", "(11, 53)"}}; }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.ids);
  }
};

template <class T>
struct AnyEmbeddingsCase : OnIds<false> {
  using Module = ef::Embeddings<T>;
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 53}; }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {}, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.ids);
  }
};

/// BERT's: learned positions, token types, a norm.
template <class T>
struct LearnedPositionsCase : AnyEmbeddingsCase<T> {
  using Module = ef::Embeddings<T>;
  static Module make() {
    return Module({.vocab_size = 11,
                   .hidden_size = 53,
                   .max_position_embeddings = 151,
                   .type_vocab_size = 2});
  }
  static Parameters parameters() {
    Parameters list = {{"token.weight", "(11, 53)"},
                       {"position.weight", "(151, 53)"},
                       {"token_type.weight", "(2, 53)"}};
    add_norm(list, "norm", 53);
    return list;
  }
  static std::vector<Wrong> wrong_inputs() {
    auto wrong = AnyEmbeddingsCase<T>::wrong_inputs();
    wrong.push_back({AnyEmbeddingsCase<T>::input(1, 152, 1), {"151", "max_position_embeddings"}});
    return wrong;
  }
};

template <class T>
struct SinusoidalPositionsCase : AnyEmbeddingsCase<T> {
  using Module = ef::Embeddings<T>;
  static Module make() {
    return Module({.vocab_size = 11,
                   .hidden_size = 53,
                   .position_embedding = ef::PositionEmbedding::sinusoidal,
                   .scale_embeddings = true,
                   .embedding_norm = false});
  }
  static Parameters parameters() { return {{"token.weight", "(11, 53)"}}; }
};

template <class T>
struct NoPositionsCase : AnyEmbeddingsCase<T> {
  using Module = ef::Embeddings<T>;
  static Module make() {
    return Module({.vocab_size = 11,
                   .hidden_size = 53,
                   .position_embedding = ef::PositionEmbedding::none,
                   .norm_bias = false,
                   .padding_id = 1});
  }
  static Parameters parameters() { return {{"token.weight", "(11, 53)"}, {"norm.weight", "(53)"}}; }
};

LAWS_HOLD_FOR(Embedding, EmbeddingCase);
LAWS_HOLD_FOR(LearnedPositions, LearnedPositionsCase);
LAWS_HOLD_FOR(SinusoidalPositions, SinusoidalPositionsCase);
LAWS_HOLD_FOR(NoPositions, NoPositionsCase);

}  // namespace embeddings_laws_test
}  // namespace laws
