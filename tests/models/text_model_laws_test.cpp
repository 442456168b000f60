// SPDX-License-Identifier: MIT
#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "tests/models/model_parameters.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace {

template <class T, class M>
struct TextModelCase : OnIds<true> {
  using Module = M;
  template <int Rank>
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, Rank> y,
                   ef::Workspace& workspace) {
    module.forward(in.ids, {}, in.mask, y, workspace);
  }
  static auto convenient(const M& module, const Owned<T>& in) {
    return module(in.ids, in.mask());
  }
};

template <class T>
struct ClassifierCase : TextModelCase<T, ef::SequenceClassifier<T>> {
  static constexpr int rank = 2;
  static Traits traits() { return {.needs_a_token = true}; }
  static ef::SequenceClassifier<T> make() {
    return ef::SequenceClassifier<T>({.encoder = small_encoder(), .num_labels = 7});
  }
  static Parameters parameters() {
    Parameters list = encoder_parameters("encoder.");
    add_linear(list, "pooler.dense", 53, 53);
    add_linear(list, "classifier", 7, 53);
    return list;
  }
  static ef::Shape<2> output_shape(const Input& in) { return {in.ids.dim(0), 7}; }
};

template <class T>
struct ClassifierWithoutPoolerCase : ClassifierCase<T> {
  static ef::SequenceClassifier<T> make() {
    return ef::SequenceClassifier<T>(
        {.encoder = small_encoder(), .num_labels = 7, .pooler = false});
  }
  static Parameters parameters() {
    Parameters list = encoder_parameters("encoder.");
    add_linear(list, "classifier", 7, 53);
    return list;
  }
};

template <class T>
struct MaskedLanguageModelCase : TextModelCase<T, ef::MaskedLanguageModel<T>> {
  static ef::MaskedLanguageModel<T> make() {
    return ef::MaskedLanguageModel<T>(small_encoder());
  }
  static Parameters parameters() {
    Parameters list = encoder_parameters("encoder.");
    add_linear(list, "head.transform", 53, 53);
    add_norm(list, "head.norm", 53);
    list.emplace_back("head.bias", "(11)");
    return list;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.ids.dim(0), in.ids.dim(1), 11}; }
};

}  // namespace

LAWS_HOLD_FOR(SequenceClassifier, ClassifierCase);
LAWS_HOLD_FOR(SequenceClassifierWithoutPooler, ClassifierWithoutPoolerCase);
LAWS_HOLD_FOR(MaskedLanguageModel, MaskedLanguageModelCase);

}  // namespace laws
