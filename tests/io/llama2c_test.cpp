// SPDX-License-Identifier: MIT
// llama2.c's files: whole ones, spelled out array by array, and damaged ones.

#include "eigenformer/io/llama2c.hpp"

#include <cstdint>
#include <limits>
#include <numeric>

#include "eigenformer/eigenformer.hpp"
#include "tests/io/file_builder.hpp"

namespace llama2c_test {

using ef::Index;
using test::expect_error;
using test::TemporaryFolder;

template <class T>
using Model = ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>;

constexpr Index C = 12, F = 7, L = 2, H = 3, K = 1, D = 4, V = 5, positions = 11;

ef::TransformerConfig config(bool tied) {
  return {.vocab_size = V,
          .hidden_size = C,
          .num_hidden_layers = L,
          .num_attention_heads = H,
          .num_key_value_heads = K,
          .intermediate_size = F,
          .position_embedding = ef::PositionEmbedding::none,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .feed_forward_bias = false,
          .tie_word_embeddings = tied};
}

std::string header(std::initializer_list<std::int32_t> numbers) {
  return test::bytes_of_values(numbers);
}
std::string header(bool tied) {
  constexpr std::int32_t vocab_size = V;
  return header({C, F, L, H, K, tied ? vocab_size : -vocab_size, positions});
}

/// The numbers 1, 2, 3 ... in the order of the file; `next` goes on behind them.
std::string numbers(Index count, float& next) {
  std::string bytes;
  for (Index i = 0; i < count; ++i) bytes += test::bytes_of_values({next++});
  return bytes;
}

/// A file in which every number is its place among the numbers.
std::string file(bool tied) {
  float next = 1;
  const Index count = V * C + L * (2 * C + 2 * C * C + 2 * K * D * C + 3 * F * C) + C +
                      positions * D + (tied ? 0 : V * C);
  return header(tied) + numbers(count, next);
}

/// Elements of `x` from the file's number `first` on.
template <class T, int Rank>
void expect_numbers(const ef::Tensor<T, Rank>& x, Index first, const char* what) {
  for (Index i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x.data()[i], static_cast<T>(first + 1 + i)) << what << ", element " << i;
  }
}

template <class T>
void expect_whole(const Model<T>& model, bool tied) {
  Index at = 0;
  expect_numbers(model.embeddings.token.weight, at, "token");
  at += V * C;
  const auto each = [&](const char* what, auto&& parameter_of) {
    for (const auto& layer : model.layers) {
      expect_numbers(parameter_of(layer), at, what);
      at += parameter_of(layer).size();
    }
  };
  each(
      "norm", [](auto& x) -> auto& { return x.self_attention_norm.weight; });
  each(
      "query", [](auto& x) -> auto& { return x.self_attention.query.weight; });
  each(
      "key", [](auto& x) -> auto& { return x.self_attention.key.weight; });
  each(
      "value", [](auto& x) -> auto& { return x.self_attention.value.weight; });
  each(
      "output", [](auto& x) -> auto& { return x.self_attention.output.weight; });
  each(
      "norm 2", [](auto& x) -> auto& { return x.feed_forward_norm.weight; });
  each(
      "gate", [](auto& x) -> auto& { return x.feed_forward.gate.weight; });
  each(
      "down", [](auto& x) -> auto& { return x.feed_forward.down.weight; });
  each(
      "up", [](auto& x) -> auto& { return x.feed_forward.up.weight; });
  expect_numbers(model.final_norm->weight, at, "final norm");
  at += C + positions * D;
  if (!tied) expect_numbers(model.head.weight, at, "head");
}

template <class T>
class Llama2c : public ::testing::Test {};
using Formats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Llama2c, Formats);

TYPED_TEST(Llama2c, EveryNumberAtItsPlace) {
  const TemporaryFolder folder;
  for (const bool tied : {true, false}) {
    test::write_file(folder / "x.bin", file(tied));
    const auto found = ef::read_llama2c_header(folder / "x.bin");
    EXPECT_EQ(found.hidden_size, C);
    EXPECT_EQ(found.intermediate_size, F);
    EXPECT_EQ(found.num_hidden_layers, L);
    EXPECT_EQ(found.num_attention_heads, H);
    EXPECT_EQ(found.num_key_value_heads, K);
    EXPECT_EQ(found.vocab_size, V);
    EXPECT_EQ(found.max_position_embeddings, positions);
    EXPECT_EQ(found.tie_word_embeddings, tied);
    Model<TypeParam> model(config(tied));
    ef::load_llama2c(model, folder / "x.bin");
    expect_whole(model, tied);
  }
}

TEST(Llama2cFiles, FromMemory) {
  const std::string bytes = file(true);
  ef::ByteSource source(test::as_bytes(bytes), "embedded");
  Model<float> model(config(true));
  ef::load_llama2c(model, source);
  expect_whole(model, true);
}

ef::Llama2cHeader read(const std::string& bytes) {
  ef::ByteSource source(test::as_bytes(bytes), "a.bin");
  return ef::read_llama2c_header(source);
}

TEST(Llama2cFiles, WrongLength) {
  expect_error([] { read(""); }, {"a.bin: has 0 bytes; a header of 28 is wanted"});
  expect_error([] { read(header(true).substr(0, 27)); }, {"has 27 bytes"});
  const std::string whole = file(true), untied = file(false);
  const std::string wanted = std::to_string(whole.size()) + " are wanted by its header";
  for (std::size_t size = 28; size < whole.size(); size += 97) {
    expect_error([&] { read(whole.substr(0, size)); },
                 {"a.bin: has " + std::to_string(size) + " bytes; ", wanted});
  }
  expect_error([&] { read(whole + '\0'); }, {wanted});
  expect_error([&] { read(whole + "    "); }, {wanted});
  expect_error([&] { read(header(true) + untied.substr(28)); }, {wanted});
  expect_error([&] { read(header(false) + whole.substr(28)); }, {"are wanted by its header"});
}

TEST(Llama2cFiles, WrongHeader) {
  const char* names[] = {
      "hidden_size",         "intermediate_size", "num_hidden_layers",      "num_attention_heads",
      "num_key_value_heads", "vocab_size",        "max_position_embeddings"};
  const std::string whole = file(true);
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i < 7; ++i) {
    for (const std::int32_t value : {0, -1, least, most}) {
      std::string damaged = whole;
      damaged.replace(4 * i, 4, test::bytes_of_values({value}));
      if (value == 0 || (value < 0 && i != 5)) {
        expect_error([&] { read(damaged); },
                     {std::string(names[i]) + " is " + std::to_string(value)});
      } else {
        expect_error([&] { read(damaged); }, {"a.bin: "});
      }
    }
  }
  expect_error(
      [&] {
        read(header({C, F, L, 5, 1, V, positions}));
      },
      {"must divide hidden_size into even heads; found 5 and 12"});
  expect_error([&] { read(header({C, F, L, 4, 1, V, positions})); }, {"even heads"});
  expect_error(
      [&] {
        read(header({C, F, L, 3, 2, V, positions}));
      },
      {"num_key_value_heads must divide num_attention_heads; found 2 and 3"});
}

// Sizes whose products overflow 64 bits.
TEST(Llama2cFiles, HugeHeader) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max() - 1;
  for (const auto& huge :
       {header({most, most, most, 1, 1, most, most}), header({most, most, most, 1, 1, -most, 1}),
        header({2, 1, 1 << 30, 1, 1, 1, 1}), header({1 << 16, 1 << 16, 1 << 30, 1, 1, 1, 1}),
        header({1 << 30, 1 << 30, 1 << 2, 1, 1, 1, 1})}) {
    expect_error([&] { read(huge); }, {"a.bin: has 28 bytes; ", " are wanted by its header"});
    expect_error([&] { read(huge + std::string(1000, '\0')); }, {"has 1028 bytes"});
  }
}

TEST(Llama2cFiles, OtherVersions) {
  expect_error(
      [] {
        read(header({0x616b3432, 1, 64, 172, 5, 8, 4}));
      },
      {"is of version 1 of llama2.c's format"});
}

TEST(Llama2cFiles, OtherModules) {
  const TemporaryFolder folder;
  test::write_file(folder / "x.bin", file(true));
  const auto load = [&](auto config) {
    Model<float> model(config);
    const Model<float> before = model;
    try {
      ef::load_llama2c(model, folder / "x.bin");
    } catch (...) {
      EXPECT_TRUE(ef::parameters_equal(model, before));
      throw;
    }
  };
  auto other = config(true);
  other.num_hidden_layers = 1;
  other.intermediate_size = 9;
  other.query_bias = true;
  expect_error(
      [&] { load(other); },
      {"x.bin: does not fit the module", "unexpected: layers.1.self_attention.query.weight",
       "missing: layers.0.self_attention.query.bias",
       "layers.0.feed_forward.gate.weight has shape (7, 12); (9, 12) is wanted"});
  expect_error([&] { load(config(false)); }, {"missing: head.weight"});
  test::write_file(folder / "x.bin", file(false));
  expect_error([&] { load(config(true)); }, {"unexpected: head.weight"});
  expect_error([&] { ef::read_llama2c_header(folder / "y.bin"); }, {"y.bin: no such file"});
  ef::LayerNorm<float> norm({.hidden_size = 3});
  expect_error([&] { ef::load_llama2c(norm, folder / "x.bin"); },
               {"missing: weight", "missing: bias", "unexpected: embeddings.token.weight"});
}

}  // namespace llama2c_test
