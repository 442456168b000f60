// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace dive_into_deep_learning_test {

namespace ef = eigenformer;

template <class T>
void run_additive_attention(golden::Case& test) {
  const auto attention = test.module<ef::AdditiveAttention<T>>();
  const auto query = test.input<T, 3>("query"), key = test.input<T, 3>("key"),
             value = test.input<T, 3>("value");
  if (!test.has_mask("key_lengths")) return test.expect("y", attention(query, key, value));
  const auto lengths = test.key_lengths();
  test.expect("y", attention(query, key, value, lengths));
}

template <class T>
void run_file() {
  golden::run_file("dive_into_deep_learning", 8,
                   {{"AdditiveAttention", run_additive_attention<T>},
                    {"MultiHeadAttention", golden::run_multi_head_attention<T>},
                    {"EncoderLayer", golden::run_masked<ef::EncoderLayer<T>>},
                    {"TransformerEncoder", golden::run_transformer_encoder<T>},
                    {"VisionTransformer", golden::run_vision_transformer<T>}});
}

TEST(GoldenDiveIntoDeepLearning, Float) { run_file<float>(); }
TEST(GoldenDiveIntoDeepLearning, Double) { run_file<double>(); }

}  // namespace dive_into_deep_learning_test
