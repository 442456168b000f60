// A user's translation unit that touches each part of the library, for the compilers and flags in CMakeLists.txt.
#include <eigenformer/eigenformer.hpp>
#include <utility>
#include <vector>

template <class Scalar>
Scalar encoder_layers() {
  ef::Tensor<Scalar, 3> x({2, 5, 6});
  ef::Tensor<Scalar, 3> y({2, 5, 6});
  const std::vector<int> lengths = {5, 3};
  ef::ThreadPool pool(2);
  ef::Workspace workspace(pool);

  ef::EncoderLayer<Scalar> plain(
      {.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 11});
  ef::init(plain, ef::Key{1});
  plain.forward(x, {.causal = true, .key_lengths = lengths}, y, workspace);
  y = plain(std::as_const(y), {.window = 3});

  ef::EncoderLayer<Scalar, ef::RMSNorm<Scalar>, ef::GatedFeedForward<Scalar>> gated(
      {.hidden_size = 6,
       .num_attention_heads = 3,
       .intermediate_size = 11,
       .norm_placement = ef::NormPlacement::pre});
  ef::init(gated, ef::Key{2});
  return gated(y).matrix().sum() + static_cast<Scalar>(ef::count_parameters(gated));
}

int main() { return encoder_layers<float>() > 0 && encoder_layers<double>() > 0; }
