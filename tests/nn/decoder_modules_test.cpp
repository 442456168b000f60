// SPDX-License-Identifier: MIT
// Attention with positions and decoder layers against plain loops; a layer's cache.
#include <gtest/gtest.h>

#include "eigenformer/nn/decoder_layer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/language_model_head.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/kernels/attention_cases.hpp"
#include "tests/nn/differential.hpp"
#include "tests/nn/pieces.hpp"
#include "tests/reference/decoder_layer.hpp"
#include "tests/reference/error_text.hpp"

namespace decoder_modules_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::agrees;
using reference::random_module;
using reference::Real;
using reference::Reals;
using reference::widen;

template <class T>
class DecoderModulesTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DecoderModulesTest, Scalars);

TYPED_TEST(DecoderModulesTest, AttentionWithAllPositionsAndEveryMask) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({3, 11, 13}, 5);
  for (const auto& [name, positions] : pieces::all_positions()) {
    for (Index groups : {6, 2}) {
      const auto module = random_module<ef::MultiHeadAttention<T>>(
          ef::MultiHeadAttentionConfig{.hidden_size = 13,
                                       .num_attention_heads = 6,
                                       .num_key_value_heads = groups,
                                       .head_size = 10,
                                       .attention_positions = positions,
                                       .query_key_norm = groups == 2,
                                       .attn_logit_softcapping = groups == 2 ? 1.5 : 0,
                                       .sliding_window = groups == 2 ? 7 : 0});
      for (const auto& kind : reference::mask_kinds) {
        const reference::RandomMask<T> mask(kind, {3, 6, 6, 11, 11, 1, 1}, 3);
        EXPECT_TRUE(agrees(
            module(x, mask.mask()),
            reference::multi_head_attention(module, widen(x), widen(x), widen(x), mask.plain()),
            1000))
            << name << ", " << kind.name << ", " << groups << " groups";
      }
    }
  }
}

// Queries beyond the keys, at their own positions.
TYPED_TEST(DecoderModulesTest, CrossAttentionWithAllPositions) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({2, 5, 13}, 5);
  const auto memory = reference::random_tensor<T, 3>({2, 17, 7}, 6);
  reference::Visibility plain;
  plain.query_offset = 23;
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = random_module<ef::MultiHeadAttention<T>>(
        ef::MultiHeadAttentionConfig{.hidden_size = 13,
                                     .num_attention_heads = 6,
                                     .num_key_value_heads = 3,
                                     .head_size = 10,
                                     .key_value_size = 7,
                                     .scale = 0.2,
                                     .attention_positions = positions});
    EXPECT_TRUE(agrees(
        module(x, memory, {.query_offset = 23}),
        reference::multi_head_attention(module, widen(x), widen(memory), widen(memory), plain),
        1000))
        << name;
  }
}

template <class Layer>
void compare_layers(ef::TransformerConfig config) {
  using T = typename Layer::Scalar;
  const auto x = reference::random_tensor<T, 3>({3, 11, 13}, 5);
  const auto memory = reference::random_tensor<T, 3>({3, 7, 5}, 6);
  for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
    for (bool with_memory : {false, true}) {
      config.norm_placement = placement;
      config.cross_attention = with_memory;
      config.key_value_size = 5;
      const auto layer = random_module<Layer>(config);
      for (const auto& kind : reference::mask_kinds) {
        reference::MaskKind own = kind;
        own.query_offset = 0;  // a decoder's first token is at position 0
        const reference::RandomMask<T> mask(own, {3, 6, 6, 11, 11, 1, 1}, 3);
        const reference::RandomMask<T> memory_mask(kind, {3, 6, 6, 11, 7, 1, 1}, 4);
        const auto y =
            with_memory ? layer(x, memory, mask.mask(), memory_mask.mask()) : layer(x, mask.mask());
        EXPECT_TRUE(agrees(
            y,
            reference::decoder_layer(layer, widen(x), with_memory ? widen(memory) : Reals<3>(),
                                     mask.plain(), memory_mask.plain()),
            3000))
            << kind.name << ", " << to_string(placement) << ", memory: " << with_memory;
      }
    }
  }
}

TYPED_TEST(DecoderModulesTest, DecoderLayers) {
  compare_layers<ef::DecoderLayer<TypeParam>>({.hidden_size = 13,
                                               .num_attention_heads = 6,
                                               .head_size = 10,
                                               .intermediate_size = 29,
                                               .layer_norm_eps = 1e-3});
}

TYPED_TEST(DecoderModulesTest, GatedDecoderLayers) {
  compare_layers<ef::DecoderLayer<TypeParam, ef::RMSNorm, ef::GatedFeedForward>>(
      {.hidden_size = 13,
       .num_attention_heads = 6,
       .num_key_value_heads = 2,
       .head_size = 10,
       .intermediate_size = 29,
       .activation = ef::Activation::silu,
       .rms_norm_eps = 1e-3,
       .query_bias = false,
       .feed_forward_bias = false,
       .attention_scale = 0.2,
       .attention_positions = {.kind = ef::AttentionPosition::rotary},
       .query_key_norm = true,
       .sliding_window = 5});
}

TYPED_TEST(DecoderModulesTest, LanguageModelHeads) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({3, 7, 13}, 5);
  const auto table = reference::random_tensor<T, 2>({29, 13}, 6);
  for (bool tied : {false, true}) {
    for (bool bias : {false, true}) {
      for (double cap : {0.0, 0.7}) {
        const auto head = random_module<ef::LanguageModelHead<T>>(
            ef::LanguageModelHeadConfig{.hidden_size = 13,
                                        .vocab_size = 29,
                                        .tie_word_embeddings = tied,
                                        .bias = bias,
                                        .logit_scale = 0.3,
                                        .final_logit_softcapping = cap});
        Reals<3> expected = reference::linear(widen(x), tied ? widen(table) : widen(head.weight));
        for (Index i = 0; i < expected.size(); ++i) {
          Real& e = expected.data()[i];
          e = Real(T(0.3)) * e + (bias ? Real(head.bias(i % 29)) : 0);
          if (cap > 0) e = Real(T(cap)) * std::tanh(e / Real(T(cap)));
        }
        Tensor<T, 3> logits({3, 7, 29});
        ef::Workspace workspace;
        head.forward(x, table, logits, workspace);
        EXPECT_TRUE(agrees(logits, expected)) << tied << bias << cap;
      }
    }
  }
}

TYPED_TEST(DecoderModulesTest, ALayerWithItsCache) {
  using T = TypeParam;
  const auto layer = random_module<ef::DecoderLayer<T>>(
      ef::TransformerConfig{.hidden_size = 13,
                            .num_attention_heads = 6,
                            .num_key_value_heads = 2,
                            .head_size = 10,
                            .intermediate_size = 29,
                            .cross_attention = true,
                            .key_value_size = 5,
                            .attention_positions = {.kind = ef::AttentionPosition::alibi}});
  const auto x = reference::random_tensor<T, 3>({2, 149, 13}, 5);
  const auto memory = reference::random_tensor<T, 3>({2, 7, 5}, 6);
  const std::vector<int> lengths = {7, 3};
  const Tensor<T, 3> whole = layer(x, memory, {}, {.key_lengths = lengths});
  ef::Workspace workspace;
  auto cache = layer.make_cache(2, 149, 7);
  layer.remember(memory, lengths, cache, workspace);
  const pieces::Counts begin = {0, 0}, end = {149, 131};
  const Tensor<T, 3> y = pieces::in_pieces<T>(
      x, 13, begin, pieces::ragged_pieces(begin, end, 23, 4),
      [&](const pieces::Piece& piece, const Tensor<T, 3>& part, Tensor<T, 3>& result) {
        layer.forward(part, piece.token_counts(), cache, {}, {}, result, workspace);
      });
  EXPECT_TRUE(pieces::same_tokens(y, whole, begin, end));
}

TYPED_TEST(DecoderModulesTest, WrongCallsLeaveALayersCacheAsItWas) {
  using T = TypeParam;
  const auto layer =
      random_module<ef::DecoderLayer<T>>(ef::TransformerConfig{.hidden_size = 13,
                                                               .num_attention_heads = 6,
                                                               .head_size = 10,
                                                               .intermediate_size = 29,
                                                               .cross_attention = true,
                                                               .key_value_size = 5});
  const auto x = reference::random_tensor<T, 3>({2, 3, 13}, 5);
  const auto memory = reference::random_tensor<T, 3>({2, 7, 5}, 6);
  ef::Workspace workspace;
  auto cache = layer.make_cache(2, 5, 7);
  layer.remember(memory, {}, cache, workspace);
  Tensor<T, 3> y(x.shape()), narrow({2, 2, 13});
  const Tensor<bool, 2> keep({2, 4});
  const Tensor<T, 3> longer({2, 8, 5}), wider({2, 7, 6});
  const std::vector<int> beyond = {7, 8};
  EXPECT_ERROR(layer.forward(x, cache, {.key_allowed = keep}, {}, y, workspace),
               std::invalid_argument, "DecoderLayer: mask.key_allowed must be (2, 3); got (2, 4)");
  EXPECT_ERROR(layer.forward(x, cache, {}, {.key_allowed = keep}, y, workspace),
               std::invalid_argument,
               "DecoderLayer: memory: mask.key_allowed must be (2, 7); got (2,");
  EXPECT_ERROR(layer.forward(x, cache, {}, {}, narrow, workspace), std::invalid_argument,
               "DecoderLayer: y: shape must be (2, 3, 13); got (2, 2, 13)");
  EXPECT_ERROR(layer.remember(longer, {}, cache, workspace), std::invalid_argument,
               "KeyValueCache: batch row 0 holds at most 7 tokens; 8 don't fit");
  EXPECT_ERROR(layer.remember(wider, {}, cache, workspace), std::invalid_argument,
               "MultiHeadAttention: memory of the keys: shape must be (2, 7,");
  EXPECT_ERROR(layer.remember(memory, beyond, cache, workspace), std::invalid_argument,
               "KeyValueCache: token counts must be in [0, 7]; got 8 for batch");
  EXPECT_EQ(cache.self.longest(), 0);
  EXPECT_EQ(cache.memory.length(0), 7);
  layer.forward(x, cache, {}, {}, y, workspace);
  EXPECT_TRUE(reference::same_bits(y, layer(x, memory)));
}

TEST(DecoderLayer, RefusesAMemoryItDoesNotAttendToAndTheReverse) {
  ef::TransformerConfig config{.hidden_size = 12, .num_attention_heads = 4, .intermediate_size = 5};
  const Tensor<float, 3> x({1, 2, 12});
  const ef::DecoderLayer<float> without(config);
  config.cross_attention = true;
  const ef::DecoderLayer<float> with(config);
  EXPECT_NO_THROW(without(x));
  EXPECT_NO_THROW(with(x, x));
  EXPECT_ERROR(without(x, x), std::invalid_argument,
               "DecoderLayer: a memory is given, but cross_attention is false");
  EXPECT_ERROR(with(x), std::invalid_argument,
               "DecoderLayer: cross_attention is true, but no memory is given");
}

// A memory has positions of its own, if any: neither offsets nor windows lead from a target to it.
TEST(DecoderLayer, PositionsAndWindowsAreThoseOfTheSelfAttention) {
  using Kind = ef::AttentionPosition;
  for (Kind kind : {Kind::rotary, Kind::alibi, Kind::relative_bias, Kind::relative_key}) {
    const auto layer = random_module<ef::DecoderLayer<float>>(
        ef::TransformerConfig{.hidden_size = 12,
                              .num_attention_heads = 3,
                              .intermediate_size = 5,
                              .cross_attention = true,
                              .key_value_size = 7,
                              .attention_positions = {.kind = kind},
                              .attn_logit_softcapping = 3,
                              .sliding_window = 2});
    const auto& self = layer.self_attention.config;
    const auto& cross = layer.cross_attention->config;
    EXPECT_EQ(self.attention_positions.kind, kind);
    EXPECT_EQ(cross.attention_positions.kind, Kind::none);
    EXPECT_EQ(self.sliding_window, 2);
    EXPECT_EQ(cross.sliding_window, 0);
    EXPECT_EQ(self.key_input_size(), 12);
    EXPECT_EQ(cross.key_input_size(), 7);
    EXPECT_EQ(self.attn_logit_softcapping, cross.attn_logit_softcapping);
    EXPECT_FALSE(self.bidirectional);

    // The order of the memory's tokens doesn't matter but for rounding, and the last target sees
    // the first.
    const auto x = reference::random_tensor<float, 3>({1, 11, 12}, 5);
    const auto memory = reference::random_tensor<float, 3>({1, 5, 7}, 6);
    Tensor<float, 3> reversed(memory.shape()), changed = memory;
    for (Index j = 0; j < 5; ++j) std::copy_n(&memory(0, j, 0), 7, &reversed(0, 4 - j, 0));
    changed(0, 0, 3) += 1;
    const Tensor<float, 3> y = layer(x, memory);
    EXPECT_TRUE(agrees(layer(x, reversed), widen(y), 1000));
    EXPECT_FALSE(reference::same_bits(layer(x, changed).data() + 10 * 12, &y(0, 10, 0), 12));
  }
}

template <class Config>
void expect_refused(const Config& config, const std::string& text) {
  try {
    if constexpr (std::is_same_v<Config, ef::RelativeBiasConfig>) {
      ef::RelativeBias<float> module(config);
    } else if constexpr (std::is_same_v<Config, ef::LanguageModelHeadConfig>) {
      ef::LanguageModelHead<float> module(config);
    } else {
      ef::MultiHeadAttention<float> module(config);
    }
    ADD_FAILURE() << "nothing thrown; expected " << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(DecoderModules, ConstructorsRefuseWhatMakesNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto attention = [](const ef::AttentionPositions& positions, double cap, Index window) {
    return ef::MultiHeadAttentionConfig{.hidden_size = 12,
                                        .num_attention_heads = 4,
                                        .attention_positions = positions,
                                        .attn_logit_softcapping = cap,
                                        .sliding_window = window};
  };
  using Kind = ef::AttentionPosition;
  expect_refused(attention({}, -1, 0), "got -1");
  expect_refused(attention({}, nan, 0), "attn_logit_softcapping");
  expect_refused(attention({}, 0, -2), "got -2");
  expect_refused(attention({.kind = Kind::rotary}, 0, 0), "3 of 3");  // an odd head
  expect_refused(attention({.kind = Kind::relative_key, .max_position_embeddings = 0}, 0, 0),
                 "max_position_embeddings");
  expect_refused(
      attention({.kind = Kind::relative_bias, .relative_attention_num_buckets = 7}, 0, 0), "got 7");
  expect_refused(
      attention({.kind = Kind::relative_bias, .relative_attention_max_distance = 8}, 0, 0),
      "got 8");

  expect_refused(ef::RelativeBiasConfig{.num_attention_heads = 0}, "got 0");
  expect_refused(ef::RelativeBiasConfig{.relative_attention_num_buckets = 2}, "got 2");
  expect_refused(
      ef::RelativeBiasConfig{.relative_attention_num_buckets = 1, .bidirectional = false}, "got 1");
  expect_refused(ef::RelativeBiasConfig{.relative_attention_max_distance = -5}, "got -5");
  EXPECT_NO_THROW(ef::RelativeBias<float>({.relative_attention_num_buckets = 7,
                                           .relative_attention_max_distance = 4,
                                           .bidirectional = false}));

  expect_refused(ef::LanguageModelHeadConfig{.hidden_size = -1}, "-1");
  expect_refused(ef::LanguageModelHeadConfig{.vocab_size = -3}, "-3");
  expect_refused(ef::LanguageModelHeadConfig{.logit_scale = nan}, "logit_scale");
  expect_refused(ef::LanguageModelHeadConfig{.final_logit_softcapping = -2}, "got -2");
}

}  // namespace decoder_modules_test
