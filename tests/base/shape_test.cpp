// SPDX-License-Identifier: MIT
#include "eigenformer/base/shape.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/reference/error_text.hpp"

namespace shape_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Shape;

constexpr Index largest = std::numeric_limits<Index>::max();

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Shape, SizeIsTheProductOfTheExtents) {
  EXPECT_EQ((Shape<3>{2, 3, 5}.size()), 30);
  EXPECT_EQ((Shape<2>{7, 0}.size()), 0);
  EXPECT_EQ(Shape<1>{11}.size(), 11);
  static_assert(Shape<2>{3, 4}.size() == 12);
}

TEST(Shape, ComparesExtentByExtent) {
  EXPECT_EQ((Shape<2>{3, 4}), (Shape<2>{3, 4}));
  EXPECT_NE((Shape<2>{3, 4}), (Shape<2>{4, 3}));
  EXPECT_EQ(Shape<2>{}, (Shape<2>{0, 0}));
}

TEST(Shape, Prints) {
  EXPECT_EQ(to_string(Shape<1>{5}), "(5)");
  EXPECT_EQ(to_string(Shape<4>{2, 3, 0, 7}), "(2, 3, 0, 7)");
}

TEST(Shape, RequireShapeNamesBoth) {
  EXPECT_EQ(text_of([] {
              ef::require_shape("here", Shape<2>{2, 3}, Shape<2>{2, 5});
            }),
            "here: shape must be (2, 5); got (2, 3)");
  EXPECT_NO_THROW(ef::require_shape("here", Shape<2>{2, 3}, Shape<2>{2, 3}));
}

TEST(Shape, RefusesNegativeExtents) {
  EXPECT_NE(text_of([] {
              ef::require_valid(Shape<2>{3, -1}, 4);
            }).find("(3, -1)"),
            std::string::npos);
  EXPECT_ERROR(ef::require_valid(Shape<2>{-3, -3}, 1), std::invalid_argument,
               "Tensor: extents must be >= 0; got (-3, -3)");
}

TEST(Shape, RefusesSizesThatDoNotFit) {
  EXPECT_NO_THROW(ef::require_valid(Shape<1>{largest}, 1));
  EXPECT_ERROR(ef::require_valid(Shape<1>{largest}, 2), std::invalid_argument,
               "Tensor: too many elements to address; got (9223372036854775807)");
  EXPECT_ERROR(ef::require_valid(Shape<2>{Index{1} << 32, Index{1} << 32}, 1),
               std::invalid_argument, "Tensor: too many elements to address; got (4294967296,");
  EXPECT_ERROR(ef::require_valid(Shape<3>{Index{1} << 31, Index{1} << 31, 4}, 1),
               std::invalid_argument, "Tensor: too many elements to address; got (2147483648,");
  EXPECT_NO_THROW(ef::require_valid(Shape<3>{Index{1} << 31, Index{1} << 29, 1}, 4));
  EXPECT_ERROR(ef::require_valid(Shape<3>{Index{1} << 31, Index{1} << 30, 1}, 4),
               std::invalid_argument, "Tensor: too many elements to address; got (2147483648,");
}

TEST(Error, JoinsItsParts) {
  EXPECT_EQ(text_of([] {
              ef::require(false, "who: ", 7, " and ", true, " and ", 1e-5, " and ", Shape<1>{3});
            }),
            "who: 7 and true and 1e-05 and (3)");
  EXPECT_NO_THROW(ef::require(true, "never"));
}

}  // namespace shape_test
