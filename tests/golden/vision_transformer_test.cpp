// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace vision_transformer_test {

TEST(GoldenVisionTransformer, Float) {
  golden::run_file("vision_transformer", 2,
                   {{"VisionTransformer", golden::run_vision_transformer<float>}});
}
TEST(GoldenVisionTransformer, Double) {
  golden::run_file("vision_transformer", 2,
                   {{"VisionTransformer", golden::run_vision_transformer<double>}});
}

}  // namespace vision_transformer_test
