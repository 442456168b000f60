// SPDX-License-Identifier: MIT

// Faults that others had with positions inside attention: rotary embeddings and
// ALiBi.

#include "tests/faults/any_decoder.hpp"

namespace eigenformer {
namespace attention_positions_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::randomize;

/// Row t of x (T, D), one head, rotated by position first + t.
template <class T>
Tensor<T, 2> rotated(const RotaryConfig& config, const Tensor<T, 2>& x, Index first) {
  Workspace workspace;
  Scratch scratch(workspace);
  Tensor<T, 2> y(x);
  kernels::RotaryTable<T>(config, x.dim(1), 1, x.dim(0), first, nullptr, scratch, workspace)
      .rotate(y, x.dim(1), workspace);
  return y;
}

/// One row at a position.
template <class T>
Tensor<T, 2> turned_to(Index position, RotaryLayout layout, const std::vector<double>& x) {
  return rotated<T>({.layout = layout},
                    values::tensor<T>(Shape<2>{1, static_cast<Index>(x.size())}, x), position);
}

/// Attention that turns what it is given: keys in a cache are the inputs at their positions.
MultiHeadAttention<double> turning_attention(Index size, Index heads, const RotaryConfig& config) {
  MultiHeadAttention<double> attention(
      {.hidden_size = heads * size,
       .num_attention_heads = heads,
       .attention_positions = {.kind = AttentionPosition::rotary, .rotary = config}});
  for (Linear<double>* map :
       {&attention.query, &attention.key, &attention.value, &attention.output})
    values::set_identity(*map);
  return attention;
}

// ----------------------------------------------------------------------- neighbours or two halves

TEST(AttentionPositionFaults, BothLayoutsOfOneToFour) {
  const std::vector<double> x{1, 2, 3, 4};
  const std::vector<double> interleaved{-1.142640, 1.922076, 2.959851, 4.029800};
  const std::vector<double> halves{-1.984111, 1.959901, 2.462378, 4.019800};
  expect_values(turned_to<double>(1, RotaryLayout::interleaved, x), interleaved, 5e-7);
  expect_values(turned_to<double>(1, RotaryLayout::halves, x), halves, 5e-7);
  expect_values(turned_to<float>(1, RotaryLayout::interleaved, x), interleaved, 1e-6);
  expect_values(turned_to<float>(1, RotaryLayout::halves, x), halves, 1e-6);
  EXPECT_EQ(RotaryConfig{}.layout, RotaryLayout::halves);

  // The same as the second key of a module.
  for (RotaryLayout layout : {RotaryLayout::interleaved, RotaryLayout::halves}) {
    const auto attention = turning_attention(4, 1, {.layout = layout});
    auto cache = attention.make_cache(1, 2);
    Workspace workspace;
    Tensor<double, 3> y({1, 2, 4});
    attention.forward(values::tensor<double>(Shape<3>{1, 2, 4}, {1, 2, 3, 4, 1, 2, 3, 4}), cache,
                      {.causal = true}, y, workspace);
    expect_values(cache.key(0, 0, 0), x, 0);
    expect_values(cache.key(0, 0, 1), layout == RotaryLayout::halves ? halves : interleaved, 5e-7);
  }
}

// From halves to neighbours and back, for every even size: the same bits.
TEST(AttentionPositionFaults, LayoutsAreAPermutationOfEachOther) {
  for (Index size = 2; size <= 40; size += 2) {
    const auto x = random<float>(Shape<2>{7, size}, 1);
    Tensor<float, 2> paired(x.shape()), back(x.shape());
    const auto place = [&](Index i) { return i < size / 2 ? 2 * i : 2 * (i - size / 2) + 1; };
    for (Index t = 0; t < 7; ++t)
      for (Index i = 0; i < size; ++i) paired(t, place(i)) = x(t, i);
    const auto halves = rotated<float>({}, x, 3);
    const auto neighbours = rotated<float>({.layout = RotaryLayout::interleaved}, paired, 3);
    for (Index t = 0; t < 7; ++t)
      for (Index i = 0; i < size; ++i) back(t, i) = neighbours(t, place(i));
    EXPECT_EQ(back, halves) << size;
    if (size > 2) {
      EXPECT_GT(
          largest_difference(rotated<float>({.layout = RotaryLayout::interleaved}, x, 3), halves),
          0.1)
          << "one is not the other";
    }
  }
}

TEST(AttentionPositionFaults, PositionZeroPairsAndDifferences) {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    for (Index size : {2, 6, 16, 22, 64, 130}) {
      const RotaryConfig config{.layout = layout};
      const Index tokens = 11, half = size / 2;
      const auto x = random<double>(Shape<2>{1, size}, 2), z = random<double>(Shape<2>{1, size}, 3);
      EXPECT_EQ(rotated(config, x, 0), x) << "position 0 is the identity";

      Tensor<double, 2> xs({tokens, size}), zs({tokens, size});
      for (Index t = 0; t < tokens; ++t) {
        xs.matrix().row(t) = x.matrix();
        zs.matrix().row(t) = z.matrix();
      }
      const auto q = rotated(config, xs, 0), k = rotated(config, zs, 0);
      for (Index t = 0; t < tokens; ++t)
        for (Index i = 0; i < half; ++i) {
          const Index a = layout == RotaryLayout::halves ? i : 2 * i;
          const Index b = layout == RotaryLayout::halves ? half + i : 2 * i + 1;
          EXPECT_NEAR(std::hypot(q(t, a), q(t, b)), std::hypot(x(0, a), x(0, b)), 1e-14);
        }
      const Eigen::MatrixXd products = q.matrix() * k.matrix().transpose();
      for (Index t = 1; t < tokens; ++t)
        for (Index j = 1; j < tokens; ++j)
          EXPECT_NEAR(products(t, j), products(t - 1, j - 1), 1e-12);
      EXPECT_GT(std::abs(products(5, 0) - products(0, 5)), 1e-3) << "and on its sign";
    }
  }
}

// Turning the front part of each head leaves the rest as it is, and turns as a head of that size.
TEST(AttentionPositionFaults, PartOfEachHead) {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    const auto x = random<float>(Shape<2>{5, 16}, 4);
    Tensor<float, 2> front({5, 4});
    front.matrix() = x.matrix().leftCols(4);
    const auto y = rotated<float>({.partial_rotary_factor = 0.25, .layout = layout}, x, 2);
    const auto expected = rotated<float>({.layout = layout}, front, 2);
    EXPECT_EQ(y.matrix().leftCols(4), expected.matrix());
    EXPECT_EQ(y.matrix().rightCols(12), x.matrix().rightCols(12));
  }
}

TEST(AttentionPositionFaults, SizesThatHaveNoPairsAreRefused) {
  const auto refused = [](Index head_size, double part, const std::string& number) {
    try {
      MultiHeadAttention<float>(
          {.hidden_size = head_size,
           .attention_positions = {.kind = AttentionPosition::rotary,
                                   .rotary = {.partial_rotary_factor = part}}});
      ADD_FAILURE() << "not refused: " << head_size << " " << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(number), std::string::npos) << error.what();
    }
  };
  refused(5, 1, "got 5 of 5");
  refused(10, 0.5, "got 5 of 10");
  refused(1, 1, "got 1 of 1");
  refused(10, 0.1, "got 1 of 10");
  refused(8, 0, "got 0");
  refused(8, 1.25, "got 1.25");
  refused(8, -1, "got -1");
  refused(8, std::nan(""), "nan");
}

// ------------------------------------------------------------------------ angles in low precision

TEST(AttentionPositionFaults, PositionsBeyondHalfPrecision) {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    expect_values(turned_to<float>(15962, layout, {1, 0}), {-.908016, .418936}, 1e-6);
    expect_values(turned_to<double>(15962, layout, {1, 0}), {-.908016, .418936}, 1e-6);
    EXPECT_NEAR(turned_to<float>(257, layout, {1, 0})(0, 0), .819306, 1e-6);
    EXPECT_NEAR(turned_to<float>(256, layout, {1, 0})(0, 0), std::cos(256.0), 1e-6);
  }
}

// Every frequency of a head of 64 at positions up to 100,000: as exact as the number type.
TEST(AttentionPositionFaults, EveryFrequencyUpToPosition100000) {
  const Index size = 64, half = size / 2;
  Tensor<float, 2> ones({1, size});
  Tensor<double, 2> exact_ones({1, size});
  for (Index i = 0; i < half; ++i) ones(0, i) = 1, exact_ones(0, i) = 1;
  double largest = 0, largest_exact = 0;
  for (Index position = 0; position <= 100000; position += 97) {
    const auto y = rotated<float>({}, ones, position);
    const auto z = rotated<double>({}, exact_ones, position);
    for (Index i = 0; i < half; ++i) {
      const long double angle =
          static_cast<long double>(position) *
          std::pow(10000.0L, -2.0L * static_cast<long double>(i) / static_cast<long double>(size));
      const auto c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
      largest = std::max({largest, std::abs(static_cast<double>(y(0, i)) - c),
                          std::abs(static_cast<double>(y(0, half + i)) - s)});
      largest_exact =
          std::max({largest_exact, std::abs(z(0, i) - c), std::abs(z(0, half + i) - s)});
    }
  }
  EXPECT_LT(largest, 1e-7);
  EXPECT_LT(largest_exact, 1e-10);
}

// Through the module: a query at 15962 sees keys 0 and 1 by cos 15962 and cos 15961; also with a
// memory.
TEST(AttentionPositionFaults, FarQueriesOfAModule) {
  const auto attention = cast<float>(turning_attention(2, 1, {}));
  const auto x = values::tensor<float>(Shape<3>{1, 1, 2}, {1, 0});
  const auto keys = values::tensor<float>(Shape<3>{1, 2, 2}, {1, 0, 1, 0});
  for (Index position : {0, 255, 257, 15962, 99991}) {
    const auto weights = attention.attention_weights(x, keys, {.query_offset = position});
    const double a = std::cos(static_cast<double>(position)) / std::sqrt(2.0),
                 b = std::cos(static_cast<double>(position - 1)) / std::sqrt(2.0);
    EXPECT_NEAR(weights(0, 0, 0, 0), std::exp(a) / (std::exp(a) + std::exp(b)), 1e-6) << position;
  }
}

// Rows of a batch at positions of their own.
TEST(AttentionPositionFaults, RowsAtPositionsOfTheirOwn) {
  const Index batch = 3, tokens = 5, size = 6;
  const Index first[] = {0, 15962, 77};
  const auto x = random<float>(Shape<2>{batch * tokens, size}, 5);
  Tensor<float, 2> y(x);
  Workspace workspace;
  Scratch scratch(workspace);
  kernels::RotaryTable<float>({}, size, batch, tokens, 4, first, scratch, workspace)
      .rotate(y, size, workspace);
  for (Index b = 0; b < batch; ++b) {
    Tensor<float, 2> own({tokens, size});
    own.matrix() = x.matrix().middleRows(b * tokens, tokens);
    const auto expected = rotated<float>({}, own, 4 + first[b]);
    EXPECT_EQ(y.matrix().middleRows(b * tokens, tokens), expected.matrix()) << b;
  }
}

// ------------------------------------------------------------------- scaling the wrong way around

std::vector<double> frequencies(const RotaryConfig& config, Index size) {
  std::vector<double> f(static_cast<std::size_t>(kernels::rotary_size(config, size) / 2));
  kernels::rotary_frequencies(config, size, f.data());
  return f;
}

TEST(AttentionPositionFaults, LinearFactorDividesThePosition) {
  const RotaryConfig scaled{.layout = RotaryLayout::interleaved,
                            .rope_scaling = {.type = RotaryScalingType::linear, .factor = 2}};
  const auto x = values::rows<double>({{1, 0, 1, 0}});
  const std::vector<double> expected{-.989992, .141120, .999550, .029996};
  expect_values(rotated(scaled, x, 6), expected, 5e-7);
  expect_values(turned_to<double>(3, RotaryLayout::interleaved, {1, 0, 1, 0}), expected, 5e-7);
  EXPECT_GT(std::abs(rotated(scaled, x, 6)(0, 0) - .843854), 1) << "position 12";

  // The same from keys in a cache, at once and one by one.
  const auto attention = turning_attention(4, 1, scaled);
  Tensor<double, 3> inputs({1, 7, 4});
  for (Index t = 0; t < 7; ++t) inputs.matrix().row(t) = x.matrix();
  Workspace workspace;
  for (Index size : {7, 1}) {
    auto cache = attention.make_cache(1, 7);
    for (Index begin = 0; begin < 7; begin += size) {
      Tensor<double, 3> part({1, size, 4}), y(part.shape());
      std::copy_n(&inputs(0, begin, 0), part.size(), part.data());
      attention.forward(part, cache, {.causal = true}, y, workspace);
    }
    expect_values(cache.key(0, 0, 6), expected, 5e-7);
  }
}

TEST(AttentionPositionFaults, LinearFactorsOfEverySizeAndLayout) {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    for (Index factor : {1, 2, 3, 7}) {
      const RotaryConfig scaled{.layout = layout,
                                .rope_scaling = {.type = RotaryScalingType::linear,
                                                 .factor = static_cast<double>(factor)}};
      const auto x = random<double>(Shape<2>{1, 22}, 6);
      for (Index position : {0, 1, 5, 100}) {
        EXPECT_LT(largest_difference(rotated(scaled, x, position * factor),
                                     rotated<double>({.layout = layout}, x, position)),
                  1e-12);
      }
    }
  }
}

// A factor that belongs to no type is not applied.
TEST(AttentionPositionFaults, FactorWithoutATypeIsNotApplied) {
  const auto x = random<double>(Shape<2>{5, 16}, 7);
  EXPECT_EQ(rotated<double>({.rope_scaling = {.factor = 8}}, x, 3), rotated<double>({}, x, 3));
  EXPECT_EQ(
      rotated<double>(
          {.rope_scaling = {.factor = 8, .original_max_position_embeddings = 2, .length = 100}}, x,
          3),
      rotated<double>({}, x, 3));
  EXPECT_EQ(RotaryScaling{}.type, RotaryScalingType::none);
}

// The frequencies of transformers 5 for heads of 16.
TEST(AttentionPositionFaults, FrequenciesOfEveryType) {
  const auto expect_frequencies = [](const RotaryConfig& config,
                                     const std::vector<double>& expected, double amplitude) {
    const auto f = frequencies(config, 16);
    ASSERT_EQ(f.size(), expected.size());
    for (std::size_t i = 0; i < f.size(); ++i)
      EXPECT_NEAR(f[i] / expected[i], 1, 3e-7) << to_text(static_cast<int>(i));
    EXPECT_NEAR(kernels::rotary_amplitude(config), amplitude, 1e-12);
  };
  expect_frequencies(
      {.rope_scaling = {.type = RotaryScalingType::linear, .factor = 2}},
      {.5, 1.581138819e-1, .05, 1.581138931e-2, .005, 1.581138931e-3, 5e-4, 1.581138931e-4}, 1);
  expect_frequencies({.rope_scaling = {.type = RotaryScalingType::dynamic,
                                       .factor = 2,
                                       .original_max_position_embeddings = 64,
                                       .length = 200}},
                     {1, 2.495284677e-1, 6.226445362e-2, 1.553675346e-2, 3.876862815e-3,
                      9.673875174e-4, 2.413907350e-4, 6.023386231e-5},
                     1);
  expect_frequencies({.rope_theta = 500000,
                      .rope_scaling = {.type = RotaryScalingType::llama3,
                                       .factor = 8,
                                       .original_max_position_embeddings = 8192}},
                     {1, 1.939227581e-1, 3.760603070e-2, 7.292665076e-3, 5.248460220e-4,
                      3.428102355e-5, 6.647869668e-6, 1.289173156e-6},
                     1);
  expect_frequencies(
      {.rope_scaling = {.type = RotaryScalingType::yarn,
                        .factor = 4,
                        .original_max_position_embeddings = 64}},
      {1, 2.371708155e-1, 5e-2, 7.905694656e-3, 2.5e-3, 7.905694656e-4, 2.5e-4, 7.905694656e-5},
      1.138629436111989);
  expect_frequencies({.rope_theta = 1000000,
                      .rope_scaling = {.type = RotaryScalingType::yarn,
                                       .factor = 4,
                                       .original_max_position_embeddings = 32768}},
                     {1, 1.778279394e-1, 3.162277862e-2, 4.217559937e-3, 5e-4, 4.445698505e-5,
                      7.905693565e-6, 1.405853368e-6},
                     1.138629436111989);
}

// Whatever the type and the numbers: no frequency grows, none falls below its factor's part, and
// the order is kept.
TEST(AttentionPositionFaults, NoTypeMakesPositionsFurtherApart) {
  for (RotaryScalingType type : {RotaryScalingType::linear, RotaryScalingType::dynamic,
                                 RotaryScalingType::llama3, RotaryScalingType::yarn}) {
    for (double factor : {1.0, 1.5, 4.0, 32.0}) {
      for (Index original : {16, 64, 8192}) {
        for (Index size : {4, 16, 64, 128}) {
          RotaryConfig config;
          const auto plain = frequencies(config, size);
          config.rope_scaling = {
              .type = type,
              .factor = factor,
              .original_max_position_embeddings = original,
              .length = static_cast<Index>(factor * static_cast<double>(original))};
          const auto scaled = frequencies(config, size);
          for (std::size_t i = 0; i < plain.size(); ++i) {
            ASSERT_LE(scaled[i], plain[i] * (1 + 1e-12));
            if (type != RotaryScalingType::dynamic) {
              ASSERT_GE(scaled[i], plain[i] / factor * (1 - 1e-12));
            }
            ASSERT_TRUE(i == 0 || scaled[i] < scaled[i - 1]);
          }
          if (factor == 1) {
            for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(scaled[i], plain[i], 1e-15);
          }
          // A frequency that makes less than one turn in the original context is divided, whatever
          // the type; dynamic scaling divides the last one in any case, up to the stretched length.
          const double turns = static_cast<double>(original) * plain.back() / 6.283185307179586;
          if (type == RotaryScalingType::dynamic) {
            const double stretch = factor * factor - (factor - 1);
            ASSERT_NEAR(scaled.back() * stretch / plain.back(), 1, 1e-12);
          } else if (type == RotaryScalingType::linear || turns < 1) {
            ASSERT_NEAR(scaled.back() * factor / plain.back(), 1, 1e-12);
          }
        }
      }
    }
  }
}

// dynamic: nothing happens up to the original length.
TEST(AttentionPositionFaults, DynamicScalingBeginsBehindTheOriginalLength) {
  RotaryConfig config;
  const auto plain = frequencies(config, 16);
  config.rope_scaling = {
      .type = RotaryScalingType::dynamic, .factor = 2, .original_max_position_embeddings = 64};
  for (Index length : {0, 1, 63, 64}) {
    config.rope_scaling.length = length;
    EXPECT_EQ(frequencies(config, 16), plain) << length;
  }
  config.rope_scaling.length = 65;
  EXPECT_LT(frequencies(config, 16).back(), plain.back());
}

TEST(AttentionPositionFaults, FactorsThatMakeNoSenseAreRefused) {
  const auto refused = [](const RotaryScaling& scaling, const std::string& text) {
    try {
      DecoderLayer<float>({.hidden_size = 8,
                           .num_attention_heads = 2,
                           .intermediate_size = 3,
                           .attention_positions = {.kind = AttentionPosition::rotary,
                                                   .rotary = {.rope_scaling = scaling}}});
      ADD_FAILURE() << "not refused: " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  using Type = RotaryScalingType;
  refused({.type = Type::linear, .factor = 0.5}, "factor must be >= 1; got 0.5");  // inverted
  refused({.type = Type::linear, .factor = 0}, "got 0");
  refused({.type = Type::linear, .factor = -2}, "got -2");
  refused({.type = Type::linear, .factor = std::nan("")}, "nan");
  for (Type type : {Type::dynamic, Type::llama3, Type::yarn}) {
    refused({.type = type, .factor = 2}, "original_max_position_embeddings must be > 0; got 0");
    refused({.type = type, .factor = 0.25, .original_max_position_embeddings = 64}, "got 0.25");
  }
  refused({.type = Type::llama3,
           .factor = 2,
           .original_max_position_embeddings = 64,
           .low_freq_factor = 4,
           .high_freq_factor = 1},
          "got 4 and 1");
}

// --------------------------------------------------------------------------------- ALiBi's slopes

std::vector<double> slopes(Index heads) {
  std::vector<double> result;
  for (Index h = 0; h < heads; ++h) result.push_back(kernels::alibi_slope(h, heads));
  return result;
}

TEST(AttentionPositionFaults, SlopesOfAnyNumberOfHeads) {
  const auto expect_slopes = [](Index heads, const std::vector<double>& expected) {
    const auto actual = slopes(heads);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t h = 0; h < expected.size(); ++h)
      EXPECT_NEAR(actual[h], expected[h], 5e-9) << heads << " heads, head " << h;
  };
  expect_slopes(1, {0.00390625});
  expect_slopes(2, {0.0625, 0.00390625});
  expect_slopes(6, {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
  const std::vector<double> eight{0.5,     0.25,     0.125,     0.0625,
                                  0.03125, 0.015625, 0.0078125, 0.00390625};
  expect_slopes(8, eight);
  std::vector<double> twelve(eight);
  for (double extra : {0.70710678, 0.35355339, 0.17677670, 0.08838835}) twelve.push_back(extra);
  expect_slopes(12, twelve);
}

// The authors' rule for all counts up to 130, written anew: the list of the power of two below,
// then every second number of the next power's list; all different, none is 1.
TEST(AttentionPositionFaults, TheAuthorsRule) {
  const auto of_power = [](Index heads) {
    std::vector<double> list;
    const double start = std::pow(2.0, -8.0 / static_cast<double>(heads));
    for (Index h = 0; h < heads; ++h) list.push_back(std::pow(start, static_cast<double>(h + 1)));
    return list;
  };
  for (Index heads = 1; heads <= 130; ++heads) {
    Index power = 1;
    while (2 * power <= heads) power *= 2;
    std::vector<double> expected = of_power(power);
    const auto next = of_power(2 * power);
    for (std::size_t i = 0; static_cast<Index>(expected.size()) < heads; i += 2)
      expected.push_back(next[i]);
    const auto actual = slopes(heads);
    for (std::size_t h = 0; h < expected.size(); ++h) {
      ASSERT_NEAR(actual[h], expected[h], 1e-14) << heads;
      ASSERT_LT(actual[h], 1);
      ASSERT_GT(actual[h], 0);
    }
    auto sorted = actual;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << heads;
  }
}

// In the module: with zero queries the weights fall by exp(-slope) for each step of distance, in
// every head, at any position, with grouped heads, to either side, and from a cache.
TEST(AttentionPositionFaults, WeightsOfAModule) {
  for (Index heads : {1, 2, 6, 8, 12}) {
    MultiHeadAttention<double> attention(
        {.hidden_size = heads,
         .num_attention_heads = heads,
         .num_key_value_heads = heads % 2 == 0 ? heads / 2 : 0,
         .attention_positions = {.kind = AttentionPosition::alibi}});
    randomize(attention, 8);
    attention.query = zeros_like(attention.query);
    const Index tokens = 7;
    const auto x = random<double>(Shape<3>{1, tokens, heads}, 9);
    for (bool causal : {false, true}) {
      for (Index offset : {0, 3}) {
        const auto weights =
            attention.attention_weights(x, x, {.causal = causal, .query_offset = offset});
        for (Index h = 0; h < heads; ++h)
          for (Index t = 0; t < tokens; ++t) {
            double total = 0;
            const auto score = [&](Index j) {
              return std::exp(-kernels::alibi_slope(h, heads) *
                              static_cast<double>(std::abs(t + offset - j)));
            };
            const Index end = causal ? std::min(tokens, t + offset + 1) : tokens;
            for (Index j = 0; j < end; ++j) total += score(j);
            for (Index j = 0; j < tokens; ++j)
              ASSERT_NEAR(weights(0, h, t, j), j < end ? score(j) / total : 0, 1e-14)
                  << heads << " heads, head " << h;
          }
      }
    }
    Workspace workspace;
    auto cache = attention.make_cache(1, tokens);
    const auto expected = attention(x, {.causal = true});
    for (Index t = 0; t < tokens; ++t) {
      Tensor<double, 3> one({1, 1, heads}), y(one.shape());
      std::copy_n(&x(0, t, 0), heads, one.data());
      attention.forward(one, cache, {.causal = true}, y, workspace);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), &expected(0, t, 0))) << t;
    }
  }
}

}  // namespace attention_positions_test
}  // namespace eigenformer
