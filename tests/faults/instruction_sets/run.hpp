// SPDX-License-Identifier: MIT
#pragma once

// The same work, compiled into each part of the program with that part's instruction set. Only
// plain numbers cross the border.

#include <algorithm>

#include "eigenformer/eigenformer.hpp"

#define EIGENFORMER_TEXT_OF(x) #x
#define EIGENFORMER_TEXT(x) EIGENFORMER_TEXT_OF(x)

namespace {

/// A layer on x (2, 67, 24), with threads; returns the tag of this part.
const char* run(const float* x, float* y) {
  ef::EncoderLayer<float, ef::RMSNorm, ef::GatedFeedForward> layer(
      {.hidden_size = 24, .num_attention_heads = 3, .intermediate_size = 37});
  ef::init(layer, ef::Key{1});
  ef::ThreadPool pool(2);
  ef::Workspace workspace(pool);
  const ef::Tensor<float, 3> input(ef::TensorView<const float, 3>(x, {2, 67, 24}));
  ef::Tensor<float, 3> output(input.shape());
  layer.forward(input, {.causal = true}, output, workspace);
  std::copy(output.begin(), output.end(), y);
  return EIGENFORMER_TEXT(EIGENFORMER_ABI);
}

}  // namespace
