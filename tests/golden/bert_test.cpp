// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace bert_test {

namespace ef = eigenformer;

template <class T>
void run_pooler(golden::Case& test) {
  const auto pooler = test.module<ef::Pooler<T>>();
  test.expect("y", pooler(test.input<T, 3>("x")));
}

template <class T>
void run_sequence_classifier(golden::Case& test) {
  golden::run_on_ids<ef::SequenceClassifier<T>>(test, "logits");
}

template <class T>
void run_masked_language_model(golden::Case& test) {
  golden::run_on_ids<ef::MaskedLanguageModel<T>>(test, "logits");
}

template <class T>
void run_file() {
  golden::run_file("bert", 6,
                   {{"TransformerEncoder", golden::run_transformer_encoder<T>},
                    {"Pooler", run_pooler<T>},
                    {"SequenceClassifier", run_sequence_classifier<T>},
                    {"MaskedLanguageModel", run_masked_language_model<T>}});
}

TEST(GoldenBert, Float) { run_file<float>(); }
TEST(GoldenBert, Double) { run_file<double>(); }

}  // namespace bert_test
