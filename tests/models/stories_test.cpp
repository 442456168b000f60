// SPDX-License-Identifier: MIT
// stories260K, a trained decoder (llama2.c's tinyllamas), from transformers' files and from
// llama2.c's: the greedy text of 220 tokens and logits, which were computed in float64.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "eigenformer/models/generation.hpp"
#include "eigenformer/models/pretrained.hpp"

namespace stories_test {

namespace ef = eigenformer;
using ef::Index;

template <class T>
using Stories = ef::TransformerDecoder<T, ef::RMSNorm, ef::GatedFeedForward>;

std::filesystem::path directory() {
  return std::filesystem::path(EIGENFORMER_TESTS) / "../examples/generate/stories260K";
}

template <class T>
void expect_golden(const Stories<T>& decoder) {
  const auto golden = nlohmann::json::parse(std::ifstream(directory() / "golden.json"));
  const auto ids = golden.at("ids").get<std::vector<std::int32_t>>();
  ASSERT_EQ(ids.size(), 221u);
  const auto generated = ef::generate(decoder, {{ids.front()}}, {.max_new_tokens = 220});
  EXPECT_EQ(generated.ids[0], std::vector<std::int32_t>(ids.begin() + 1, ids.end()));

  ef::Tensor<std::int32_t, 2> text({1, 220});
  std::copy_n(ids.begin(), 220, text.begin());
  const auto logits = decoder(text);
  const auto positions = golden.at("positions").get<std::vector<Index>>();
  ASSERT_EQ(positions.size(), 5u);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const T* row = &logits(0, positions[i], 0);
    const auto first = golden.at("logits_first8")[i].get<std::vector<double>>();
    for (std::size_t v = 0; v < first.size(); ++v) EXPECT_NEAR(row[v], first[v], 1e-4);
    const double sum = std::accumulate(row, row + 512, 0.0);
    EXPECT_NEAR(sum, golden.at("logits_sum")[i].get<double>(), 512 * 1e-4);
    EXPECT_EQ(std::max_element(row, row + 512) - row, golden.at("logits_argmax")[i].get<Index>());
  }
}

/// Rows of a query or key weight in the other order of pairs: row (head, half, pair) goes to row
/// (head, pair, half).
ef::Tensor<float, 2> interleaved(const ef::Tensor<float, 2>& weight, Index head_size) {
  ef::Tensor<float, 2> result(weight.shape());
  for (Index row = 0; row < weight.dim(0); ++row) {
    const Index head = row / head_size, half = row % head_size / (head_size / 2);
    const Index pair = row % (head_size / 2), to = head * head_size + 2 * pair + half;
    std::copy_n(&weight(row, 0), weight.dim(1), &result(to, 0));
  }
  return result;
}

/// The file that llama2.c would hold for the model.
void write_llama2c(const Stories<float>& model, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary);
  for (std::int32_t number : {64, 172, 5, 8, 4, 512, 512})
    file.write(reinterpret_cast<const char*>(&number), sizeof number);
  const auto write = [&](const auto& parameter) {
    file.write(reinterpret_cast<const char*>(parameter.data()),
               static_cast<std::streamsize>(parameter.size() * Index{sizeof(float)}));
  };
  const auto write_of_layers = [&](auto&& parameter_of) {
    for (const auto& layer : model.layers) write(parameter_of(layer));
  };
  write(model.embeddings.token.weight);
  write_of_layers([](auto& layer) { return layer.self_attention_norm.weight; });
  write_of_layers([](auto& layer) { return interleaved(layer.self_attention.query.weight, 8); });
  write_of_layers([](auto& layer) { return interleaved(layer.self_attention.key.weight, 8); });
  write_of_layers([](auto& layer) { return layer.self_attention.value.weight; });
  write_of_layers([](auto& layer) { return layer.self_attention.output.weight; });
  write_of_layers([](auto& layer) { return layer.feed_forward_norm.weight; });
  write_of_layers([](auto& layer) { return layer.feed_forward.gate.weight; });
  write_of_layers([](auto& layer) { return layer.feed_forward.down.weight; });
  write_of_layers([](auto& layer) { return layer.feed_forward.up.weight; });
  write(model.final_norm->weight);
  write(ef::Tensor<float, 1>({2 * 512 * 4}));  // tables of angles, which nobody reads
}

TEST(Stories260K, FromSafetensors) {
  const auto decoder = ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(directory());
  EXPECT_EQ(ef::count_parameters(decoder), 260032);
  expect_golden(decoder);
}

TEST(Stories260K, InDouble) {
  expect_golden(ef::load_decoder<double, ef::RMSNorm, ef::GatedFeedForward>(directory()));
}

TEST(Stories260K, FromTheFileOfLlama2c) {
  const auto path = std::filesystem::path(testing::TempDir()) / "stories260K.bin";
  write_llama2c(ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(directory()), path);
  EXPECT_EQ(std::filesystem::file_size(path), 1056540u);
  const auto decoder = ef::load_llama2c_decoder<float>(path);
  EXPECT_EQ(decoder.config.attention_positions.rotary.layout, ef::RotaryLayout::interleaved);
  expect_golden(decoder);
}

// By default not there; for the original files.
TEST(Stories260K, FromTheOriginalFiles) {
  const char* original = std::getenv("EIGENFORMER_STORIES260K");
  if (original == nullptr) GTEST_SKIP() << "EIGENFORMER_STORIES260K names no directory";
  const std::filesystem::path files(original);
  expect_golden(ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(files));
  expect_golden(ef::load_llama2c_decoder<float>(files / "stories260K.bin"));
}

}  // namespace stories_test
