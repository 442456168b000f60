// SPDX-License-Identifier: MIT
// The cache as a container: what is appended can be read back after truncation, reordering and
// clearing, and what doesn't fit changes nothing.
#include "eigenformer/nn/key_value_cache.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/reference/allocations.hpp"
#include "tests/reference/numbers.hpp"

namespace key_value_cache_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

constexpr Index heads = 3, size = 11;

/// The cache beside a plain copy of what it should hold: element d of the key of a head is
/// number + head / 8 + d / 1024, of the value its negative.
class Watched {
 public:
  Watched(Index batch, Index capacity)
      : cache({.batch = batch,
               .capacity = capacity,
               .num_key_value_heads = heads,
               .head_size = size}),
        tokens(static_cast<std::size_t>(batch)) {}

  static double element(double number, Index head, Index d) {
    return number + double(head) / 8 + double(d) / 1024;
  }

  /// Appends counts[b] new tokens to row b; `given`: through counts, with padding behind.
  void append(const std::vector<Index>& counts, bool given = true) {
    const Index longest = *std::max_element(counts.begin(), counts.end());
    const Index width = longest + (given ? 2 : 0);
    Tensor<double, 4> k({cache.batch(), width, heads, size}), v(k.shape());
    for (Index b = 0; b < k.dim(0); ++b) {
      for (Index t = 0; t < counts[static_cast<std::size_t>(b)]; ++t) {
        next += 1;
        tokens[static_cast<std::size_t>(b)].push_back(next);
        for (Index i = 0; i < heads * size; ++i) {
          k(b, t, i / size, i % size) = element(next, i / size, i % size);
          v(b, t, i / size, i % size) = -element(next, i / size, i % size);
        }
      }
    }
    cache.append(ef::kernels::Heads<const double>::token_major(k.data(), width, heads, size),
                 ef::kernels::Heads<const double>::token_major(v.data(), width, heads, size), width,
                 given ? std::optional<ef::IntegerSequence>(counts) : std::nullopt, workspace);
  }

  void truncate(Index b, Index length) {
    cache.truncate(b, length);
    tokens[static_cast<std::size_t>(b)].resize(static_cast<std::size_t>(length));
  }

  void reorder(const std::vector<Index>& rows) {
    cache.reorder(rows);
    std::vector<std::vector<double>> reordered;
    for (Index b : rows) reordered.push_back(tokens[static_cast<std::size_t>(b)]);
    tokens = reordered;
  }

  ::testing::AssertionResult agrees() const {
    if (cache.batch() != static_cast<Index>(tokens.size()))
      return ::testing::AssertionFailure() << cache.batch() << " rows";
    for (Index b = 0; b < cache.batch(); ++b) {
      const auto& row = tokens[static_cast<std::size_t>(b)];
      if (cache.length(b) != static_cast<Index>(row.size()) ||
          cache.lengths()[static_cast<std::size_t>(b)] != cache.length(b))
        return ::testing::AssertionFailure() << "row " << b << ": length " << cache.length(b);
      for (Index i = 0; i < heads * cache.length(b); ++i) {
        const Index head = i % heads, t = i / heads;
        const Tensor<double, 1> key = cache.key(b, head, t), value = cache.value(b, head, t);
        for (Index d = 0; d < size; ++d) {
          const double expected = element(row[static_cast<std::size_t>(t)], head, d);
          if (key(d) != expected || value(d) != -expected) {
            return ::testing::AssertionFailure() << "row " << b << ", token " << t << ": " << key(d)
                                                 << " instead of " << expected;
          }
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

  ef::KeyValueCache<double> cache;
  std::vector<std::vector<double>> tokens;
  ef::Workspace workspace;
  double next = 0;
};

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

TEST(KeyValueCache, HoldsWhatWasAppended) {
  for (Index capacity : {17, 128, 131, 300}) {
    Watched watched(3, capacity);
    EXPECT_EQ(watched.cache.capacity(), capacity);
    EXPECT_EQ(watched.cache.longest(), 0);
    EXPECT_EQ(watched.cache.sizes(), (ef::Shape<3>{3, heads, size}));
    const Index bytes = watched.cache.bytes();
    EXPECT_GE(bytes, 2 * 3 * capacity * heads * size * Index{sizeof(double)});
    watched.append({5, 0, 2});
    watched.append({1, 1, 1}, false);
    watched.append({0, 13, 0});
    watched.append({capacity - 6, capacity - 14, 0});
    EXPECT_TRUE(watched.agrees());
    EXPECT_EQ(watched.cache.longest(), capacity);
    watched.append({0, 0, capacity - 3});
    EXPECT_TRUE(watched.agrees());
    EXPECT_EQ(watched.cache.bytes(), bytes);
  }
}

TEST(KeyValueCache, TruncatesAndGoesOn) {
  Watched watched(2, 300);
  watched.append({290, 131});
  for (Index length : {280, 257, 256, 130, 128, 127, 16, 5, 0}) {
    watched.truncate(0, length);
    EXPECT_TRUE(watched.agrees());
    watched.append({3, 1});
    EXPECT_TRUE(watched.agrees()) << length;
    watched.truncate(0, length);
  }
  watched.truncate(1, 140);  // what it holds: nothing changes
  EXPECT_TRUE(watched.agrees());
  for (Index b = 0; b < 2; ++b) {
    const Index length = watched.cache.length(b);
    expect_refused([&] { watched.cache.truncate(b, length + 1); },
                   {"batch row " + std::to_string(b), "holds " + std::to_string(length),
                    "truncated to " + std::to_string(length + 1)});
    expect_refused([&] { watched.cache.truncate(b, -1); }, {"-1"});
  }
  EXPECT_TRUE(watched.agrees());
}

TEST(KeyValueCache, ReordersRows) {
  Watched watched(3, 150);
  watched.append({149, 0, 17});
  const std::vector<std::vector<Index>> orders = {
      {0, 1, 2}, {2, 0, 1}, {1, 1, 0}, {2, 2, 2, 2, 0}, {4, 3, 0, 0, 1}, {3, 0}, {1}, {0, 0, 0}};
  for (const auto& rows : orders) {
    watched.reorder(rows);
    ASSERT_TRUE(watched.agrees());
    std::vector<Index> counts;  // as many as fit, up to 3
    for (Index b = 0; b < watched.cache.batch(); ++b)
      counts.push_back(std::min<Index>(b % 4, 150 - watched.cache.length(b)));
    watched.append(counts);
    ASSERT_TRUE(watched.agrees());
  }
  for (Index wrong : {3, -1}) {
    const std::vector<Index> rows = {0, wrong};
    expect_refused([&] { watched.cache.reorder(rows); }, {std::to_string(wrong), "3"});
    EXPECT_TRUE(watched.agrees());
  }
  watched.reorder({});
  EXPECT_EQ(watched.cache.batch(), 0);
  EXPECT_EQ(watched.cache.longest(), 0);
}

// Whether a tile holds NaN or infinity is known of the copy as well.
TEST(KeyValueCache, ReorderingTakesAlongWhichTilesAreFinite) {
  const Index count = 140;
  ef::KeyValueCache<float> cache(
      {.batch = 3, .capacity = 300, .num_key_value_heads = heads, .head_size = size});
  Tensor<float, 4> k({3, count, heads, size}), v({3, count, heads, size});
  v(0, 130, 1, 2) = std::numeric_limits<float>::infinity();
  v(2, 5, 0, 3) = std::numeric_limits<float>::quiet_NaN();
  ef::Workspace workspace;
  const auto all_of = [](const Tensor<float, 4>& x) {
    return ef::kernels::Heads<const float>::token_major(x.data(), count, heads, size);
  };
  cache.append(all_of(k), all_of(v), count, {}, workspace);
  const auto finite = [&](Index b, Index head, Index slot) {
    return cache.panels().tile_is_finite(b, head, slot);
  };
  const std::vector<std::vector<Index>> orders = {{2, 0, 1}, {1, 1, 0}, {2, 0, 0}};
  std::vector<Index> origin = {0, 1, 2};
  for (const auto& rows : orders) {
    cache.reorder(rows);
    std::vector<Index> next;
    for (Index b : rows) next.push_back(origin[static_cast<std::size_t>(b)]);
    origin = next;
    for (Index b = 0; b < 3; ++b) {
      const Index from = origin[static_cast<std::size_t>(b)];
      for (Index head = 0; head < heads; ++head) {
        EXPECT_EQ(finite(b, head, 0), from != 2 || head != 0) << b;
        EXPECT_EQ(finite(b, head, 128), from != 0 || head != 1) << b;
      }
    }
  }
}

TEST(KeyValueCache, ReorderingAllRowsAwayKeepsTheSizes) {
  for (Index capacity : {0, 5}) {
    Watched watched(2, capacity);
    watched.reorder({});
    EXPECT_EQ(watched.cache.sizes(), (ef::Shape<3>{0, heads, size})) << capacity;
    EXPECT_EQ(watched.cache.capacity(), capacity);
  }
}

TEST(KeyValueCache, ReorderingAgainAllocatesNothing) {
  Watched watched(3, 150);
  watched.append({149, 2, 17});
  const std::vector<Index> rotation = {2, 0, 1};
  watched.cache.reorder(rotation);
  const long before = reference::allocations();
  for (int i = 0; i < 5; ++i) watched.cache.reorder(rotation);
  EXPECT_EQ(reference::allocations(), before);
  EXPECT_TRUE(watched.agrees()) << "six rotations by three rows change nothing";
}

TEST(KeyValueCache, CopiesAreDeep) {
  Watched watched(2, 20);
  watched.append({7, 3});
  ef::KeyValueCache<double> copy = watched.cache;
  watched.truncate(0, 2);
  watched.append({9, 9});
  EXPECT_TRUE(watched.agrees());
  EXPECT_EQ(copy.length(0), 7);
  EXPECT_EQ(copy.key(0, 1, 6)(2), Watched::element(7, 1, 2));
  EXPECT_NE(copy.panels().keys, watched.cache.panels().keys);
}

TEST(KeyValueCache, ClearsAndIsUsedAgain) {
  Watched watched(2, 20);
  watched.append({20, 3});
  watched.cache.clear();
  watched.tokens.assign(2, {});
  EXPECT_TRUE(watched.agrees());
  watched.append({20, 20}, false);
  EXPECT_TRUE(watched.agrees());
}

TEST(KeyValueCache, OverflowIsRefusedAndChangesNothing) {
  Watched watched(2, 4);
  watched.append({4, 2});
  const auto refused = [&](const std::vector<Index>& counts,
                           const std::vector<std::string>& texts) {
    const auto before = watched.tokens;
    expect_refused([&] { watched.append(counts); }, texts);
    watched.tokens = before;
    EXPECT_TRUE(watched.agrees());
    EXPECT_EQ(watched.workspace.arena().used(), 0u);
  };
  refused({1, 0}, {"batch row 0", "holds 4", "at most 4", "1 more"});
  refused({0, 3}, {"batch row 1", "holds 2", "at most 4", "3 more"});
  refused({0, 5}, {"batch row 1", "holds 2", "at most 4", "5 more"});
  watched.append({0, 2});
  EXPECT_TRUE(watched.agrees());

  Watched fresh(2, 4);
  expect_refused([&] { fresh.append({5, 5}, false); }, {"holds 0", "at most 4", "5 more"});
  EXPECT_EQ(fresh.cache.length(0), 0);
  Watched none(2, 0);
  expect_refused([&] { none.append({0, 1}); }, {"batch row 1", "holds 0", "at most 0", "1 more"});
  none.append({0, 0});
  EXPECT_EQ(none.cache.length(1), 0);
  none.tokens.assign(2, {});
  EXPECT_TRUE(none.agrees());
}

TEST(KeyValueCache, RefusesWhatDoesNotFit) {
  Watched watched(2, 7);
  watched.append({4, 2});
  ef::KeyValueCache<double>& cache = watched.cache;
  const std::vector<int> one = {1}, three = {1, 1, 1}, negative = {1, -1}, beyond = {1, 4};
  expect_refused([&] { cache.require_room(3, one); }, {"2 batch rows", "got 1"});
  expect_refused([&] { cache.require_room(3, three); }, {"2 batch rows", "got 3"});
  expect_refused([&] { cache.require_room(3, negative); }, {"[0, 3]", "-1", "batch row 1"});
  expect_refused([&] { cache.require_room(3, beyond); }, {"[0, 3]", "4", "batch row 1"});
  EXPECT_NO_THROW(cache.require_room(3, {}));
  expect_refused([&] { cache.require_room(4, {}); }, {"holds 4", "at most 7", "4 more"});

  expect_refused([&] { cache.length(2); }, {"batch row 2", "2"});
  expect_refused([&] { cache.length(-1); }, {"batch row -1"});
  expect_refused([&] { cache.key(1, 0, 2); }, {"holds 2", "no token 2"});
  expect_refused([&] { cache.value(1, 0, -1); }, {"no token -1"});
  expect_refused([&] { cache.key(1, 3, 0); }, {"no head 3", "3"});
  expect_refused([&] { cache.value(1, -1, 0); }, {"no head -1"});
  EXPECT_TRUE(watched.agrees());
}

TEST(KeyValueCache, RefusesSizesThatMakeNoSense) {
  using Cache = ef::KeyValueCache<float>;
  const Index huge = Index{1} << 40;
  expect_refused([&] { Cache({.batch = -1}); }, {"-1"});
  expect_refused([&] { Cache({.batch = 1, .capacity = -2}); }, {"-2"});
  expect_refused([&] { Cache({.batch = 1, .capacity = huge}); }, {std::to_string(huge)});
  expect_refused([&] { Cache({.batch = 1, .capacity = 1, .num_key_value_heads = -3}); }, {"-3"});
  expect_refused(
      [&] { Cache({.batch = 1, .capacity = 1, .num_key_value_heads = 1, .head_size = -4}); },
      {"-4"});
  const Index large = Index{1} << 30;
  EXPECT_ANY_THROW(
      Cache({.batch = large, .capacity = large, .num_key_value_heads = large, .head_size = large}));
  const Cache nothing;
  EXPECT_EQ(nothing.batch(), 0);
  EXPECT_EQ(nothing.bytes(), 0);
}

}  // namespace key_value_cache_test
