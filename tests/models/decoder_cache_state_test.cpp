// SPDX-License-Identifier: MIT
// What happens to a decoder's cache besides tokens that follow each other: truncation, other orders
// of rows, clearing, calls that are refused or fail, slots that were never written.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/models/decoding.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/error_text.hpp"

namespace decoder_cache_state_test {

using namespace decoding;

template <class T>
class DecoderCacheStateTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DecoderCacheStateTest, Scalars);

template <class T>
using Decoder = ef::TransformerDecoder<T>;

TYPED_TEST(DecoderCacheStateTest, TruncatesAndGoesOn) {
  using T = TypeParam;
  const Ids ids = random_ids(2, 150), other = random_ids(2, 150, 99);
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<Decoder<T>>(decoder.config);
    const Tensor<T, 3> whole = model(ids);
    ef::Workspace workspace;
    auto cache = model.make_cache(2, 150);
    in_pieces(model, ids, pieces::ragged_pieces({0, 0}, {150, 131}, 61, 3), cache, workspace);
    // Back to where a row was, then another text, then back again and the first text.
    for (const Counts& back : std::vector<Counts>{{140, 131}, {128, 127}, {17, 130}, {0, 1}}) {
      for (std::size_t b = 0; b < 2; ++b)
        cache.truncate(Index(b), std::min(back[b], cache.length(Index(b))));
      const Counts begin = lengths(cache), end = {begin[0] + 10, begin[1] + 3};
      in_pieces(model, other, pieces::ragged_pieces(begin, end, 4, 3), cache, workspace);
      for (std::size_t b = 0; b < 2; ++b) cache.truncate(Index(b), begin[b]);
      const Tensor<T, 3> y =
          in_pieces(model, ids, pieces::ragged_pieces(begin, end, 4, 5), cache, workspace);
      ASSERT_TRUE(pieces::same_tokens(y, whole, begin, end)) << decoder.name;
    }
  }
}

TYPED_TEST(DecoderCacheStateTest, RowsAfterReorderingGoOnLikeFreshOnes) {
  using T = TypeParam;
  const Index capacity = 150;
  const Ids ids = random_ids(3, capacity);
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<Decoder<T>>(decoder.config);
    ef::Workspace workspace;
    auto cache = model.make_cache(3, capacity);
    in_pieces(model, ids, pieces::ragged_pieces({0, 0, 0}, {120, 29, 7}, 61, 3), cache, workspace);
    std::vector<std::vector<std::int32_t>> texts(3);
    for (Index b = 0; b < 3; ++b)
      texts[std::size_t(b)].assign(&ids(b, 0), &ids(b, 0) + cache.length(b));
    std::uint64_t seed = 50;
    for (const std::vector<Index>& rows : std::vector<std::vector<Index>>{
             {2, 0, 1}, {1, 1, 2}, {0, 2, 2, 1, 0}, {4, 2}, {0}, {0, 0}}) {
      cache.reorder(rows);
      const auto batch = static_cast<Index>(rows.size());
      ASSERT_EQ(cache.batch(), batch);
      // Every row gets new tokens of its own, which stay.
      Ids text = random_ids(batch, capacity, ++seed);
      Counts begin, end;
      std::vector<std::vector<std::int32_t>> next;
      for (Index b = 0; b < batch; ++b) {
        const auto& old = texts[std::size_t(rows[std::size_t(b)])];
        ASSERT_EQ(cache.length(b), static_cast<Index>(old.size()));
        std::copy(old.begin(), old.end(), &text(b, 0));
        begin.push_back(cache.length(b));
        end.push_back(cache.length(b) + 3 + b);
        next.emplace_back(&text(b, 0), &text(b, 0) + end.back());
      }
      texts = next;
      const Tensor<T, 3> y =
          in_pieces(model, text, pieces::ragged_pieces(begin, end, 3, 2), cache, workspace);
      ASSERT_TRUE(pieces::same_tokens(y, model(text), begin, end)) << decoder.name;
    }
    for (Index wrong : {2, -1}) {
      const std::vector<Index> rows = {0, wrong};
      EXPECT_ERROR(cache.reorder(rows), std::invalid_argument,
                   "DecoderCache: there is no batch row");
      EXPECT_EQ(cache.batch(), 2);
    }
  }
}

TYPED_TEST(DecoderCacheStateTest, ClearsAndCopies) {
  using T = TypeParam;
  const auto model = random_model<Decoder<T>>(small_decoder());
  const Ids ids = random_ids(2, 31);
  const Tensor<T, 3> whole = model(ids);
  ef::Workspace workspace;
  auto cache = model.make_cache(2, 31);
  const Index bytes = cache.bytes();
  EXPECT_GE(bytes, 2 * 2 * 2 * 31 * 60 * Index{sizeof(T)});  // layers, keys and values, rows ...
  in_pieces(model, random_ids(2, 31, 9), pieces::equal_pieces(2, 0, 31, 31), cache, workspace);
  cache.clear();
  EXPECT_EQ(lengths(cache), Counts({0, 0}));
  in_pieces(model, ids, pieces::equal_pieces(2, 0, 10, 10), cache, workspace);
  auto copy = cache;
  // Two ways on from the same state.
  in_pieces(model, random_ids(2, 31, 9), pieces::equal_pieces(2, 10, 20, 5), copy, workspace);
  EXPECT_EQ(lengths(cache), Counts({10, 10}));
  const Tensor<T, 3> y =
      in_pieces(model, ids, pieces::equal_pieces(2, 10, 31, 1), cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(y, whole, {10, 10}, {31, 31}));
  EXPECT_EQ(cache.bytes(), bytes);
}

TYPED_TEST(DecoderCacheStateTest, UnwrittenSlotsNeverMatter) {
  using T = TypeParam;
  const Counts none = {0, 0}, end = {140, 17};
  const Ids ids = random_ids(2, 140);
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<Decoder<T>>(decoder.config);
    const Tensor<T, 3> whole = model(ids);
    ef::Workspace workspace;
    auto cache = model.make_cache(2, 150);
    Counts begin = none;
    for (const Piece& piece : pieces::ragged_pieces(none, end, 37, 4)) {
      cache.extend(0, {}, [](auto& layers) {
        for (auto& layer : layers) pieces::poison(layer.self);
      });
      const Counts before = begin;
      const Tensor<T, 3> y = in_pieces(model, ids, {piece}, cache, workspace);
      for (std::size_t b = 0; b < 2; ++b) begin[b] += piece.counts[b];
      ASSERT_TRUE(pieces::same_tokens(y, whole, before, begin)) << decoder.name;
    }
  }
}

/// Runs everything on the calling thread; throws instead when its turn comes.
struct FailingExecutor {
  int calls_left = -1;  // -1: never
  Index concurrency() const { return 2; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    if (calls_left == 0) throw std::runtime_error("out of threads");
    if (calls_left > 0) --calls_left;
    for (Index i = 0; i < n; ++i) f(i);
  }
};

// A call may fail anywhere, also behind layers that have appended their keys already.
TYPED_TEST(DecoderCacheStateTest, AFailureInTheMiddleLeavesTheCacheAsItWas) {
  using T = TypeParam;
  const Ids ids = random_ids(3, 140);
  const auto model = random_model<Decoder<T>>(small_decoder());
  const Tensor<T, 3> whole = model(ids);
  FailingExecutor executor;
  ef::Workspace workspace(executor);
  auto cache = model.make_cache(3, 140);
  in_pieces(model, ids, pieces::ragged_pieces({0, 0, 0}, {30, 17, 5}, 9, 3), cache, workspace);
  const Counts begin = {30, 17, 5}, end = {140, 127, 115};
  int failures = 0;
  for (int calls = 0; calls < 1000; ++calls) {
    executor.calls_left = calls;
    try {
      in_pieces(model, ids, {{{110, 110, 110}, 110}}, cache, workspace);
      break;
    } catch (const std::runtime_error&) {
      ++failures;
      ASSERT_EQ(lengths(cache), begin);
      ASSERT_EQ(workspace.arena().used(), 0u);
    }
    executor.calls_left = -1;
    // What was there still serves: one more token, which is forgotten again.
    const Tensor<T, 3> y =
        in_pieces(model, ids, pieces::ragged_pieces(begin, {31, 18, 6}, 1, 3), cache, workspace);
    ASSERT_TRUE(pieces::same_tokens(y, whole, begin, {31, 18, 6}));
    for (std::size_t b = 0; b < 3; ++b) cache.truncate(Index(b), begin[b]);
  }
  EXPECT_GT(failures, 7);  // pieces of parallel work in the two layers and around them
  EXPECT_EQ(lengths(cache), end);
}

template <class F>
void expect_refused(F&& f, const std::vector<std::string>& texts) {
  try {
    f();
    ADD_FAILURE() << "nothing thrown; expected " << ::testing::PrintToString(texts);
  } catch (const std::invalid_argument& error) {
    for (const std::string& text : texts) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
          << "'" << error.what() << "' lacks '" << text << "'";
    }
  }
}

TYPED_TEST(DecoderCacheStateTest, OverflowIsRefusedAndChangesNothing) {
  using T = TypeParam;
  const auto model = random_model<Decoder<T>>(small_decoder());
  const Ids ids = random_ids(2, 5);
  const Tensor<T, 3> whole = model(ids);
  ef::Workspace workspace;
  auto cache = model.make_cache(2, 4);
  EXPECT_EQ(cache.capacity(), 4);
  const auto refused = [&](ef::DecoderCache<T>& full, const Piece& piece,
                           const std::vector<std::string>& texts) {
    const Counts before = lengths(full);
    const Ids some({2, piece.tokens});
    Tensor<T, 3> logits({2, piece.tokens, vocabulary});
    Tensor<T, 2> last({2, vocabulary});
    std::fill(logits.begin(), logits.end(), T(-777));
    const typename Decoder<T>::Inputs inputs{.token_counts = piece.token_counts()};
    expect_refused([&] { model.forward(some, full, inputs, logits, workspace); }, texts);
    expect_refused([&] { model.forward_last(some, full, inputs, last, workspace); }, texts);
    for (const T value : logits) ASSERT_EQ(value, T(-777));
    EXPECT_EQ(lengths(full), before);
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  // 5 at once; 4 and then 1; one row only; no room at all.
  refused(cache, {{5, 5}, 5}, {"batch row 0", "holds 0", "at most 4", "5 more"});
  in_pieces(model, ids, {{{4, 2}, 4}}, cache, workspace);
  refused(cache, {{1, 1}, 1}, {"batch row 0", "holds 4", "at most 4", "1 more"});
  refused(cache, {{0, 3}, 3}, {"batch row 1", "holds 2", "at most 4", "3 more"});
  auto none = model.make_cache(2, 0);
  refused(none, {{1, 1}, 1}, {"batch row 0", "holds 0", "at most 0", "1 more"});
  EXPECT_EQ(none.capacity(), 0);

  // And what is there goes on with the same bits.
  const Tensor<T, 3> y = in_pieces(model, ids, {{{0, 2}, 2}}, cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(y, whole, {4, 2}, {4, 4}));
  cache.truncate(0, 3);
  const Tensor<T, 3> z = in_pieces(model, ids, {{{1, 0}, 1}}, cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(z, whole, {3, 4}, {4, 4}));
}

TYPED_TEST(DecoderCacheStateTest, WrongCallsChangeNothing) {
  using T = TypeParam;
  auto config = small_decoder();
  config.max_position_embeddings = 9;
  const auto model = random_model<Decoder<T>>(config);
  const Ids ids = random_ids(2, 9);
  const Tensor<T, 3> whole = model(ids);
  ef::Workspace workspace;
  auto cache = model.make_cache(2, 20);
  in_pieces(model, ids, {{{5, 3}, 5}}, cache, workspace);

  using Inputs = typename Decoder<T>::Inputs;
  const auto refused = [&](const Ids& some, const Inputs& inputs,
                           const std::vector<std::string>& texts) {
    Tensor<T, 3> logits({some.dim(0), some.dim(1), vocabulary});
    std::fill(logits.begin(), logits.end(), T(-777));
    expect_refused([&] { model.forward(some, cache, inputs, logits, workspace); }, texts);
    for (const T value : logits) ASSERT_EQ(value, T(-777));
    EXPECT_EQ(lengths(cache), Counts({5, 3}));
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  const Ids two({2, 2});
  Ids wrong = two, types = two;
  wrong(1, 0) = vocabulary;
  const Tensor<bool, 2> keep({2, 8});
  const Tensor<T, 3> memory({2, 4, 29});
  const std::vector<int> one = {1}, beyond = {1, 3}, negative = {-1, 1};
  refused(wrong, {}, {"id 13", "13 rows"});
  refused(two, {.mask = {.key_allowed = keep}}, {"(2, 7)", "(2, 8)"});  // from inside the layers
  refused(two, {.mask = {.window = -2}}, {"window", "-2"});
  refused(two, {.mask = {.query_offset = 5}}, {"query_offset", "5"});
  refused(two, {.embedding = {.first_position = 5}}, {"first_position", "5"});
  refused(two, {.embedding = {.token_types = types}}, {"token_types"});
  refused(two, {.memory = memory}, {"memory"});
  refused(two, {.token_counts = one}, {"2 batch rows", "got 1"});
  refused(two, {.token_counts = beyond}, {"[0, 2]", "3"});
  refused(two, {.token_counts = negative}, {"[0, 2]", "-1"});
  refused(Ids({3, 2}), {}, {"3 batch rows", "2 and 2"});
  refused(Ids({2, 5}), {}, {"position 9", "9 rows"});  // row 0 would stand at 5 ... 9
  expect_refused([&] { model(two, {.token_counts = beyond}); }, {"token_counts"});
  Tensor<T, 2> narrow({2, vocabulary - 1});
  expect_refused([&] { model.forward_last(two, cache, {}, narrow, workspace); },
                 {"(2, 12)", "(2, 13)"});
  Tensor<T, 2> last({2, vocabulary});
  expect_refused([&] { model.forward_last(Ids({2, 0}), cache, {}, last, workspace); }, {"(2, 0)"});

  expect_refused([&] { cache.truncate(0, 6); }, {"row 0", "holds 5", "to 6"});
  expect_refused([&] { cache.truncate(1, -1); }, {"holds 3", "-1"});
  expect_refused([&] { cache.truncate(2, 0); }, {"row 2", "2"});
  expect_refused([&] { cache.length(-1); }, {"row -1"});
  EXPECT_EQ(lengths(cache), Counts({5, 3}));

  const Tensor<T, 3> y =
      in_pieces(model, ids, pieces::ragged_pieces({5, 3}, {9, 9}, 2, 3), cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(y, whole, {5, 3}, {9, 9}));
}

TYPED_TEST(DecoderCacheStateTest, CachesOfOtherModelsAreRefused) {
  using T = TypeParam;
  const auto model = random_model<Decoder<T>>(small_decoder());
  const Ids ids({2, 3});
  ef::Workspace workspace;
  Tensor<T, 3> logits({2, 3, vocabulary});
  for (int which = 0; which < 3; ++which) {
    auto config = small_decoder();
    if (which == 0) config.num_hidden_layers = 1;
    if (which == 1) config.num_key_value_heads = 3;
    if (which == 2) config.head_size = 9;
    auto cache = Decoder<T>(config).make_cache(2, 5);
    EXPECT_ERROR(model.forward(ids, cache, {}, logits, workspace), std::invalid_argument, "must be")
        << which;
  }
  ef::DecoderCache<T> nothing;
  EXPECT_ERROR(model.forward(ids, nothing, {}, logits, workspace), std::invalid_argument,
               "the cache must be for 2 layers and 2 batch rows; got 0 and 0");
  EXPECT_ERROR(model.make_cache(-1, 5), std::invalid_argument,
               "KeyValueCache: batch, capacity, num_key_value_heads and");
  EXPECT_ERROR(model.make_cache(2, -5), std::invalid_argument,
               "KeyValueCache: batch, capacity, num_key_value_heads and");
}

TYPED_TEST(DecoderCacheStateTest, FurtherCallsAllocateNothing) {
  using T = TypeParam;
  ef::ThreadPool pool(2);
  const Ids prompt = random_ids(2, 60), one = random_ids(2, 1);
  const std::vector<int> counts = {1, 0};
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<Decoder<T>>(decoder.config);
    for (bool threads : {false, true}) {
      ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
      auto cache = model.make_cache(2, 150);
      Tensor<T, 3> logits({2, 60, vocabulary}), step({2, 1, vocabulary});
      Tensor<T, 2> last({2, vocabulary});
      model.forward(prompt, cache, {}, logits, workspace);
      model.forward_last(one, cache, {}, last, workspace);
      const long before = reference::allocations();
      Eigen::internal::set_is_malloc_allowed(false);
      for (int i = 0; i < 80; ++i) model.forward_last(one, cache, {}, last, workspace);
      model.forward_last(one, cache, {.token_counts = counts}, last, workspace);
      model.forward(one, cache, {}, step, workspace);
      cache.truncate(1, 3);
      cache.clear();
      model.forward(prompt, cache, {}, logits, workspace);
      Eigen::internal::set_is_malloc_allowed(true);
      EXPECT_EQ(reference::allocations(), before) << decoder.name;
    }
  }
}

TYPED_TEST(DecoderCacheStateTest, EmptyCalls) {
  using T = TypeParam;
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    const auto model = random_model<Decoder<T>>(decoder.config);
    auto cache = model.make_cache(2, 5), no_rows = model.make_cache(0, 5);
    EXPECT_EQ(model(Ids({2, 0}), cache).shape(), (ef::Shape<3>{2, 0, vocabulary}));
    EXPECT_EQ(model(Ids({0, 3}), no_rows).shape(), (ef::Shape<3>{0, 3, vocabulary}));
    const std::vector<int> none = {0, 0};
    model(Ids({2, 3}), cache, {.token_counts = none});
    EXPECT_EQ(lengths(cache), Counts({0, 0}));
    const Ids ids = random_ids(2, 5);
    EXPECT_TRUE(reference::same_bits(model(ids, cache), model(ids))) << decoder.name;
  }
}

}  // namespace decoder_cache_state_test
