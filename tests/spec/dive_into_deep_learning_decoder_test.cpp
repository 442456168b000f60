// SPDX-License-Identifier: MIT

// Zhang, Lipton, Li, Smola, "Dive into Deep Learning", section "The transformer architecture": the
// decoder. The book's decoder has three traps, which are shown to be
// impossible here: outside of training it isn't causal, every token that it predicts is at
// position 0, and what it calls a cache are the inputs of its blocks.

#include "tests/reference/error_text.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace dive_into_deep_learning_decoder_test {

using values::filled;
using values::largest_difference;
using values::random;
using values::randomize;
using values::sum;

/// TransformerDecoderBlock(24, 48, 8, .5, 0): post-norm, ReLU, no biases in attention.
TransformerConfig block_config(Index hidden = 24, Index heads = 8, Index intermediate = 48) {
  return {.hidden_size = hidden,
          .num_attention_heads = heads,
          .intermediate_size = intermediate,
          .cross_attention = true,
          .activation = Activation::relu,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .attention_probs_dropout_prob = 0.5,
          .hidden_dropout_prob = 0.5};
}

/// TransformerDecoder(vocab, 24, 48, 8, 2, .5), whose head has a bias and a matrix of its own.
TransformerConfig decoder_config(Index vocabulary = 200) {
  return {.vocab_size = vocabulary,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 8,
          .intermediate_size = 48,
          .cross_attention = true,
          .activation = Activation::relu,
          .position_embedding = PositionEmbedding::sinusoidal,
          .scale_embeddings = true,
          .norm_placement = NormPlacement::post,
          .final_norm = false,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .tie_word_embeddings = false,
          .head_bias = true};
}

Tensor<std::int32_t, 2> some_ids(Index batch, Index tokens, Index vocabulary) {
  Tensor<std::int32_t, 2> ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = static_cast<std::int32_t>((i * i + 3 * i + 1) % vocabulary);
  return ids;
}

template <class T>
Tensor<T, 2> column(const Tensor<T, 2>& x, Index t) {
  Tensor<T, 2> one({x.dim(0), 1});
  for (Index b = 0; b < x.dim(0); ++b) one(b, 0) = x(b, t);
  return one;
}

/// x(b, t) and y(b, u) have the same bits for all b.
bool same(const Tensor<double, 3>& x, Index t, const Tensor<double, 3>& y, Index u) {
  bool equal = x.dim(0) == y.dim(0) && x.dim(2) == y.dim(2);
  for (Index b = 0; equal && b < x.dim(0); ++b)
    equal = std::equal(&x(b, t, 0), &x(b, t, 0) + x.dim(2), &y(b, u, 0));
  return equal;
}

TEST(DiveIntoDeepLearningDecoder, DecoderBlock) {
  DecoderLayer<float> block(block_config());
  EXPECT_EQ(count_parameters(block), 7128);
  Index norms = 0;
  for_each_parameter(block, [&](const std::string& name, const auto&) {
    norms += name.find("norm.weight") != std::string::npos;
    EXPECT_EQ(name.find("attention.query.bias"), std::string::npos);
  });
  EXPECT_EQ(norms, 3);
  init(block, Key{1});
  const auto ones = filled<float>(Shape<3>{2, 100, 24}, 1);
  const auto y = block(ones, ones, {}, {.key_lengths = std::vector<int>{3, 2}});
  EXPECT_EQ(y.shape(), (Shape<3>{2, 100, 24}));
  EXPECT_TRUE(values::all_finite(y));
  EXPECT_EQ(y, block(ones, ones, {}, {.key_lengths = std::vector<int>{3, 2}}))
      << "dropout has no part in inference";
}

// X2 = attention1(X, X, X, lengths 1 ... T), Y = norm1(X + X2), Y2 = attention2(Y, enc, enc,
// lengths of enc), Z = norm2(Y + Y2), norm3(Z + ffn(Z)).
TEST(DiveIntoDeepLearningDecoder, ThreeNormsStepByStep) {
  DecoderLayer<double> block(block_config(21, 3, 29));
  randomize(block, 2);
  const Index tokens = 7, keys = 5;
  const auto x = random<double>(Shape<3>{2, tokens, 21}, 3);
  const auto encoded = random<double>(Shape<3>{2, keys, 21}, 4);
  const std::vector<int> lengths{4, 2};
  Tensor<bool, 2> rows({tokens, tokens});  // dec_valid_lens: row t has t + 1 keys
  for (Index t = 0; t < tokens; ++t)
    for (Index j = 0; j < t + 1; ++j) rows(t, j) = true;
  const auto y = block.self_attention_norm(sum(x, block.self_attention(x, {.allowed = rows})));
  const auto z = (*block.cross_attention_norm)(
      sum(y, (*block.cross_attention)(y, encoded, {.key_lengths = lengths})));
  const auto expected = block.feed_forward_norm(sum(z, block.feed_forward(z)));
  EXPECT_LT(largest_difference(block(x, encoded, {}, {.key_lengths = lengths}), expected), 1e-13);

  // (B h, T, T) and (B h, T, S) weights in the book.
  const auto own = block.self_attention.attention_weights(x, x, {.causal = true});
  const auto of_encoder =
      block.cross_attention->attention_weights(y, encoded, {.key_lengths = lengths});
  EXPECT_EQ(own.shape(), (Shape<4>{2, 3, tokens, tokens}));
  EXPECT_EQ(of_encoder.shape(), (Shape<4>{2, 3, tokens, keys}));
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index t = 0; t < tokens; ++t) {
        for (Index j = 0; j < tokens; ++j) EXPECT_EQ(own(b, h, t, j) > 0, j <= t);
        for (Index j = 0; j < keys; ++j)
          EXPECT_EQ(of_encoder(b, h, t, j) > 0, j < lengths[static_cast<std::size_t>(b)]);
      }
}

// The encoder's width must be the decoder's, unless the block was made for another one.
TEST(DiveIntoDeepLearningDecoder, WidthsThatDontMatchAreRefused) {
  const DecoderLayer<float> block(block_config());
  const auto refused = [&](const Tensor<float, 3>& x, const Tensor<float, 3>& encoded,
                           const std::string& wanted, const std::string& got) {
    try {
      block(x, encoded);
      ADD_FAILURE() << "not refused";
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(wanted), std::string::npos) << text;
      EXPECT_NE(text.find(got), std::string::npos) << text;
    }
  };
  const Tensor<float, 3> x({2, 5, 24});
  refused(x, Tensor<float, 3>({2, 7, 23}), "(2, 7, 24)", "(2, 7, 23)");
  refused(x, Tensor<float, 3>({3, 7, 24}), "(2, 7, 24)", "(3, 7, 24)");
  refused(Tensor<float, 3>({2, 5, 25}), x, "(2, 5, 24)", "(2, 5, 25)");
  EXPECT_ERROR(block(x), std::invalid_argument, "cross_attention is true, but no memory is given")
      << "no encoder's result at all";

  TransformerConfig of_other_width = block_config();
  of_other_width.key_value_size = 23;
  EXPECT_EQ(DecoderLayer<float>(of_other_width)(x, Tensor<float, 3>({2, 7, 23})).shape(),
            x.shape());
}

// Token vectors times sqrt(C), plus sinusoids, through the blocks, and a dense layer.
TEST(DiveIntoDeepLearningDecoder, Decoder) {
  TransformerDecoder<double> decoder(decoder_config());
  EXPECT_EQ(count_parameters(decoder), 200 * 24 + 2 * 7128 + 24 * 200 + 200);
  randomize(decoder, 5);
  const auto ids = some_ids(2, 100, 200);
  const auto encoded = random<double>(Shape<3>{2, 9, 24}, 6);
  const std::vector<int> lengths{3, 2};
  const Mask<double> of_encoder{.key_lengths = lengths};
  const auto logits = decoder(ids, {.memory = encoded, .memory_mask = of_encoder});
  ASSERT_EQ(logits.shape(), (Shape<3>{2, 100, 200}));

  Tensor<double, 3> x({2, 100, 24});
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 100; ++t)
      for (Index c = 0; c < 24; ++c) {
        const double omega = std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 24);
        const double angle = static_cast<double>(t) * omega;
        x(b, t, c) = decoder.embeddings.token.weight(ids(b, t), c) * std::sqrt(24.0) +
                     (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
  for (const auto& block : decoder.layers) x = block(x, encoded, {}, of_encoder);
  Linear<double> dense({.in_features = 24, .out_features = 200});
  dense.weight = decoder.head.weight;
  dense.bias = decoder.head.bias;
  EXPECT_LT(largest_difference(logits, dense(x)), 1e-11);
}

// Predict_step: the first token, then num_steps times the most probable next one, each fed
// alone. The result is what the whole prefix gives, bit for bit, each time.
TEST(DiveIntoDeepLearningDecoder, PredictStep) {
  TransformerDecoder<double> decoder(decoder_config(31));
  randomize(decoder, 7);
  const auto encoded = random<double>(Shape<3>{2, 9, 24}, 8);
  const std::vector<int> lengths{9, 4};
  const auto largest = [](const Tensor<double, 3>& logits, Index b, Index t) {
    const double* row = &logits(b, t, 0);
    return static_cast<std::int32_t>(std::max_element(row, row + logits.dim(2)) - row);
  };

  Workspace workspace;
  auto cache = decoder.make_cache(2, 10);  // init_state
  decoder.remember(encoded, lengths, cache, workspace);
  Tensor<std::int32_t, 2> outputs = values::tensor<std::int32_t>(Shape<2>{2, 1}, {1, 2});
  for (Index step = 0; step < 9; ++step) {
    const auto next_logits = decoder(column(outputs, step), cache);
    const auto all_logits =
        decoder(outputs, {.memory = encoded, .memory_mask = {.key_lengths = lengths}});
    ASSERT_EQ(next_logits.shape(), (Shape<3>{2, 1, 31}));
    EXPECT_TRUE(same(next_logits, 0, all_logits, step)) << step;
    Tensor<std::int32_t, 2> longer({2, step + 2});
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 0; t <= step; ++t) longer(b, t) = outputs(b, t);
      longer(b, step + 1) = largest(next_logits, b, 0);
    }
    outputs = longer;
  }
  EXPECT_EQ(cache.length(0), 9);
  Index kinds = 0;
  for (Index t = 1; t < 10; ++t) kinds += outputs(0, t) != outputs(0, 1);
  EXPECT_GT(kinds, 0) << "the model says more than one word";
}

// The sizes of the trained model, 256 wide, 64 in the feed-forward, 4 heads, 2 blocks; its
// attention weights are (blocks, heads, steps, steps).
TEST(DiveIntoDeepLearningDecoder, DecoderBlockOfTheTrainedModelHas558912Parameters) {
  EXPECT_EQ(count_parameters(DecoderLayer<ShapeOnly>(block_config(256, 4, 64))), 558912);
  DecoderLayer<float> block(block_config(256, 4, 64));
  init(block, Key{9});
  const auto x = random<float>(Shape<3>{1, 9, 256}, 10);
  EXPECT_EQ(block.self_attention.attention_weights(x, x, {.causal = true}).shape(),
            (Shape<4>{1, 4, 9, 9}));
  EXPECT_EQ(block.cross_attention->attention_weights(x, x).shape(), (Shape<4>{1, 4, 9, 9}));
}

// ------------------------------------------------------------------------------- the three traps

// The book's decoder leaves out the causal mask outside of training, which is right only for one
// token at a time. Here many tokens at once, in any mode, give the bits of one at a time.
TEST(DiveIntoDeepLearningDecoder, FirstTrapManyTokensAtOnceDontSeeTheFuture) {
  TransformerDecoder<double> decoder(decoder_config(31));
  randomize(decoder, 11);
  const Index tokens = 6;
  const auto ids = some_ids(2, tokens, 31);
  const auto encoded = random<double>(Shape<3>{2, 5, 24}, 12);
  Workspace workspace;
  const auto new_cache = [&] {
    auto cache = decoder.make_cache(2, tokens);
    decoder.remember(encoded, {}, cache, workspace);
    return cache;
  };
  auto one_at_a_time = new_cache(), all_cached = new_cache(), last_cached = new_cache();
  const auto at_once = decoder(ids, {.memory = encoded});
  const auto uncausal = decoder(ids, {.mask = {.causal = false}, .memory = encoded});
  const auto cached = decoder(ids, all_cached, {.mask = {.causal = false}});
  EXPECT_EQ(uncausal, at_once);
  EXPECT_EQ(cached, at_once);
  for (Index t = 0; t < tokens; ++t)
    EXPECT_TRUE(same(decoder(column(ids, t), one_at_a_time), 0, at_once, t)) << t;
  Tensor<double, 2> last({2, 31});
  decoder.forward_last(ids, last_cached, {}, last, workspace);
  for (Index b = 0; b < 2; ++b)
    EXPECT_TRUE(std::equal(&last(b, 0), &last(b, 0) + 31, &at_once(b, tokens - 1, 0)));

  // Other later tokens: no bit before them changes, in blocks, stacks and decoders.
  auto later = ids;
  later(0, tokens - 1) = (ids(0, tokens - 1) + 1) % 31;
  later(1, tokens - 1) = (ids(1, tokens - 1) + 1) % 31;
  const auto changed = decoder(later, {.memory = encoded});
  for (Index t = 0; t < tokens; ++t) EXPECT_EQ(same(changed, t, at_once, t), t + 1 < tokens) << t;
  auto x = random<double>(Shape<3>{2, tokens, 24}, 13);
  const auto& block = decoder.layers[0];
  const auto before = block(x, encoded);
  for (Index c = 0; c < 24; ++c) x(0, tokens - 1, c) = x(1, tokens - 1, c) = 10;
  const auto after = block(x, encoded);
  for (Index t = 0; t < tokens; ++t) EXPECT_EQ(same(before, t, after, t), t + 1 < tokens) << t;
}

// Each token that the book's decoder predicts gets position 0, since it is fed alone. Here the
// cache counts: fed alone, token t gets sinusoid t.
TEST(DiveIntoDeepLearningDecoder, SecondTrapTokensFedAloneStandAtTheirPositions) {
  TransformerConfig config = decoder_config(31);
  config.num_hidden_layers = 0;  // what the blocks would get
  config.cross_attention = false;
  TransformerDecoder<double> decoder(config);
  randomize(decoder, 14);
  auto cache = decoder.make_cache(1, 12);
  Workspace workspace;
  for (Index t = 0; t < 12; ++t) {
    Tensor<double, 3> hidden({1, 1, 24});
    decoder.hidden(values::tensor<std::int32_t>(Shape<2>{1, 1}, {7}), cache, {}, hidden, workspace);
    for (Index c = 0; c < 24; ++c) {
      const double omega = std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 24);
      const double angle = static_cast<double>(t) * omega;
      EXPECT_NEAR(hidden(0, 0, c),
                  decoder.embeddings.token.weight(7, c) * std::sqrt(24.0) +
                      (c % 2 == 0 ? std::sin(angle) : std::cos(angle)),
                  1e-13);
    }
  }
}

// The book's "cache" are the inputs of the blocks, to which the key and value maps are applied
// again at every step. Here key and value of token t are kept as they are: W_k x_t, rotated by
// position t if positions are rotary, and W_v x_t.
TEST(DiveIntoDeepLearningDecoder, ThirdTrapTheCacheHoldsKeysAndValues) {
  for (bool rotary : {false, true}) {
    TransformerConfig config = block_config(21, 3, 29);
    config.head_size = 4;
    if (rotary) config.attention_positions.kind = AttentionPosition::rotary;
    DecoderLayer<double> block(config);
    randomize(block, 15);
    const Index tokens = 6, keys = 5;
    const auto x = random<double>(Shape<3>{1, tokens, 21}, 16);
    const auto encoded = random<double>(Shape<3>{1, keys, 21}, 17);
    Workspace workspace;
    auto cache = block.make_cache(1, tokens, keys);
    block.remember(encoded, {}, cache, workspace);
    for (Index t = 0; t < tokens; ++t) {
      Tensor<double, 3> one({1, 1, 21}), y(one.shape());
      std::copy_n(&x(0, t, 0), 21, one.data());
      block.forward(one, cache, {}, {}, y, workspace);
    }
    const auto k = block.self_attention.key(x), v = block.self_attention.value(x);
    const auto of_encoder_k = block.cross_attention->key(encoded),
               of_encoder_v = block.cross_attention->value(encoded);
    for (Index head = 0; head < 3; ++head) {
      for (Index t = 0; t < tokens; ++t) {
        const auto key = cache.self.key(0, head, t), value = cache.self.value(0, head, t);
        ASSERT_EQ(key.size(), 4);
        for (Index d = 0; d < 4; ++d) {
          const Index pair = d % 2, begin = head * 4;
          const double angle =
              rotary ? static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(pair) / 2)
                     : 0;
          const double a = k(0, t, begin + pair), b = k(0, t, begin + pair + 2);
          EXPECT_NEAR(key(d),
                      d < 2 ? a * std::cos(angle) - b * std::sin(angle)
                            : b * std::cos(angle) + a * std::sin(angle),
                      1e-14);
          EXPECT_EQ(value(d), v(0, t, begin + d));
        }
      }
      for (Index j = 0; j < keys; ++j)
        for (Index d = 0; d < 4; ++d) {
          EXPECT_EQ(cache.memory.key(0, head, j)(d), of_encoder_k(0, j, head * 4 + d));
          EXPECT_EQ(cache.memory.value(0, head, j)(d), of_encoder_v(0, j, head * 4 + d));
        }
    }

    // So other maps, from now on, don't touch the tokens before.
    DecoderLayer<double> other(block);
    other.self_attention.key = zeros_like(block.self_attention.key);
    other.self_attention.value = zeros_like(block.self_attention.value);
    const auto key_before = cache.self.key(0, 1, 2), value_before = cache.self.value(0, 1, 2);
    cache.self.truncate(0, 3);
    Tensor<double, 3> one({1, 1, 21}), y(one.shape());
    other.forward(one, cache, {}, {}, y, workspace);
    EXPECT_EQ(cache.self.key(0, 1, 2), key_before);
    EXPECT_EQ(cache.self.value(0, 1, 2), value_before);
    for (Index d = 0; d < 4; ++d) EXPECT_EQ(cache.self.value(0, 1, 3)(d), 0.0);
  }
}

}  // namespace dive_into_deep_learning_decoder_test
}  // namespace eigenformer
