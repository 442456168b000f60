// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/sampling.hpp"

#include "tests/golden/golden.hpp"

namespace sampling_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

struct Filters {
  ef::SamplingConfig config;
};
void read_fields(golden::Fields& read, Filters& c) {
  c.config.do_sample = true;
  read("repetition_penalty", c.config.repetition_penalty);
  read("temperature", c.config.temperature);
  read("top_k", c.config.top_k);
  read("top_p", c.config.top_p);
  read("min_p", c.config.min_p);
}

/// Which ids of a row remain, and their log-probabilities.
template <class T>
void run_sampling(golden::Case& test) {
  const auto config = test.config<Filters>().config;
  Tensor<T, 2> logits = test.input<T, 2>("logits");
  const auto previous = test.input<std::int32_t, 2>("previous");
  const auto lengths = test.key_lengths();
  const auto kept = test.exact_output<bool, 2>("kept");
  ef::Workspace workspace;
  for (Index b = 0; b < logits.dim(0); ++b) {
    const std::span<const std::int32_t> tokens(
        &previous(b, 0), static_cast<std::size_t>(lengths[static_cast<std::size_t>(b)]));
    ef::choose_token(logits.view()[b], tokens, config, 0.5, workspace.arena());
    double sum = 0;
    for (Index i = 0; i < logits.dim(1); ++i) sum += std::exp(static_cast<double>(logits(b, i)));
    for (Index i = 0; i < logits.dim(1); ++i) {
      EXPECT_EQ(std::isfinite(logits(b, i)), kept(b, i)) << b << ' ' << i;
      logits(b, i) =
          kept(b, i) ? static_cast<T>(static_cast<double>(logits(b, i)) - std::log(sum)) : T(0);
    }
  }
  const auto wanted = test.output<2>("log_probability");
  const double largest = golden::largest_magnitude(wanted.data(), wanted.size());
  test.expect_near("log_probability", logits, wanted,
                   [&](Index) { return std::max(largest, 1.0); });
}

template <class T>
void run_file() {
  golden::run_file("sampling", 16, {{"Sampling", run_sampling<T>}});
}

TEST(GoldenSampling, Float) { run_file<float>(); }
TEST(GoldenSampling, Double) { run_file<double>(); }

}  // namespace sampling_test
