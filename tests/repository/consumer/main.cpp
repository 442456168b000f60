// The first translation unit of a program with two.
#include <cmath>
#include <eigenformer/eigenformer.hpp>

double sum_of(const ef::Tensor<float, 3>& x);

int main() {
  ef::EncoderLayer<float> layer(
      {.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 11});
  ef::init(layer, ef::Key{7});
  ef::Tensor<float, 3> x({2, 5, 6});
  x(1, 4, 5) = 1;
  const double sum = sum_of(layer(x));
  return std::isfinite(sum) ? 0 : 1;
}
