// SPDX-License-Identifier: MIT

// Faults that others had with masks and NaN, each as the whole kind of fault. In most
// tests all queries are zero, so the weights are uniform over the keys that may be seen, and value
// j holds j + 1: the result is a mean that can be checked by eye. The same tables go through the
// decoder's ways to its own tokens and to a memory (decoder_paths.hpp).

#include <functional>

#include "tests/faults/any_decoder.hpp"
#include "tests/faults/decoder_paths.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace masks_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float lowest = std::numeric_limits<float>::lowest();

/// Values (B, H, S, 1): j + 1.
Tensor<float, 4> counting_values(Index batch, Index heads, Index keys) {
  Tensor<float, 4> v({batch, heads, keys, 1});
  for (Index i = 0; i < v.size(); ++i) v.data()[i] = static_cast<float>(i % keys + 1);
  return v;
}

/// Attention of zero queries: y (B, H, T, 1), the mean of j + 1 over the keys that each query sees.
Tensor<float, 4> means(Index batch, Index heads, Index queries, Index keys, const Mask<float>& mask,
                       Tensor<float, 4>* weights = nullptr) {
  return scaled_dot_product_attention(Tensor<float, 4>({batch, heads, queries, 3}),
                                      random<float>(Shape<4>{batch, heads, keys, 3}, 1),
                                      counting_values(batch, heads, keys), mask, {}, weights);
}

using Visible = std::function<bool(Index b, Index h, Index t, Index j)>;

void expect_means(Index batch, Index heads, Index queries, Index keys, const Mask<float>& mask,
                  const Visible& visible, const std::string& what) {
  Tensor<float, 4> weights;
  const auto y = means(batch, heads, queries, keys, mask, &weights);
  for (Index b = 0; b < batch; ++b)
    for (Index h = 0; h < heads; ++h)
      for (Index t = 0; t < queries; ++t) {
        double sum = 0, count = 0;
        for (Index j = 0; j < keys; ++j)
          if (visible(b, h, t, j)) ++count, sum += static_cast<double>(j + 1);
        const std::string where = what + ", b h t " + to_string(Shape<3>{b, h, t});
        if (count == 0) {
          ASSERT_EQ(y(b, h, t, 0), 0.0f) << where;
        } else {
          ASSERT_NEAR(y(b, h, t, 0), sum / count, 1e-5 * static_cast<double>(keys)) << where;
        }
        for (Index j = 0; j < keys; ++j) {
          if (visible(b, h, t, j)) {
            ASSERT_NEAR(weights(b, h, t, j), 1 / count, 1e-6) << where << " key " << j;
          } else {
            ASSERT_EQ(weights(b, h, t, j), 0.0f) << where << " key " << j;
          }
        }
      }
  // Through decoders: with the keys as a memory, and as their own tokens, which causality limits
  // besides.
  decoder_paths::expect_means(decoder_paths::memory_means(batch, heads, queries, keys, mask), keys,
                              visible, what + ", memory");
  if (queries != keys || mask.query_offset > 0) return;  // which decoders refuse
  decoder_paths::expect_means(
      decoder_paths::self_means(batch, heads, keys, mask), keys,
      [&](Index b, Index h, Index t, Index j) {
        return j <= t + mask.query_offset && visible(b, h, t, j);
      },
      what + ", own tokens");
}

/// Every way of a decoder to these means (B, T, H), in this order.
void expect_everywhere(const std::vector<decoder_paths::Means>& all,
                       const std::vector<double>& expected) {
  for (const auto& [way, means] : all) {
    SCOPED_TRACE(way);
    expect_values(means, expected, 2e-6);
  }
}

// ------------------------------------------------------------------------- asking for the weights

/// The result with and without the weights, which must agree in every bit.
Tensor<float, 4> weights_without_changing_the_result(const MultiHeadAttention<float>& attention,
                                                     const Tensor<float, 3>& x,
                                                     const Mask<float>& mask) {
  const Index heads = attention.config.num_attention_heads;
  Tensor<float, 3> with(x.shape()), without(x.shape());
  Tensor<float, 4> weights({x.dim(0), heads, x.dim(1), x.dim(1)});
  Workspace workspace;
  attention.forward(x, x, x, mask, without, workspace);
  attention.forward(x, x, x, mask, with, weights, workspace);
  EXPECT_EQ(with, without);
  EXPECT_EQ(attention(x, mask), without);
  EXPECT_EQ(attention.attention_weights(x, x, mask), weights);
  return weights;
}

TEST(MaskFaults, WeightsOfABlockedHeadAreZeroAndChangeNothing) {
  MultiHeadAttention<float> attention({.hidden_size = 3, .num_attention_heads = 3});
  randomize(attention, 2);
  Tensor<bool, 4> allowed({1, 3, 5, 5});
  for (Index i = 0; i < allowed.size(); ++i) allowed.data()[i] = i < 2 * 25;
  const auto weights = weights_without_changing_the_result(
      attention, random<float>(Shape<3>{1, 5, 3}, 3), {.allowed = allowed});
  for (Index h = 0; h < 3; ++h)
    for (Index t = 0; t < 5; ++t) {
      double total = 0;
      for (Index j = 0; j < 5; ++j) total += weights(0, h, t, j);
      if (h == 2) {
        EXPECT_EQ(total, 0.0);
      } else {
        EXPECT_NEAR(total, 1.0, 1e-6);
      }
    }
}

TEST(MaskFaults, EveryMaskWithAndWithoutWeights) {
  MultiHeadAttention<float> attention(
      {.hidden_size = 8, .num_attention_heads = 4, .num_key_value_heads = 2});
  randomize(attention, 4);
  for (Index tokens : {1, 3, 17, 131, 257}) {
    const auto x = random<float>(Shape<3>{3, tokens, 8}, 5);
    const std::vector<Index> lengths{tokens, 0, (tokens + 1) / 2};
    const auto bias = random<float>(Shape<2>{tokens, tokens}, 6);
    Tensor<bool, 2> keep({3, tokens});
    for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i % 3 != 1;
    weights_without_changing_the_result(attention, x, {});
    weights_without_changing_the_result(attention, x, {.key_lengths = lengths});
    weights_without_changing_the_result(attention, x, {.key_allowed = keep});
    weights_without_changing_the_result(attention, x, {.bias = bias});
    weights_without_changing_the_result(attention, x, {.causal = true, .window = 5});
    const auto weights = weights_without_changing_the_result(attention, x, {.causal = true});
    for (Index t = 0; t < tokens; ++t)
      for (Index j = t + 1; j < tokens; ++j) ASSERT_EQ(weights(1, 2, t, j), 0.0f);
  }
}

// Whatever else happens to the scores: positions, norms of queries and keys, caps, windows, scales.
TEST(MaskFaults, EveryKindOfScoresWithAndWithoutWeights) {
  const Index tokens = 23;
  const auto x = random<float>(Shape<3>{3, tokens, 10}, 21);
  const std::vector<Index> lengths{tokens, 0, 9};
  for (const auto& [name, positions] : any_decoder::kinds_of_positions()) {
    for (bool more : {false, true}) {
      MultiHeadAttention<float> attention({.hidden_size = 10,
                                           .num_attention_heads = 4,
                                           .num_key_value_heads = 2,
                                           .head_size = 6,
                                           .scale = more ? 0.7 : 0.4,
                                           .attention_positions = positions,
                                           .query_key_norm = more,
                                           .attn_logit_softcapping = more ? 1.5 : 0.0,
                                           .sliding_window = more ? 5 : 0});
      randomize(attention, 22);
      SCOPED_TRACE(name);
      const auto unmasked = weights_without_changing_the_result(attention, x, {});
      const auto causal = weights_without_changing_the_result(
          attention, x, {.causal = true, .key_lengths = lengths});
      for (Index b = 0; b < 3; ++b)
        for (Index h = 0; h < 4; ++h)
          for (Index t = 0; t < tokens; ++t) {
            double all = 0, seen = 0;
            bool sees = false;
            for (Index j = 0; j < tokens; ++j) {
              const bool in_window = !more || j > t - 5;
              const bool visible = j <= t && in_window && j < lengths[static_cast<std::size_t>(b)];
              all += unmasked(b, h, t, j);
              seen += causal(b, h, t, j);
              sees = sees || visible;
              ASSERT_EQ(unmasked(b, h, t, j) > 0, in_window);
              ASSERT_EQ(causal(b, h, t, j) > 0, visible);
            }
            ASSERT_NEAR(all, 1, 1e-5);
            ASSERT_NEAR(seen, sees ? 1 : 0, 1e-5);
          }
    }
  }
}

// Attention to a memory of another length and width: with weights, without, and from a cache.
TEST(MaskFaults, CrossAttentionWithWeightsWithoutAndFromACache) {
  MultiHeadAttention<float> attention({.hidden_size = 10,
                                       .num_attention_heads = 4,
                                       .num_key_value_heads = 2,
                                       .head_size = 3,
                                       .key_value_size = 7});
  randomize(attention, 23);
  const Index queries = 5;
  for (Index keys : {1, 11, 131}) {
    const auto x = random<float>(Shape<3>{3, queries, 10}, 24),
               memory = random<float>(Shape<3>{3, keys, 7}, 25);
    const std::vector<Index> lengths{keys, 0, (keys + 1) / 2};
    Tensor<bool, 4> allowed({3, 4, queries, keys});
    for (Index i = 0; i < allowed.size(); ++i)
      allowed.data()[i] = Key{26}.bits(static_cast<std::uint64_t>(i)) % 3 != 0;
    const auto bias = random<float>(Shape<2>{queries, keys}, 27);
    Workspace workspace;
    auto cache = attention.make_cache(3, keys);
    attention.append(memory, memory, {}, cache, workspace);
    for (const Mask<float>& mask :
         {Mask<float>{}, Mask<float>{.key_lengths = lengths}, Mask<float>{.allowed = allowed},
          Mask<float>{.bias = bias}, Mask<float>{.causal = true, .window = 3}}) {
      Tensor<float, 3> with(x.shape()), cached(x.shape());
      Tensor<float, 4> weights({3, 4, queries, keys});
      attention.forward(x, memory, memory, mask, with, weights, workspace);
      attention.attend(x, cache, mask, cached, workspace);
      const auto without = attention(x, memory, mask);
      EXPECT_EQ(with, without);
      EXPECT_EQ(cached, without);
      for (Index row = 0; row < weights.matrix().rows(); ++row) {
        const float total = weights.matrix().row(row).sum();
        EXPECT_TRUE(total == 0 || std::abs(total - 1) < 1e-5f) << total;
      }
    }
  }
}

// --------------------------------------------------------------------------------- nothing to see

TEST(MaskFaults, LengthZeroGivesZeroNotTheMeanOfThePadding) {
  const std::vector<int> lengths{5, 3, 1, 0};
  const auto y = means(4, 1, 5, 5, {.key_lengths = lengths});
  const double expected[] = {3, 2, 1, 0};
  for (Index b = 0; b < 4; ++b)
    for (Index t = 0; t < 5; ++t) EXPECT_FLOAT_EQ(y(b, 0, t, 0), static_cast<float>(expected[b]));

  // The length of a memory, as a mask or told to a cache; and of a decoder's own tokens.
  const std::vector<double> of_memory{3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0};
  expect_everywhere(decoder_paths::memory_means(4, 1, 5, 5, {.key_lengths = lengths}), of_memory);
  expect_everywhere(decoder_paths::memory_means(4, 1, 5, 5, {}, lengths), of_memory);
  expect_everywhere(decoder_paths::self_means(4, 1, 5, {.key_lengths = lengths}),
                    {1, 1.5, 2, 2.5, 3, 1, 1.5, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
}

// All lengths from 0 to S, also across tiles of keys.
TEST(MaskFaults, EveryLength) {
  for (Index keys : {1, 2, 7, 8, 9, 127, 128, 129, 257}) {
    std::vector<std::int64_t> lengths;
    for (Index length = 0; length <= keys; ++length) lengths.push_back(length);
    expect_means(
        keys + 1, 1, 2, keys, {.key_lengths = lengths},
        [](Index b, Index, Index, Index j) { return j < b; }, "keys " + std::to_string(keys));
  }
}

// A query without keys for any reason, beside queries that have some; through a module it gets the
// output map's bias.
TEST(MaskFaults, NoVisibleKeyForAnyReason) {
  const Index tokens = 7;
  Tensor<bool, 2> nothing_for_2({tokens, tokens}), keep({1, tokens});
  Tensor<float, 2> minus_infinity_for_2({tokens, tokens});
  std::fill(nothing_for_2.begin(), nothing_for_2.end(), true);
  std::fill(keep.begin(), keep.end(), true);
  for (Index j = 0; j < tokens; ++j) {
    nothing_for_2(2, j) = false;
    minus_infinity_for_2(2, j) = -infinity;
  }
  for (Index j = 0; j < 3; ++j) keep(0, j) = false;
  const std::vector<int> length_2{2};
  const std::vector<std::pair<Mask<float>, Visible>> cases{
      {{.allowed = nothing_for_2}, [](Index, Index, Index t, Index) { return t != 2; }},
      {{.bias = minus_infinity_for_2}, [](Index, Index, Index t, Index) { return t != 2; }},
      {{.causal = true, .key_allowed = keep},
       [](Index, Index, Index t, Index j) { return j <= t && j >= 3; }},
      {{.causal = true, .query_offset = -3},
       [](Index, Index, Index t, Index j) { return j <= t - 3; }},
      {{.causal = true, .query_offset = -100}, [](Index, Index, Index, Index) { return false; }},
      {{.key_lengths = length_2, .window = 2},
       [](Index, Index, Index t, Index j) { return j < 2 && j > t - 2; }},
      {{.causal = true, .query_offset = 20, .window = 4},
       [](Index, Index, Index t, Index j) { return j > t + 20 - 4; }}};
  MultiHeadAttention<float> attention({.hidden_size = 6, .num_attention_heads = 3});
  randomize(attention, 7);
  const auto x = random<float>(Shape<3>{1, tokens, 6}, 8);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [mask, visible] = cases[i];
    expect_means(1, 2, tokens, tokens, mask, visible, "case " + std::to_string(i));
    const auto y = attention(x, mask);
    EXPECT_TRUE(values::all_finite(y));
    for (Index t = 0; t < tokens; ++t) {
      bool sees = false;
      for (Index j = 0; j < tokens; ++j) sees = sees || visible(0, 0, t, j);
      for (Index c = 0; c < 6 && !sees; ++c) EXPECT_EQ(y(0, t, c), attention.output.bias(c));
    }
  }
}

// Lengths that a cache was told of a memory: all from 0 to S.
TEST(MaskFaults, EveryLengthOfACachedMemory) {
  for (Index keys : {1, 2, 9, 129}) {
    std::vector<std::int64_t> lengths;
    for (Index length = 0; length <= keys; ++length) lengths.push_back(length);
    decoder_paths::expect_means(
        decoder_paths::memory_means(keys + 1, 2, 2, keys, {}, lengths), keys,
        [](Index b, Index, Index, Index j) { return j < b; }, "keys " + std::to_string(keys));
  }
}

// A memory of which nothing may be seen, and one of no tokens, leave the output map's bias: a layer
// whose output map is zero but for its bias gives the same bits.
TEST(MaskFaults, NothingOfAMemory) {
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    DecoderLayer<float> layer({.hidden_size = 6,
                               .num_attention_heads = 3,
                               .intermediate_size = 5,
                               .cross_attention = true,
                               .key_value_size = 7,
                               .norm_placement = placement});
    randomize(layer, 28);
    DecoderLayer<float> without(layer);
    without.cross_attention->output.weight = Tensor<float, 2>({6, 6});
    const auto x = random<float>(Shape<3>{2, 5, 6}, 29);
    const auto memory = random<float>(Shape<3>{2, 4, 7}, 30);
    const auto expected = without(x, memory);
    EXPECT_GT(largest_difference(layer(x, memory), expected), 1e-2);

    const std::vector<Index> none{0, 0};
    const Tensor<bool, 2> keep({2, 4}), pairs({5, 4});
    const auto blocked = values::filled<float>(Shape<2>{1, 4}, -infinity);
    EXPECT_EQ(layer(x, memory, {}, {.key_lengths = none}), expected);
    EXPECT_EQ(layer(x, memory, {}, {.key_allowed = keep}), expected);
    EXPECT_EQ(layer(x, memory, {}, {.allowed = pairs}), expected);
    EXPECT_EQ(layer(x, memory, {}, {.bias = blocked}), expected);
    EXPECT_EQ(layer(x, Tensor<float, 3>({2, 0, 7})), expected);

    Workspace workspace;
    for (Index tokens : {0, 4}) {  // a memory without tokens, or with none that is real
      auto cache = layer.make_cache(2, 5, tokens);
      layer.remember(tokens == 0 ? Tensor<float, 3>({2, 0, 7}) : memory, none, cache, workspace);
      Tensor<float, 3> y(x.shape());
      layer.forward(x, cache, {}, {}, y, workspace);
      EXPECT_EQ(y, expected) << tokens;
    }
  }
}

// ---------------------------------------------------------------- large negative numbers in masks

// Only -infinity blocks. The lowest finite number merely weighs against a key; two of them added by
// the caller are -infinity.
TEST(MaskFaults, LowestFiniteNumbers) {
  const Tensor<float, 4> q({1, 1, 2, 1}), k({1, 1, 2, 1});
  const auto v = values::tensor<float>(Shape<4>{1, 1, 2, 1}, {10, 20});
  const auto causal = values::rows<float>({{0, lowest}, {lowest, lowest}});
  const auto padding = values::rows<float>({{0, 0}, {lowest, lowest}});
  expect_values(scaled_dot_product_attention(q, k, v, {.bias = causal}), {10, 15}, 0);
  expect_values(scaled_dot_product_attention(q, k, v, {.bias = values::sum(causal, padding)}),
                {10, 0}, 0);
  const Tensor<bool, 2> pairs = values::tensor<bool>(Shape<2>{2, 2}, {1, 1, 0, 0});
  expect_values(scaled_dot_product_attention(q, k, v, {.allowed = pairs, .bias = causal}), {10, 0},
                0);

  // A decoder is causal itself; its own tokens and a memory, whose values are 1 and 2.
  const auto both = values::sum(causal, padding);
  const auto infinite = values::rows<float>({{0, -infinity}, {-infinity, -infinity}});
  expect_everywhere(decoder_paths::self_means(1, 1, 2, {.bias = causal}), {1, 1.5});
  expect_everywhere(decoder_paths::self_means(1, 1, 2, {.bias = both}), {1, 0});
  expect_everywhere(decoder_paths::self_means(1, 1, 2, {.bias = infinite}), {1, 0});
  expect_everywhere(decoder_paths::memory_means(1, 1, 2, 2, {.bias = causal}), {1, 1.5});
  expect_everywhere(decoder_paths::memory_means(1, 1, 2, 2, {.bias = both}), {1, 0});
}

// No mixture of very negative numbers, -infinity and large scores gives NaN, and weights sum to 1
// or are all 0.
TEST(MaskFaults, NoMixtureOfVeryNegativeNumbersGivesNan) {
  const float numbers[] = {0, -1e4f, -1e9f, -1e30f, lowest / 2, lowest, -infinity};
  for (float scale : {0.0f, 1.0f, 1e4f, 1e18f}) {
    for (std::uint64_t seed = 0; seed < 13; ++seed) {
      const auto q = random<float>(Shape<4>{1, 2, 5, 3}, 20 + seed, static_cast<double>(scale));
      const auto k = random<float>(Shape<4>{1, 2, 131, 3}, 40 + seed, static_cast<double>(scale));
      const auto v = random<float>(Shape<4>{1, 2, 131, 3}, 60 + seed);
      Tensor<float, 2> bias({5, 131});
      for (Index i = 0; i < bias.size(); ++i)
        bias.data()[i] = numbers[Key{seed}.bits(static_cast<std::uint64_t>(i)) % 7];
      Tensor<float, 4> weights;
      ASSERT_TRUE(
          values::all_finite(scaled_dot_product_attention(q, k, v, {.bias = bias}, {}, &weights)));
      for (Index row = 0; row < weights.matrix().rows(); ++row) {
        const float total = weights.matrix().row(row).sum();
        ASSERT_TRUE(total == 0 || std::abs(total - 1) < 1e-5f) << total;
      }
    }
  }
}

// Boolean constraints combine by "and", whatever their kinds.
TEST(MaskFaults, ConstraintsCombineByAnd) {
  const Index batch = 2, heads = 3;
  for (Index tokens : {5, 131}) {
    Tensor<bool, 2> keep({batch, tokens});
    Tensor<bool, 4> allowed({batch, heads, tokens, tokens});
    Tensor<float, 3> bias({heads, tokens, tokens});
    const auto pattern = [](Index i, std::uint64_t seed) {
      return Key{seed}.bits(static_cast<std::uint64_t>(i)) % 4 != 0;
    };
    for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = pattern(i, 1);
    for (Index i = 0; i < allowed.size(); ++i) allowed.data()[i] = pattern(i, 2);
    for (Index i = 0; i < bias.size(); ++i) bias.data()[i] = pattern(i, 3) ? 0 : -infinity;
    const std::vector<std::int64_t> lengths{tokens, tokens - 2};
    const Index window = tokens / 2;
    const bool few = tokens == 5;  // each combination at both offsets; else at one of them
    for (int which = 0; which < (few ? 128 : 64); ++which) {
      const Index offset = few ? which / 64 : which / 2 % 2;
      Mask<float> mask;
      mask.query_offset = offset;
      mask.causal = which & 1;
      if (which & 2) mask.key_lengths = lengths;
      if (which & 4) mask.key_allowed = keep;
      if (which & 8) mask.allowed = allowed;
      if (which & 16) mask.bias = bias;
      if (which & 32) mask.window = window;
      expect_means(
          batch, heads, tokens, tokens, mask,
          [&](Index b, Index h, Index t, Index j) {
            return (!(which & 1) || j <= t + offset) &&
                   (!(which & 2) || j < lengths[static_cast<std::size_t>(b)]) &&
                   (!(which & 4) || keep(b, j)) && (!(which & 8) || allowed(b, h, t, j)) &&
                   (!(which & 16) || bias(h, t, j) == 0) &&
                   (!(which & 32) || j > t + offset - window);
          },
          "combination " + std::to_string(which));
    }
  }
}

// --------------------------------------------------------------- NaN and infinity behind the mask

TEST(MaskFaults, NanAndInfinityInABlockedKeyOrValue) {
  const Tensor<bool, 2> allowed = values::tensor<bool>(Shape<2>{2, 2}, {1, 0, 1, 0});
  const auto q = values::tensor<float>(Shape<4>{1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<double> expected{0, 1, 2, 3, 0, 1, 2, 3};
  expect_values(scaled_dot_product_attention(q, q, q, {.allowed = allowed}), expected, 0);
  auto k = q, v = q;
  k(0, 0, 1, 0) = std::nanf("");
  expect_values(scaled_dot_product_attention(q, k, v, {.allowed = allowed}), expected, 0);
  v(0, 0, 1, 2) = infinity;
  expect_values(scaled_dot_product_attention(q, q, v, {.allowed = allowed}), expected, 0);
  expect_values(scaled_dot_product_attention(q, k, v, {.allowed = allowed}), expected, 0);
}

// Every blocked position of every kind of mask filled with NaN or infinity: the same bits as with
// finite numbers there.
TEST(MaskFaults, EveryBlockedPositionOfEveryKindOfMask) {
  const float bad[] = {std::nanf(""), infinity, -infinity};
  for (Index keys : {1, 2, 13, 127, 128, 129, 131, 260}) {
    const Index queries = 5;
    const auto q = random<float>(Shape<4>{1, 2, queries, 3}, 9),
               k = random<float>(Shape<4>{1, 2, keys, 3}, 10),
               v = random<float>(Shape<4>{1, 2, keys, 11}, 11);
    Tensor<bool, 2> keep({1, keys}), pairs({1, keys});
    Tensor<float, 2> bias({1, keys});
    std::vector<bool> blocked_by_keep(static_cast<std::size_t>(keys));
    for (Index j = 0; j < keys; ++j) {
      const bool blocked = j % 5 == 2 || j == keys - 1 || j == 127;
      keep(0, j) = pairs(0, j) = !blocked;
      bias(0, j) = blocked ? -infinity : 0.25f;
    }
    const std::vector<Index> lengths{keys / 2};
    const std::pair<Mask<float>, std::function<bool(Index)>> cases[] = {
        {{.key_allowed = keep}, [&](Index j) { return !keep(0, j); }},
        {{.allowed = pairs}, [&](Index j) { return !keep(0, j); }},
        {{.bias = bias}, [&](Index j) { return !keep(0, j); }},
        {{.key_lengths = lengths}, [&](Index j) { return j >= lengths[0]; }},
        {{.causal = true, .query_offset = keys / 3},
         [&](Index j) { return j > keys / 3 + queries - 1; }},
        {{.causal = true, .query_offset = keys, .window = queries + 2},
         [&](Index j) { return j <= keys - queries - 2; }}};
    for (const auto& [mask, blocked] : cases) {
      Tensor<float, 4> clean_weights, weights;
      const auto clean = scaled_dot_product_attention(q, k, v, mask, {}, &clean_weights);
      auto bad_k = k, bad_v = v;
      for (Index j = 0; j < keys; ++j)
        for (Index h = 0; h < 2; ++h) {
          if (!blocked(j)) continue;
          for (Index d = 0; d < 3; ++d) bad_k(0, h, j, d) = bad[(j + d) % 3];
          for (Index e = 0; e < 11; ++e) bad_v(0, h, j, e) = bad[(j + e) % 3];
        }
      ASSERT_EQ(scaled_dot_product_attention(q, bad_k, v, mask), clean) << keys;
      ASSERT_EQ(scaled_dot_product_attention(q, k, bad_v, mask), clean) << keys;
      ASSERT_EQ(scaled_dot_product_attention(q, bad_k, bad_v, mask, {}, &weights), clean) << keys;
      ASSERT_EQ(weights, clean_weights) << keys;
    }
  }
}

// A key that some queries may see and others not: NaN reaches the ones that see it, and only those.
// The same for queries.
TEST(MaskFaults, NanReachesExactlyTheQueriesThatSeeIt) {
  for (Index tokens : {5, 131, 257}) {
    const auto q = random<float>(Shape<4>{1, 1, tokens, 3}, 12),
               k = random<float>(Shape<4>{1, 1, tokens, 3}, 13),
               v = random<float>(Shape<4>{1, 1, tokens, 3}, 14);
    const auto clean = scaled_dot_product_attention(q, k, v, {.causal = true});
    for (Index at : {Index{0}, tokens / 2, tokens - 1}) {
      auto bad_v = v, bad_k = k, bad_q = q;
      bad_v(0, 0, at, 1) = bad_k(0, 0, at, 1) = bad_q(0, 0, at, 1) = std::nanf("");
      const auto from_v = scaled_dot_product_attention(q, k, bad_v, {.causal = true});
      const auto from_k = scaled_dot_product_attention(q, bad_k, v, {.causal = true});
      const auto from_q = scaled_dot_product_attention(bad_q, k, v, {.causal = true});
      for (Index t = 0; t < tokens; ++t)
        for (Index d = 0; d < 3; ++d) {
          const float expected = clean(0, 0, t, d);
          ASSERT_EQ(std::isnan(from_k(0, 0, t, d)), t >= at);
          ASSERT_EQ(std::isnan(from_v(0, 0, t, d)), t >= at && d == 1);
          ASSERT_EQ(std::isnan(from_q(0, 0, t, d)), t == at);
          if (t < at) {
            ASSERT_EQ(from_k(0, 0, t, d), expected);
          }
          if (t < at || d != 1) {
            ASSERT_EQ(from_v(0, 0, t, d), expected);
          }
          if (t != at) {
            ASSERT_EQ(from_q(0, 0, t, d), expected);
          }
        }
    }
  }
}

// A bias of -infinity for an offset blocks the keys at that offset like any other.
TEST(MaskFaults, NanBehindABiasByOffset) {
  const Index tokens = 7;
  Tensor<float, 2> by_offset({1, 2 * tokens - 1});
  Tensor<bool, 2> allowed({tokens, tokens});
  for (Index t = 0; t < tokens; ++t)
    for (Index j = 0; j < tokens; ++j) {
      allowed(t, j) = j - t != 2;
      by_offset(0, j - t + tokens - 1) = allowed(t, j) ? 0 : -infinity;
    }
  const auto q = random<float>(Shape<4>{1, 1, tokens, 3}, 31),
             k = random<float>(Shape<4>{1, 1, tokens, 3}, 32),
             v = random<float>(Shape<4>{1, 1, tokens, 3}, 33);
  const auto clean = scaled_dot_product_attention(q, k, v, {.allowed = allowed});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, {.offset_bias = by_offset}), clean);
  for (float bad : {std::nanf(""), infinity, -infinity}) {
    auto bad_k = k, bad_v = v;
    for (Index d = 0; d < 3; ++d) bad_k(0, 0, 4, d) = bad_v(0, 0, 4, d) = bad;
    const auto y = scaled_dot_product_attention(q, bad_k, bad_v, {.offset_bias = by_offset});
    for (Index d = 0; d < 3; ++d) EXPECT_EQ(y(0, 0, 2, d), clean(0, 0, 2, d)) << bad;
  }
}

/// Decoders with one of every kind of scores, with and without a memory.
std::vector<any_decoder::Settings> kinds_of_decoders() {
  std::vector<any_decoder::Settings> kinds;
  for (const auto& named : any_decoder::kinds_of_positions()) {
    const bool odd = kinds.size() % 2 == 1;
    kinds.push_back({.positions = named.second,
                     .cross_attention = true,
                     .norm_placement = odd ? NormPlacement::post : NormPlacement::pre,
                     .num_key_value_heads = odd ? 2 : 4});
    kinds.push_back({.positions = named.second,
                     .norm_placement = odd ? NormPlacement::pre : NormPlacement::post,
                     .num_key_value_heads = odd ? 1 : 2});
  }
  return kinds;
}

// NaN in padding of a memory, blocked in any way, changes no bit of any decoder.
TEST(MaskFaults, NanInThePaddingOfAMemory) {
  using namespace any_decoder;
  const Index queries = 5, keys = 7;
  const auto ids = random_ids(2, queries, 34), source = random_ids(2, keys, 35);
  const std::vector<Index> lengths{4, 6};
  Ids bad(source);
  Tensor<bool, 2> keep({2, keys});
  Tensor<bool, 4> allowed({2, 1, 1, keys});
  Tensor<float, 4> bias({2, 1, 1, keys});
  for (Index b = 0; b < 2; ++b)
    for (Index j = 0; j < keys; ++j) {
      const bool real = j < lengths[static_cast<std::size_t>(b)];
      if (!real) bad(b, j) = nan_token;
      keep(b, j) = allowed(b, 0, 0, j) = real;
      bias(b, 0, 0, j) = real ? 0 : -infinity;
    }
  for (const Settings& settings : kinds_of_decoders()) {
    if (!settings.cross_attention) continue;
    for (const auto& decoder : decoders(settings)) {
      const auto clean = decoder->at_once(ids, source, {.memory_mask = {.key_lengths = lengths}});
      ASSERT_TRUE(values::all_finite(clean)) << decoder->name;
      std::vector<Mask<float>> masks{{.key_lengths = lengths}, {.key_allowed = keep}};
      // An encoder must be told which of its own tokens are padding.
      if (decoder->name != "encoder-decoder") {
        masks.push_back({.allowed = allowed});
        masks.push_back({.bias = bias});
      }
      for (const Mask<float>& mask : masks) {
        ASSERT_EQ(decoder->at_once(ids, bad, {.memory_mask = mask}), clean) << decoder->name;
        if (decoder->name == "encoder-decoder") continue;
        ASSERT_EQ(decoder->start(2, queries, bad)->append(ids, {.memory_mask = mask}), clean)
            << decoder->name;
      }
      ASSERT_EQ(decoder->start(2, queries, bad, lengths)->append(ids), clean) << decoder->name;
    }
  }
}

// NaN in a decoder's later tokens, in its padding on either side, and behind the counts of a call
// with a cache.
TEST(MaskFaults, NanInTokensThatMayNotBeSeen) {
  using namespace any_decoder;
  const Index tokens = 7;
  const auto ids = random_ids(2, tokens, 36), source = random_ids(2, 3, 37);
  for (const Settings& settings : kinds_of_decoders()) {
    for (const auto& decoder : decoders(settings)) {
      const auto clean = decoder->at_once(ids, source);
      ASSERT_TRUE(values::all_finite(clean)) << decoder->name;
      for (Index at = 0; at < tokens; ++at) {
        Ids bad(ids);
        bad(0, at) = nan_token;  // the other row must not notice at all
        const auto y = decoder->at_once(bad, source);
        for (Index t = 0; t < tokens; ++t) {
          ASSERT_EQ(same_token(y, 0, t, clean, 0, t), t < at) << decoder->name << at << t;
          ASSERT_TRUE(same_token(y, 1, t, clean, 1, t)) << decoder->name << at << t;
          ASSERT_EQ(std::isnan(y(0, t, 0)), t >= at) << decoder->name << at << t;
        }
        // Blocked as a key, it spoils its own result only; attention alone has no result of it if
        // it sees no other key.
        Tensor<bool, 2> keep({2, tokens});
        for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i != at;
        const bool spoils = decoder->name != "attention" || at > 0;
        const Mask<float> mask{.key_allowed = keep};
        const auto expected = decoder->at_once(ids, source, {.mask = mask});
        const auto at_once = decoder->at_once(bad, source, {.mask = mask});
        const auto cached = decoder->start(2, tokens, source)->append(bad, {.mask = mask});
        for (Index t = 0; t < tokens; ++t) {
          const bool same = t != at || !spoils;
          ASSERT_EQ(same_token(at_once, 0, t, expected, 0, t), same) << decoder->name << at << t;
          ASSERT_EQ(same_token(cached, 0, t, expected, 0, t), same) << decoder->name << at << t;
        }
      }
      // Behind the counts: row 0 has 4 tokens of 5, then 1 of 2, then the rest.
      Ids first = part_of(ids, 0, 5), second({2, 2}), third({2, 2});
      first(0, 4) = second(0, 1) = third(1, 0) = third(1, 1) = nan_token;
      second(0, 0) = ids(0, 4);
      second(1, 0) = ids(1, 5);
      second(1, 1) = ids(1, 6);
      third(0, 0) = ids(0, 5);
      third(0, 1) = ids(0, 6);
      const auto session = decoder->start(2, tokens, source);
      const std::vector<Index> counts_1{4, 5}, counts_2{1, 2}, counts_3{2, 0};
      const auto y1 = session->append(first, {.counts = counts_1}),
                 y2 = session->append(second, {.counts = counts_2}),
                 y3 = session->append(third, {.counts = counts_3});
      for (Index t = 0; t < 5; ++t) {
        ASSERT_TRUE(t == 4 || same_token(y1, 0, t, clean, 0, t)) << decoder->name << t;
        ASSERT_TRUE(same_token(y1, 1, t, clean, 1, t)) << decoder->name << t;
      }
      ASSERT_TRUE(same_token(y2, 0, 0, clean, 0, 4)) << decoder->name;
      for (Index t = 0; t < 2; ++t) {
        ASSERT_TRUE(same_token(y2, 1, t, clean, 1, 5 + t)) << decoder->name;
        ASSERT_TRUE(same_token(y3, 0, t, clean, 0, 5 + t)) << decoder->name;
      }
    }
  }
}

// ------------------------------------------------------ what a mask's numbers mean, and its sense

TEST(MaskFaults, ZeroAndOneAsFloatsAreAddedAsBooleansTheyDecide) {
  const auto ones = values::filled<float>(Shape<4>{1, 1, 8, 1}, 1);
  Tensor<float, 2> additive({8, 8});
  Tensor<bool, 2> boolean({8, 8});
  for (Index t = 0; t < 8; ++t)
    for (Index j = 0; j <= t; ++j) additive(t, j) = 1, boolean(t, j) = true;
  Tensor<float, 4> weights;
  scaled_dot_product_attention(ones, ones, ones, {.bias = additive}, {}, &weights);
  for (Index j = 0; j < 8; ++j) {
    EXPECT_NEAR(weights(0, 0, 0, j), j == 0 ? 0.27970807 : 0.10289885, 1e-7);
    EXPECT_NEAR(weights(0, 0, 7, j), 0.125, 1e-7);
  }
  scaled_dot_product_attention(ones, ones, ones, {.allowed = boolean}, {}, &weights);
  for (Index j = 0; j < 8; ++j) EXPECT_EQ(weights(0, 0, 0, j), j == 0 ? 1.0f : 0.0f);

  // Over a memory with values 1 ... 8; a decoder's own future stays out of sight either way.
  const double row_0 = 0.27970807 + 0.10289885 * (2 + 3 + 4 + 5 + 6 + 7 + 8);
  for (const auto& [way, y] : decoder_paths::memory_means(1, 1, 8, 8, {.bias = additive})) {
    EXPECT_NEAR(y(0, 0, 0), row_0, 2e-6) << way;
    EXPECT_NEAR(y(0, 7, 0), 4.5, 2e-6) << way;
  }
  const std::vector<double> causal{1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5};
  expect_everywhere(decoder_paths::memory_means(1, 1, 8, 8, {.allowed = boolean}), causal);
  expect_everywhere(decoder_paths::self_means(1, 1, 8, {.bias = additive}), causal);
  expect_everywhere(decoder_paths::self_means(1, 1, 8, {.allowed = boolean}), causal);
}

// The causal pattern through every way in gives 1, 1.5, 2: true takes part, everywhere.
TEST(MaskFaults, TrueTakesPartEverywhere) {
  Tensor<bool, 2> pairs({3, 3});
  Tensor<float, 2> bias({3, 3});
  for (Index t = 0; t < 3; ++t)
    for (Index j = 0; j < 3; ++j) {
      pairs(t, j) = j <= t;
      bias(t, j) = j <= t ? 0 : -infinity;
    }
  const auto pairs_3 = values::reshaped(pairs, Shape<3>{1, 3, 3});
  const auto pairs_4 = values::reshaped(pairs, Shape<4>{1, 1, 3, 3});
  const std::vector<int> lengths{1, 2, 3};

  // Queries of one sequence.
  MultiHeadAttention<float> attention = values::attention_identity<float>(1, 1);
  attention.query = zeros_like(attention.query);
  const auto x = values::tensor<float>(Shape<3>{1, 3, 1}, {1, 2, 3});
  EncoderLayer<float> layer(
      {.hidden_size = 1, .intermediate_size = 1, .norm_placement = NormPlacement::pre});
  layer.attention = attention;
  layer.attention_norm.weight(0) =
      0;  // the norm of one number is 0; a constant 1 keeps the mean over the visible keys at 1
  layer.attention_norm.bias(0) = 1;
  for (const Mask<float>& mask :
       {Mask<float>{.causal = true}, Mask<float>{.allowed = pairs}, Mask<float>{.allowed = pairs_3},
        Mask<float>{.allowed = pairs_4}, Mask<float>{.bias = bias},
        Mask<float>{.causal = true, .window = 3}}) {
    expect_values(means(1, 1, 3, 3, mask), {1, 1.5, 2}, 1e-6);
    expect_values(attention(x, mask), {1, 1.5, 2}, 1e-6);
    expect_values(attention(x, x, x, mask), {1, 1.5, 2}, 1e-6);
    expect_values(layer(x, mask), {2, 3, 4}, 1e-6);
    expect_everywhere(decoder_paths::self_means(1, 1, 3, mask), {1, 1.5, 2});
    expect_everywhere(decoder_paths::memory_means(1, 1, 3, 3, mask), {1, 1.5, 2});
  }
  expect_everywhere(decoder_paths::self_means(1, 1, 3, {}), {1, 1.5, 2});

  // One query of each of three sequences, limited by padding.
  for (const Mask<float>& mask :
       {Mask<float>{.key_lengths = lengths}, Mask<float>{.key_allowed = pairs}}) {
    expect_values(means(3, 1, 1, 3, mask), {1, 1.5, 2}, 1e-6);
    expect_everywhere(decoder_paths::memory_means(3, 1, 1, 3, mask), {1, 1.5, 2});
    expect_everywhere(decoder_paths::self_means(3, 1, 3, mask), {1, 1, 1, 1, 1.5, 1.5, 1, 1.5, 2});
  }
  expect_everywhere(decoder_paths::memory_means(3, 1, 1, 3, {}, lengths), {1, 1.5, 2});
  const Tensor<float, 3> zero({3, 1, 3});
  const auto counted = values::tensor<float>(Shape<3>{3, 3, 1}, {1, 2, 3, 1, 2, 3, 1, 2, 3});
  const auto softmaxed = masked_softmax(zero, lengths);
  for (Index b = 0; b < 3; ++b)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(softmaxed(b, 0, j) > 0, j <= b);
  const AdditiveAttention<float> additive({.query_size = 3, .key_size = 1, .hidden_size = 2});
  expect_values(additive(zero, counted, counted, lengths), {1, 1.5, 2}, 1e-6);
  expect_values(mean_pooling(counted, lengths), {1, 1.5, 2}, 1e-6);
  expect_values(mean_pooling(counted, pairs), {1, 1.5, 2}, 1e-6);
}

// Through a layer with real values: masked by any way in, the same bits.
TEST(MaskFaults, SameBitsThroughEveryWayIn) {
  EncoderLayer<float> layer({.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 5});
  randomize(layer, 15);
  for (Index tokens : {3, 7, 131}) {
    const auto x = random<float>(Shape<3>{1, tokens, 6}, 16);
    Tensor<bool, 2> pairs({tokens, tokens}), keep({1, tokens}), keep_pairs({1, tokens});
    Tensor<float, 2> bias({tokens, tokens}), keep_bias({1, tokens});
    const std::vector<Index> lengths{tokens / 2 + 1};
    for (Index t = 0; t < tokens; ++t)
      for (Index j = 0; j < tokens; ++j) {
        pairs(t, j) = j <= t;
        bias(t, j) = j <= t ? 0 : -infinity;
        keep(0, j) = keep_pairs(0, j) = j < lengths[0];
        keep_bias(0, j) = j < lengths[0] ? 0 : -infinity;
      }
    const auto causal = layer(x, {.causal = true});
    EXPECT_EQ(layer(x, {.allowed = pairs}), causal);
    EXPECT_EQ(layer(x, {.bias = bias}), causal);
    EXPECT_EQ(layer(x, {.causal = true, .window = tokens}), causal);
    const auto padded = layer(x, {.key_lengths = lengths});
    EXPECT_EQ(layer(x, {.key_allowed = keep}), padded);
    EXPECT_EQ(layer(x, {.allowed = keep_pairs}), padded);
    EXPECT_EQ(layer(x, {.bias = keep_bias}), padded);
  }
}

// The same through decoders; of a cache's tokens, too.
TEST(MaskFaults, SameBitsThroughEveryWayIntoADecoder) {
  using namespace any_decoder;
  for (const Settings& settings : kinds_of_decoders()) {
    for (const auto& decoder : decoders(settings)) {
      const Index tokens = 7, keys = 5;
      const auto ids = random_ids(2, tokens, 38), source = random_ids(2, keys, 39);
      Tensor<bool, 2> causal({tokens, tokens}), keep({2, tokens});
      Tensor<bool, 4> pairs({2, 1, 1, tokens});
      Tensor<float, 2> causal_bias({tokens, tokens});
      Tensor<float, 4> bias({2, 1, 1, tokens});
      const std::vector<Index> lengths{4, 6};
      for (Index t = 0; t < tokens; ++t)
        for (Index j = 0; j < tokens; ++j) {
          causal(t, j) = j <= t;
          causal_bias(t, j) = j <= t ? 0 : -infinity;
        }
      for (Index b = 0; b < 2; ++b)
        for (Index j = 0; j < tokens; ++j) {
          keep(b, j) = pairs(b, 0, 0, j) = j < lengths[static_cast<std::size_t>(b)];
          bias(b, 0, 0, j) = keep(b, j) ? 0 : -infinity;
        }
      const auto plain = decoder->at_once(ids, source),
                 padded = decoder->at_once(ids, source, {.mask = {.key_lengths = lengths}});
      EXPECT_GT(largest_difference(plain, padded), 1e-4) << decoder->name;
      const std::pair<Mask<float>, const Tensor<float, 3>*> cases[] = {
          {{.causal = true}, &plain},          {{.allowed = causal}, &plain},
          {{.bias = causal_bias}, &plain},     {{.window = tokens}, &plain},
          {{.key_lengths = lengths}, &padded}, {{.key_allowed = keep}, &padded},
          {{.allowed = pairs}, &padded},       {{.bias = bias}, &padded}};
      for (const auto& [mask, expected] : cases) {
        ASSERT_EQ(decoder->at_once(ids, source, {.mask = mask}), *expected) << decoder->name;
        ASSERT_EQ(decoder->start(2, tokens, source)->append(ids, {.mask = mask}), *expected)
            << decoder->name;
      }
    }
  }
}

// --------------------------------------------------------------------------------- masks together

TEST(MaskFaults, MaskForEachHeadTogetherWithPadding) {
  Tensor<bool, 2> pairs({5, 5}), keep({1, 5});
  for (Index t = 0; t < 5; ++t)
    for (Index j = 0; j < 5; ++j) {
      pairs(t, j) = j <= t;
      keep(0, j) = j < 4;
    }
  Tensor<bool, 3> of_heads({2, 5, 5});
  Tensor<bool, 4> of_all({1, 2, 5, 5});
  for (Index i = 0; i < 50; ++i) of_heads.data()[i] = of_all.data()[i] = pairs.data()[i % 25];
  const std::vector<double> expected{1, 1.5, 2, 2.5, 2.5, 1, 1.5, 2, 2.5, 2.5};
  expect_values(means(1, 2, 5, 5, {.key_allowed = keep, .allowed = pairs}), expected, 1e-6);
  expect_values(means(1, 2, 5, 5, {.key_allowed = keep, .allowed = of_heads}), expected, 1e-6);
  expect_values(means(1, 2, 5, 5, {.key_allowed = keep, .allowed = of_all}), expected, 1e-6);
  expect_values(means(1, 2, 5, 5, {.causal = true, .key_allowed = keep}), expected, 1e-6);

  // (B, T, H) here.
  const std::vector<double> of_heads_last{1, 1, 1.5, 1.5, 2, 2, 2.5, 2.5, 2.5, 2.5};
  for (const Mask<float>& mask : {Mask<float>{.key_allowed = keep, .allowed = pairs},
                                  Mask<float>{.key_allowed = keep, .allowed = of_heads},
                                  Mask<float>{.key_allowed = keep, .allowed = of_all},
                                  Mask<float>{.causal = true, .key_allowed = keep}}) {
    expect_everywhere(decoder_paths::memory_means(1, 2, 5, 5, mask), of_heads_last);
    expect_everywhere(decoder_paths::self_means(1, 2, 5, mask), of_heads_last);
  }
  expect_everywhere(decoder_paths::self_means(1, 2, 5, {.key_allowed = keep}), of_heads_last);
}

// Batch row n and head h take slice (n, h): random masks of every broadcastable shape, with
// padding, also for grouped heads.
TEST(MaskFaults, EveryBatchRowAndHeadTakesItsOwnSlice) {
  const Index batch = 3, heads = 4, queries = 5, keys = 7;
  Tensor<bool, 2> keep({batch, keys});
  for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i % 4 != 2;
  const auto q = random<float>(Shape<4>{batch, heads, queries, 3}, 17);
  for (int which = 0; which < 16; ++which) {
    const Shape<4> shape{which & 1 ? batch : 1, which & 2 ? heads : 1, which & 4 ? queries : 1,
                         which & 8 ? keys : 1};
    Tensor<bool, 4> allowed(shape);
    for (Index i = 0; i < allowed.size(); ++i)
      allowed.data()[i] = Key{18}.bits(static_cast<std::uint64_t>(i)) % 3 != 0;
    const auto visible = [&](Index b, Index h, Index t, Index j) {
      return keep(b, j) &&
             allowed(which & 1 ? b : 0, which & 2 ? h : 0, which & 4 ? t : 0, which & 8 ? j : 0);
    };
    const Mask<float> mask{.key_allowed = keep, .allowed = allowed};
    expect_means(batch, heads, queries, keys, mask, visible, to_string(shape));
    for (Index group : {1, 2, 4}) {
      const auto k = random<float>(Shape<4>{batch, heads / group, keys, 3}, 19),
                 v = random<float>(Shape<4>{batch, heads / group, keys, 2}, 20);
      const auto expected =
          values::plain_attention(q, k, v, 1 / std::sqrt(3.0), visible, values::no_bias);
      ASSERT_LT(largest_difference(scaled_dot_product_attention(q, k, v, mask), expected.y), 1e-6)
          << to_string(shape) << " group " << group;
    }
  }
}

TEST(MaskFaults, CausalWithScatteredPadding) {
  const Tensor<bool, 2> keep = values::tensor<bool>(Shape<2>{1, 7}, {0, 1, 1, 0, 0, 1, 0});
  expect_values(means(1, 1, 7, 7, {.causal = true, .key_allowed = keep}),
                {0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3}, 1e-6);
  expect_everywhere(decoder_paths::self_means(1, 1, 7, {.key_allowed = keep}),
                    {0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3});
  expect_everywhere(decoder_paths::memory_means(1, 1, 7, 7, {.causal = true, .key_allowed = keep}),
                    {0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3});
}

// All 128 patterns of padding over seven keys.
TEST(MaskFaults, EveryPatternOfPadding) {
  Tensor<bool, 2> keep({128, 7});
  for (Index b = 0; b < 128; ++b)
    for (Index j = 0; j < 7; ++j) keep(b, j) = b >> j & 1;
  expect_means(
      128, 1, 7, 7, {.causal = true, .key_allowed = keep},
      [](Index b, Index, Index t, Index j) { return j <= t && (b >> j & 1) == 1; }, "padding");
}

TEST(MaskFaults, EachBatchRowHasItsOwnLengthAndSoftmaxIsOverKeys) {
  const std::vector<int> lengths{3, 1};
  expect_values(means(2, 1, 3, 3, {.key_lengths = lengths}), {2, 2, 2, 1, 1, 1}, 1e-6);
  expect_everywhere(decoder_paths::memory_means(2, 1, 3, 3, {.key_lengths = lengths}),
                    {2, 2, 2, 1, 1, 1});
  expect_everywhere(decoder_paths::memory_means(2, 1, 3, 3, {}, lengths), {2, 2, 2, 1, 1, 1});
  expect_everywhere(decoder_paths::self_means(2, 1, 3, {.key_lengths = lengths}),
                    {1, 1.5, 2, 1, 1, 1});

  const auto scores = values::rows<float>({{0, std::log(2.0), std::log(3.0)}, {0, 0, 0}});
  Tensor<float, 4> weights;
  means(1, 1, 2, 3, {.bias = scores}, &weights);
  expect_values(weights, {1.0 / 6, 2.0 / 6, 3.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-6);
  // (1 + 2 2 + 3 3) / 6
  expect_everywhere(decoder_paths::memory_means(1, 1, 2, 3, {.bias = scores}), {14.0 / 6, 2});
}

// Masks of the wrong size are refused with both numbers.
TEST(MaskFaults, MasksOfTheWrongSizeAreRefused) {
  const auto refused = [](const Mask<float>& mask, const std::string& wanted,
                          const std::string& got) {
    try {
      means(2, 3, 5, 7, mask);
      ADD_FAILURE() << "accepted instead of " << wanted;
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(wanted), std::string::npos) << text;
      EXPECT_NE(text.find(got), std::string::npos) << text;
    }
  };
  const std::vector<int> three{1, 1, 1}, eight{8, 1}, negative{1, -1};
  refused({.key_lengths = three}, "2", "got 3");
  refused({.key_lengths = eight}, "[0, 7]", "got 8");
  refused({.key_lengths = negative}, "[0, 7]", "got -1");
  refused({.key_allowed = Tensor<bool, 2>({7, 2})}, "(2, 7)", "(7, 2)");
  refused({.allowed = Tensor<bool, 2>({7, 5})}, "(2, 3, 5, 7)", "(1, 1, 7, 5)");
  refused({.bias = Tensor<float, 3>({2, 5, 7})}, "(2, 3, 5, 7)", "(1, 2, 5, 7)");
  refused({.window = -1}, ">= 0", "got -1");
}

// By decoders as well, for their own tokens and for a memory; and nothing is added to a cache then.
TEST(MaskFaults, MasksOfTheWrongSizeAreRefusedByDecoders) {
  using namespace any_decoder;
  const Index queries = 5, keys = 7;
  const auto ids = random_ids(2, queries, 40), source = random_ids(2, keys, 41);
  const std::vector<int> three{1, 1, 1}, negative{1, -1}, six{6, 1}, eight{8, 1};
  const Tensor<bool, 2> turned_own({queries, 2}), turned_memory({keys, 2}), pairs({keys, queries});
  const Tensor<float, 3> bias({2, queries, keys});
  struct Case {
    Call call;
    std::string wanted, got;
  };
  const std::vector<Case> own{{{.mask = {.key_lengths = three}}, "2", "got 3"},
                              {{.mask = {.key_lengths = six}}, "[0, 5]", "got 6"},
                              {{.mask = {.key_lengths = negative}}, "[0, 5]", "got -1"},
                              {{.mask = {.key_allowed = turned_own}}, "(2, 5)", "(5, 2)"},
                              {{.mask = {.allowed = pairs}}, "(2, 4, 5, 5)", "(1, 1, 7, 5)"},
                              {{.mask = {.bias = bias}}, "(2, 4, 5, 5)", "(1, 2, 5, 7)"},
                              {{.mask = {.window = -1}}, ">= 0", "got -1"}};
  const std::vector<Case> of_memory{
      {{.memory_mask = {.key_lengths = three}}, "2", "got 3"},
      {{.memory_mask = {.key_lengths = eight}}, "[0, 7]", "got 8"},
      {{.memory_mask = {.key_lengths = negative}}, "[0, 7]", "got -1"},
      {{.memory_mask = {.key_allowed = turned_memory}}, "(2, 7)", "(7, 2)"},
      {{.memory_mask = {.allowed = pairs}}, "(2, 4, 5, 7)", "(1, 1, 7, 5)"},
      {{.memory_mask = {.bias = bias}}, "(2, 4, 5, 7)", "(1, 2, 5, 7)"},
      {{.memory_mask = {.window = -1}}, ">= 0", "got -1"}};
  const auto refused = [](auto&& f, const Case& wrong, const std::string& who) {
    try {
      f();
      ADD_FAILURE() << who << " accepted instead of " << wrong.wanted;
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(wrong.wanted), std::string::npos) << who << ": " << text;
      EXPECT_NE(text.find(wrong.got), std::string::npos) << who << ": " << text;
    }
  };
  for (bool cross_attention : {false, true}) {
    for (const auto& decoder : decoders({.cross_attention = cross_attention})) {
      std::vector<Case> cases(own);
      if (cross_attention) cases.insert(cases.end(), of_memory.begin(), of_memory.end());
      const auto expected = decoder->at_once(ids, source);
      const auto session = decoder->start(2, queries, source);
      for (const Case& wrong : cases) {
        // An encoder reads its part of the mask first, with other shapes in the text.
        const bool of_encoder =
            decoder->name == "encoder-decoder" &&
            (wrong.call.memory_mask.key_lengths || wrong.call.memory_mask.key_allowed);
        if (!of_encoder) {
          refused([&] { decoder->at_once(ids, source, wrong.call); }, wrong, decoder->name);
        }
        refused([&] { session->append(ids, wrong.call); }, wrong, decoder->name);
        ASSERT_EQ(session->length(0), 0) << decoder->name;
        ASSERT_EQ(session->length(1), 0) << decoder->name;
      }
      ASSERT_EQ(session->append(ids), expected) << decoder->name;
    }
  }
}

}  // namespace masks_test
}  // namespace eigenformer
