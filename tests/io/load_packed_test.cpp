// SPDX-License-Identifier: MIT
// Checkpoints read straight into packed formats: what packing the loaded plain module gives.

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include "eigenformer/io/load.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"
#include "tests/io/file_builder.hpp"

namespace load_packed_test {

namespace ef = eigenformer;
using ef::Index;

template <class Element>
class LoadPackedTest : public ::testing::Test {};
using Elements = ::testing::Types<float, double, ef::bfloat16, ef::int8, ef::int8_weights>;
TYPED_TEST_SUITE(LoadPackedTest, Elements);

TYPED_TEST(LoadPackedTest, IsThePackedPlainModule) {
  using Format = ef::Packed<TypeParam>;
  using T = ef::ScalarOf<Format>;
  const test::TemporaryFolder folder;
  const auto path = folder / "linear";
  for (const ef::LinearConfig& config :
       {ef::LinearConfig{.in_features = 1, .out_features = 1},
        ef::LinearConfig{.in_features = 29, .out_features = 37},
        ef::LinearConfig{.in_features = 211, .out_features = 17, .bias = false},
        ef::LinearConfig{.in_features = 3001, .out_features = 5}}) {
    ef::Linear<T> plain(config);
    ef::init(plain, ef::Key{1});
    ef::save(plain, path);
    const auto packed = ef::pack<Format>(plain);
    for (const bool in_place : {false, true}) {
      ef::Linear<Format> read(config);
      ef::load(read, path, {.in_place = in_place});
      EXPECT_TRUE(ef::parameters_equal(read, packed)) << config.in_features;
    }
  }
}

// As GPT-2 stores its matrices.
TYPED_TEST(LoadPackedTest, TransposedMatricesToo) {
  using Format = ef::Packed<TypeParam>;
  using T = ef::ScalarOf<Format>;
  const test::TemporaryFolder folder;
  const auto path = folder / "linear";
  const ef::LinearConfig config{.in_features = 29, .out_features = 37};
  ef::Linear<T> plain(config);
  ef::init(plain, ef::Key{2});
  ef::Tensor<T, 2> transposed({29, 37});
  transposed.matrix() = plain.weight.matrix().transpose();
  ef::write_safetensors(path, {{"weight", transposed}, {"bias", plain.bias}});
  ef::Checkpoint checkpoint(path);
  ef::Linear<Format> read(config);
  const ef::KeyMap map{
      .rows = {{.stored = "weight", .own = "weight", .transpose = true}, {"bias", "bias"}}};
  ef::load(read, checkpoint, map);
  EXPECT_TRUE(ef::parameters_equal(read, ef::pack<Format>(plain)));
}

TYPED_TEST(LoadPackedTest, PiecesAreJoined) {
  using Format = ef::Packed<TypeParam>;
  using T = ef::ScalarOf<Format>;
  const test::TemporaryFolder folder;
  const auto path = folder / "linear";
  for (const Index inputs : {29, 3001}) {
    const ef::LinearConfig config{.in_features = inputs, .out_features = 40};
    ef::Linear<T> plain(config);
    ef::init(plain, ef::Key{2});
    ef::Tensor<T, 2> first({20, inputs}), second({20, inputs});
    first.matrix() = plain.weight.matrix().topRows(20);
    second.matrix() = plain.weight.matrix().bottomRows(20);
    ef::write_safetensors(
        path, {{"heads.0.weight", first}, {"heads.1.weight", second}, {"bias", plain.bias}});
    ef::Checkpoint checkpoint(path);
    ef::Linear<Format> read(config);
    const ef::KeyMap map{.rows = {{"heads.#.weight", "weight"}, {"bias", "bias"}}};
    ef::load(read, checkpoint, map);
    EXPECT_TRUE(ef::parameters_equal(read, ef::pack<Format>(plain)));
  }
}

TYPED_TEST(LoadPackedTest, WhatInt8CannotHoldIsNamedWithFileAndTensor) {
  using Format = ef::Packed<TypeParam>;
  using T = ef::ScalarOf<Format>;
  const test::TemporaryFolder folder;
  const auto path = folder / "linear";
  const ef::LinearConfig config{.in_features = 29, .out_features = 37};
  for (const T value : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
    ef::Linear<T> plain(config);
    plain.weight(3, 5) = value;
    ef::save(plain, path);
    ef::Linear<Format> read(config);
    if constexpr (std::is_same_v<TypeParam, ef::int8> ||
                  std::is_same_v<TypeParam, ef::int8_weights>) {
      test::expect_error([&] { ef::load(read, path); },
                         {path.string(), "weight", std::to_string(3 * 29 + 5), "int8"});
    } else {
      EXPECT_NO_THROW(ef::load(read, path));
    }
  }
}

}  // namespace load_packed_test
