// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace linear_test {

namespace ef = eigenformer;

TEST(GoldenLinear, Float) {
  golden::run_file("linear", 3, {{"Linear", golden::run_rows<ef::Linear<float>>}});
}
TEST(GoldenLinear, Double) {
  golden::run_file("linear", 3, {{"Linear", golden::run_rows<ef::Linear<double>>}});
}

}  // namespace linear_test
