// SPDX-License-Identifier: MIT
#include "eigenformer/io/book_keys.hpp"
#include "eigenformer/io/load.hpp"
#include "tests/golden/runners.hpp"

namespace dive_into_deep_learning_decoder_test {

namespace ef = eigenformer;

/// Also with the parameters under the book's names.
template <class T>
void run_transformer_decoder(golden::Case& test) {
  const auto decoder = test.module<ef::TransformerDecoder<T>>();
  auto loaded = ef::zeros_like(decoder);
  ef::load(loaded, EIGENFORMER_TESTS "/golden/checkpoints/" + test.get<std::string>("directory"),
           ef::d2l_decoder_keys());
  EXPECT_TRUE(ef::parameters_equal(loaded, decoder));
  const auto memory = test.input<T, 3>("memory");
  const auto memory_mask = test.mask<T>("memory_mask");
  test.expect("logits", loaded(test.input<std::int32_t, 2>("ids"),
                               {.memory = memory.view(), .memory_mask = memory_mask.view()}));
}

template <class T>
void run_file() {
  golden::run_file("dive_into_deep_learning_decoder", 2,
                   {{"DecoderLayer", golden::run_with_memory<ef::DecoderLayer<T>>},
                    {"TransformerDecoder", run_transformer_decoder<T>}});
}

TEST(GoldenDiveIntoDeepLearningDecoder, Float) { run_file<float>(); }
TEST(GoldenDiveIntoDeepLearningDecoder, Double) { run_file<double>(); }

}  // namespace dive_into_deep_learning_decoder_test
