// SPDX-License-Identifier: MIT

// The generator behind the seeded examples gives numpy's own numbers.

#include "tests/spec/numpy_random.hpp"

#include <gtest/gtest.h>

namespace numpy_random_test {

TEST(NumpyRandom, NormalNumbersOfSeed0And42) {
  NumpyRandom zero(0);
  EXPECT_DOUBLE_EQ(zero.normal(), 1.764052345967664);
  EXPECT_DOUBLE_EQ(zero.normal(), 0.4001572083672233);
  EXPECT_DOUBLE_EQ(zero.normal(), 0.9787379841057392);
  EXPECT_DOUBLE_EQ(zero.normal(), 2.240893199201458);
  NumpyRandom forty_two(42);
  EXPECT_DOUBLE_EQ(forty_two.normal(), 0.4967141530112327);
  EXPECT_DOUBLE_EQ(forty_two.normal(), -0.13826430117118466);
}

// np.random.seed(7); randint(3, 20, 12); permutation(11); rand(3)
TEST(NumpyRandom, IntegersPermutationAndUniformNumbersInOneStream) {
  NumpyRandom random(7);
  for (std::int64_t expected : {18, 7, 6, 10, 17, 11, 17, 13, 11, 10, 9, 7})
    EXPECT_EQ(random.integer(3, 20), expected);
  EXPECT_EQ(random.permutation(11), (std::vector<Eigen::Index>{6, 5, 1, 8, 4, 9, 2, 3, 10, 7, 0}));
  EXPECT_DOUBLE_EQ(random.uniform(), 0.9312060196890217);
  EXPECT_DOUBLE_EQ(random.uniform(), 0.024899227550348013);
  EXPECT_DOUBLE_EQ(random.uniform(), 0.6005489174641225);
}

TEST(NumpyRandom, ArraysAreFilledRowByRow) {
  NumpyRandom a(3), b(3);
  const auto array = a.randn<double>(eigenformer::Shape<2>{2, 3}, 0.5);
  for (Eigen::Index i = 0; i < 2; ++i)
    for (Eigen::Index j = 0; j < 3; ++j) EXPECT_EQ(array(i, j), b.normal() * 0.5);
}

}  // namespace numpy_random_test
