// SPDX-License-Identifier: MIT
// Decoders, and encoders with decoders, against plain loops.
#include <gtest/gtest.h>

#include "eigenformer/models/transformer.hpp"
#include "eigenformer/models/transformer_stack.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/decoding.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/decoder_layer.hpp"
#include "tests/reference/embeddings.hpp"
#include "tests/reference/error_text.hpp"

namespace whole_decoders_test {

using namespace decoding;
using reference::Real;
using reference::Reals;
using reference::widen;

template <class T>
class WholeDecodersTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WholeDecodersTest, Scalars);

constexpr Real roundings = 10000;  // two layers of three branches, embeddings and head

/// From what the head gets to logits.
template <class Head, class T>
Reals<3> logits(const Head& head, const Reals<3>& hidden, const Tensor<T, 2>& table) {
  const auto& c = head.config;
  Reals<3> y = reference::linear(hidden, c.tie_word_embeddings ? widen(table) : widen(head.weight));
  for (Index i = 0; i < y.size(); ++i) {
    Real& value = y.data()[i];
    value = Real(T(c.logit_scale)) * value + (c.bias ? Real(head.bias(i % c.vocab_size)) : 0);
    const Real cap = c.final_logit_softcapping;
    if (cap > 0) value = cap * std::tanh(value / cap);
  }
  return y;
}

template <class Model>
void compare(const Model& model, const std::string& name) {
  const Ids ids = random_ids(3, 11);
  const std::vector<int> lengths = {11, 7, 1};
  reference::Visibility plain;
  plain.key_lengths = {11, 7, 1};
  const Reals<3> hidden = reference::decoder_layers(
      model, reference::embeddings(model.embeddings, ids), Reals<3>(), plain);
  EXPECT_TRUE(reference::agrees(model(ids, {.mask = {.key_lengths = lengths}}),
                                logits(model.head, hidden, model.embeddings.token.weight),
                                roundings))
      << name;
}

// What a mask hides of the source is hidden from the decoder too: whatever is there, the logits are
// those of the shorter source.
TYPED_TEST(WholeDecodersTest, TheSourcesMaskHoldsForTheDecoderToo) {
  using T = TypeParam;
  const auto model = random_model<ef::Transformer<T>>(
      ef::TransformerConfig{.vocab_size = vocabulary,
                            .hidden_size = 20,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .intermediate_size = 29,
                            .position_embedding = ef::PositionEmbedding::sinusoidal});
  const Ids target = random_ids(2, 5), source = random_ids(2, 7);
  Ids shorter({2, 4}), other(source);
  for (Index b = 0; b < 2; ++b) {
    std::copy_n(&source(b, 0), 4, &shorter(b, 0));
    for (Index j = 4; j < 7; ++j) other(b, j) = (source(b, j) + 1) % vocabulary;
  }
  const auto expected = model(shorter, target);
  const std::vector<int> lengths = {4, 4};
  ef::Tensor<bool, 2> keep({2, 7});
  for (Index b = 0; b < 2; ++b) std::fill_n(&keep(b, 0), 4, true);
  for (const ef::Mask<T>& mask :
       {ef::Mask<T>{.key_lengths = lengths}, ef::Mask<T>{.key_allowed = keep}}) {
    EXPECT_EQ(model(source, target, mask), expected);
    EXPECT_EQ(model(other, target, mask), expected);
  }
}

TYPED_TEST(WholeDecodersTest, TransformerDecoders) {
  using T = TypeParam;
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    auto config = decoder.config;
    config.logit_scale = 0.3;
    compare(random_model<ef::TransformerDecoder<T>>(config), decoder.name);
    config.norm_placement = ef::NormPlacement::post;
    config.final_norm = false;
    config.num_key_value_heads = 2;
    config.query_key_norm = true;
    config.sliding_window = 5;
    config.scale_embeddings = true;
    config.tie_word_embeddings = false;
    config.head_bias = true;
    config.final_logit_softcapping = 5;
    compare(random_model<ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>>(config),
            decoder.name);
  }
}

TYPED_TEST(WholeDecodersTest, Transformers) {
  using T = TypeParam;
  const Ids source = random_ids(3, 7, 8), target = random_ids(3, 11);
  const std::vector<int> lengths = {7, 3, 0};
  reference::Visibility plain;
  plain.key_lengths = {7, 3, 0};
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    for (bool shared : {false, true}) {
      ef::TransformerConfig config{.vocab_size = vocabulary,
                                   .hidden_size = 29,
                                   .num_hidden_layers = 1,
                                   .num_decoder_layers = 2,
                                   .num_attention_heads = 6,
                                   .head_size = 10,
                                   .intermediate_size = 31,
                                   .max_position_embeddings = 40};
      config.position_embedding = decoder.config.position_embedding;
      config.position_offset = decoder.config.position_offset;
      config.attention_positions = decoder.config.attention_positions;
      config.norm_placement = shared ? ef::NormPlacement::post : ef::NormPlacement::pre;
      config.final_norm = !shared;
      config.share_embeddings = shared;
      const auto model = random_model<ef::Transformer<T>>(config);
      auto target_embeddings = model.decoder.embeddings;
      if (shared) target_embeddings.token = model.encoder.embeddings.token;
      const Reals<3> memory = reference::encoder_layers(
          model.encoder, reference::embeddings(model.encoder.embeddings, source), plain);
      const Reals<3> hidden = reference::decoder_layers(
          model.decoder, reference::embeddings(target_embeddings, target), memory, {}, plain);
      EXPECT_TRUE(reference::agrees(
          model(source, target, {.key_lengths = lengths}),
          logits(model.decoder.head, hidden, target_embeddings.token.weight), roundings))
          << decoder.name << ", shared: " << shared;
    }
  }
}

TYPED_TEST(WholeDecodersTest, Stacks) {
  using T = TypeParam;
  const auto source = reference::random_tensor<T, 3>({3, 7, 13}, 5);
  const auto target = reference::random_tensor<T, 3>({3, 11, 29}, 6);
  const std::vector<int> lengths = {7, 3, 1};
  reference::Visibility plain;
  plain.key_lengths = {7, 3, 1};
  for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
    for (Index layers : {0, 1, 2}) {
      const auto stack = random_model<ef::TransformerStack<T>>(
          ef::EncoderDecoderConfig{.encoder = {.hidden_size = 13,
                                               .num_attention_heads = 3,
                                               .head_size = 5,
                                               .intermediate_size = 17,
                                               .norm_placement = placement,
                                               .final_norm = true},
                                   .decoder = {.hidden_size = 29,
                                               .num_hidden_layers = layers,
                                               .num_attention_heads = 6,
                                               .num_key_value_heads = 3,
                                               .head_size = 10,
                                               .intermediate_size = 31,
                                               .norm_placement = placement,
                                               .final_norm = layers != 1}});
      const Reals<3> memory = reference::encoder_layers(stack.encoder, widen(source), plain);
      const Reals<3> expected =
          reference::decoder_layers(stack.decoder, widen(target), memory, {}, plain);
      EXPECT_TRUE(reference::agrees(
          stack(source, target,
                {.source = {.key_lengths = lengths}, .memory = {.key_lengths = lengths}}),
          expected, roundings))
          << layers << " layers, " << to_string(placement);
    }
  }
}

// A stack with a table of relative biases has no place for the caller's, and says so before it
// writes.
TYPED_TEST(WholeDecodersTest, BiasesByOffsetBesideTheStacksOwn) {
  using T = TypeParam;
  const ef::AttentionPositions positions{.kind = ef::AttentionPosition::relative_bias};
  const auto x = reference::random_tensor<T, 3>({2, 5, 12}, 5);
  const Tensor<T, 2> bias({3, 7});
  ef::Mask<T> mask;
  mask.offset_bias = bias;
  ef::Workspace workspace;
  Tensor<T, 3> y(x.shape());
  std::fill(y.begin(), y.end(), T(-777));
  const auto refused = [&](const char* name, const auto& call) {
    EXPECT_ERROR(call(), std::invalid_argument,
                 "mask.offset_bias is given, but relative_bias has its place")
        << name;
    for (const T value : y) ASSERT_EQ(value, T(-777)) << name;
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  const ef::EncoderStack<T> encoder_stack({.hidden_size = 12,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .attention_positions = positions});
  const ef::DecoderStack<T> decoder_stack({.hidden_size = 12,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .attention_positions = positions});
  const ef::TransformerEncoder<T> encoder({.vocab_size = vocabulary,
                                           .hidden_size = 12,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .attention_positions = positions});
  const ef::TransformerDecoder<T> decoder({.vocab_size = vocabulary,
                                           .hidden_size = 12,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .attention_positions = positions});
  refused("EncoderStack", [&] { encoder_stack.forward(x, mask, y, workspace); });
  refused("DecoderStack", [&] { decoder_stack.forward(x, mask, y, workspace); });
  auto cache = decoder_stack.make_cache(2, 5);
  refused("DecoderStack with a cache",
          [&] { decoder_stack.forward(x, cache, mask, {}, y, workspace); });
  EXPECT_EQ(lengths(cache), Counts({0, 0}));
  const Ids ids = random_ids(2, 5);
  refused("TransformerEncoder", [&] { encoder.forward(ids, {}, mask, y, workspace); });
  refused("TransformerDecoder", [&] { decoder.hidden(ids, {.mask = mask}, y, workspace); });
}

}  // namespace whole_decoders_test
