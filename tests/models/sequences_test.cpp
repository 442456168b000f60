// SPDX-License-Identifier: MIT
//
// mask.sequence_lengths: several sequences in one row, without padding, have the bits of each by
// itself.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/numbers.hpp"

namespace sequences_test {

namespace ef = eigenformer;
using ef::Index;

const std::vector<Index> lengths = {5, 0, 1, 131, 7, 19};
const Index tokens = std::accumulate(lengths.begin(), lengths.end(), Index{0});

template <class T>
ef::Tensor<T, 3> part_of(const ef::Tensor<T, 3>& x, Index start, Index length) {
  ef::Tensor<T, 3> part({1, length, x.dim(2)});
  std::copy_n(x.data() + start * x.dim(2), part.size(), part.data());
  return part;
}

/// Calls f(start, length) for each sequence.
template <class F>
void for_each_sequence(F&& f) {
  Index start = 0;
  for (const Index length : lengths) {
    f(start, length);
    start += length;
  }
}

template <class T>
void expect_part(const ef::Tensor<T, 3>& whole, const ef::Tensor<T, 3>& part, Index start) {
  for (Index i = 0; i < part.size(); ++i) {
    ASSERT_TRUE(reference::same_bits(whole.data()[start * whole.dim(2) + i], part.data()[i]))
        << "from token " << start << ", element " << i;
  }
}

std::vector<ef::AttentionPositions> positions() {
  ef::AttentionPositions rotary{.kind = ef::AttentionPosition::rotary};
  ef::AttentionPositions interleaved = rotary;
  interleaved.rotary.layout = ef::RotaryLayout::interleaved;
  return {{},
          rotary,
          interleaved,
          {.kind = ef::AttentionPosition::alibi},
          {.kind = ef::AttentionPosition::relative_bias},
          {.kind = ef::AttentionPosition::relative_key, .max_position_embeddings = 200}};
}

ef::TransformerConfig stack_config(const ef::AttentionPositions& positions) {
  return {.hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .intermediate_size = 37,
          .attention_positions = positions};
}

template <class T>
class Sequences : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Sequences, Scalars);

TYPED_TEST(Sequences, HaveTheBitsOfEachByItself) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({1, tokens, 24}, 1);
  for (const auto& kind : positions()) {
    ef::EncoderStack<T> stack(stack_config(kind));
    reference::randomize(stack, 2);
    const auto packed = ef::pack(stack);
    for (const ef::Mask<T>& rest :
         {ef::Mask<T>{}, ef::Mask<T>{.causal = true}, ef::Mask<T>{.causal = true, .window = 6}}) {
      ef::Mask<T> mask = rest;
      mask.sequence_lengths = lengths;
      for (Index threads : {1, 2, 7}) {
        ef::ThreadPool pool(threads);
        ef::Workspace workspace(pool);
        ef::Tensor<T, 3> together(x.shape()), from_packed(x.shape());
        stack.forward(x, mask, together, workspace);
        packed.forward(x, mask, from_packed, workspace);
        expect_part(together, from_packed, 0);
        for_each_sequence([&](Index start, Index length) {
          expect_part(together, stack(part_of(x, start, length), rest), start);
        });
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(Sequences, DoNotSeeEachOther) {
  using T = TypeParam;
  auto x = reference::random_tensor<T, 3>({1, tokens, 24}, 1);
  ef::EncoderStack<T> stack(stack_config({}));
  reference::randomize(stack, 2);
  const auto before = stack(x, {.sequence_lengths = lengths});
  std::fill(x.data() + 6 * 24, x.data() + (6 + 131) * 24, std::numeric_limits<T>::quiet_NaN());
  const auto after = stack(x, {.sequence_lengths = lengths});
  expect_part(after, part_of(before, 0, 6), 0);
  expect_part(after, part_of(before, 137, 26), 137);
}

TYPED_TEST(Sequences, CountPositionsFromTheirOwnBeginning) {
  using T = TypeParam;
  ef::Tensor<std::int32_t, 2> ids({1, tokens});
  for (Index i = 0; i < tokens; ++i) ids(0, i) = static_cast<std::int32_t>(7 * i % 31);
  const auto part_of_ids = [&](Index start, Index length) {
    ef::Tensor<std::int32_t, 2> part({1, length});
    std::copy_n(ids.data() + start, length, part.data());
    return part;
  };
  for (auto kind : {ef::PositionEmbedding::learned, ef::PositionEmbedding::sinusoidal}) {
    ef::TransformerEncoder<T> encoder({.vocab_size = 31,
                                       .hidden_size = 24,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 3,
                                       .intermediate_size = 37,
                                       .max_position_embeddings = 131,
                                       .position_embedding = kind});
    reference::randomize(encoder, 3);
    const auto together = encoder(ids, {.sequence_lengths = lengths});
    const auto means = ef::mean_pooling_of_sequences(together, lengths);
    Index row = 0;
    for_each_sequence([&](Index start, Index length) {
      const auto alone = encoder(part_of_ids(start, length));
      expect_part(together, alone, start);
      const auto mean = ef::mean_pooling(alone, std::vector<Index>{length});
      for (Index c = 0; c < 24; ++c) EXPECT_TRUE(reference::same_bits(means(row, c), mean(0, c)));
      ++row;
    });

    ef::TransformerDecoder<T> decoder({.vocab_size = 31,
                                       .hidden_size = 24,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 3,
                                       .intermediate_size = 37,
                                       .max_position_embeddings = 131,
                                       .position_embedding = kind});
    reference::randomize(decoder, 4);
    const auto logits = decoder(ids, {.mask = {.sequence_lengths = lengths}});
    for_each_sequence([&](Index start, Index length) {
      expect_part(logits, decoder(part_of_ids(start, length)), start);
    });
  }
}

// Many sequences of one token behind a long one, so that the last of them are a batch by themselves.
TYPED_TEST(Sequences, OfOneTokenHaveTheBitsOfEachByItself) {
  using T = TypeParam;
  ef::MultiHeadAttention<T> attention({.hidden_size = 24, .num_attention_heads = 4});
  ef::init(attention, ef::Key{2});
  const std::vector<Index> sizes = {40, 1, 1, 1, 1, 1, 1};
  const auto x = reference::random_tensor<T, 3>({1, 46, 24}, 1);
  const auto y = attention(x, ef::Mask<T>{.sequence_lengths = sizes});
  Index start = 0;
  for (const Index size : sizes) {
    expect_part(y, attention(part_of(x, start, size)), start);
    start += size;
  }
}

TYPED_TEST(Sequences, AreRefusedWhereTheyCanNotBeFollowed) {
  using T = TypeParam;
  using Mask = ef::Mask<T>;
  ef::MultiHeadAttention<T> attention({.hidden_size = 24, .num_attention_heads = 4});
  const auto x = reference::random_tensor<T, 3>({1, tokens, 24}, 1);
  const auto other = x;
  const std::vector<Index> longer = {tokens, 1}, shorter = {tokens - 2, 1};
  const std::vector<Index> negative = {-1, tokens + 1}, rows = {3, 3};
  for (const auto& wrong : {longer, shorter})
    EXPECT_ERROR(attention(x, Mask{.sequence_lengths = wrong}), std::invalid_argument,
                 "MultiHeadAttention: sequence_lengths are those of the sequences");
  EXPECT_ERROR(attention(x, Mask{.sequence_lengths = negative}), std::invalid_argument,
               "MultiHeadAttention: sequence_lengths must be in [0, 163]; got -1");
  EXPECT_ERROR(attention(x, other, Mask{.sequence_lengths = lengths}), std::invalid_argument,
               "MultiHeadAttention: mask.sequence_lengths is for self-attention");
  EXPECT_ERROR(attention.attention_weights(x, x, Mask{.sequence_lengths = lengths}),
               std::invalid_argument,
               "MultiHeadAttention: mask.sequence_lengths is for self-attention");
  EXPECT_ERROR(attention(x, Mask{.query_offset = 1, .sequence_lengths = lengths}),
               std::invalid_argument,
               "MultiHeadAttention: beside mask.sequence_lengths only causal,");
  EXPECT_ERROR(
      attention(x, Mask{.key_lengths = std::vector<Index>{3}, .sequence_lengths = lengths}),
      std::invalid_argument, "MultiHeadAttention: beside mask.sequence_lengths only causal,");
  const ef::Tensor<T, 3> batch({2, 3, 24});
  EXPECT_ERROR(attention(batch, Mask{.sequence_lengths = rows}), std::invalid_argument,
               "MultiHeadAttention: sequence_lengths are those of the sequences");
  auto cache = attention.make_cache(1, tokens);
  ef::Tensor<T, 3> y(x.shape());
  ef::Workspace workspace;
  EXPECT_ERROR(attention.forward(x, cache, Mask{.sequence_lengths = lengths}, y, workspace),
               std::invalid_argument,
               "MultiHeadAttention: mask.sequence_lengths is for self-attention");
  EXPECT_EQ(cache.length(0), 0);
}

TYPED_TEST(Sequences, AreRefusedByModelsThatAnswerOncePerRow) {
  using Mask = ef::Mask<TypeParam>;
  const std::vector<Index> two = {3, 4};
  const ef::Tensor<std::int32_t, 2> ids({1, 7});
  const ef::TransformerConfig config{.vocab_size = 11,
                                     .hidden_size = 8,
                                     .num_hidden_layers = 1,
                                     .num_attention_heads = 2,
                                     .intermediate_size = 13};
  const ef::SequenceClassifier<TypeParam> classifier(config);
  EXPECT_ERROR(classifier(ids, {}, Mask{.sequence_lengths = two}), std::invalid_argument,
               "SequenceClassifier: takes rows");
  const ef::Transformer<TypeParam> transformer(config);
  EXPECT_ERROR(transformer(ids, ids, Mask{.sequence_lengths = two}), std::invalid_argument,
               "Transformer: source");
}

TYPED_TEST(Sequences, TakeMemoryInProportionToTheirTokens) {
  using T = TypeParam;
  ef::MultiHeadAttention<T> attention({.hidden_size = 16, .num_attention_heads = 2});
  ef::init(attention, ef::Key{1});
  const auto scratch = [&](const std::vector<int>& parts) {
    const Index total = std::accumulate(parts.begin(), parts.end(), Index{0});
    const ef::Tensor<T, 3> x({1, total, 16});
    ef::Tensor<T, 3> y(x.shape());
    ef::Workspace workspace;
    for (int call = 0; call < 2; ++call)
      attention.forward(x, {.sequence_lengths = parts}, y, workspace);
    return workspace.capacity();
  };
  std::vector<int> one_long(1000, 1);
  one_long[500] = 1000;
  EXPECT_LT(scratch(one_long), 8 * scratch({2000}));
}

TYPED_TEST(Sequences, OfTheInputsMustBeThoseOfTheMask) {
  using T = TypeParam;
  ef::TransformerEncoder<T> encoder({.vocab_size = 11,
                                     .hidden_size = 8,
                                     .num_hidden_layers = 1,
                                     .num_attention_heads = 2,
                                     .intermediate_size = 16});
  const ef::Tensor<std::int32_t, 2> ids({1, 5});
  const std::vector<int> own = {2, 3}, others = {3, 2};
  EXPECT_NO_THROW(encoder(ids, {.sequence_lengths = own}, {.sequence_lengths = own}));
  EXPECT_ERROR(encoder(ids, {.sequence_lengths = own}, {}), std::invalid_argument,
               "EmbeddingInputs: sequence_lengths of a model belong into its");
  EXPECT_ERROR(encoder(ids, {.sequence_lengths = own}, {.sequence_lengths = others}),
               std::invalid_argument,
               "EmbeddingInputs: sequence_lengths of a model belong into its");
}

}  // namespace sequences_test
