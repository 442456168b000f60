// SPDX-License-Identifier: MIT
// A decoder with a cache gives the bits of a decoder that gets all tokens at once: whatever the
// pieces, the positions, the heads, the window, the order of norms, the threads.
#include "eigenformer/models/decoder_cache.hpp"

#include <gtest/gtest.h>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/decoding.hpp"

namespace decoder_cache_test {

using namespace decoding;

template <class T>
class DecoderCacheTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DecoderCacheTest, Scalars);

TYPED_TEST(DecoderCacheTest, PiecesHaveTheBitsOfTheWhole) {
  using T = TypeParam;
  ef::ThreadPool pool(7);
  const Index batch = 3, length = 149;
  const Ids ids = random_ids(batch, length);
  const Counts none = {0, 0, 0}, all = {length, length, length}, ragged = {length, 130, 2};
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    for (Index groups : {6, 2}) {
      for (Index window : {0, 97}) {
        for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
          auto config = decoder.config;
          config.num_key_value_heads = groups;
          config.sliding_window = window;
          config.norm_placement = placement;
          const auto model = random_model<ef::TransformerDecoder<T>>(config);
          const Tensor<T, 3> whole = model(ids);
          auto cache = model.make_cache(batch, length);
          for (bool threads : {false, true}) {
            ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
            const auto compare = [&](const std::vector<Piece>& list, const Counts& end) {
              cache.clear();
              const Tensor<T, 3> y = in_pieces(model, ids, list, cache, workspace);
              ASSERT_TRUE(pieces::same_tokens(y, whole, none, end))
                  << decoder.name << ", " << groups << " groups, window " << window << ", "
                  << to_string(placement) << (threads ? ", 7 threads" : "");
              ASSERT_EQ(lengths(cache), end);
            };
            compare(prompt_and_steps(batch, length), all);
            compare(pieces::random_pieces(batch, 0, length, 150, 5), all);
            compare(pieces::ragged_pieces(none, ragged, 61, 6), ragged);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(DecoderCacheTest, ShortSequencesAndEveryPieceSize) {
  using T = TypeParam;
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<ef::TransformerDecoder<T>>(decoder.config);
    for (Index length : {1, 2, 11}) {
      const Ids ids = random_ids(2, length);
      const Tensor<T, 3> whole = model(ids);
      for (Index size = 1; size <= length; ++size) {
        ef::Workspace workspace;
        auto cache = model.make_cache(2, length);
        EXPECT_TRUE(reference::same_bits(
            in_pieces(model, ids, pieces::equal_pieces(2, 0, length, size), cache, workspace),
            whole))
            << decoder.name << ", pieces of " << size << " of " << length;
      }
    }
  }
}

// As Llama, Qwen, Gemma: RMSNorm, gated networks, norms of queries and keys, caps, an own head.
TYPED_TEST(DecoderCacheTest, GatedDecoders) {
  using T = TypeParam;
  using Gated = ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>;
  auto config = small_decoder();
  config.position_embedding = ef::PositionEmbedding::none;
  config.num_key_value_heads = 3;
  config.activation = ef::Activation::silu;
  config.attention_positions.kind = ef::AttentionPosition::rotary;
  config.query_key_norm = true;
  config.attn_logit_softcapping = 2;
  config.final_logit_softcapping = 3;
  config.scale_embeddings = true;
  config.tie_word_embeddings = false;
  const auto model = random_model<Gated>(config);
  const Ids ids = random_ids(3, 271);
  const Tensor<T, 3> whole = model(ids);
  const Counts ragged = {271, 130, 2};
  ef::Workspace workspace;
  auto cache = model.make_cache(3, 271);
  EXPECT_TRUE(reference::same_bits(
      in_pieces(model, ids, prompt_and_steps(3, 271), cache, workspace), whole));
  cache.clear();
  EXPECT_TRUE(pieces::same_tokens(
      in_pieces(model, ids, pieces::ragged_pieces({0, 0, 0}, ragged, 23, 6), cache, workspace),
      whole, {0, 0, 0}, ragged));
}

// Rows of other lengths beside it change nothing for a row.
TYPED_TEST(DecoderCacheTest, RaggedRowsAreRunsOfTheirOwn) {
  using T = TypeParam;
  const Counts prompt = {1, 3, 131}, end = {13, 15, 143};
  const Ids ids = random_ids(3, 143);
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<ef::TransformerDecoder<T>>(decoder.config);
    ef::Workspace workspace;
    auto cache = model.make_cache(3, 150);
    // The prompts at once, padded; then step by step.
    const std::vector<Piece> list = joined({{prompt, 131}}, pieces::equal_pieces(3, 0, 12, 1));
    const Tensor<T, 3> y = in_pieces(model, ids, list, cache, workspace);
    EXPECT_EQ(lengths(cache), end);
    for (Index b = 0; b < 3; ++b) {
      Ids alone({1, end[std::size_t(b)]});
      std::copy_n(&ids(b, 0), alone.size(), alone.data());
      const Tensor<T, 3> z = model(alone);
      EXPECT_TRUE(reference::same_bits(&y(b, 0, 0), z.data(), z.size()))
          << decoder.name << ", row " << b;
    }
  }
}

TYPED_TEST(DecoderCacheTest, LastLogitsAreThoseOfTheLastToken) {
  using T = TypeParam;
  const auto model = random_model<ef::TransformerDecoder<T>>(small_decoder());
  const Ids ids = random_ids(3, 29);
  const Tensor<T, 3> whole = model(ids);
  ef::Workspace workspace;
  auto cache = model.make_cache(3, 29);
  Tensor<T, 2> logits({3, vocabulary});
  Counts begin = {0, 0, 0};
  for (const Piece& piece : pieces::ragged_pieces(begin, {29, 17, 5}, 4, 3)) {
    if (piece.tokens == 0) continue;
    const Ids part = pieces::cut(ids, begin, piece, std::int32_t{3});
    model.forward_last(part, cache, {.token_counts = piece.token_counts()}, logits, workspace);
    for (std::size_t b = 0; b < 3; ++b) {
      begin[b] += piece.counts[b];
      if (piece.counts[b] == 0) continue;
      EXPECT_TRUE(reference::same_bits(&logits(Index(b), 0), &whole(Index(b), begin[b] - 1, 0),
                                       vocabulary));
    }
  }
  EXPECT_EQ(lengths(cache), begin);
  EXPECT_EQ(begin, Counts({29, 17, 5}));
}

// What else goes along with the ids goes along with the pieces.
TYPED_TEST(DecoderCacheTest, PositionsAndTypesOfTheCaller) {
  using T = TypeParam;
  auto config = small_decoder();
  config.type_vocab_size = 3;
  const auto model = random_model<ef::TransformerDecoder<T>>(config);
  const Ids ids = random_ids(2, 23);
  Ids types({2, 23}), positions({2, 23});
  for (Index i = 0; i < ids.size(); ++i) {
    types.data()[i] = static_cast<std::int32_t>(i * 5 % 3);
    positions.data()[i] = static_cast<std::int32_t>(i * 37 % 400);
  }
  const Tensor<T, 3> whole =
      model(ids, {.embedding = {.token_types = types, .positions = positions}});
  ef::Workspace workspace;
  auto cache = model.make_cache(2, 23);
  Counts begin = {0, 0};
  for (const Piece& piece : pieces::random_pieces(2, 0, 23, 4, 7)) {
    const Ids part = pieces::cut(ids, begin, piece, 0),
              part_types = pieces::cut(types, begin, piece, 0),
              part_positions = pieces::cut(positions, begin, piece, 0);
    Tensor<T, 3> logits({2, piece.tokens, vocabulary});
    model.forward(part, cache,
                  {.embedding = {.token_types = part_types, .positions = part_positions}}, logits,
                  workspace);
    for (Index b = 0; b < 2; ++b) {
      EXPECT_TRUE(reference::same_bits(&logits(b, 0, 0), &whole(b, begin[0], 0),
                                       piece.tokens * vocabulary));
    }
    for (Index& at : begin) at += piece.tokens;
  }
}

// A shorter prompt may be padded on the left: the padding is not seen and shifts nothing.
TYPED_TEST(DecoderCacheTest, PaddingOnTheLeft) {
  using T = TypeParam;
  const auto model = random_model<ef::TransformerDecoder<T>>(small_decoder());
  const Index padding = 5, prompt = 9, length = 20;
  const Ids ids = random_ids(2, length);
  Tensor<bool, 2> keep({2, length});
  for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i >= padding;  // row 0 is the short one
  const Ids positions = ef::positions_of_kept(keep);
  Ids alone({1, length - padding});
  std::copy_n(&ids(0, padding), alone.size(), alone.data());
  const Tensor<T, 3> expected = model(alone);

  ef::Workspace workspace;
  auto cache = model.make_cache(2, length);
  Counts begin = {0, 0};
  for (const Piece& piece : joined(pieces::equal_pieces(2, 0, prompt, prompt),
                                   pieces::equal_pieces(2, prompt, length, 1))) {
    const Ids part = pieces::cut(ids, begin, piece, 0),
              part_positions = pieces::cut(positions, begin, piece, 0);
    const Index keys = begin[0] + piece.tokens;
    Tensor<bool, 2> seen({2, keys});
    for (Index b = 0; b < 2; ++b) std::copy_n(&keep(b, 0), keys, &seen(b, 0));
    Tensor<T, 3> logits({2, piece.tokens, vocabulary});
    model.forward(part, cache,
                  {.mask = {.key_allowed = seen}, .embedding = {.positions = part_positions}},
                  logits, workspace);
    for (Index t = 0; t < piece.tokens; ++t) {
      const Index own = begin[0] + t - padding;
      if (own < 0) continue;
      for (Index c = 0; c < vocabulary; ++c) {
        EXPECT_NEAR(double(logits(0, t, c)), double(expected(0, own, c)),
                    300 * double(std::numeric_limits<T>::epsilon()));
      }
    }
    for (Index& at : begin) at += piece.tokens;
  }
}

}  // namespace decoder_cache_test
