// SPDX-License-Identifier: MIT
// Packed formats: the bits of the plain module or, where numbers are rounded, of a plain module with
// the rounded numbers; alone and among others, with any number of threads.

#include "eigenformer/nn/packed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "eigenformer/eigenformer.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/numbers.hpp"

namespace packed_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

template <class T, int Rank>
bool same(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() && reference::same_bits(a.data(), b.data(), a.size());
}

template <class M>
M initialized(const typename std::remove_cvref_t<decltype(std::declval<M>().config)>& config) {
  M module(config);
  ef::init(module, ef::Key{5});
  // Biases are not zero in life.
  ef::for_each_parameter(module, [](const std::string& name, auto& parameter) {
    const ef::Key key(ef::internal::hash_of(name));
    for (Index i = 0; parameter.shape()[0] == parameter.size() && i < parameter.size(); ++i) {
      using T = typename std::remove_reference_t<decltype(parameter)>::Scalar;
      parameter.data()[i] += static_cast<T>(key.uniform(static_cast<std::uint64_t>(i)) - 0.5);
    }
  });
  return module;
}

Tensor<std::int32_t, 2> some_ids(Index batch, Index tokens, Index vocabulary) {
  Tensor<std::int32_t, 2> ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = static_cast<std::int32_t>(i * 31 % vocabulary);
  return ids;
}

constexpr Index token_counts[] = {1, 2, 3, 5, 6, 7, 13, 61, 211};

template <class T>
class PackedPlainTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PackedPlainTest, Scalars);

TYPED_TEST(PackedPlainTest, FeedForwardsHaveTheBitsOfThePlainOnes) {
  using T = TypeParam;
  for (Index hidden : {1, 17, 67}) {
    const ef::FeedForwardConfig config{.hidden_size = hidden, .intermediate_size = 701};
    const auto plain = initialized<ef::FeedForward<T>>(config);
    const auto gated = initialized<ef::GatedFeedForward<T>>(config);
    const auto packed = ef::pack(plain);
    const auto packed_gated = ef::pack(gated);
    for (Index tokens : token_counts) {
      const auto x = reference::random_tensor<T, 2>({tokens, hidden}, 3);
      EXPECT_TRUE(same(packed(x), plain(x))) << hidden << ", " << tokens;
      EXPECT_TRUE(same(packed_gated(x), gated(x))) << hidden << ", " << tokens;
    }
  }
}

template <class Format>
class PackedFeedForward : public ::testing::Test {};
using PackedFormats = ::testing::Types<ef::Packed<float>, ef::Packed<ef::bfloat16>,
                                       ef::Packed<ef::int8_weights>, ef::Packed<ef::int8>>;
TYPED_TEST_SUITE(PackedFeedForward, PackedFormats);

// What is rounded is rounded in the same places, so the difference is that of sums alone.
TYPED_TEST(PackedFeedForward, IsMadeOfItsPackedLinears) {
  const ef::FeedForwardConfig config{
      .hidden_size = 67, .intermediate_size = 101, .activation = ef::Activation::silu};
  const auto gated = ef::pack<TypeParam>(initialized<ef::GatedFeedForward<float>>(config));
  const auto plain = ef::pack<TypeParam>(initialized<ef::FeedForward<float>>(config));
  for (Index tokens : {1, 2, 7, 61}) {
    const auto x = reference::random_tensor<float, 2>({tokens, 67}, 3);
    auto hidden = ef::silu(gated.gate(x));
    hidden.vector().array() *= gated.up(x).vector().array();
    const auto expected = gated.down(hidden), y = gated(x);
    for (Index i = 0; i < y.size(); ++i) ASSERT_NEAR(y.data()[i], expected.data()[i], 1e-5);

    const auto expected_plain = plain.linear_2(ef::silu(plain.linear_1(x))), z = plain(x);
    for (Index i = 0; i < z.size(); ++i) ASSERT_NEAR(z.data()[i], expected_plain.data()[i], 1e-5);
  }
}

TYPED_TEST(PackedPlainTest, EncodersHaveTheBitsOfThePlainOnes) {
  const auto plain = initialized<ef::TransformerEncoder<TypeParam>>({.vocab_size = 101,
                                                                     .hidden_size = 30,
                                                                     .num_hidden_layers = 2,
                                                                     .num_attention_heads = 5,
                                                                     .intermediate_size = 71,
                                                                     .type_vocab_size = 2});
  const auto packed = ef::pack(plain);
  EXPECT_EQ(ef::count_parameters(packed), ef::count_parameters(plain));
  const auto ids = some_ids(3, 19, 101);
  EXPECT_TRUE(same(packed(ids), plain(ids)));
}

TYPED_TEST(PackedPlainTest, DecodersHaveTheBitsOfThePlainOnesInOnePassAndStepByStep) {
  for (bool tied : {false, true}) {
    const auto plain =
        initialized<ef::TransformerDecoder<TypeParam, ef::RMSNorm, ef::GatedFeedForward>>(
            {.vocab_size = 101,
             .hidden_size = 24,
             .num_hidden_layers = 2,
             .num_attention_heads = 4,
             .num_key_value_heads = 2,
             .intermediate_size = 53,
             .tie_word_embeddings = tied});
    const auto packed = ef::pack(plain);
    const auto ids = some_ids(2, 11, 101);
    const auto expected = plain(ids);
    EXPECT_TRUE(same(packed(ids), expected));
    auto cache = packed.make_cache(2, 11);
    ef::Workspace workspace;
    for (Index t = 0; t < 11; ++t) {
      Tensor<std::int32_t, 2> next({2, 1});
      Tensor<TypeParam, 2> logits({2, 101});
      for (Index b = 0; b < 2; ++b) next(b, 0) = ids(b, t);
      packed.forward_last(next, cache, {}, logits, workspace);
      for (Index b = 0; b < 2; ++b)
        EXPECT_TRUE(reference::same_bits(&logits(b, 0), &expected(b, t, 0), Index{101})) << t;
    }
  }
}

TYPED_TEST(PackedPlainTest, RelativeEmbeddingsAndAdditiveAttentionWorkPacked) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({2, 7, 24}, 3);
  const auto attention = initialized<ef::MultiHeadAttention<T>>(
      {.hidden_size = 24,
       .num_attention_heads = 3,
       .attention_positions = {.kind = ef::AttentionPosition::relative_key_query,
                               .max_position_embeddings = 9}});
  EXPECT_TRUE(same(ef::pack(attention)(x), attention(x)));
  const auto additive =
      initialized<ef::AdditiveAttention<T>>({.query_size = 24, .key_size = 24, .hidden_size = 13});
  EXPECT_TRUE(same(ef::pack(additive)(x, x, x), additive(x, x, x)));
}

template <class Element>
class PackedTest : public ::testing::Test {};
using Elements = ::testing::Types<float, double, ef::bfloat16, ef::int8, ef::int8_weights>;
TYPED_TEST_SUITE(PackedTest, Elements);

TYPED_TEST(PackedTest, ATokenHasTheSameBitsAloneAndAmongOthersWithAnyThreads) {
  using T = ef::ScalarOf<ef::Packed<TypeParam>>;
  const auto packed = ef::pack<ef::Packed<TypeParam>>(
      initialized<ef::GatedFeedForward<T>>({.hidden_size = 67, .intermediate_size = 701}));
  const auto x = reference::random_tensor<T, 2>({423, 67}, 3);
  const auto all = packed(x);
  for (Index tokens : token_counts) {
    for (Index threads : {1, 2, 7}) {
      ef::ThreadPool pool(threads);
      ef::Workspace workspace(pool);
      Tensor<T, 2> part({tokens, 67}), y({tokens, 67});
      const Index first = 423 - tokens;
      std::copy_n(&x(first, 0), part.size(), part.data());
      packed.forward(part, y, workspace);
      EXPECT_TRUE(reference::same_bits(y.data(), &all(first, 0), y.size()))
          << tokens << " tokens, " << threads << " threads";
    }
  }
}

TYPED_TEST(PackedTest, CopiesAreEqualAndRowsComeBack) {
  using Format = ef::Packed<TypeParam>;
  using T = ef::ScalarOf<Format>;
  const auto rows = reference::random_tensor<T, 2>({37, 29}, 8);
  ef::PackedMatrix<TypeParam> at_once({37, 29}), in_pieces({37, 29});
  at_once.set_rows(0, 37, rows.data());
  for (Index first = 0; first < 37; first += 5)
    in_pieces.set_rows(first, std::min<Index>(5, 37 - first), &rows(first, 0));
  for (Index n = 0; n < 37; ++n) {
    Tensor<T, 1> a({29}), b({29});
    at_once.get_row(n, a.data());
    in_pieces.get_row(n, b.data());
    EXPECT_TRUE(same(a, b));
    for (Index k = 0; k < 29; ++k) {
      const double bound = std::is_floating_point_v<TypeParam>       ? 0
                           : std::is_same_v<TypeParam, ef::bfloat16> ? 0x1p-8
                                                                     : 1.0 / 250;
      EXPECT_NEAR(static_cast<double>(a(k)), static_cast<double>(rows(n, k)), bound);
    }
  }
  const auto copy = at_once;
  EXPECT_TRUE(copy == at_once);
}

TEST(PackedBfloat16, IsThePlainModuleWithRoundedWeights) {
  auto plain = initialized<ef::FeedForward<float>>({.hidden_size = 67, .intermediate_size = 301});
  const auto packed = ef::pack<ef::Packed<ef::bfloat16>>(plain);
  for (auto* linear : {&plain.linear_1, &plain.linear_2}) {
    for (float& w : linear->weight) w = ef::to_float(ef::to_bfloat16(w));
  }
  for (Index tokens : token_counts) {
    const auto x = reference::random_tensor<float, 2>({tokens, 67}, 3);
    EXPECT_TRUE(same(packed(x), plain(x))) << tokens;
  }
}

/// The row's scale and whole numbers, as written in matrix_product.hpp.
struct Quantized {
  float scale;
  std::vector<long> numbers;
};
Quantized quantized(const float* x, Index n) {
  float top = 0;
  for (Index i = 0; i < n; ++i) top = std::max(top, std::abs(x[i]));
  Quantized q{top / 127.0f, {}};
  for (Index i = 0; i < n; ++i) q.numbers.push_back(std::lrint(x[i] * (127.0f / top)));
  return q;
}

TEST(PackedInt8, IsTheFormula) {
  const Index outputs = 37;
  for (Index inputs : {1, 3, 4, 29, 67}) {
    const auto linear =
        initialized<ef::Linear<float>>({.in_features = inputs, .out_features = outputs});
    const auto whole = ef::pack<ef::Packed<ef::int8>>(linear);
    const auto weights = ef::pack<ef::Packed<ef::int8_weights>>(linear);
    const auto x = reference::random_tensor<float, 2>({11, inputs}, 3);
    const auto y = whole(x), z = weights(x);
    for (Index m = 0; m < 11; ++m) {
      const Quantized a = quantized(&x(m, 0), inputs);
      for (Index n = 0; n < outputs; ++n) {
        const Quantized b = quantized(&linear.weight(n, 0), inputs);
        double sum = 0, mixed = 0;
        for (Index k = 0; k < inputs; ++k) {
          const auto i = static_cast<std::size_t>(k);
          sum += static_cast<double>(a.numbers[i] * b.numbers[i]);
          mixed += static_cast<double>(x(m, k)) * static_cast<double>(b.numbers[i]);
        }
        const double scale = static_cast<double>(b.scale);
        const double bias = static_cast<double>(linear.bias(n));
        EXPECT_NEAR(static_cast<double>(y(m, n)), sum * scale * static_cast<double>(a.scale) + bias,
                    1e-5);
        EXPECT_NEAR(static_cast<double>(z(m, n)), mixed * scale + bias, 1e-5);
      }
    }
  }
}

TEST(PackedInt8, NanAndInfinityStayInTheirRows) {
  const auto packed = ef::pack<ef::Packed<ef::int8>>(
      initialized<ef::Linear<float>>({.in_features = 29, .out_features = 37}));
  auto x = reference::random_tensor<float, 2>({7, 29}, 3);
  const auto clean = packed(x);
  x(2, 5) = std::numeric_limits<float>::quiet_NaN();
  x(4, 5) = std::numeric_limits<float>::infinity();
  const auto y = packed(x);
  for (Index m = 0; m < 7; ++m) {
    for (Index n = 0; n < 37; ++n) {
      if (m == 2) {
        EXPECT_TRUE(std::isnan(y(m, n)));
      } else if (m == 4) {
        EXPECT_FALSE(std::isfinite(y(m, n)));
      } else {
        EXPECT_EQ(y(m, n), clean(m, n));
      }
    }
  }
}

TEST(PackedInt8, RowsOfZerosAreZero) {
  auto linear = initialized<ef::Linear<float>>({.in_features = 5, .out_features = 3});
  for (Index k = 0; k < 5; ++k) linear.weight(0, k) = 0;
  const auto packed = ef::pack<ef::Packed<ef::int8>>(linear);
  Tensor<float, 2> x({2, 5});
  for (Index k = 0; k < 5; ++k) x(1, k) = 0.5f;
  const auto y = packed(x);
  for (Index n = 0; n < 3; ++n) EXPECT_EQ(y(0, n), linear.bias(n));
  EXPECT_EQ(y(1, 0), linear.bias(0));
}

// Numbers whose largest is so small that 127 / it overflows, weights and activations.
TEST(PackedInt8, TinyNumbersAreQuantizedLikeOthers) {
  auto plain =
      initialized<ef::Linear<float>>({.in_features = 37, .out_features = 19, .bias = false});
  auto tiny = plain;
  for (float& w : tiny.weight) w *= 0x1p-124f;
  const Tensor<float, 2> x = reference::random_tensor<float, 2>({7, 37}, 5, 2);
  Tensor<float, 2> tiny_x = x;
  for (float& element : tiny_x) element *= 0x1p-124f;

  const auto expect_same = [&](const Tensor<float, 2>& y, const Tensor<float, 2>& scaled) {
    for (Index i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y.data()[i], scaled.data()[i] * 0x1p124f, 0.01) << i;
    }
  };
  const auto packed = ef::pack<ef::Packed<ef::int8>>(plain);
  expect_same(packed(x), ef::pack<ef::Packed<ef::int8>>(tiny)(x));
  expect_same(packed(x), packed(tiny_x));
  const auto weights = ef::pack<ef::Packed<ef::int8_weights>>(plain);
  expect_same(weights(x), ef::pack<ef::Packed<ef::int8_weights>>(tiny)(x));
}

// They can't be quantized: their rows are multiplied as with int8_weights, other rows as ever.
TEST(PackedInt8, RowsWithInfinityOrNanAreNotQuantized) {
  const auto plain = initialized<ef::Linear<float>>({.in_features = 67, .out_features = 41});
  const auto packed = ef::pack<ef::Packed<ef::int8>>(plain);
  const auto weights = ef::pack<ef::Packed<ef::int8_weights>>(plain);
  for (const Index rows : {1, 5, 43}) {
    const Tensor<float, 2> x = reference::random_tensor<float, 2>({rows, 67}, 5, 2);
    Tensor<float, 2> wild = x;
    wild(0, 13) = std::numeric_limits<float>::infinity();
    if (rows > 1) wild(rows - 2, 3) = std::numeric_limits<float>::quiet_NaN();
    const auto usual = packed(x), y = packed(wild), unquantized = weights(wild);
    bool saw_infinity = false;
    for (Index m = 0; m < rows; ++m) {
      const bool is_wild = m == 0 || (rows > 1 && m == rows - 2);
      for (Index n = 0; n < 41; ++n) {
        const float expected = is_wild ? unquantized(m, n) : usual(m, n);
        if (expected != expected) {
          EXPECT_NE(y(m, n), y(m, n));
        } else {
          EXPECT_EQ(y(m, n), expected);
        }
        saw_infinity |= std::isinf(y(m, n));
      }
    }
    EXPECT_TRUE(saw_infinity);
  }
}

TEST(PackedInt8, RowsTooLongForSumsOf32BitsAreRefused) {
  constexpr Index longest = 133144;  // 127 * 127 * longest fits into 31 bits
  const ef::PackedMatrix<ef::int8> fits({1, longest});
  EXPECT_ERROR(ef::PackedMatrix<ef::int8>({1, longest + 1}), std::invalid_argument,
               "PackedMatrix: sums of int8 products hold rows of at most");
  ef::Linear<float> linear({.in_features = longest, .out_features = 1, .bias = false});
  std::fill(linear.weight.begin(), linear.weight.end(), 1.0f);
  ef::Tensor<float, 2> x({1, longest});
  std::fill(x.begin(), x.end(), 1.0f);
  EXPECT_NEAR(ef::pack<ef::Packed<ef::int8>>(linear)(x)(0, 0), float{longest}, 0.1f);
}

TEST(PackedInt8, ALargeRowTimesASmallOneIsNotNan) {
  ef::Linear<float> linear({.in_features = 4, .out_features = 1, .bias = false});
  linear.weight(0, 0) = 1e-3f;
  linear.weight(0, 1) = 1e6f;
  ef::Tensor<float, 2> x({1, 4});
  x(0, 0) = 2e38f;
  EXPECT_TRUE(std::isfinite(ef::pack<ef::Packed<ef::int8>>(linear)(x)(0, 0)));
}

TEST(PackedInt8, AWeightThatIsNotFiniteIsRefused) {
  ef::Linear<float> linear({.in_features = 3, .out_features = 2});
  linear.weight(1, 2) = std::numeric_limits<float>::infinity();
  try {
    ef::pack<ef::Packed<ef::int8>>(linear);
    FAIL() << "nothing thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("inf in row 1 column 2"), std::string::npos)
        << error.what();
  }
}

TEST(Bfloat16, RoundsToTheNearestAndKeepsSpecialNumbers) {
  const auto round = [](float x) { return ef::to_float(ef::to_bfloat16(x)); };
  EXPECT_EQ(round(1.0f), 1.0f);
  EXPECT_EQ(round(1.0f + 0x1p-8f), 1.0f);              // to even
  EXPECT_EQ(round(1.0f + 0x3p-8f), 1.0f + 0x1p-6f);    // to even
  EXPECT_EQ(round(1.0f + 0x1.1p-8f), 1.0f + 0x1p-7f);  // up
  EXPECT_EQ(round(-1.0f - 0x1.1p-8f), -1.0f - 0x1p-7f);
  EXPECT_EQ(round(3.4e38f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round(-std::numeric_limits<float>::infinity()),
            -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace packed_test
