// SPDX-License-Identifier: MIT

// Faults that others had with the structure of blocks, with modes and with empty input.

#include "tests/reference/error_text.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace structure_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;
using values::sum;

const Tensor<float, 3> one_to_four = values::tensor<float>(Shape<3>{1, 1, 4}, {1, 2, 3, 4});

TransformerConfig layer_config(NormPlacement placement) {
  return {.hidden_size = 4,
          .num_attention_heads = 2,
          .intermediate_size = 3,
          .norm_placement = placement};
}

// With zero branches pre-norm returns its input bit for bit, post-norm two norms of it.
TEST(StructureFaults, ZeroBranches) {
  EncoderLayer<float> pre(layer_config(NormPlacement::pre)),
      post(layer_config(NormPlacement::post));
  EXPECT_EQ(pre(one_to_four), one_to_four);
  expect_values(post(one_to_four), {-1.34163, -.44721, .44721, 1.34163}, 2e-5);
  for (Index tokens : {1, 5, 131}) {
    const auto x = random<float>(Shape<3>{2, tokens, 4}, 1);
    EXPECT_EQ(pre(x), x);
    EXPECT_EQ(pre(x, {.causal = true}), x);
    EXPECT_LT(largest_difference(post(x), post.feed_forward_norm(post.attention_norm(x))), 1e-6);
  }
}

/// The layer written out, from its own parts.
template <class Layer, class T>
Tensor<T, 3> written_out(const Layer& layer, const Tensor<T, 3>& x) {
  if (layer.config.norm_placement == NormPlacement::pre) {
    const auto h = sum(x, layer.attention(layer.attention_norm(x)));
    return sum(h, layer.feed_forward(layer.feed_forward_norm(h)));
  }
  const auto h = layer.attention_norm(sum(x, layer.attention(x)));
  return layer.feed_forward_norm(sum(h, layer.feed_forward(h)));
}

// Random parameters, both placements, every kind of norm and network: the written formula, and
// the input unharmed.
template <template <class> class Norm, template <class> class Network>
void expect_written_formula() {
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    EncoderLayer<double, Norm, Network> layer({.hidden_size = 15,
                                               .num_attention_heads = 3,
                                               .intermediate_size = 7,
                                               .norm_placement = placement});
    randomize(layer, 2);
    for (Index tokens : {1, 5, 131}) {
      const auto x = random<double>(Shape<3>{2, tokens, 15}, 3);
      const auto copy = x;
      EXPECT_LT(largest_difference(layer(x), written_out(layer, x)), 1e-13);
      EXPECT_EQ(x, copy);
    }
  }
}

TEST(StructureFaults, BothOrdersWithEveryNormAndNetwork) {
  expect_written_formula<LayerNorm, FeedForward>();
  expect_written_formula<RMSNorm, GatedFeedForward>();
}

// A post-norm stack ends with its last layer's own norm; only a configured final norm comes on
// top.
TEST(StructureFaults, FinalNormIsNeitherDoubledNorMissing) {
  TransformerConfig config{
      .hidden_size = 4, .num_hidden_layers = 2, .num_attention_heads = 2, .intermediate_size = 3};
  EncoderStack<float> post(config);
  std::fill(post.layers[1].feed_forward_norm.weight.begin(),
            post.layers[1].feed_forward_norm.weight.end(), 2.0f);
  EXPECT_FALSE(post.final_norm.has_value());
  expect_values(post(one_to_four), {-2.68327, -.89442, .89442, 2.68327}, 1e-4);

  config.final_norm = true;  // as PyTorch's nn.Transformer, which has both
  EncoderStack<float> both(config);
  both.layers = post.layers;
  expect_values(both(one_to_four), {-1.34164, -.44721, .44721, 1.34164}, 1e-4);

  config.norm_placement = NormPlacement::pre;
  EncoderStack<float> pre(config);
  expect_values(pre(one_to_four), {-1.34164, -.44721, .44721, 1.34164}, 1e-4);
  std::fill(pre.final_norm->weight.begin(), pre.final_norm->weight.end(), 2.0f);
  expect_values(pre(one_to_four), {-2.68327, -.89442, .89442, 2.68327}, 1e-4);

  config.final_norm = false;
  EXPECT_EQ(EncoderStack<float>(config)(one_to_four), one_to_four);
}

// Any depth, also none, with and without the final norm, in stacks and in whole encoders.
TEST(StructureFaults, StacksOfAnyDepthStepByStep) {
  for (Index depth = 0; depth <= 5; ++depth) {
    for (bool final_norm : {false, true}) {
      for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
        TransformerEncoder<float> encoder({.vocab_size = 7,
                                           .hidden_size = 6,
                                           .num_hidden_layers = depth,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .norm_placement = placement,
                                           .final_norm = final_norm});
        randomize(encoder, 4);
        const auto ids = values::tensor<std::int32_t>(Shape<2>{1, 3}, {6, 0, 3});
        auto x = encoder.embeddings(ids);
        for (const auto& layer : encoder.layers) x = layer(x);
        if (final_norm) x = (*encoder.final_norm)(x);
        EXPECT_EQ(encoder(ids), x) << "depth " << depth;
      }
    }
  }
  EXPECT_ERROR(EncoderStack<float>({.hidden_size = 4, .num_hidden_layers = -1}),
               std::invalid_argument, "num_hidden_layers must be in [0, 1000000]; got -1");
}

// The tail that is padding in every row stays: shape, finite results there, and the same bits
// before it as without it.
TEST(StructureFaults, TailThatIsPaddingForEverybody) {
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    EncoderStack<float> stack({.hidden_size = 16,
                               .num_hidden_layers = 2,
                               .num_attention_heads = 4,
                               .intermediate_size = 11,
                               .norm_placement = placement});
    randomize(stack, 5);
    for (Index total : {6, 139}) {
      const auto x = random<float>(Shape<3>{2, total, 16}, 6);
      for (Index kept : {Index{1}, Index{3}, total - 2}) {
        Tensor<float, 3> alone({2, kept, 16});
        Tensor<bool, 2> keep({2, total}), pairs({1, total});
        Tensor<float, 2> bias({1, total});
        const std::vector<Index> lengths{kept, kept};
        for (Index b = 0; b < 2; ++b)
          for (Index t = 0; t < total; ++t) {
            keep(b, t) = pairs(0, t) = t < kept;
            bias(0, t) = t < kept ? 0 : -std::numeric_limits<float>::infinity();
            for (Index c = 0; c < 16 && t < kept; ++c) alone(b, t, c) = x(b, t, c);
          }
        const auto expected = stack(alone);
        for (const Mask<float>& mask :
             {Mask<float>{.key_lengths = lengths}, Mask<float>{.key_allowed = keep},
              Mask<float>{.allowed = pairs}, Mask<float>{.bias = bias}}) {
          const auto y = stack(x, mask);
          ASSERT_EQ(y.shape(), x.shape());
          EXPECT_TRUE(values::all_finite(y));
          for (Index b = 0; b < 2; ++b)
            for (Index t = 0; t < kept; ++t)
              for (Index c = 0; c < 16; ++c)
                ASSERT_EQ(y(b, t, c), expected(b, t, c)) << kept << " of " << total;
        }
      }
    }
  }
}

// Configured dropout has no part in inference, whatever ran before; probabilities outside [0,
// 1] are refused.
template <class M, class Config, class Call>
void expect_no_dropout(Config config, const std::vector<double Config::*>& probabilities,
                       Call&& call) {
  M without(config);
  randomize(without, 7);
  const auto expected = call(without);
  for (double p : {0.5, 1.0}) {
    for (double Config::*probability : probabilities) config.*probability = p;
    M with(config);
    randomize(with, 7);
    EXPECT_EQ(call(with), expected);
    EXPECT_EQ(call(with), expected) << "the second run";
  }
  for (double Config::*probability : probabilities) {
    for (double p : {-0.1, 1.1, std::nan("")}) {
      Config wrong(config);
      wrong.*probability = p;
      EXPECT_ERROR(M{wrong}, std::invalid_argument, "dropout_prob must be in [0, 1]") << p;
    }
  }
}

TEST(StructureFaults, DropoutHasNoPartInInference) {
  const auto x = random<float>(Shape<3>{2, 5, 6}, 8);
  const auto ids = values::tensor<std::int32_t>(Shape<2>{2, 3}, {1, 2, 0, 3, 3, 1});
  const auto run = [&](const auto& module) { return module(x); };
  const auto run_ids = [&](const auto& module) { return module(ids); };
  expect_no_dropout<MultiHeadAttention<float>>(
      MultiHeadAttentionConfig{.hidden_size = 6, .num_attention_heads = 3},
      {&MultiHeadAttentionConfig::attention_probs_dropout_prob}, run);
  for (bool gated : {false, true}) {
    const FeedForwardConfig config{.hidden_size = 6, .intermediate_size = 7};
    const std::vector<double FeedForwardConfig::*> probabilities{
        &FeedForwardConfig::activation_dropout_prob, &FeedForwardConfig::hidden_dropout_prob};
    if (gated) {
      expect_no_dropout<GatedFeedForward<float>>(config, probabilities, run);
    } else {
      expect_no_dropout<FeedForward<float>>(config, probabilities, run);
    }
  }
  expect_no_dropout<EncoderLayer<float>>(
      TransformerConfig{.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 7},
      {&TransformerConfig::attention_probs_dropout_prob,
       &TransformerConfig::activation_dropout_prob, &TransformerConfig::hidden_dropout_prob},
      run);
  expect_no_dropout<Embeddings<float>>(EmbeddingsConfig{.vocab_size = 4, .hidden_size = 6},
                                       {&EmbeddingsConfig::hidden_dropout_prob}, run_ids);
  expect_no_dropout<TransformerEncoder<float>>(
      TransformerConfig{
          .vocab_size = 4, .hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 7},
      {&TransformerConfig::attention_probs_dropout_prob,
       &TransformerConfig::activation_dropout_prob, &TransformerConfig::hidden_dropout_prob},
      run_ids);
}

// No batch rows, no tokens, no memory: shapes are kept, weights have theirs, nothing is read.
TEST(StructureFaults, EmptyBatchAndEmptySequence) {
  EncoderLayer<float> layer({.hidden_size = 8, .num_attention_heads = 2, .intermediate_size = 3});
  randomize(layer, 9);
  EncoderStack<float, RMSNorm, GatedFeedForward> stack({.hidden_size = 8,
                                                        .num_hidden_layers = 2,
                                                        .num_attention_heads = 2,
                                                        .intermediate_size = 3,
                                                        .final_norm = true});
  randomize(stack, 10);
  for (const Shape<3>& shape : {Shape<3>{0, 5, 8}, Shape<3>{2, 0, 8}, Shape<3>{0, 0, 8}}) {
    const Tensor<float, 3> x(shape);
    const Index batch = shape[0], tokens = shape[1];
    EXPECT_EQ(layer(x).shape(), shape);
    EXPECT_EQ(layer(x, {.causal = true}).shape(), shape);
    EXPECT_EQ(layer(x, {.key_lengths = std::vector<int>(static_cast<std::size_t>(batch))}).shape(),
              shape);
    EXPECT_EQ(layer(x, {.key_allowed = Tensor<bool, 2>({batch, tokens})}).shape(), shape);
    EXPECT_EQ(layer(x, {.bias = Tensor<float, 2>({tokens, tokens})}).shape(), shape);
    EXPECT_EQ(layer(x, {.allowed = Tensor<bool, 2>({tokens, tokens})}).shape(), shape);
    EXPECT_EQ(stack(x).shape(), shape);
    EXPECT_EQ(layer.attention(x).shape(), shape);
    EXPECT_EQ(layer.attention.attention_weights(x, x).shape(),
              (Shape<4>{batch, 2, tokens, tokens}));
    EXPECT_EQ(layer.feed_forward(x).shape(), shape);
    EXPECT_EQ(layer.attention_norm(x).shape(), shape);
    EXPECT_EQ(layer.attention.query(x).shape(), shape);
    EXPECT_EQ(gelu(x).shape(), shape);
    EXPECT_EQ(softmax(x).shape(), shape);
    EXPECT_EQ(mean_pooling(x, std::vector<int>(static_cast<std::size_t>(batch))).shape(),
              (Shape<2>{batch, 8}));
  }
  EXPECT_EQ(softmax(Tensor<float, 2>({3, 0})).shape(), (Shape<2>{3, 0}));
}

TEST(StructureFaults, EmptyMemoryGivesTheOutputBias) {
  MultiHeadAttention<float> attention({.hidden_size = 8, .num_attention_heads = 2});
  randomize(attention, 11);
  const auto x = random<float>(Shape<3>{2, 3, 8}, 12);
  const Tensor<float, 3> memory({2, 0, 8});
  const auto y = attention(x, memory);
  ASSERT_EQ(y.shape(), x.shape());
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 3; ++t)
      for (Index c = 0; c < 8; ++c) EXPECT_EQ(y(b, t, c), attention.output.bias(c));
  EXPECT_EQ(attention.attention_weights(x, memory).shape(), (Shape<4>{2, 2, 3, 0}));
  const Tensor<float, 4> q({2, 3, 5, 7}), k({2, 3, 0, 7}), v({2, 3, 0, 11});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v), (Tensor<float, 4>({2, 3, 5, 11})));
}

TEST(StructureFaults, EmptyListsOfIds) {
  TransformerEncoder<float> encoder({.vocab_size = 7,
                                     .hidden_size = 6,
                                     .num_attention_heads = 3,
                                     .intermediate_size = 5,
                                     .type_vocab_size = 2});
  randomize(encoder, 13);
  for (const Shape<2>& shape : {Shape<2>{0, 5}, Shape<2>{2, 0}, Shape<2>{0, 0}}) {
    const Tensor<std::int32_t, 2> ids(shape);
    EXPECT_EQ(encoder(ids).shape(), (Shape<3>{shape[0], shape[1], 6}));
    EXPECT_EQ(encoder.embeddings(ids).shape(), (Shape<3>{shape[0], shape[1], 6}));
    EXPECT_EQ(encoder.embeddings.token(ids).shape(), (Shape<3>{shape[0], shape[1], 6}));
    EXPECT_EQ(encoder(ids, {.token_types = ids, .positions = ids}, {}).shape(),
              (Shape<3>{shape[0], shape[1], 6}));
  }
  const MaskedLanguageModel<float> model(
      {.vocab_size = 7, .hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 5});
  EXPECT_EQ(model(Tensor<std::int32_t, 2>({2, 0})).shape(), (Shape<3>{2, 0, 7}));
}

// Models that read the first token need one, and say so; an empty batch is fine.
TEST(StructureFaults, FirstTokenOfAnEmptySequence) {
  for (bool pooler : {false, true}) {
    const SequenceClassifier<float> model({.vocab_size = 7,
                                           .hidden_size = 6,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 5,
                                           .num_labels = 3,
                                           .pooler = pooler});
    EXPECT_EQ(model(Tensor<std::int32_t, 2>({0, 4})).shape(), (Shape<2>{0, 3}));
    EXPECT_EQ(model(Tensor<std::int32_t, 2>({0, 0})).shape(), (Shape<2>{0, 3}));
    EXPECT_ERROR(model(Tensor<std::int32_t, 2>({2, 0})), std::invalid_argument,
                 "first_tokens: x must hold at least one token; got (2, 0, 6)");
  }
  const VisionTransformer<float> vision({.image_size = 4,
                                         .patch_size = 2,
                                         .num_channels = 1,
                                         .hidden_size = 6,
                                         .num_hidden_layers = 1,
                                         .num_attention_heads = 3,
                                         .intermediate_size = 5,
                                         .num_labels = 3});
  EXPECT_EQ(vision(Tensor<float, 4>({0, 1, 4, 4})).shape(), (Shape<2>{0, 3}));
}

}  // namespace structure_test
}  // namespace eigenformer
