// SPDX-License-Identifier: MIT
//
// nn/packed.hpp may come after the modules that it packs.
#include "eigenformer/nn/encoder_layer.hpp"
// after the modules:
#include <gtest/gtest.h>

#include "eigenformer/nn/packed.hpp"

namespace include_order_test {

namespace ef = eigenformer;

TEST(IncludeOrder, PackedModulesWorkWhenPackedComesLast) {
  ef::EncoderLayer<float> layer(
      {.hidden_size = 24, .num_attention_heads = 4, .intermediate_size = 37});
  ef::init(layer, ef::Key{1});
  const ef::Tensor<float, 3> x({1, 3, 24});
  EXPECT_EQ(ef::pack(layer)(x), layer(x));
}

}  // namespace include_order_test
