// SPDX-License-Identifier: MIT
// The two counters by which "the second call allocates nothing" is judged do count.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "tests/reference/counting_new.hpp"

namespace allocations_test {

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

TEST(Allocations, SequencesNeedNoneTheSecondTime) {
  namespace ef = eigenformer;
  ef::MultiHeadAttention<float> attention(
      {.hidden_size = 24,
       .num_attention_heads = 4,
       .attention_positions = {.kind = ef::AttentionPosition::rotary}});
  ef::init(attention, ef::Key{1});
  const ef::Tensor<float, 3> x({1, 20, 24});
  const std::vector<ef::Index> lengths = {7, 0, 13};
  ef::Tensor<float, 3> y(x.shape());
  ef::Workspace workspace;
  attention.forward(x, {.sequence_lengths = lengths}, y, workspace);
  const long before = reference::allocations();
  attention.forward(x, {.sequence_lengths = lengths}, y, workspace);
  EXPECT_EQ(reference::allocations(), before);
}

}  // namespace allocations_test
