// SPDX-License-Identifier: MIT
// The two counters by which "the second call allocates nothing" is judged do count.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "eigenformer/base/tensor.hpp"
#include "tests/reference/counting_new.hpp"

namespace {

TEST(Allocations, AreCounted) {
  const long before = reference::allocations();
  const auto one = std::make_unique<int>(1);
  EXPECT_NE(one, nullptr);
  EXPECT_EQ(reference::allocations(), before + 1);
  const eigenformer::Tensor<float, 1> tensor({100});  // aligned new
  EXPECT_EQ(reference::allocations(), before + 2);
  std::vector<double> array(100);
  EXPECT_NE(array.data(), nullptr);
  EXPECT_EQ(reference::allocations(), before + 3);
}

TEST(AllocationsDeathTest, EigensOwnAreForbiddenByItsSwitch) {
  EXPECT_DEATH(
      {
        Eigen::internal::set_is_malloc_allowed(false);
        Eigen::MatrixXf matrix(100, 100);
        matrix.setZero();
      },
      "heap allocation is forbidden");
}

}  // namespace
