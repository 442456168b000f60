// SPDX-License-Identifier: MIT
#include "tests/golden/runners.hpp"

namespace encoder_layer_test {

namespace ef = eigenformer;

template <class T>
void run_plain(const std::string& file) {
  golden::run_file(file, 17, {{"EncoderLayer", golden::run_masked<ef::EncoderLayer<T>>}});
}

TEST(GoldenEncoderLayerPre, Float) { run_plain<float>("encoder_layer_pre"); }
TEST(GoldenEncoderLayerPre, Double) { run_plain<double>("encoder_layer_pre"); }

TEST(GoldenEncoderLayerPost, Float) { run_plain<float>("encoder_layer_post"); }
TEST(GoldenEncoderLayerPost, Double) { run_plain<double>("encoder_layer_post"); }

template <class T>
using GatedLayer = ef::EncoderLayer<T, ef::RMSNorm, ef::GatedFeedForward>;

template <class T>
void run_gated() {
  golden::run_file(
      "encoder_layer_gated", 8,
      {{"EncoderLayer<RMSNorm, GatedFeedForward>", golden::run_masked<GatedLayer<T>>}});
}

TEST(GoldenEncoderLayerGated, Float) { run_gated<float>(); }
TEST(GoldenEncoderLayerGated, Double) { run_gated<double>(); }

}  // namespace encoder_layer_test
