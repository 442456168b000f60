// SPDX-License-Identifier: MIT
// Whole models against plain loops.
#include <gtest/gtest.h>

#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/vision_transformer.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/embeddings.hpp"
#include "tests/reference/encoder_layer.hpp"

namespace whole_models_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::random_module;
using reference::Reals;
using reference::widen;

template <class T>
class ModelTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ModelTest, Scalars);

constexpr reference::Real roundings = 3000;  // two layers, embeddings and head

/// Token 0 of each row.
Reals<2> first_tokens(const Reals<3>& x) {
  Reals<2> y({x.dim(0), x.dim(2)});
  for (Index b = 0; b < x.dim(0); ++b) {
    for (Index c = 0; c < x.dim(2); ++c) y(b, c) = x(b, 0, c);
  }
  return y;
}

TYPED_TEST(ModelTest, VisionTransformer) {
  using T = TypeParam;
  const auto model =
      random_module<ef::VisionTransformer<T>>(ef::TransformerConfig{.image_size = {7, 11},
                                                                    .patch_size = {2, 5},
                                                                    .hidden_size = 13,
                                                                    .num_hidden_layers = 2,
                                                                    .num_attention_heads = 3,
                                                                    .head_size = 5,
                                                                    .intermediate_size = 29,
                                                                    .num_labels = 17});
  const auto images = reference::random_tensor<T, 4>({3, 3, 7, 11}, 5);
  const Reals<3> patches = reference::patch_embedding(model.patch_embedding, widen(images));
  Reals<3> tokens({3, 7, 13});
  for (Index b = 0; b < 3; ++b) {
    for (Index t = 0; t < 7; ++t) {
      for (Index c = 0; c < 13; ++c) {
        tokens(b, t, c) = (t == 0 ? reference::Real(model.class_token(c)) : patches(b, t - 1, c)) +
                          model.position_embedding(t, c);
      }
    }
  }
  const Reals<3> expected = reference::encoder_layers(model, tokens);
  Tensor<T, 3> features({3, model.sequence_length(), 13});
  ef::Workspace workspace;
  model.features(images, features, workspace);
  EXPECT_TRUE(reference::agrees(features, expected, roundings));
  EXPECT_TRUE(reference::agrees(model(images),
                                reference::linear(first_tokens(expected), model.head), roundings));
}

ef::TransformerConfig small() {
  return {.vocab_size = 11,
          .hidden_size = 13,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .head_size = 5,
          .intermediate_size = 29,
          .max_position_embeddings = 17,
          .type_vocab_size = 2,
          .layer_norm_eps = 1e-5};
}

TYPED_TEST(ModelTest, TextModels) {
  using T = TypeParam;
  Tensor<std::int32_t, 2> ids({3, 7}), types({3, 7});
  for (Index i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(i * 7 % 11);
    types.data()[i] = static_cast<std::int32_t>(i % 2);
  }
  const std::vector<int> lengths = {7, 5, 1};
  reference::Visibility plain;
  plain.key_lengths = {7, 5, 1};
  const auto hidden = [&](const auto& encoder) {
    return reference::encoder_layers(encoder, reference::embeddings(encoder.embeddings, ids, types),
                                     plain);
  };
  const ef::Mask<T> mask{.key_lengths = lengths};
  const ef::EmbeddingInputs inputs{.token_types = types};

  for (bool pooler : {false, true}) {
    ef::TransformerConfig config = small();
    config.num_labels = 5;
    config.pooler = pooler;
    const auto classifier = random_module<ef::SequenceClassifier<T>>(config);
    Reals<2> pooled = first_tokens(hidden(classifier.encoder));
    if (pooler) {
      pooled = reference::activate(ef::Activation::tanh,
                                   reference::linear(pooled, classifier.pooler->dense));
    }
    EXPECT_TRUE(reference::agrees(classifier(ids, inputs, mask),
                                  reference::linear(pooled, classifier.classifier), roundings));
  }

  const auto model = random_module<ef::MaskedLanguageModel<T>>(small());
  const Reals<3> transformed = reference::norm(
      reference::activate(ef::Activation::gelu,
                          reference::linear(hidden(model.encoder), model.head.transform)),
      model.head.norm);
  EXPECT_TRUE(
      reference::agrees(model(ids, inputs, mask),
                        reference::linear(transformed, widen(model.encoder.embeddings.token.weight),
                                          widen(model.head.bias)),
                        roundings));
}

}  // namespace whole_models_test
