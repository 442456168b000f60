// SPDX-License-Identifier: MIT

// Models called from OpenMP's threads, in a program compiled with OpenMP, where Eigen itself
// would start threads: the serial bits, and no change to the process's numbers of threads.

#include <omp.h>

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace {

/// OpenMP as an executor of the library's own.
struct OpenMPExecutor {
  Index concurrency() const { return omp_get_max_threads(); }
  void parallel_for(Index n, FunctionReference<void(Index)> f) {
#pragma omp parallel for schedule(dynamic)
    for (Index i = 0; i < n; ++i) f(i);
  }
};

TEST(OpenMPFaults, CallersThreads) {
  EncoderStack<float> stack({.hidden_size = 24,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 3,
                             .intermediate_size = 67});
  values::randomize(stack, 1);
  std::vector<Tensor<float, 3>> inputs, expected;
  for (std::uint64_t i = 0; i < 8; ++i) {
    inputs.push_back(values::random<float>(Shape<3>{2, 67, 24}, i));
    expected.push_back(stack(inputs.back()));
  }
  omp_set_num_threads(3);
  Eigen::setNbThreads(2);
  const int limit = omp_get_max_threads();
  std::vector<Tensor<float, 3>> results(8);
  int largest_team = 0;
#pragma omp parallel for reduction(max : largest_team)
  for (int i = 0; i < 8; ++i) {
    results[static_cast<std::size_t>(i)] = stack(inputs[static_cast<std::size_t>(i)]);
    largest_team = omp_get_num_threads();
  }
  EXPECT_EQ(results, expected);
  EXPECT_LE(largest_team, limit);
  EXPECT_EQ(Eigen::nbThreads(), 2);
  EXPECT_EQ(omp_get_max_threads(), limit);
}

TEST(OpenMPFaults, OpenMPAsExecutor) {
  EncoderLayer<float> layer({.hidden_size = 48, .num_attention_heads = 3, .intermediate_size = 97});
  values::randomize(layer, 2);
  const auto x = values::random<float>(Shape<3>{2, 131, 48}, 3);
  omp_set_num_threads(3);
  OpenMPExecutor executor;
  Workspace workspace(executor);
  EXPECT_EQ(workspace.concurrency(), 3);
  Tensor<float, 3> y(x.shape());
  for (int repeat = 0; repeat < 5; ++repeat) {
    layer.forward(x, {}, y, workspace);
    EXPECT_EQ(y, layer(x));
  }
}

}  // namespace
}  // namespace eigenformer
