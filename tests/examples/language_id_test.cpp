// SPDX-License-Identifier: MIT
//
// The language identifier against golden.json, which write_golden.py makes with transformers: the
// tokenizer's ids, and the probabilities of the shipped checkpoint.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "piece_tokenizer.hpp"

namespace {

const std::filesystem::path folder =
    std::filesystem::path(EIGENFORMER_TESTS).parent_path() / "examples/language_id";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class LanguageId : public testing::Test {
 protected:
  const nlohmann::json golden = nlohmann::json::parse(read_file(folder / "golden.json"));
  const examples::PieceTokenizer tokenizer{read_file(folder / "model/vocab.txt"), 96};
};

TEST_F(LanguageId, TextsBecomeTheSameIds) {
  ASSERT_GE(golden.size(), 10u);
  for (const auto& entry : golden) {
    const auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), entry.at("ids").get<std::vector<std::int32_t>>()) << text;
  }
}

TEST_F(LanguageId, CheckpointGivesTheSameProbabilities) {
  const auto model = ef::load_sequence_classifier<double>(folder / "model");
  for (const auto& entry : golden) {
    const auto row = entry.at("ids").get<std::vector<std::int32_t>>();
    const auto wanted = entry.at("probabilities").get<std::vector<double>>();
    ef::Tensor<std::int32_t, 2> ids({1, std::ssize(row)});
    std::copy(row.begin(), row.end(), ids.begin());
    const ef::Tensor<double, 2> probabilities = ef::softmax(model(ids));
    ASSERT_EQ(probabilities.size(), std::ssize(wanted));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(probabilities(0, i), wanted[i], 1e-8) << entry.at("text") << ", label " << i;
    }
  }
}

// What is no UTF-8 separates words, as a space does.
TEST_F(LanguageId, BrokenTextIsReadAll) {
  EXPECT_EQ(tokenizer.encode("good\xff\xfemorning"), tokenizer.encode("good morning"));
  EXPECT_EQ(tokenizer.encode("\xc3"), tokenizer.encode(""));
  for (int seed = 0; seed < 200; ++seed) {
    std::string bytes;
    const ef::Key key{static_cast<std::uint64_t>(seed)};
    for (std::uint64_t i = 0; i < 300; ++i) bytes += static_cast<char>(key.bits(i) & 0xFFu);
    const auto ids = tokenizer.encode(bytes);
    EXPECT_LE(ids.size(), 96u);
    for (const std::int32_t id : ids) EXPECT_GE(id, 1);
  }
}

}  // namespace
