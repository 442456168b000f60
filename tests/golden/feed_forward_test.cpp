// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace feed_forward_test {

namespace ef = eigenformer;

TEST(GoldenFeedForward, Float) {
  golden::run_file("feed_forward", 9, {{"FeedForward", golden::run_rows<ef::FeedForward<float>>}});
}
TEST(GoldenFeedForward, Double) {
  golden::run_file("feed_forward", 9, {{"FeedForward", golden::run_rows<ef::FeedForward<double>>}});
}

TEST(GoldenGatedFeedForward, Float) {
  golden::run_file("gated_feed_forward", 12,
                   {{"GatedFeedForward", golden::run_rows<ef::GatedFeedForward<float>>}});
}
TEST(GoldenGatedFeedForward, Double) {
  golden::run_file("gated_feed_forward", 12,
                   {{"GatedFeedForward", golden::run_rows<ef::GatedFeedForward<double>>}});
}

}  // namespace feed_forward_test
