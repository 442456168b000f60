// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace transformer_stack_test {

namespace ef = eigenformer;

template <class T>
void run_transformer_stack(golden::Case& test) {
  const auto stack = test.module<ef::TransformerStack<T>>();
  const auto source_mask = test.mask<T>("source_mask"), target_mask = test.mask<T>(),
             memory_mask = test.mask<T>("memory_mask");
  test.expect("y", stack(test.input<T, 3>("source"), test.input<T, 3>("target"),
                         {source_mask.view(), target_mask.view(), memory_mask.view()}));
}

template <class T>
void run_decoder_stack_file() {
  golden::run_file("decoder_stack", 6,
                   {{"DecoderStack", golden::run_with_memory<ef::DecoderStack<T>>}});
}
template <class T>
void run_file(const char* name) {
  golden::run_file(name, 32, {{"TransformerStack", run_transformer_stack<T>}});
}

TEST(GoldenDecoderStack, Float) { run_decoder_stack_file<float>(); }
TEST(GoldenDecoderStack, Double) { run_decoder_stack_file<double>(); }
TEST(GoldenTransformerStackPre, Float) { run_file<float>("transformer_stack_pre"); }
TEST(GoldenTransformerStackPre, Double) { run_file<double>("transformer_stack_pre"); }
TEST(GoldenTransformerStackPost, Float) { run_file<float>("transformer_stack_post"); }
TEST(GoldenTransformerStackPost, Double) { run_file<double>("transformer_stack_post"); }

}  // namespace transformer_stack_test
