// SPDX-License-Identifier: MIT
#include <optional>

#include "tests/golden/golden.hpp"

namespace attention_test {

namespace ef = eigenformer;

struct Scale {
  std::optional<double> scale;
};
void read_fields(golden::Fields& read, Scale& c) { read("scale", c.scale); }

template <class T>
void run_attention(golden::Case& test) {
  const auto q = test.input<T, 4>("query"), k = test.input<T, 4>("key");
  const auto mask = test.mask<T>();
  test.expect("y", ef::scaled_dot_product_attention(q, k, test.input<T, 4>("value"), mask.view(),
                                                    test.config<Scale>().scale));
}

template <class T>
void run_file(const std::string& name, std::size_t number_of_cases) {
  golden::run_file(name, number_of_cases, {{"scaled_dot_product_attention", run_attention<T>}});
}

TEST(GoldenAttention, Float) { run_file<float>("attention", 9); }
TEST(GoldenAttention, Double) { run_file<double>("attention", 9); }

TEST(GoldenAttentionGrouped, Float) { run_file<float>("attention_grouped", 3); }
TEST(GoldenAttentionGrouped, Double) { run_file<double>("attention_grouped", 3); }

TEST(GoldenAttentionMasks, Float) { run_file<float>("attention_masks", 7); }
TEST(GoldenAttentionMasks, Double) { run_file<double>("attention_masks", 7); }

TEST(GoldenAttentionMultiQuery, Float) { run_file<float>("attention_multi_query", 2); }
TEST(GoldenAttentionMultiQuery, Double) { run_file<double>("attention_multi_query", 2); }

}  // namespace attention_test
