// SPDX-License-Identifier: MIT
// Rows of tables, patches of images, pooling over tokens, sinusoids of positions.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/kernels/embedding.hpp"
#include "eigenformer/kernels/patches.hpp"
#include "eigenformer/kernels/pooling.hpp"
#include "eigenformer/kernels/sinusoidal.hpp"
#include "tests/reference/embeddings.hpp"
#include "tests/reference/error_text.hpp"

namespace lookups_test {

namespace ef = eigenformer;
using ef::Index;
using ef::SinusoidalLayout;
using ef::Tensor;
using reference::Real;

TEST(LookUp, CopiesScalesAndAddsRows) {
  const auto table = reference::random_tensor<float, 2>({7, 13}, 1);
  const std::int32_t ids[] = {6, 0, 3, 3, 6};
  for (bool add : {false, true}) {
    for (Index threads : {1, 3}) {
      ef::ThreadPool pool(threads);
      ef::Workspace workspace(pool);
      const auto before = reference::random_tensor<float, 2>({5, 13}, 2);
      Tensor<float, 2> y(before);
      ef::kernels::look_up<float>(ef::kernels::right_factor(table), ids, 2.0f, add, y, workspace);
      for (Index i = 0; i < 5; ++i) {
        for (Index c = 0; c < 13; ++c) {
          EXPECT_FLOAT_EQ(y(i, c), 2 * table(ids[i], c) + (add ? before(i, c) : 0));
        }
      }
    }
  }
}

TEST(LookUp, RequireIdsNamesTheFirstBadIdAndTheTable) {
  const std::int32_t ids[] = {6, 0, 7, -1};
  try {
    ef::kernels::require_ids("here", ids, 4, 7);
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    for (const char* part : {"here", "7 ", "2", "7 rows"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_ERROR(ef::kernels::require_ids("here", ids + 3, 1, 7), std::invalid_argument,
               "here: id -1 at index 0 is outside the table of 7 rows");
  EXPECT_NO_THROW(ef::kernels::require_ids("here", ids, 2, 7));
  EXPECT_NO_THROW(ef::kernels::require_ids("here", ids, 0, 0));
}

TEST(Patches, AreCutRowByRowAndFlattenedChannelFirst) {
  // Element value = its own index, so that every pixel can be told; height and width leave a rest.
  Tensor<double, 4> images({2, 3, 7, 11});
  for (Index i = 0; i < images.size(); ++i) images.data()[i] = static_cast<double>(i);
  const ef::ImageSize patch{2, 5};
  Tensor<double, 2> patches({2 * 3 * 2, 3 * 2 * 5});
  ef::Workspace workspace;
  ef::kernels::extract_patches<double>(images, patch, patches, workspace);
  for (Index b = 0; b < 2; ++b) {
    for (Index row = 0; row < 3; ++row) {
      for (Index column = 0; column < 2; ++column) {
        for (Index c = 0; c < 3; ++c) {
          for (Index i = 0; i < 2; ++i) {
            for (Index j = 0; j < 5; ++j) {
              EXPECT_EQ(patches((b * 3 + row) * 2 + column, (c * 2 + i) * 5 + j),
                        images(b, c, row * 2 + i, column * 5 + j));
            }
          }
        }
      }
    }
  }
}

TEST(MeanPooling, ByLengthsAndByTokensKept) {
  const auto x = reference::random_tensor<double, 3>({3, 5, 7}, 1);
  const std::vector<std::int64_t> lengths = {5, 2, 0};
  const Tensor<double, 2> y = ef::mean_pooling(x, lengths);
  Tensor<bool, 2> keep({3, 5});
  for (Index b = 0; b < 3; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    for (Index t = 0; t < 5; ++t) keep(b, t) = t < length;
    for (Index c = 0; c < 7; ++c) {
      double sum = 0;
      for (Index t = 0; t < length; ++t) sum += x(b, t, c);
      EXPECT_NEAR(y(b, c), length == 0 ? 0 : sum / static_cast<double>(length), 1e-15);
    }
  }
  EXPECT_TRUE(reference::same_bits(ef::mean_pooling(x, keep), y));
  keep(0, 0) = false;
  EXPECT_NEAR(ef::mean_pooling(x, keep)(0, 3),
              (x(0, 1, 3) + x(0, 2, 3) + x(0, 3, 3) + x(0, 4, 3)) / 4, 1e-15);
}

TEST(MeanPooling, TokensThatTakeNoPartMayHoldAnything) {
  auto x = reference::random_tensor<float, 3>({2, 5, 7}, 1);
  const std::vector<int> lengths = {3, 0};
  const Tensor<float, 2> before = ef::mean_pooling(x, lengths);
  x(0, 3, 0) = x(1, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(reference::same_bits(ef::mean_pooling(x, lengths), before));
}

TEST(MeanPooling, RefusesWhatDoesNotFit) {
  const Tensor<float, 3> x({2, 5, 7});
  for (const std::vector<int>& bad :
       {std::vector<int>{1}, std::vector<int>{6, 1}, std::vector<int>{-1, 1}}) {
    EXPECT_ERROR(ef::mean_pooling(x, bad), std::invalid_argument, "mean_pooling: lengths must be");
  }
  EXPECT_ERROR(ef::mean_pooling(x, Tensor<bool, 2>({5, 2})), std::invalid_argument,
               "mean_pooling: keep: shape must be (2, 5); got (5, 2)");
}

TEST(NormalizeRows, ToLengthOne) {
  for (Index n : {1, 3, 8, 17}) {
    Tensor<double, 2> x = reference::random_tensor<double, 2>({3, n}, 1, 100);
    const Tensor<double, 2> before = x;
    std::fill_n(&x(2, 0), n, 0.0);
    ef::normalize_rows(x);
    for (Index row = 0; row < 2; ++row) {
      double square = 0, product = 0, length = 0;
      for (Index i = 0; i < n; ++i) {
        square += x(row, i) * x(row, i);
        product += x(row, i) * before(row, i);
        length += before(row, i) * before(row, i);
      }
      EXPECT_NEAR(square, 1, 1e-14);
      EXPECT_NEAR(product, std::sqrt(length), 1e-12) << "the direction stays";
    }
    for (Index i = 0; i < n; ++i) EXPECT_EQ(x(2, i), 0) << "a zero row stays zero";
  }
}

TEST(Sinusoidal, EveryLayoutWidthAndPosition) {
  for (SinusoidalLayout layout : {SinusoidalLayout::interleaved, SinusoidalLayout::concatenated,
                                  SinusoidalLayout::tensor2tensor}) {
    for (Index width = 1; width <= 13; ++width) {
      const Index first = 5, count = 40;
      const auto table = ef::sinusoidal_positions<double>(count, width, layout, first);
      ASSERT_EQ(table.shape(), (ef::Shape<2>{count, width}));
      for (Index i = 0; i < count; ++i) {
        for (Index c = 0; c < width; ++c) {
          EXPECT_NEAR(table(i, c),
                      static_cast<double>(reference::sinusoid(layout, Real(first + i), c, width)),
                      1e-13)
              << to_string(layout) << " width " << width << " at " << i << ", " << c;
        }
      }
    }
  }
}

void expect_row(SinusoidalLayout layout, Index position, const std::vector<double>& expected) {
  const auto width = static_cast<Index>(expected.size());
  const auto table = ef::sinusoidal_positions<float>(1, width, layout, position);
  for (Index c = 0; c < width; ++c) {
    EXPECT_NEAR(table(0, c), expected[static_cast<std::size_t>(c)], 1e-6) << to_string(layout);
  }
}

TEST(Sinusoidal, PublishedNumbers) {
  expect_row(SinusoidalLayout::interleaved, 1, {0.8414710, 0.5403023, 0.0099998, 0.9999500});
  expect_row(SinusoidalLayout::interleaved, 1,
             {0.8414710, 0.5403023, 0.0251162, 0.9996845, 0.0006310});
  expect_row(SinusoidalLayout::interleaved, 1, {0.8414710, 0.5403023, 0.0021544});
  expect_row(SinusoidalLayout::interleaved, 1, {0.8414710});
  expect_row(SinusoidalLayout::tensor2tensor, 1, {0.8414710, 0.0001000, 0.5403023, 1.0000000});
  expect_row(SinusoidalLayout::tensor2tensor, 1, {0.8414710, 0.5403023});
  expect_row(SinusoidalLayout::concatenated, 1, {0.8414710, 0.0099998, 0.5403023, 0.9999500});
  // Angles are made in double: cos and sin of a large position.
  expect_row(SinusoidalLayout::interleaved, 15962, {0.418936, -0.908016});
}

TEST(Sinusoidal, RefusesNegativeSizes) {
  EXPECT_ERROR(ef::sinusoidal_positions<float>(-1, 3), std::invalid_argument,
               "sinusoidal_positions: count and width must be >= 0; got -1 and 3");
  EXPECT_ERROR(ef::sinusoidal_positions<float>(3, -1), std::invalid_argument,
               "sinusoidal_positions: count and width must be >= 0; got 3 and -1");
  EXPECT_EQ(ef::sinusoidal_positions<float>(0, 3).shape(), (ef::Shape<2>{0, 3}));
}

TEST(IntegerSequence, TakesIntegersOf32And64Bits) {
  const std::vector<int> ints = {3, -1, 4};
  const std::vector<std::int64_t> wide = {3, std::int64_t{1} << 40};
  const std::array<Index, 2> indices = {5, 6};
  Tensor<std::int32_t, 1> tensor({2});
  tensor(1) = 9;
  EXPECT_EQ(ef::IntegerSequence(ints)[1], -1);
  EXPECT_EQ(ef::IntegerSequence(wide)[1], Index{1} << 40);
  EXPECT_EQ(ef::IntegerSequence(indices)[1], 6);
  EXPECT_EQ(ef::IntegerSequence(tensor)[1], 9);
}

}  // namespace lookups_test
