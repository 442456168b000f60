// SPDX-License-Identifier: MIT
// Keys and values in panels: whatever is written, wherever and in whatever pieces, is read
// back, and nothing else has changed.
#include "eigenformer/kernels/key_value_panels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/nn/key_value_cache.hpp"
#include "tests/reference/numbers.hpp"

namespace key_value_panels_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using ef::kernels::Heads;
using ef::kernels::key_tile;
using ef::kernels::KeyValuePanels;
using ef::kernels::panel_width;

/// Panels in memory of their own, between guards, all filled with a number that no token holds.
template <class T>
class Storage {
 public:
  static constexpr T untouched = T(-777);
  static constexpr Index guard = 64;

  explicit Storage(const KeyValuePanels<T>& sizes)
      : panels_(sizes),
        keys_(static_cast<std::size_t>(sizes.key_elements() + 2 * guard), untouched),
        values_(static_cast<std::size_t>(sizes.value_elements() + 2 * guard), untouched),
        finite_({sizes.tile_count()}) {
    panels_.keys = keys_.data() + guard;
    panels_.values = values_.data() + guard;
    panels_.finite = finite_.data();
  }

  const KeyValuePanels<T>& panels() const { return panels_; }

  // The formulas in key_value_panels.hpp, written out.
  T key(Index b, Index head, Index slot, Index d) const {
    const Index w = panel_width<T>, panels = (panels_.slots + w - 1) / w;
    return panels_
        .keys[(((b * panels_.heads + head) * panels + slot / w) * panels_.head_size + d) * w +
              slot % w];
  }
  T value(Index b, Index head, Index slot, Index e) const {
    const Index w = panel_width<T>, panels = (panels_.value_size + w - 1) / w;
    return panels_
        .values[(((b * panels_.heads + head) * panels + e / w) * panels_.slots + slot) * w + e % w];
  }

  bool guards_are_untouched() const {
    const auto untouched_ends = [](const std::vector<T>& memory) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(guard); ++i) {
        if (memory[i] != untouched || memory[memory.size() - 1 - i] != untouched) return false;
      }
      return true;
    };
    return untouched_ends(keys_) && untouched_ends(values_);
  }

 private:
  KeyValuePanels<T> panels_;
  std::vector<T> keys_, values_;
  Tensor<bool, 1> finite_;
};

/// Tokens' vectors, (B, T, K, D) or (B, K, T, D).
template <class T>
struct Vectors {
  bool head_major;
  Tensor<T, 4> x;

  Vectors(bool head_major_, Index batch, Index tokens, Index heads, Index size, std::uint64_t seed)
      : head_major(head_major_),
        x(reference::random_tensor<T, 4>(head_major_ ? ef::Shape<4>{batch, heads, tokens, size}
                                                     : ef::Shape<4>{batch, tokens, heads, size},
                                         seed)) {}

  T& at(Index b, Index token, Index head, Index d) {
    return head_major ? x(b, head, token, d) : x(b, token, head, d);
  }
  Heads<const T> heads() const {
    return head_major ? Heads<const T>::head_major(x.data(), x.dim(1), x.dim(2), x.dim(3))
                      : Heads<const T>::token_major(x.data(), x.dim(1), x.dim(2), x.dim(3));
  }
};

Index random_below(ef::Key& key, Index below) {
  key = key.fold_in(1);
  return static_cast<Index>(key.bits(0) % static_cast<std::uint64_t>(below));
}

template <class T>
class KeyValuePanelsTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(KeyValuePanelsTest, Scalars);

TYPED_TEST(KeyValuePanelsTest, AnySlotsInAnyPieces) {
  using T = TypeParam;
  const Index batch = 2, heads = 3;
  ef::Key key(5);
  for (Index slots : {Index{1}, Index{7}, key_tile + 1, Index{307}}) {
    for (const auto& [head_size, value_size] :
         {std::pair<Index, Index>{1, 1}, {3, 17}, {16, 5}, {37, 64}}) {
      Storage<T> storage({.batch = batch,
                          .heads = heads,
                          .slots = slots,
                          .head_size = head_size,
                          .value_size = value_size});
      Tensor<T, 4> keys({batch, heads, slots, head_size}),
          values({batch, heads, slots, value_size});
      std::fill(keys.begin(), keys.end(), Storage<T>::untouched);
      std::fill(values.begin(), values.end(), Storage<T>::untouched);
      ef::Workspace workspace;
      for (std::uint64_t round = 0; round < 9; ++round) {
        const Index tokens = 1 + random_below(key, slots);
        Vectors<T> k(round % 2 == 0, batch, tokens, heads, head_size, 2 * round);
        Vectors<T> v(round % 3 == 0, batch, tokens, heads, value_size, 2 * round + 1);
        std::vector<Index> first, counts;
        for (Index b = 0; b < batch; ++b) {
          counts.push_back(round == 0 ? tokens : random_below(key, tokens + 1));
          first.push_back(round == 0 ? 0 : random_below(key, slots - counts.back() + 1));
          for (Index i = 0; i < counts.back(); ++i) {
            for (Index head = 0; head < heads; ++head) {
              for (Index d = 0; d < head_size; ++d)
                keys(b, head, first.back() + i, d) = k.at(b, i, head, d);
              for (Index e = 0; e < value_size; ++e)
                values(b, head, first.back() + i, e) = v.at(b, i, head, e);
            }
          }
        }
        // The first round leaves the two arrays out, which then mean 0 and all.
        ef::kernels::write_keys_and_values(storage.panels(), k.heads(), v.heads(), tokens,
                                           round == 0 ? nullptr : first.data(),
                                           round == 0 ? nullptr : counts.data(), workspace);
        for (Index b = 0; b < batch; ++b) {
          for (Index head = 0; head < heads; ++head) {
            for (Index slot = 0; slot < slots; ++slot) {
              for (Index d = 0; d < head_size; ++d)
                ASSERT_EQ(storage.key(b, head, slot, d), keys(b, head, slot, d)) << slot;
              for (Index e = 0; e < value_size; ++e)
                ASSERT_EQ(storage.value(b, head, slot, e), values(b, head, slot, e)) << slot;
            }
          }
        }
        ASSERT_TRUE(storage.guards_are_untouched());
      }
    }
  }
}

TYPED_TEST(KeyValuePanelsTest, TilesKnowWhetherTheirValuesAreFinite) {
  using T = TypeParam;
  const Index slots = 2 * key_tile + 11, heads = 2, size = 19;
  const T inf = std::numeric_limits<T>::infinity();
  for (const T bad : {inf, -inf, std::numeric_limits<T>::quiet_NaN()}) {
    Storage<T> storage(
        {.batch = 2, .heads = heads, .slots = slots, .head_size = size, .value_size = size});
    ef::Workspace workspace;
    const auto write = [&](const Vectors<T>& k, const Vectors<T>& v, Index first, Index count) {
      const std::vector<Index> firsts(2, first), counts(2, count);
      ef::kernels::write_keys_and_values(storage.panels(), k.heads(), v.heads(), count,
                                         firsts.data(), counts.data(), workspace);
    };
    const auto finite = [&] {
      std::vector<bool> found;
      for (Index b = 0; b < 2; ++b) {
        for (Index head = 0; head < heads; ++head) {
          for (Index slot = 0; slot < slots; slot += key_tile)
            found.push_back(storage.panels().tile_is_finite(b, head, slot));
        }
      }
      return found;
    };
    Vectors<T> k(false, 2, slots, heads, size, 1), v(false, 2, slots, heads, size, 2);
    k.at(1, 5, 1, 3) = bad;  // keys don't count
    v.at(1, key_tile + 3, 1, size - 1) = bad;
    v.at(0, 2 * key_tile, 0, 0) = bad;
    write(k, v, 0, slots);
    const std::vector<bool> expected = {true, true, false, true, true,  true,
                                        true, true, true,  true, false, true};
    EXPECT_EQ(finite(), expected);
    // Token by token it is the same.
    for (Index slot = 0; slot < slots; ++slot) {
      Vectors<T> one_k(false, 2, 1, heads, size, 1), one_v = one_k;
      for (Index b = 0; b < 2; ++b) {
        for (Index head = 0; head < heads; ++head) {
          for (Index d = 0; d < size; ++d) one_v.at(b, 0, head, d) = v.at(b, slot, head, d);
        }
      }
      write(one_k, one_v, slot, 1);
    }
    EXPECT_EQ(finite(), expected);
    // A finite value behind the bad one doesn't hide it; a tile written anew forgets it.
    const Vectors<T> good(false, 2, key_tile, heads, size, 3);
    write(good, good, key_tile + 4, key_tile - 4);
    EXPECT_EQ(finite(), expected);
    write(good, good, key_tile, key_tile);
    EXPECT_EQ(finite(), std::vector<bool>({true, true, false, true, true, true, true, true, true,
                                           true, true, true}));
  }
}

TYPED_TEST(KeyValuePanelsTest, ACacheReadsThemBack) {
  using T = TypeParam;
  const Index capacity = 2 * key_tile + 5, heads = 3, size = 11;
  const T bad[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()};
  ef::Key key(3);
  ef::KeyValueCache<T> cache(
      {.batch = 2, .capacity = capacity, .num_key_value_heads = heads, .head_size = size});
  Vectors<T> k(false, 2, capacity, heads, size, 1), v(false, 2, capacity, heads, size, 2);
  for (Index i = 0; i < 40; ++i) {
    k.at(i % 2, random_below(key, capacity), i % 3, i % size) = bad[i % 2];
    v.at(i % 2, random_below(key, capacity), i % 3, i % size) = bad[i % 2];
  }
  ef::Workspace workspace;
  for (Index begin = 0; begin < capacity;) {
    const Index count = std::min(1 + random_below(key, 41), capacity - begin);
    Vectors<T> some_k(true, 2, count, heads, size, 1), some_v = some_k;
    for (Index b = 0; b < 2; ++b) {
      for (Index i = 0; i < count * heads * size; ++i) {
        const Index d = i % size, head = i / size % heads, token = i / size / heads;
        some_k.at(b, token, head, d) = k.at(b, begin + token, head, d);
        some_v.at(b, token, head, d) = v.at(b, begin + token, head, d);
      }
    }
    cache.append(some_k.heads(), some_v.heads(), count, {}, workspace);
    begin += count;
    ASSERT_EQ(cache.length(0), begin);
    ASSERT_EQ(cache.length(1), begin);
  }
  for (Index b = 0; b < 2; ++b) {
    for (Index head = 0; head < heads; ++head) {
      for (Index token = 0; token < capacity; ++token) {
        const Tensor<T, 1> found_k = cache.key(b, head, token),
                           found_v = cache.value(b, head, token);
        ASSERT_EQ(found_k.size(), size);
        ASSERT_EQ(found_v.size(), size);
        for (Index d = 0; d < size; ++d) {
          ASSERT_TRUE(reference::same_bits(found_k(d), k.at(b, token, head, d)) ||
                      (std::isnan(found_k(d)) && std::isnan(k.at(b, token, head, d))));
          ASSERT_TRUE(reference::same_bits(found_v(d), v.at(b, token, head, d)) ||
                      (std::isnan(found_v(d)) && std::isnan(v.at(b, token, head, d))));
        }
      }
    }
  }
}

TEST(KeyValuePanels, ThreadsWriteTheSame) {
  const Index slots = 300, heads = 5, size = 32;
  const Vectors<float> k(false, 3, slots, heads, size, 1), v(false, 3, slots, heads, size, 2);
  const KeyValuePanels<float> sizes{
      .batch = 3, .heads = heads, .slots = slots, .head_size = size, .value_size = size};
  const auto written = [&](ef::Workspace& workspace) {
    Storage<float> storage(sizes);
    ef::kernels::write_keys_and_values(storage.panels(), k.heads(), v.heads(), slots, nullptr,
                                       nullptr, workspace);
    return storage;
  };
  ef::Workspace serial;
  const auto alone = written(serial);
  for (Index threads : {2, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    const auto together = written(workspace);
    EXPECT_TRUE(
        reference::same_bits(together.panels().keys, alone.panels().keys, sizes.key_elements()));
    EXPECT_TRUE(reference::same_bits(together.panels().values, alone.panels().values,
                                     sizes.value_elements()));
  }
}

}  // namespace key_value_panels_test
