// SPDX-License-Identifier: MIT
#include "eigenformer/models/sequence_classifier.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace sequence_classifier_laws_test {

template <class T>
struct ClassifierCase : TextModelCase<T, ef::SequenceClassifier<T>> {
  static constexpr int rank = 2;
  static Traits traits() { return {.needs_a_token = true}; }
  static ef::SequenceClassifier<T> make() {
    ef::TransformerConfig config = small_encoder();
    config.num_labels = 7;
    return ef::SequenceClassifier<T>(config);
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
    ef::TransformerConfig config = small_encoder();
    config.num_labels = 7;
    config.pooler = false;
    return ef::SequenceClassifier<T>(config);
  }
  static Parameters parameters() {
    Parameters list = encoder_parameters("encoder.");
    add_linear(list, "classifier", 7, 53);
    return list;
  }
};

LAWS_HOLD_FOR(SequenceClassifier, ClassifierCase);
LAWS_HOLD_FOR(SequenceClassifierWithoutPooler, ClassifierWithoutPoolerCase);

}  // namespace sequence_classifier_laws_test
}  // namespace laws
