// SPDX-License-Identifier: MIT
// Rotary positions: angles against a plain implementation and transformers' numbers, the turning
// itself in both layouts.
#include "eigenformer/kernels/rotary.hpp"

#include <gtest/gtest.h>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/positions.hpp"

namespace rotary_test {

namespace ef = eigenformer;
using ef::Index;
using ef::RotaryConfig;
using ef::RotaryLayout;
using ef::RotaryScaling;
using ef::RotaryScalingType;
using ef::Tensor;
using reference::Real;

constexpr RotaryLayout layouts[] = {RotaryLayout::halves, RotaryLayout::interleaved};

/// Rotates x (B, T, heads * head_size); the first token of row b is at offset + first[b].
template <class T>
Tensor<T, 3> rotated(const RotaryConfig& config, Tensor<T, 3> x, Index head_size, Index offset,
                     const std::vector<Index>& first, ef::Workspace& workspace) {
  ef::Scratch scratch(workspace);
  const ef::kernels::RotaryTable<T> table(config, head_size, x.dim(0), x.dim(1), offset,
                                          first.empty() ? nullptr : first.data(), scratch,
                                          workspace);
  table.rotate(x.view().folded(), head_size, workspace);
  return x;
}

template <class T>
Tensor<T, 3> rotated(const RotaryConfig& config, const Tensor<T, 3>& x, Index head_size,
                     Index offset = 0, const std::vector<Index>& first = {}) {
  ef::Workspace workspace;
  return rotated(config, x, head_size, offset, first, workspace);
}

/// One head at one position.
template <class T>
std::vector<T> rotated(const RotaryConfig& config, const std::vector<T>& x, Index position) {
  Tensor<T, 3> head({1, 1, static_cast<Index>(x.size())});
  std::copy(x.begin(), x.end(), head.begin());
  const Tensor<T, 3> y = rotated(config, head, head.size(), position);
  return std::vector<T>(y.begin(), y.end());
}

void expect_values(const std::vector<double>& actual, const std::vector<double>& expected,
                   double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance);
}

std::vector<double> frequencies(const RotaryConfig& config, Index head_size) {
  std::vector<double> f(static_cast<std::size_t>(ef::kernels::rotary_size(config, head_size) / 2));
  ef::kernels::rotary_frequencies(config, head_size, f.data());
  return f;
}

/// One of every kind, for a training context of `context` positions.
std::vector<RotaryScaling> scalings(Index context) {
  return {
      {.type = RotaryScalingType::none},
      {.type = RotaryScalingType::linear, .factor = 4},
      {.type = RotaryScalingType::dynamic,
       .factor = 2,
       .original_max_position_embeddings = context,
       .length = context / 2},
      {.type = RotaryScalingType::dynamic,
       .factor = 3,
       .original_max_position_embeddings = context,
       .length = 2 * context + 17},
      {.type = RotaryScalingType::llama3,
       .factor = 8,
       .original_max_position_embeddings = context,
       .low_freq_factor = 1.5,
       .high_freq_factor = 5},
      {.type = RotaryScalingType::yarn, .factor = 4, .original_max_position_embeddings = context},
      {.type = RotaryScalingType::yarn,
       .factor = 5,
       .original_max_position_embeddings = context,
       .beta_fast = 7,
       .beta_slow = 2,
       .attention_factor = 0.7}};
}

TEST(RotaryFrequencies, AgainstThePlainFormulas) {
  for (double theta : {10000.0, 500000.0, 137.0}) {
    for (Index context : {53, 512, 8192}) {
      for (const RotaryScaling& scaling : scalings(context)) {
        for (Index size : {4, 6, 14, 32, 62, 128}) {
          const RotaryConfig config{.rope_theta = theta, .rope_scaling = scaling};
          const auto expected = reference::rotary_frequencies(config, size);
          const auto actual = frequencies(config, size);
          ASSERT_EQ(actual.size(), expected.size());
          for (std::size_t i = 0; i < actual.size(); ++i) {
            ASSERT_LT(std::abs(Real(actual[i]) / expected[i] - 1), 1e-14L)
                << "theta " << theta << ", context " << context << ", size " << size << ", type "
                << static_cast<int>(scaling.type) << ", pair " << i;
          }
        }
      }
    }
  }
}

// inv_freq of transformers' ROPE_INIT_FUNCTIONS, in float.
TEST(RotaryFrequencies, AreThoseOfTransformers) {
  const auto compare = [](const RotaryScaling& scaling, const std::vector<double>& expected) {
    const auto actual =
        frequencies({.rope_scaling = scaling}, 2 * static_cast<Index>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i] / expected[i], 1, 4e-7)
          << "type " << static_cast<int>(scaling.type) << ", pair " << i;
    }
  };
  compare({.type = RotaryScalingType::linear, .factor = 4},
          {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
           0.000250000012, 7.90569466e-05});
  compare({.type = RotaryScalingType::dynamic,
           .factor = 2,
           .original_max_position_embeddings = 64,
           .length = 150},
          {1, 0.262445003, 0.0688773692, 0.0180765204, 0.004744092, 0.00124506326, 0.000326760608,
           8.57566774e-05});
  compare({.type = RotaryScalingType::llama3, .factor = 8, .original_max_position_embeddings = 64},
          {1, 0.244384587, 0.0130422562, 0.00395284733, 0.00124999997, 0.000395284733,
           0.000125000006, 3.95284733e-05});
  const RotaryScaling yarn{
      .type = RotaryScalingType::yarn, .factor = 4, .original_max_position_embeddings = 512};
  compare(yarn, {1, 0.562341332, 0.282346219, 0.139721945, 0.0678571388, 0.0321337879, 0.0146820042,
                 0.00635099784, 0.00249999994, 0.00140585331, 0.000790569466, 0.000444569858,
                 0.000250000012, 0.000140585325, 7.90569466e-05, 4.44569851e-05});
  EXPECT_NEAR(ef::kernels::rotary_amplitude({.rope_scaling = yarn}), 1.138629436111989, 1e-15);
}

TEST(RotaryFrequencies, FieldsOfOtherScalingsDoNotCount) {
  const auto plain = frequencies({}, 14);
  const RotaryScaling unused{.type = RotaryScalingType::none,
                             .factor = 7,
                             .original_max_position_embeddings = 3,
                             .attention_factor = 5,
                             .length = 1000};
  EXPECT_EQ(frequencies({.rope_scaling = unused}, 14), plain);
  for (const RotaryScaling& scaling : scalings(64)) {
    RotaryScaling own = scaling;
    own.attention_factor = 0.3;
    EXPECT_EQ(ef::kernels::rotary_amplitude({.rope_scaling = own}),
              own.type == RotaryScalingType::yarn ? 0.3 : 1.0);
  }
}

template <class T>
class RotaryTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RotaryTest, Scalars);

TYPED_TEST(RotaryTest, AgainstPlainLoops) {
  using T = TypeParam;
  for (const RotaryLayout layout : layouts) {
    for (const auto& [size, part] :
         {std::pair<Index, double>{2, 1}, {10, 1}, {14, 0.6}, {62, 1}, {64, 0.25}}) {
      for (const RotaryScaling& scaling : scalings(97)) {
        const RotaryConfig config{
            .partial_rotary_factor = part, .layout = layout, .rope_scaling = scaling};
        if (scaling.type == RotaryScalingType::dynamic && size == 2) continue;
        const auto x = reference::random_tensor<T, 3>({2, 5, 3 * size}, 7);
        const std::vector<Index> first = {4, 1000};
        reference::Reals<3> expected = reference::widen(x);
        for (Index b = 0; b < 2; ++b) {
          for (Index t = 0; t < 5; ++t) {
            for (Index head = 0; head < 3; ++head) {
              reference::rotate(config, &expected(b, t, head * size), size,
                                2 + first[static_cast<std::size_t>(b)] + t);
            }
          }
        }
        // Two products and the rounding of the table; angles of 1000 are off by 1e-13 at most.
        const Real tolerance = 4 * Real(std::numeric_limits<T>::epsilon()) + 1e-12L;
        const Tensor<T, 3> y = rotated(config, x, size, 2, first);
        ASSERT_TRUE(reference::near(y, expected, tolerance))
            << "size " << size << ", part " << part << ", type " << static_cast<int>(scaling.type);
        // The rest of a head is left alone.
        const auto r = static_cast<Index>(part * double(size));
        for (Index i = 0; i < x.size(); ++i) {
          if (i % size >= r) {
            ASSERT_EQ(x.data()[i], y.data()[i]);
          }
        }
      }
    }
  }
}

TYPED_TEST(RotaryTest, BatchRowsHaveOffsetsOfTheirOwn) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({3, 7, 22}, 3);
  const std::vector<Index> first = {0, 131, 17};
  for (const RotaryLayout layout : layouts) {
    const RotaryConfig config{.layout = layout};
    const Tensor<T, 3> y = rotated(config, x, 22, 5, first);
    for (Index b = 0; b < 3; ++b) {
      Tensor<T, 3> row({1, 7, 22});
      std::copy_n(&x(b, 0, 0), row.size(), row.data());
      row = rotated(config, row, 22, 5 + first[static_cast<std::size_t>(b)]);
      EXPECT_TRUE(reference::same_bits(row.data(), &y(b, 0, 0), row.size())) << b;
      // Token by token, as in decoding.
      for (Index t = 0; t < 7; ++t) {
        Tensor<T, 3> token({1, 1, 22});
        std::copy_n(&x(b, t, 0), token.size(), token.data());
        token = rotated(config, token, 22, t, {5 + first[static_cast<std::size_t>(b)]});
        EXPECT_TRUE(reference::same_bits(token.data(), &y(b, t, 0), token.size())) << b << t;
      }
    }
    EXPECT_TRUE(
        reference::same_bits(rotated(config, x, 22, 5, {9, 9, 9}), rotated(config, x, 22, 14)));
  }
}

TYPED_TEST(RotaryTest, PositionZeroIsTheIdentity) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({2, 1, 3 * 22}, 3);
  for (const RotaryLayout layout : layouts) {
    EXPECT_TRUE(reference::same_bits(rotated({.layout = layout}, x, 22), x));
    EXPECT_FALSE(reference::same_bits(rotated({.layout = layout}, x, 22, 1), x));
  }
}

TYPED_TEST(RotaryTest, PairsKeepTheirNorm) {
  using T = TypeParam;
  const Index size = 22;
  const auto x = reference::random_tensor<T, 3>({1, 113, size}, 3);
  for (const RotaryLayout layout : layouts) {
    for (Index offset : {0, 99991}) {
      const Tensor<T, 3> y = rotated({.layout = layout}, x, size, offset);
      for (Index t = 0; t < 113; ++t) {
        for (Index i = 0; i < size / 2; ++i) {
          const Index a = layout == RotaryLayout::halves ? i : 2 * i;
          const Index b = layout == RotaryLayout::halves ? i + size / 2 : 2 * i + 1;
          const Real before = std::hypot(Real(x(0, t, a)), Real(x(0, t, b)));
          const Real after = std::hypot(Real(y(0, t, a)), Real(y(0, t, b)));
          ASSERT_NEAR(double(after / before), 1, 4 * double(std::numeric_limits<T>::epsilon()));
        }
      }
    }
  }
}

TYPED_TEST(RotaryTest, ProductsDependOnTheDifferenceOfPositionsAlone) {
  using T = TypeParam;
  const Index size = 22;
  const auto q = reference::random_tensor<T, 3>({1, 1, size}, 3);
  const auto k = reference::random_tensor<T, 3>({1, 1, size}, 4);
  for (const RotaryLayout layout : layouts) {
    const auto product = [&](Index at_q, Index at_k) {
      const Tensor<T, 3> a = rotated({.layout = layout}, q, size, at_q);
      const Tensor<T, 3> b = rotated({.layout = layout}, k, size, at_k);
      double sum = 0;
      for (Index i = 0; i < size; ++i) sum += double(a.data()[i]) * double(b.data()[i]);
      return sum;
    };
    // Sums of 22 products of numbers below 1.5; angles of 1e5 are off by 1e-11.
    const double tolerance = 22 * 4 * double(std::numeric_limits<T>::epsilon()) + 1e-9;
    for (Index difference : {0, 1, 5, 37}) {
      const double expected = product(difference, 0);
      for (Index shift : {1, 7, 256, 15962, 100003}) {
        EXPECT_NEAR(product(difference + shift, shift), expected, tolerance)
            << difference << " at " << shift;
      }
    }
    EXPECT_GT(std::abs(product(5, 0) - product(6, 0)), 1e-3);
    EXPECT_GT(std::abs(product(5, 0) - product(0, 5)), 1e-3);
  }
}

TYPED_TEST(RotaryTest, LayoutsArePermutationsOfEachOther) {
  using T = TypeParam;
  const Index size = 38;
  const auto x = reference::random_tensor<T, 3>({2, 5, size}, 3);
  Tensor<T, 3> paired(x.shape());
  const auto other = [&](Index i) { return i < size / 2 ? 2 * i : 2 * (i - size / 2) + 1; };
  const auto permuted = [&](const Tensor<T, 3>& from, bool back) {
    Tensor<T, 3> to(from.shape());
    for (Index i = 0; i < from.size(); ++i) {
      const Index begin = i / size * size, at = begin + other(i % size);
      to.data()[back ? i : at] = from.data()[back ? at : i];
    }
    return to;
  };
  const Tensor<T, 3> interleaved =
      rotated({.layout = RotaryLayout::interleaved}, permuted(x, false), size, 11);
  EXPECT_TRUE(reference::same_bits(permuted(interleaved, true),
                                   rotated({.layout = RotaryLayout::halves}, x, size, 11)));
}

TYPED_TEST(RotaryTest, PublishedNumbers) {
  using T = TypeParam;
  const double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-10;
  const auto compare = [&](RotaryLayout layout, Index position,
                           const std::vector<double>& expected) {
    const std::vector<T> y = rotated<T>({.layout = layout}, {1, 2, 3, 4}, position);
    expect_values(std::vector<double>(y.begin(), y.end()), expected, tolerance);
  };
  compare(RotaryLayout::interleaved, 1, {-1.1426396637, 1.9220755965, 2.9598506679, 4.0297995017});
  compare(RotaryLayout::halves, 1, {-1.9841106486, 1.9599006675, 2.4623779024, 4.0197996683});
  compare(RotaryLayout::interleaved, 3, {-1.2722325127, -1.8388649851, 2.8786681004, 4.0881866356});
  compare(RotaryLayout::halves, 3, {-1.4133525208, 1.8791180667, -2.8288574817, 4.0581911354});

  // Factor 2 halves positions, not the other way round.
  const RotaryConfig linear{.layout = RotaryLayout::interleaved,
                            .rope_scaling = {.type = RotaryScalingType::linear, .factor = 2}};
  const std::vector<T> y = rotated<T>(linear, {1, 0, 1, 0}, 6);
  expect_values(std::vector<double>(y.begin(), y.end()), {-0.989992, 0.141120, 0.999550, 0.029996},
                1e-6);
  EXPECT_EQ(rotated<T>(linear, {1, 0, 1, 0}, 6),
            rotated<T>({.layout = RotaryLayout::interleaved}, {1, 0, 1, 0}, 3));
}

// Angles made in a short number format would alias from position 257 on.
TYPED_TEST(RotaryTest, DistantPositionsAreExact) {
  using T = TypeParam;
  const auto unit = [](Index position) { return rotated<T>({}, {1, 0}, position); };
  EXPECT_NEAR(unit(257)[0], 0.819306, 1e-6);
  EXPECT_NEAR(unit(15962)[0], -0.908016, 1e-6);
  EXPECT_NEAR(unit(15962)[1], 0.418936, 1e-6);
  for (Index position : {Index{100000}, Index{1000003}, Index{16777217}}) {
    EXPECT_LE(reference::units_in_last_place(unit(position)[0], std::cos(Real(position))), 0.51L);
    EXPECT_LE(reference::units_in_last_place(unit(position)[1], std::sin(Real(position))), 0.51L);
  }
}

TEST(Rotary, ThreadsDoNotChangeBits) {
  const auto x = reference::random_tensor<float, 3>({3, 101, 6 * 22}, 3);
  const std::vector<Index> first = {0, 131, 17};
  const Tensor<float, 3> alone = rotated({}, x, 22, 0, first);
  for (Index threads : {2, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    EXPECT_TRUE(reference::same_bits(rotated({}, x, 22, 0, first, workspace), alone)) << threads;
  }
}

TEST(Rotary, RefusesWhatMakesNoSense) {
  const auto refused = [](const RotaryConfig& config, Index size, const std::string& text) {
    try {
      ef::kernels::require_valid_rotary(config, size);
      ADD_FAILURE() << "nothing thrown for " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused({.rope_theta = 0}, 8, "rope_theta");
  refused({.rope_theta = nan}, 8, "rope_theta");
  refused({.partial_rotary_factor = 0}, 8, "(0, 1]; got 0");
  refused({.partial_rotary_factor = 1.5}, 8, "(0, 1]; got 1.5");
  refused({.partial_rotary_factor = nan}, 8, "partial_rotary_factor");
  refused({}, 7, "7 of 7");
  refused({.partial_rotary_factor = 0.25}, 12, "3 of 12");
  refused({.partial_rotary_factor = 0.1}, 8, "0 of 8");
  const auto scaled = [](const RotaryScaling& scaling) {
    return RotaryConfig{.rope_scaling = scaling};
  };
  refused(scaled({.type = RotaryScalingType::linear, .factor = 0.5}), 8, "rope_scaling.factor");
  refused(scaled({.type = RotaryScalingType::linear, .factor = nan}), 8, "rope_scaling.factor");
  for (const auto type :
       {RotaryScalingType::dynamic, RotaryScalingType::llama3, RotaryScalingType::yarn}) {
    refused(scaled({.type = type, .factor = 2}), 8, "original_max_position_embeddings");
  }
  refused(scaled({.type = RotaryScalingType::dynamic, .original_max_position_embeddings = 5}), 2,
          "more than 2");
  refused(scaled({.type = RotaryScalingType::dynamic,
                  .original_max_position_embeddings = 5,
                  .length = -3}),
          8, "got -3");
  refused(scaled({.type = RotaryScalingType::llama3,
                  .original_max_position_embeddings = 5,
                  .low_freq_factor = 4}),
          8, "got 4 and 4");
  refused(scaled({.type = RotaryScalingType::yarn,
                  .original_max_position_embeddings = 5,
                  .beta_slow = 32}),
          8, "got 32 and 32");
  for (const RotaryScaling& scaling : scalings(64)) {
    EXPECT_NO_THROW(ef::kernels::require_valid_rotary(scaled(scaling), 8));
  }
}

}  // namespace rotary_test
