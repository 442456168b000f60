// SPDX-License-Identifier: MIT

// What compile_cost.py measures: an encoder run on token ids.
#include <cstdint>
#include <cstdio>
#include <eigenformer/eigenformer.hpp>

int main() {
  ef::TransformerEncoder<float> encoder({.vocab_size = 97,
                                         .hidden_size = 24,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 4,
                                         .intermediate_size = 96});
  ef::init(encoder, ef::Key{42});
  const ef::Tensor<std::int32_t, 2> ids({2, 11});
  const ef::Tensor<float, 3> y = encoder(ids);
  std::printf("%g\n", static_cast<double>(y(1, 10, 23)));
}
