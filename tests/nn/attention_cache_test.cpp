// SPDX-License-Identifier: MIT
// Attention with a cache: the bits of one call with all tokens, whatever the pieces, the positions,
// the heads, the window, the threads.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "tests/nn/pieces.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/error_text.hpp"

namespace attention_cache_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using pieces::Counts;
using pieces::Piece;

constexpr Index hidden = 29, heads = 6, head_size = 10;

template <class T>
ef::MultiHeadAttention<T> make(const ef::AttentionPositions& positions, Index groups = heads,
                               Index window = 0) {
  ef::MultiHeadAttention<T> module({.hidden_size = hidden,
                                    .num_attention_heads = heads,
                                    .num_key_value_heads = groups,
                                    .head_size = head_size,
                                    .attention_positions = positions,
                                    .bidirectional = false,
                                    .query_key_norm = groups == 2,
                                    .attn_logit_softcapping = groups == 2 ? 1.5 : 0,
                                    .sliding_window = window});
  reference::randomize(module, 1);
  return module;
}

template <class T>
Tensor<T, 3> tokens(Index batch, Index count, std::uint64_t seed = 3) {
  return reference::random_tensor<T, 3>({batch, count, hidden}, seed, 2);
}

/// Sends x through the cache in pieces, with `mask(keys)` for each.
template <class T, class MaskFor>
Tensor<T, 3> run(const ef::MultiHeadAttention<T>& module, const Tensor<T, 3>& x,
                 const std::vector<Piece>& list, ef::KeyValueCache<T>& cache,
                 ef::Workspace& workspace, MaskFor&& mask) {
  const Counts begin(cache.lengths().begin(), cache.lengths().end());
  return pieces::in_pieces<T>(
      x, hidden, begin, list,
      [&](const Piece& piece, const Tensor<T, 3>& part, Tensor<T, 3>& result) {
        Index keys = 0;
        for (Index b = 0; b < cache.batch(); ++b)
          keys = std::max(keys, cache.length(b) + piece.counts[static_cast<std::size_t>(b)]);
        module.forward(part, piece.token_counts(), cache, mask(keys), result, workspace);
      });
}

template <class T>
Tensor<T, 3> run(const ef::MultiHeadAttention<T>& module, const Tensor<T, 3>& x,
                 const std::vector<Piece>& list, ef::KeyValueCache<T>& cache,
                 ef::Workspace& workspace) {
  return run(module, x, list, cache, workspace, [](Index) { return ef::Mask<T>{.causal = true}; });
}

template <class T>
Tensor<T, 3> run(const ef::MultiHeadAttention<T>& module, const Tensor<T, 3>& x,
                 const std::vector<Piece>& list) {
  ef::Workspace workspace;
  auto cache = module.make_cache(x.dim(0), x.dim(1));
  return run(module, x, list, cache, workspace);
}

template <class T>
class AttentionCacheTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionCacheTest, Scalars);

TYPED_TEST(AttentionCacheTest, PiecesHaveTheBitsOfTheWhole) {
  using T = TypeParam;
  ef::ThreadPool pool(7);
  const Index batch = 3, length = 307;  // over three key tiles
  const Tensor<T, 3> x = tokens<T>(batch, length);
  const Counts none = {0, 0, 0}, lengths = {307, 131, 2};
  for (const auto& [name, positions] : pieces::all_positions()) {
    for (Index groups : {heads, Index{2}}) {
      for (Index window : {0, 97}) {
        const auto module = make<T>(positions, groups, window);
        const Tensor<T, 3> whole = module(x, {.causal = true});
        for (bool threads : {false, true}) {
          ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
          auto cache = module.make_cache(batch, length);
          const auto where = [&] {
            return std::string(name) + ", " + std::to_string(groups) + " groups, window " +
                   std::to_string(window) + (threads ? ", 7 threads" : "");
          };
          const auto compare = [&](const std::vector<Piece>& list, const Counts& end) {
            cache.clear();
            const Tensor<T, 3> y = run(module, x, list, cache, workspace);
            ASSERT_TRUE(pieces::same_tokens(y, whole, none, end)) << where();
            ASSERT_EQ(Counts(cache.lengths().begin(), cache.lengths().end()), end);
          };
          compare(pieces::equal_pieces(batch, 0, length, length), {length, length, length});
          compare(pieces::random_pieces(batch, 0, length, 150, 5), {length, length, length});
          compare(pieces::ragged_pieces(none, lengths, 61, 6), lengths);
          compare(pieces::ragged_pieces(none, lengths, 7, 7), lengths);
          if (!threads) {
            compare(pieces::equal_pieces(batch, 0, length, 1), {length, length, length});
          }
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(AttentionCacheTest, ShortSequencesAndEveryPieceSize) {
  using T = TypeParam;
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 3);
    for (Index length : {1, 2, 13}) {
      const Tensor<T, 3> x = tokens<T>(2, length);
      const Tensor<T, 3> whole = module(x, {.causal = true});
      for (Index size = 1; size <= length; ++size) {
        EXPECT_TRUE(
            reference::same_bits(run(module, x, pieces::equal_pieces(2, 0, length, size)), whole))
            << name << ", pieces of " << size << " of " << length;
      }
    }
  }
}

// Every other mask, cut to the keys that are there.
TYPED_TEST(AttentionCacheTest, MasksInPieces) {
  using T = TypeParam;
  const Index batch = 2, length = 139;
  const Tensor<T, 3> x = tokens<T>(batch, length);
  const ef::Key key(8);
  Tensor<bool, 2> keep({batch, length});
  Tensor<bool, 4> pairs({batch, 1, length, length});
  Tensor<T, 4> bias = reference::random_tensor<T, 4>({1, heads, length, length}, 9, 3);
  const auto offsets = reference::random_tensor<T, 2>({heads, 2 * 31 + 1}, 10, 3);
  for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = key.uniform(std::uint64_t(i)) < 0.7;
  for (Index i = 0; i < pairs.size(); ++i)
    pairs.data()[i] = key.fold_in(1).uniform(std::uint64_t(i)) < 0.7;
  const std::vector<int> lengths = {101, 17};

  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 3);
    for (int which = 0; which < 5; ++which) {
      if (which == 4 && positions.kind == ef::AttentionPosition::relative_bias) continue;
      ef::Mask<T> mask{.causal = true};
      if (which == 0) mask.key_allowed = keep;
      if (which == 1) mask.allowed = pairs;
      if (which == 2) mask.bias = bias;
      if (which == 3) mask.window = 23;
      if (which == 4) mask.offset_bias = offsets;
      const Tensor<T, 3> whole = module(x, mask);
      for (Index size : {1, 53}) {
        auto cache = module.make_cache(batch, length);
        ef::Workspace workspace;
        Tensor<bool, 2> some_keys;
        Tensor<bool, 4> some_pairs;
        Tensor<T, 4> some_bias;
        const Tensor<T, 3> y =
            run(module, x, pieces::equal_pieces(batch, 0, length, size), cache, workspace,
                [&](Index keys) {
                  const Index first = cache.length(0), count = keys - first;
                  const auto cut_pairs = [&](const auto& from, auto& to) {
                    to = std::remove_cvref_t<decltype(to)>({from.dim(0), from.dim(1), count, keys});
                    for (Index i = 0; i < to.size(); ++i) {
                      const Index j = i % keys, t = i / keys % count, row = i / keys / count;
                      to.data()[i] = from.data()[(row * length + first + t) * length + j];
                    }
                  };
                  some_keys = Tensor<bool, 2>({batch, keys});
                  for (Index b = 0; b < batch; ++b)
                    std::copy_n(&keep(b, 0), keys, some_keys.data() + b * keys);
                  cut_pairs(pairs, some_pairs);
                  cut_pairs(bias, some_bias);
                  ef::Mask<T> part = mask;
                  if (which == 0) part.key_allowed = some_keys;
                  if (which == 1) part.allowed = some_pairs;
                  if (which == 2) part.bias = some_bias;
                  return part;
                });
        ASSERT_TRUE(reference::same_bits(y, whole)) << name << ", mask " << which;
      }
    }
    // Lengths of the final sequence: earlier pieces see less anyway.
    const Tensor<T, 3> whole = module(x, {.causal = true, .key_lengths = lengths});
    auto cache = module.make_cache(batch, length);
    ef::Workspace workspace;
    std::vector<int> some;
    const Tensor<T, 3> y = run(module, x, pieces::equal_pieces(batch, 0, length, 19), cache,
                               workspace, [&](Index keys) {
                                 some.clear();
                                 for (int l : lengths) some.push_back(std::min(l, int(keys)));
                                 return ef::Mask<T>{.causal = true, .key_lengths = some};
                               });
    ASSERT_TRUE(reference::same_bits(y, whole)) << name;
  }
}

// Without causality a piece sees itself whole: so does a call with the keys up to there.
TYPED_TEST(AttentionCacheTest, WithoutCausality) {
  using T = TypeParam;
  const Tensor<T, 3> x = tokens<T>(2, 150);
  const auto module = make<T>({.kind = ef::AttentionPosition::alibi}, 3);
  auto cache = module.make_cache(2, 150);
  ef::Workspace workspace;
  const Tensor<T, 3> y = run(module, x, pieces::equal_pieces(2, 0, 150, 75), cache, workspace,
                             [](Index) { return ef::Mask<T>{}; });
  Tensor<T, 3> first({2, 75, hidden});
  for (Index b = 0; b < 2; ++b) std::copy_n(&x(b, 0, 0), 75 * hidden, &first(b, 0, 0));
  EXPECT_TRUE(pieces::same_tokens(y, module(first), {0, 0}, {75, 75}));
  EXPECT_TRUE(pieces::same_tokens(y, module(x), {75, 75}, {150, 150}));
}

TYPED_TEST(AttentionCacheTest, UnwrittenSlotsNeverMatter) {
  using T = TypeParam;
  const Counts none = {0, 0, 0}, lengths = {290, 130, 5};
  const Tensor<T, 3> x = tokens<T>(3, 290);
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 2);
    const Tensor<T, 3> whole = module(x, {.causal = true});
    for (bool flags : {false, true}) {
      ef::Workspace workspace;
      auto cache = module.make_cache(3, 301);
      std::fill_n(cache.panels().finite, cache.panels().tile_count(), flags);
      Tensor<T, 3> y(x.shape());
      Counts begin = none;
      for (const Piece& piece : pieces::ragged_pieces(none, lengths, 37, 4)) {
        pieces::poison(cache);
        const Tensor<T, 3> part = run(module, x, {piece}, cache, workspace);
        Counts end = begin;
        for (std::size_t b = 0; b < 3; ++b) end[b] += piece.counts[b];
        ASSERT_TRUE(pieces::same_tokens(part, whole, begin, end)) << name;
        begin = end;
      }
      // Neither do those that were written and forgotten.
      for (Index b = 0; b < 3; ++b) cache.truncate(b, lengths[std::size_t(b)] / 2);
      pieces::poison(cache);
      const Counts half = {145, 65, 2};
      const Tensor<T, 3> again =
          run(module, x, pieces::ragged_pieces(half, lengths, 37, 5), cache, workspace);
      ASSERT_TRUE(pieces::same_tokens(again, whole, half, lengths)) << name;
    }
  }
}

// What a row once held, NaN in its tokens included, is gone after truncation.
TYPED_TEST(AttentionCacheTest, BadTokensAreForgottenByTruncation) {
  using T = TypeParam;
  const Tensor<T, 3> x = tokens<T>(2, 150);
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 2);
    const Tensor<T, 3> whole = module(x, {.causal = true});
    ef::Workspace workspace;
    auto cache = module.make_cache(2, 150);
    run(module, x, pieces::equal_pieces(2, 0, 100, 100), cache, workspace);
    Tensor<T, 3> bad({2, 41, hidden}), y(bad.shape());
    std::fill(bad.begin(), bad.end(), std::numeric_limits<T>::quiet_NaN());
    module.forward(bad, cache, {.causal = true}, y, workspace);
    EXPECT_TRUE(std::isnan(y(0, 0, 0)));
    for (Index b = 0; b < 2; ++b) cache.truncate(b, 100);
    const Tensor<T, 3> rest =
        run(module, x, pieces::equal_pieces(2, 100, 150, 7), cache, workspace);
    ASSERT_TRUE(pieces::same_tokens(rest, whole, {100, 100}, {150, 150})) << name;
  }
}

// The key of token t is rotated by position t, values by none.
TYPED_TEST(AttentionCacheTest, KeysStandAtTheirPositions) {
  using T = TypeParam;
  const auto module = make<T>({.kind = ef::AttentionPosition::rotary}, 3);
  const auto plain = make<T>({}, 3);
  const Tensor<T, 3> x = tokens<T>(2, 11);
  ef::Workspace workspace;
  auto at_once = module.make_cache(2, 11), in_steps = module.make_cache(2, 11),
       unrotated = plain.make_cache(2, 11);
  run(module, x, pieces::equal_pieces(2, 0, 11, 11), at_once, workspace);
  run(module, x, pieces::ragged_pieces({0, 0}, {11, 11}, 3, 4), in_steps, workspace);
  run(plain, x, pieces::equal_pieces(2, 0, 11, 11), unrotated, workspace);
  for (Index b = 0; b < 2; ++b) {
    for (Index head = 0; head < 3; ++head) {
      for (Index t = 0; t < 11; ++t) {
        const Tensor<T, 1> key = in_steps.key(b, head, t);
        EXPECT_TRUE(reference::same_bits(key, at_once.key(b, head, t)));
        EXPECT_TRUE(reference::same_bits(in_steps.value(b, head, t), unrotated.value(b, head, t)));
        EXPECT_EQ(bool(reference::same_bits(key, unrotated.key(b, head, t))), t == 0);
        Tensor<T, 1> rotated = unrotated.key(b, head, t);
        for (Index i = 0; i < head_size / 2; ++i) {
          const double angle = double(t) * std::pow(10000.0, -double(2 * i) / head_size);
          const T low = rotated(i), high = rotated(i + head_size / 2);
          const double tolerance = 20 * double(std::numeric_limits<T>::epsilon());
          EXPECT_NEAR(double(key(i)), low * std::cos(angle) - high * std::sin(angle), tolerance);
          EXPECT_NEAR(double(key(i + head_size / 2)),
                      high * std::cos(angle) + low * std::sin(angle), tolerance);
        }
      }
    }
  }
}

// Cross-attention: a memory is projected once, its rows have lengths of their own.
TYPED_TEST(AttentionCacheTest, MemoriesInACache) {
  using T = TypeParam;
  ef::MultiHeadAttention<T> module({.hidden_size = hidden,
                                    .num_attention_heads = heads,
                                    .num_key_value_heads = 3,
                                    .head_size = head_size,
                                    .key_value_size = 17,
                                    .value_size = 5});
  reference::randomize(module, 1);
  const Tensor<T, 3> x = tokens<T>(3, 13);
  auto keys = reference::random_tensor<T, 3>({3, 307, 17}, 5);
  auto values = reference::random_tensor<T, 3>({3, 307, 5}, 6);
  const std::vector<int> lengths = {307, 0, 130};
  const Tensor<T, 3> whole = module(x, keys, values, {.key_lengths = lengths});
  for (Index b = 0; b < 3; ++b) {  // padding may hold anything
    for (Index j = lengths[std::size_t(b)]; j < 307; ++j) {
      keys(b, j, 3) = values(b, j, 2) = std::numeric_limits<T>::quiet_NaN();
    }
  }
  ef::Workspace workspace;
  auto cache = module.make_cache(3, 310);
  module.append(keys, values, lengths, cache, workspace);
  pieces::poison(cache);
  EXPECT_EQ(cache.length(1), 0);
  Tensor<T, 3> y(x.shape());
  module.attend(x, cache, {}, y, workspace);
  EXPECT_TRUE(reference::same_bits(y, whole));
  for (Index t = 0; t < 13; ++t) {  // one query after the other
    Tensor<T, 3> one({3, 1, hidden}), result({3, 1, hidden});
    for (Index b = 0; b < 3; ++b) std::copy_n(&x(b, t, 0), hidden, &one(b, 0, 0));
    module.attend(one, cache, {}, result, workspace);
    for (Index b = 0; b < 3; ++b)
      EXPECT_TRUE(reference::same_bits(&result(b, 0, 0), &whole(b, t, 0), hidden));
  }
}

// The first query's position is that of the mask, as without a cache.
TYPED_TEST(AttentionCacheTest, QueriesToAMemoryFollowTheOffset) {
  using T = TypeParam;
  ef::MultiHeadAttention<T> module(
      {.hidden_size = hidden,
       .num_attention_heads = heads,
       .head_size = head_size,
       .attention_positions = {.kind = ef::AttentionPosition::rotary}});
  reference::randomize(module, 1);
  const Tensor<T, 3> x = tokens<T>(2, 5);
  const auto memory = reference::random_tensor<T, 3>({2, 11, hidden}, 5);
  ef::Workspace workspace;
  auto cache = module.make_cache(2, 11);
  module.append(memory, memory, {}, cache, workspace);
  Tensor<T, 3> first(x.shape()), y(x.shape());
  module.attend(x, cache, {}, first, workspace);
  module.attend(x, cache, {.query_offset = 4}, y, workspace);
  EXPECT_TRUE(reference::same_bits(first, module(x, memory)));
  EXPECT_TRUE(reference::same_bits(y, module(x, memory, {.query_offset = 4})));
  EXPECT_FALSE(reference::same_bits(y, first));
}

TYPED_TEST(AttentionCacheTest, RowsAfterReorderingGoOnLikeFreshOnes) {
  using T = TypeParam;
  const Index length = 200;
  const Tensor<T, 3> x = tokens<T>(3, length);
  const Counts lengths = {150, 131, 7};
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 2);
    ef::Workspace workspace;
    auto cache = module.make_cache(3, length);
    run(module, x, pieces::ragged_pieces({0, 0, 0}, lengths, 61, 3), cache, workspace);
    // Permuted, doubled, grown, shrunk; each time the rows go on with another text's tokens.
    Counts origin = {0, 1, 2};
    for (const std::vector<Index>& rows :
         std::vector<std::vector<Index>>{{2, 0, 1}, {1, 1, 2}, {0, 2, 2, 1, 0}, {4, 2}}) {
      cache.reorder(rows);
      Counts next;
      for (Index b : rows) next.push_back(origin[std::size_t(b)]);
      origin = next;
      const auto batch = static_cast<Index>(rows.size());
      // The whole text of each row: what it was, then something new.
      Tensor<T, 3> text = tokens<T>(batch, length, 77);
      Counts begin, end;
      for (Index b = 0; b < batch; ++b) {
        begin.push_back(cache.length(b));
        end.push_back(cache.length(b) + 13 + b);
        std::copy_n(&x(origin[std::size_t(b)], 0, 0), begin.back() * hidden, &text(b, 0, 0));
      }
      const Tensor<T, 3> whole = module(text, {.causal = true});
      const Tensor<T, 3> y =
          run(module, text, pieces::ragged_pieces(begin, end, 5, 2), cache, workspace);
      ASSERT_TRUE(pieces::same_tokens(y, whole, begin, end)) << name;
      for (Index b = 0; b < batch; ++b) cache.truncate(b, begin[std::size_t(b)]);
    }
  }
}

TYPED_TEST(AttentionCacheTest, WrongCallsChangeNothing) {
  using T = TypeParam;
  const Tensor<T, 3> x = tokens<T>(2, 9);
  const auto module = make<T>({.kind = ef::AttentionPosition::relative_bias}, 3);
  const Tensor<T, 3> whole = module(x, {.causal = true});
  ef::Workspace workspace;
  auto cache = module.make_cache(2, 9);
  run(module, x, pieces::equal_pieces(2, 0, 4, 4), cache, workspace);

  const auto refused = [&](const std::vector<std::string>& texts, const ef::Mask<T>& mask,
                           Index tokens_given = 2, Index width = hidden, Index batch = 2,
                           const std::optional<ef::IntegerSequence>& counts = {}) {
    Tensor<T, 3> part({batch, tokens_given, width}), y({batch, tokens_given, hidden});
    std::fill(y.begin(), y.end(), T(-777));
    try {
      module.forward(part, counts, cache, mask, y, workspace);
      ADD_FAILURE() << "nothing thrown; expected " << ::testing::PrintToString(texts);
    } catch (const std::invalid_argument& error) {
      for (const std::string& text : texts) {
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
            << "'" << error.what() << "' lacks '" << text << "'";
      }
    }
    for (const T value : y) ASSERT_EQ(value, T(-777));
    EXPECT_EQ(Counts(cache.lengths().begin(), cache.lengths().end()), Counts({4, 4}));
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  const Tensor<bool, 2> keep({2, 7});
  const Tensor<T, 2> offsets({heads, 3});
  const std::vector<int> lengths = {6, 7}, counts = {3, 1}, more = {0, 6};
  ef::Mask<T> by_offset{.causal = true};
  by_offset.offset_bias = offsets;
  refused({"query_offset", "4"}, {.causal = true, .query_offset = 4});
  refused({"(2, 6)", "(2, 7)"}, {.key_allowed = keep});
  refused({"[0, 6]", "7"}, {.key_lengths = lengths});
  refused({"window", "-1"}, {.window = -1});
  refused({"offset_bias"}, by_offset);
  refused({"(2, 2, 29)", "(2, 2, 31)"}, {.causal = true}, 2, 31);
  refused({"(3, 3, 10)", "(2, 3, 10)"}, {.causal = true}, 2, hidden, 3);
  refused({"holds 4", "at most 9", "6 more"}, {.causal = true}, 6);
  refused({"[0, 2]", "3"}, {.causal = true}, 2, hidden, 2, counts);
  refused({"batch row 1", "holds 4", "at most 9", "6 more"}, {.causal = true}, 6, hidden, 2, more);

  // Caches of another shape.
  Tensor<T, 3> y(x.shape());
  for (auto wrong : {ef::KeyValueCache<T>({2, 9, 2, head_size}),
                     ef::KeyValueCache<T>({2, 9, 3, head_size + 1}), ef::KeyValueCache<T>()}) {
    EXPECT_ERROR(module.forward(x, wrong, {.causal = true}, y, workspace), std::invalid_argument,
                 "MultiHeadAttention: cache (batch, key/value heads, head size):");
  }

  const Tensor<T, 3> rest = run(module, x, pieces::equal_pieces(2, 4, 9, 2), cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(rest, whole, {4, 4}, {9, 9}));
}

TYPED_TEST(AttentionCacheTest, FurtherCallsAllocateNothing) {
  using T = TypeParam;
  ef::ThreadPool pool(2);
  for (const auto& [name, positions] : pieces::all_positions()) {
    const auto module = make<T>(positions, 2);
    for (bool threads : {false, true}) {
      ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
      auto cache = module.make_cache(2, 300);
      const Tensor<T, 3> prompt = tokens<T>(2, 120), one = tokens<T>(2, 1);
      Tensor<T, 3> y(prompt.shape()), z(one.shape());
      const std::vector<int> counts = {1, 0};
      module.forward(prompt, cache, {.causal = true}, y, workspace);
      module.forward(one, cache, {.causal = true}, z, workspace);
      const long before = reference::allocations();
      Eigen::internal::set_is_malloc_allowed(false);
      for (int i = 0; i < 150; ++i) module.forward(one, cache, {.causal = true}, z, workspace);
      module.forward(one, counts, cache, {.causal = true}, z, workspace);
      cache.clear();
      module.forward(prompt, cache, {.causal = true}, y, workspace);
      Eigen::internal::set_is_malloc_allowed(true);
      EXPECT_EQ(reference::allocations(), before) << name;
    }
  }
}

// No tokens, no rows, no room.
TYPED_TEST(AttentionCacheTest, EmptyCalls) {
  using T = TypeParam;
  const auto module = make<T>({.kind = ef::AttentionPosition::rotary}, 3);
  ef::Workspace workspace;
  auto cache = module.make_cache(2, 0), no_rows = module.make_cache(0, 5);
  Tensor<T, 3> none({2, 0, hidden}), y({2, 0, hidden}), empty({0, 3, hidden}), z({0, 3, hidden});
  EXPECT_NO_THROW(module.forward(none, cache, {.causal = true}, y, workspace));
  EXPECT_NO_THROW(module.forward(empty, no_rows, {.causal = true}, z, workspace));
  // Rows without a token of their own get the output projection's bias from an empty cache.
  const std::vector<int> counts = {0, 0};
  auto fresh = module.make_cache(2, 3);
  const Tensor<T, 3> x = tokens<T>(2, 1);
  Tensor<T, 3> padded(x.shape());
  module.forward(x, counts, fresh, {.causal = true}, padded, workspace);
  EXPECT_EQ(fresh.longest(), 0);
  for (Index c = 0; c < hidden; ++c) EXPECT_EQ(padded(1, 0, c), module.output.bias(c));
}

}  // namespace attention_cache_test
