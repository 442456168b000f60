// SPDX-License-Identifier: MIT
// What must not change a bit of attention's result: other queries, padding, chunks, threads, hidden
// keys; and its memory.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/kernels/attention_cases.hpp"

namespace attention_bits_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::AttentionInputs;
using reference::AttentionSize;

/// Attention with a workspace of one's own; head-major as in PyTorch.
template <class T>
Tensor<T, 4> attend(const AttentionInputs<T>& in, const ef::Mask<T>& mask,
                    ef::Workspace& workspace) {
  using ef::kernels::Heads;
  const Index b = in.q.dim(0), h = in.q.dim(1), t = in.q.dim(2), d = in.q.dim(3);
  const Index k = in.k.dim(1), s = in.k.dim(2), e = in.v.dim(3);
  Tensor<T, 4> y({b, h, t, e});
  ef::kernels::attend<T>({.batch = b,
                          .queries = t,
                          .keys = s,
                          .heads = h,
                          .key_value_heads = k,
                          .head_size = d,
                          .value_size = e,
                          .q = Heads<const T>::head_major(in.q.data(), h, t, d),
                          .y = Heads<T>::head_major(y.data(), h, t, e),
                          .scale = T(0.37)},
                         {.k = Heads<const T>::head_major(in.k.data(), k, s, d),
                          .v = Heads<const T>::head_major(in.v.data(), k, s, e)},
                         mask, workspace);
  return y;
}

template <class T>
Tensor<T, 4> attend(const AttentionInputs<T>& in, const ef::Mask<T>& mask = {}) {
  ef::Workspace workspace;
  return attend(in, mask, workspace);
}

/// Part first ... first + count - 1 of axis 0 (batch) or 2 (tokens).
template <class T>
Tensor<T, 4> cut(const Tensor<T, 4>& x, int axis, Index first, Index count) {
  ef::Shape<4> shape = x.shape();
  shape[axis] = count;
  Tensor<T, 4> y(shape);
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index t = 0; t < shape[2]; ++t) {
        for (Index d = 0; d < shape[3]; ++d) {
          y(b, h, t, d) = x(axis == 0 ? first + b : b, h, axis == 2 ? first + t : t, d);
        }
      }
    }
  }
  return y;
}

/// With `extra` more tokens, which hold NaN.
template <class T>
Tensor<T, 4> padded(const Tensor<T, 4>& x, Index extra) {
  Tensor<T, 4> y({x.dim(0), x.dim(1), x.dim(2) + extra, x.dim(3)});
  std::fill(y.begin(), y.end(), std::numeric_limits<T>::quiet_NaN());
  for (Index b = 0; b < x.dim(0); ++b) {
    for (Index h = 0; h < x.dim(1); ++h) {
      std::copy_n(&x(b, h, 0, 0), x.dim(2) * x.dim(3), &y(b, h, 0, 0));
    }
  }
  return y;
}

template <class T>
class AttentionBitsTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionBitsTest, Scalars);

constexpr AttentionSize size{3, 4, 2, 149, 307, 7, 5};

TYPED_TEST(AttentionBitsTest, ABatchRowAlone) {
  const AttentionInputs<TypeParam> all(size);
  const std::vector<Index> lengths = {307, 131, 5};
  const Tensor<TypeParam, 4> y = attend(all, {.key_lengths = lengths});
  for (Index b = 0; b < 3; ++b) {
    AttentionInputs<TypeParam> one(size);
    const Index length = lengths[static_cast<std::size_t>(b)];
    one.q = cut(all.q, 0, b, 1);
    one.k = cut(cut(all.k, 0, b, 1), 2, 0, length);
    one.v = cut(cut(all.v, 0, b, 1), 2, 0, length);
    EXPECT_TRUE(reference::same_bits(attend(one), cut(y, 0, b, 1))) << b;
  }
}

TYPED_TEST(AttentionBitsTest, KeysPaddedWithNaN) {
  for (Index keys : {1, 5, 127, 128, 129, 300}) {
    AttentionInputs<TypeParam> in({2, 4, 2, 13, keys, 7, 5});
    const Tensor<TypeParam, 4> alone = attend(in);
    for (Index extra : {1, 3, 16, 130, 260}) {
      AttentionInputs<TypeParam> more = in;
      more.k = padded(in.k, extra);
      more.v = padded(in.v, extra);
      const std::vector<Index> lengths(2, keys);
      ASSERT_TRUE(reference::same_bits(attend(more, {.key_lengths = lengths}), alone))
          << keys << " + " << extra;
    }
  }
}

TYPED_TEST(AttentionBitsTest, ChunksOfQueries) {
  const AttentionInputs<TypeParam> all({2, 4, 2, 151, 151, 7, 5});
  for (Index window : {0, 41}) {
    const Tensor<TypeParam, 4> y = attend(all, {.causal = true, .window = window});
    for (Index chunk : {1, 7, 64, 100}) {
      for (Index first = 0; first < 151; first += chunk) {
        const Index count = std::min(chunk, 151 - first);
        AttentionInputs<TypeParam> part = all;
        part.q = cut(all.q, 2, first, count);
        // Only the keys that are there by then, as in a cache.
        part.k = cut(all.k, 2, 0, first + count);
        part.v = cut(all.v, 2, 0, first + count);
        ASSERT_TRUE(reference::same_bits(
            attend(part, {.causal = true, .query_offset = first, .window = window}),
            cut(y, 2, first, count)))
            << chunk << " from " << first;
      }
    }
  }
}

struct Backwards {
  Index lanes;
  int calls = 0;
  Index concurrency() const { return lanes; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    ++calls;
    for (Index i = n; i-- > 0;) f(i);
  }
};

TYPED_TEST(AttentionBitsTest, Threads) {
  const AttentionInputs<TypeParam> in(size);
  for (const auto& kind : reference::mask_kinds) {
    const reference::RandomMask<TypeParam> mask(kind, size, 5);
    const Tensor<TypeParam, 4> alone = attend(in, mask.mask());
    for (Index lanes : {2, 7}) {
      Backwards executor{lanes};
      ef::Workspace workspace(executor);
      ASSERT_TRUE(reference::same_bits(attend(in, mask.mask(), workspace), alone)) << kind.name;
      EXPECT_GT(executor.calls, 0);
    }
    ef::ThreadPool pool(3);
    ef::Workspace workspace(pool);
    ASSERT_TRUE(reference::same_bits(attend(in, mask.mask(), workspace), alone)) << kind.name;
  }
}

TYPED_TEST(AttentionBitsTest, EqualMasksInDifferentForms) {
  const AttentionInputs<TypeParam> in(size);
  const std::vector<Index> lengths = {307, 131, 0};
  Tensor<bool, 2> keep({size.batch, size.keys});
  Tensor<bool, 4> pairs({size.batch, 1, 1, size.keys});
  Tensor<TypeParam, 4> bias(pairs.shape());
  for (Index b = 0; b < size.batch; ++b) {
    for (Index j = 0; j < size.keys; ++j) {
      keep(b, j) = pairs(b, 0, 0, j) = j < lengths[static_cast<std::size_t>(b)];
      bias(b, 0, 0, j) = keep(b, j) ? TypeParam(0) : -std::numeric_limits<TypeParam>::infinity();
    }
  }
  const Tensor<TypeParam, 4> y = attend(in, {.key_lengths = lengths});
  EXPECT_TRUE(reference::same_bits(attend(in, {.key_allowed = keep}), y));
  EXPECT_TRUE(reference::same_bits(attend(in, {.allowed = pairs}), y));
  EXPECT_TRUE(reference::same_bits(attend(in, {.bias = bias}), y));

  Tensor<bool, 2> triangle({size.queries, size.keys});
  for (Index t = 0; t < size.queries; ++t) {
    for (Index j = 0; j < size.keys; ++j) triangle(t, j) = j <= t;
  }
  EXPECT_TRUE(
      reference::same_bits(attend(in, {.allowed = triangle}), attend(in, {.causal = true})));
}

// Whatever a key or value holds that no query, or one query only, may see.
TYPED_TEST(AttentionBitsTest, HiddenKeysAndValuesMayHoldAnything) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  const T bad[] = {std::numeric_limits<T>::quiet_NaN(), inf, -inf, std::numeric_limits<T>::max()};
  const AttentionInputs<T> good(size);
  for (const auto& kind : reference::mask_kinds) {
    const reference::RandomMask<T> mask(kind, size, 5);
    const Tensor<T, 4> expected = attend(good, mask.mask());
    AttentionInputs<T> spoilt = good;
    Index hidden = 0;
    for (Index b = 0; b < size.batch; ++b) {
      for (Index j = 0; j < size.keys; ++j) {
        for (Index g = 0; g < size.key_value_heads; ++g) {
          bool seen = false;
          for (Index h = 2 * g; h < 2 * g + 2; ++h) {
            for (Index t = 0; t < size.queries; ++t)
              seen = seen || mask.plain().visible(b, h, t, j);
          }
          if (seen) continue;
          const T value = bad[hidden++ % 4];
          std::fill_n(&spoilt.k(b, g, j, 0), size.head_size, value);
          std::fill_n(&spoilt.v(b, g, j, 0), size.value_size, value);
        }
      }
    }
    ASSERT_TRUE(reference::same_bits(attend(spoilt, mask.mask()), expected))
        << kind.name << " with " << hidden << " hidden keys";
  }
}

TYPED_TEST(AttentionBitsTest, NaNReachesExactlyTheQueriesThatSeeIt) {
  using T = TypeParam;
  for (Index bad : {0, 100, 140}) {
    for (bool in_key : {false, true}) {
      AttentionInputs<T> in({1, 2, 1, 151, 151, 7, 5});
      const Tensor<T, 4> expected = attend(in, {.causal = true});
      (in_key ? in.k : in.v)(0, 0, bad, 2) = std::numeric_limits<T>::quiet_NaN();
      const Tensor<T, 4> y = attend(in, {.causal = true});
      for (Index h = 0; h < 2; ++h) {
        for (Index t = 0; t < 151; ++t) {
          for (Index e = 0; e < 5; ++e) {
            const bool reached = t >= bad && (in_key || e == 2);
            if (reached) {
              ASSERT_TRUE(std::isnan(y(0, h, t, e))) << t;
            } else {
              ASSERT_TRUE(reference::same_bits(y(0, h, t, e), expected(0, h, t, e))) << t;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(AttentionBitsTest, AQueryThatIsNaNSpoilsOnlyItself) {
  using T = TypeParam;
  AttentionInputs<T> in({1, 2, 1, 29, 131, 7, 5});
  const Tensor<T, 4> expected = attend(in);
  in.q(0, 1, 13, 3) = std::numeric_limits<T>::quiet_NaN();
  const Tensor<T, 4> y = attend(in);
  for (Index h = 0; h < 2; ++h) {
    for (Index t = 0; t < 29; ++t) {
      for (Index e = 0; e < 5; ++e) {
        if (h == 1 && t == 13) {
          EXPECT_TRUE(std::isnan(y(0, h, t, e)));
        } else {
          EXPECT_TRUE(reference::same_bits(y(0, h, t, e), expected(0, h, t, e)));
        }
      }
    }
  }
}

// Keys and values are brought into panels, which takes memory in proportion to S; nothing grows
// with T, let alone with T times S.
TEST(AttentionMemory, GrowsWithTheKeysAlone) {
  constexpr Index heads = 2, width = 16;
  const auto capacity = [](Index queries, Index keys, Index threads) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    const AttentionInputs<float> in({1, heads, heads, queries, keys, width, width});
    attend(in, {.causal = true}, workspace);
    return static_cast<Index>(workspace.capacity());
  };
  constexpr Index bytes_of_a_key = heads * 2 * width * Index{sizeof(float)};
  for (Index threads : {1, 2}) {
    const Index small = capacity(256, 256, threads);
    EXPECT_GT(small, 256 * bytes_of_a_key);
    EXPECT_LT(small, 256 * bytes_of_a_key + (threads + 1) * 128 * 1024);
    EXPECT_EQ(capacity(2048, 256, threads), small) << "with the queries";
    for (Index tokens : {256, 512, 1024}) {
      const Index once = capacity(tokens, tokens, threads);
      const Index twice = capacity(2 * tokens, 2 * tokens, threads);
      // One flag for each head and tile, and every array begins at a multiple of 64 bytes.
      EXPECT_GE(twice - once, tokens * bytes_of_a_key) << tokens;
      EXPECT_LE(twice - once, tokens * bytes_of_a_key + 2 * 64) << tokens;
    }
  }
}

// Scores that would overflow or vanish without the running maximum.
TEST(Attention, LargeScores) {
  AttentionInputs<float> in({1, 1, 1, 2, 300, 1, 1});
  std::fill(in.q.begin(), in.q.end(), 1.0f);
  for (Index j = 0; j < 300; ++j) {
    in.k(0, 0, j, 0) = 100.0f * static_cast<float>(j);  // the maximum moves with every tile
    in.v(0, 0, j, 0) = static_cast<float>(j);
  }
  EXPECT_EQ(ef::scaled_dot_product_attention(in.q, in.k, in.v)(0, 0, 0, 0), 299);
  for (float& k : in.k) k = -k;
  EXPECT_EQ(ef::scaled_dot_product_attention(in.q, in.k, in.v)(0, 0, 0, 0), 0);
  for (float& k : in.k) k = -3e38f;
  EXPECT_NEAR(ef::scaled_dot_product_attention(in.q, in.k, in.v)(0, 0, 0, 0), 149.5f, 1e-3f);
}

}  // namespace attention_bits_test
