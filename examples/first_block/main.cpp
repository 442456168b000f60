// SPDX-License-Identifier: MIT
//
// A first block: a pre-norm residual block of attention and a gated feed-forward network, stacked
// 16 deep. The shape is kept, two evaluations give the same bits, a saved stack loads back equal.
// Then the same block as post-norm: the same parameters, only the norms stand elsewhere.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/io/io.hpp"

using Stack = ef::EncoderStack<float, ef::RMSNorm, ef::GatedFeedForward>;
using Sequences = ef::Tensor<float, 3>;  // (batch, tokens, hidden size)

bool all_hold = true;

void show(const char* what, bool holds) {
  std::printf("  %-28s %s\n", what, holds ? "yes" : "NO");
  all_hold = all_hold && holds;
}

Stack make_stack(ef::NormPlacement placement, std::uint64_t seed) {
  Stack stack({.hidden_size = 24,
               .num_hidden_layers = 16,
               .num_attention_heads = 4,
               .intermediate_size = 64,
               .activation = ef::Activation::silu,
               .norm_placement = placement});
  ef::init(stack, ef::Key{seed});
  return stack;
}

double root_mean_square(const Sequences& x) {
  return std::sqrt(x.vector().squaredNorm() / static_cast<float>(x.size()));
}

int main() try {
  Sequences x({2, 7, 24});
  for (ef::Index i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<float>(ef::Key{7}.normal(static_cast<std::uint64_t>(i)));
  }

  const Stack pre = make_stack(ef::NormPlacement::pre, 42);
  const Sequences y = pre(x);
  std::printf("pre-norm, 16 layers, %d parameters\n", static_cast<int>(ef::count_parameters(pre)));
  show("shape kept", y.shape() == x.shape());
  show("two evaluations, same bits", pre(x) == y);

  const auto path = std::filesystem::temp_directory_path() / "first_block.safetensors";
  ef::save(pre, path.string());
  Stack loaded = make_stack(ef::NormPlacement::pre, 1);  // other numbers, to be overwritten
  show("different before loading", loaded(x) != y);
  ef::load(loaded, path.string());
  std::filesystem::remove(path);
  show("equal after loading", ef::parameters_equal(loaded, pre) && loaded(x) == y);

  const Stack post = make_stack(ef::NormPlacement::post, 42);
  const Sequences z = post(x);
  std::printf("post-norm, the same parameters\n");
  show("shape kept", z.shape() == x.shape());
  show("parameters equal", ef::parameters_equal(post, pre));
  std::printf("root mean square: input %.2f, after pre-norm %.2f, after post-norm %.2f\n",
              root_mean_square(x), root_mean_square(y), root_mean_square(z));
  return all_hold ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "first_block: %s\n", error.what());
  return 1;
}
