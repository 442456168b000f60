// SPDX-License-Identifier: MIT
#include "tests/golden/golden.hpp"

namespace patch_embedding_test {

namespace ef = eigenformer;

template <class T>
void run_patch_embedding(golden::Case& test) {
  const auto patches = test.module<ef::PatchEmbedding<T>>();
  test.expect("y", patches(test.input<T, 4>("images")));
}

TEST(GoldenPatchEmbedding, Float) {
  golden::run_file("patch_embedding", 5, {{"PatchEmbedding", run_patch_embedding<float>}});
}
TEST(GoldenPatchEmbedding, Double) {
  golden::run_file("patch_embedding", 5, {{"PatchEmbedding", run_patch_embedding<double>}});
}

}  // namespace patch_embedding_test
