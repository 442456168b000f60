// A user's translation unit that touches each part of the library, for the compilers and flags in CMakeLists.txt. It is
// compiled, never run.
#include <cstdint>
#include <eigenformer/eigenformer.hpp>
#include <vector>

template <class T>
T attentions(const ef::Tensor<T, 3>& x) {
  const std::vector<int> lengths = {5, 3};
  ef::Tensor<bool, 2> pairs({5, 5});
  ef::Tensor<T, 4> scores({2, 3, 5, 5});
  ef::MultiHeadAttention<T> self({.hidden_size = 6, .num_attention_heads = 3});
  ef::init(self, ef::Key{1});
  ef::AdditiveAttention<T> additive({.query_size = 6, .key_size = 6, .hidden_size = 7});
  ef::init(additive, ef::Key{2});
  auto y = self(x, {.causal = true, .key_lengths = lengths});
  y = self(y, y, {.allowed = pairs, .bias = scores});
  y = additive(y, x, x, lengths);
  return y.matrix().sum() + self.attention_weights(y, x)(1, 2, 4, 4);
}

template <class T>
T encoder_layers(const ef::Tensor<T, 3>& x) {
  ef::ThreadPool pool(2);
  ef::Workspace workspace(pool);
  ef::Tensor<T, 3> y(x.shape());
  ef::EncoderLayer<T> plain({.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 11});
  ef::init(plain, ef::Key{3});
  plain.forward(x, {.window = 3}, y, workspace);

  using Gated = ef::EncoderLayer<T, ef::RMSNorm, ef::GatedFeedForward>;
  Gated gated({.hidden_size = 6,
               .num_attention_heads = 3,
               .intermediate_size = 11,
               .norm_placement = ef::NormPlacement::pre});
  ef::init(gated, ef::Key{4});
  Gated same = ef::zeros_like(gated);
  ef::for_each_parameter(same, [](const auto&, auto& parameter) { parameter.data()[0] = 1; });
  return gated(y).matrix().sum() + static_cast<T>(ef::count_parameters(ef::cast<double>(same)));
}

template <class T>
T models() {
  const ef::Tensor<std::int32_t, 2> ids({2, 5});
  const ef::TransformerConfig config = {.vocab_size = 31,
                                        .hidden_size = 6,
                                        .num_hidden_layers = 2,
                                        .num_attention_heads = 3,
                                        .intermediate_size = 11,
                                        .num_labels = 3};
  ef::SequenceClassifier<T> classifier(config);
  ef::init(classifier, ef::Key{5});
  ef::MaskedLanguageModel<T> language_model(config);
  ef::init(language_model, ef::Key{6});
  ef::VisionTransformer<T> vision({.image_size = 8,
                                   .patch_size = 4,
                                   .hidden_size = 6,
                                   .num_hidden_layers = 1,
                                   .num_attention_heads = 2,
                                   .intermediate_size = 11,
                                   .num_labels = 5});
  ef::init(vision, ef::Key{7});
  return classifier(ids).matrix().sum() + language_model(ids).matrix().sum() +
         vision(ef::Tensor<T, 4>({1, 3, 8, 8})).matrix().sum();
}

template <class T>
T all() {
  const ef::Tensor<T, 3> x({2, 5, 6});
  return attentions(x) + encoder_layers(ef::gelu(x)) + models<T>() +
         ef::mean_pooling(ef::softmax(x), std::vector<int>{5, 3}).matrix().sum();
}

int main() { return all<float>() > 0 && all<double>() > 0 ? 0 : 1; }
