// SPDX-License-Identifier: MIT
#include "tests/golden/golden.hpp"

namespace pooling_test {

namespace ef = eigenformer;

struct Pooling {
  bool normalize = false;
};
void read_fields(golden::Fields& read, Pooling& c) { read("normalize", c.normalize); }

template <class T>
ef::Tensor<T, 2> pooled(golden::Case& test) {
  const auto x = test.input<T, 3>("x");
  if (test.has_mask("key_allowed")) return ef::mean_pooling(x, test.key_allowed());
  if (test.has_mask("key_lengths")) return ef::mean_pooling(x, test.key_lengths());
  return ef::mean_pooling(x, std::vector<ef::Index>(static_cast<std::size_t>(x.dim(0)), x.dim(1)));
}

template <class T>
void run_mean_pooling(golden::Case& test) {
  ef::Tensor<T, 2> y = pooled<T>(test);
  if (test.config<Pooling>().normalize) ef::normalize_rows(y);
  test.expect("y", y);
}

TEST(GoldenPooling, Float) {
  golden::run_file("pooling", 8, {{"mean_pooling", run_mean_pooling<float>}});
}
TEST(GoldenPooling, Double) {
  golden::run_file("pooling", 8, {{"mean_pooling", run_mean_pooling<double>}});
}

}  // namespace pooling_test
