// SPDX-License-Identifier: MIT
// The published models have exactly as many parameters as their files. ShapeOnly: nothing is
// allocated.
#include <gtest/gtest.h>

#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/vision_transformer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"

namespace parameter_counts_test {

namespace ef = eigenformer;
using ef::Index;
using ef::ShapeOnly;

ef::TransformerConfig bert(Index vocabulary, Index width, Index layers, Index heads) {
  return {.vocab_size = vocabulary,
          .hidden_size = width,
          .num_hidden_layers = layers,
          .num_attention_heads = heads,
          .intermediate_size = 4 * width,
          .max_position_embeddings = 512,
          .type_vocab_size = 2};
}

Index encoder_and_pooler(const ef::TransformerConfig& config) {
  return count_parameters(ef::TransformerEncoder<ShapeOnly>(config)) +
         count_parameters(ef::Pooler<ShapeOnly>({.hidden_size = config.hidden_size}));
}

TEST(ParameterCounts, Bert) {
  EXPECT_EQ(encoder_and_pooler(bert(30522, 768, 12, 12)), 109482240);
  EXPECT_EQ(encoder_and_pooler(bert(28996, 768, 12, 12)), 108310272);
  EXPECT_EQ(encoder_and_pooler(bert(30522, 1024, 24, 16)), 335141888);
  EXPECT_EQ(encoder_and_pooler(bert(28996, 1024, 24, 16)), 333579264);
  EXPECT_EQ(count_parameters(ef::MaskedLanguageModel<ShapeOnly>(bert(30522, 768, 12, 12))),
            109514298);
}

TEST(ParameterCounts, PartsOfBert) {
  const ef::TransformerEncoder<ShapeOnly> encoder(bert(30522, 768, 12, 12));
  EXPECT_EQ(count_parameters(encoder.embeddings), 23837184);
  EXPECT_EQ(count_parameters(encoder.layers[0]), 7087872);
  EXPECT_EQ(count_parameters(ef::Pooler<ShapeOnly>({.hidden_size = 768})), 590592);
  EXPECT_EQ(
      count_parameters(ef::TransformerEncoder<ShapeOnly>(bert(30522, 1024, 24, 16)).layers[0]),
      12596224);
}

TEST(ParameterCounts, SmallSentenceEncoders) {
  EXPECT_EQ(encoder_and_pooler(bert(30522, 384, 6, 12)), 22713216);
  EXPECT_EQ(encoder_and_pooler(bert(30522, 384, 12, 12)), 33360000);
}

TEST(ParameterCounts, SequenceClassifier) {
  EXPECT_EQ(count_parameters(ef::SequenceClassifier<ShapeOnly>(bert(30522, 768, 12, 12))),
            109482240 + 2 * 768 + 2);
}

Index vision(Index patch, Index width, Index layers, Index heads) {
  return count_parameters(ef::VisionTransformer<ShapeOnly>({.patch_size = patch,
                                                            .hidden_size = width,
                                                            .num_hidden_layers = layers,
                                                            .num_attention_heads = heads,
                                                            .intermediate_size = 4 * width}));
}

TEST(ParameterCounts, VisionTransformers) {
  EXPECT_EQ(count_parameters(ef::VisionTransformer<ShapeOnly>({})), 86567656);
  EXPECT_EQ(vision(16, 768, 12, 12), 86567656);
  EXPECT_EQ(vision(32, 768, 12, 12), 88224232);
  EXPECT_EQ(vision(16, 1024, 24, 16), 304326632);
  EXPECT_EQ(vision(14, 1280, 32, 16), 632045800);
  EXPECT_EQ(vision(16, 192, 12, 3), 5717416);   // DeiT tiny
  EXPECT_EQ(vision(16, 384, 12, 6), 22050664);  // DeiT small
}

// At equal numbers of weights a gated network is a third narrower; its third bias is what remains.
TEST(ParameterCounts, GatedAndPlainFeedForward) {
  const auto plain = [](bool bias) {
    return count_parameters(
        ef::FeedForward<ShapeOnly>({.hidden_size = 24, .intermediate_size = 48, .bias = bias}));
  };
  const auto gated = [](bool bias) {
    return count_parameters(ef::GatedFeedForward<ShapeOnly>(
        {.hidden_size = 24, .intermediate_size = 32, .bias = bias}));
  };
  EXPECT_EQ(plain(false), 2304);
  EXPECT_EQ(gated(false), 2304);
  EXPECT_EQ(plain(true), 2376);
  EXPECT_EQ(gated(true), 2392);
}

}  // namespace parameter_counts_test
