// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace encoder_stack_test {

namespace ef = eigenformer;

TEST(GoldenEncoderStack, Float) {
  golden::run_file("encoder_stack", 5,
                   {{"EncoderStack", golden::run_masked<ef::EncoderStack<float>>}});
}
TEST(GoldenEncoderStack, Double) {
  golden::run_file("encoder_stack", 5,
                   {{"EncoderStack", golden::run_masked<ef::EncoderStack<double>>}});
}

}  // namespace encoder_stack_test
