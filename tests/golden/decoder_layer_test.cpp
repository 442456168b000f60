// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace decoder_layer_test {

namespace ef = eigenformer;

template <class T>
void run_file(const char* name) {
  golden::run_file(name, 36, {{"DecoderLayer", golden::run_with_memory<ef::DecoderLayer<T>>}});
}

TEST(GoldenDecoderLayerPre, Float) { run_file<float>("decoder_layer_pre"); }
TEST(GoldenDecoderLayerPre, Double) { run_file<double>("decoder_layer_pre"); }
TEST(GoldenDecoderLayerPost, Float) { run_file<float>("decoder_layer_post"); }
TEST(GoldenDecoderLayerPost, Double) { run_file<double>("decoder_layer_post"); }

}  // namespace decoder_layer_test
