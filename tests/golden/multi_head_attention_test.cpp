// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace multi_head_attention_test {

TEST(GoldenMultiHeadAttention, Float) {
  golden::run_file("multi_head_attention", 20,
                   {{"MultiHeadAttention", golden::run_multi_head_attention<float>}});
}
TEST(GoldenMultiHeadAttention, Double) {
  golden::run_file("multi_head_attention", 20,
                   {{"MultiHeadAttention", golden::run_multi_head_attention<double>}});
}

}  // namespace multi_head_attention_test
