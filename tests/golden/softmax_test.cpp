// SPDX-License-Identifier: MIT
#include "tests/golden/golden.hpp"

namespace softmax_test {

namespace ef = eigenformer;

struct NoFields {};
void read_fields(golden::Fields&, NoFields&) {}

template <class T>
void run_softmax(golden::Case& test) {
  test.config<NoFields>();
  test.expect("y", ef::softmax(test.input<T, 3>("x")));
}

struct Fill {
  double fill = 0;
};
void read_fields(golden::Fields& read, Fill& c) { read("fill", c.fill); }

template <class T>
void run_masked_softmax(golden::Case& test) {
  const auto fill = static_cast<T>(test.config<Fill>().fill);
  const auto lengths = test.key_lengths();
  test.expect("y", ef::masked_softmax(test.input<T, 3>("x"), lengths, fill));
}

template <class T>
void run_file() {
  golden::run_file("softmax", 8,
                   {{"Softmax", run_softmax<T>}, {"MaskedSoftmax", run_masked_softmax<T>}});
}

TEST(GoldenSoftmax, Float) { run_file<float>(); }
TEST(GoldenSoftmax, Double) { run_file<double>(); }

}  // namespace softmax_test
