// SPDX-License-Identifier: MIT
// A fingerprint of results that a part of -ffast-math would change: infinities in masked values, NaN, sums
// in the promised order, rows without keys, negative zeros. The same for all flags.
#include <cstdio>
#include <limits>

#include "eigenformer/eigenformer.hpp"

namespace ef = eigenformer;

namespace {

std::uint64_t fingerprint = 0xcbf29ce484222325u;

template <class T, int Rank>
void add(const ef::Tensor<T, Rank>& x) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(x.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()) * sizeof(T); ++i)
    fingerprint = (fingerprint ^ bytes[i]) * 0x100000001b3u;
}

template <class T>
void run() {
  ef::EncoderLayer<T> layer({.hidden_size = 30, .num_attention_heads = 5, .intermediate_size = 41});
  ef::init(layer, ef::Key{3});
  ef::Tensor<T, 3> x({2, 150, 30});
  for (ef::Index i = 0; i < x.size(); ++i)
    x.data()[i] = static_cast<T>(ef::Key{4}.normal(static_cast<std::uint64_t>(i)));
  add(layer(x, {.causal = true}));
  ef::Tensor<bool, 2> keep({2, 150});
  for (ef::Index t = 0; t < 150; ++t) keep(0, t) = t % 3 == 0;  // row 1 sees nothing
  for (ef::Index t = 1; t < 150; t += 3) x(0, t, 3) = std::numeric_limits<T>::infinity();
  for (ef::Index t = 2; t < 150; t += 3) x(0, t, 4) = std::numeric_limits<T>::quiet_NaN();
  const auto y = layer.attention(x, {.key_allowed = keep});
  for (ef::Index t = 0; t < 150; ++t) {  // the others are queries of NaN
    if (keep(0, t)) add(ef::Tensor<T, 1>(y.view()[0][t]));
    add(ef::Tensor<T, 1>(y.view()[1][t]));
  }
  add(ef::softmax(x));
  add(ef::gelu(x));
  add(ef::mean_pooling(x, keep));
}

}  // namespace

int main() {
  run<float>();
  run<double>();
  ef::TransformerDecoder<float> decoder({.vocab_size = 53,
                                         .hidden_size = 12,
                                         .num_attention_heads = 3,
                                         .intermediate_size = 7,
                                         .max_position_embeddings = 64});
  ef::init(decoder, ef::Key{5});
  const auto texts =
      ef::generate(decoder, {{1, 2}, {3}}, {.max_new_tokens = 30, .top_p = 0.9, .do_sample = true});
  for (const auto& text : texts.ids)
    for (std::int32_t id : text) fingerprint = (fingerprint ^ std::uint64_t(id)) * 0x100000001b3u;
  std::printf("%016llx\n", static_cast<unsigned long long>(fingerprint));
}
