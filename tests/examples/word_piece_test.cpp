// SPDX-License-Identifier: MIT
// WordPiece against ids of transformers' BertTokenizer (word_piece_golden.py), reading a directory
// in both layouts, and errors.
#include "word_piece.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/reference/error_text.hpp"

namespace {

using examples::WordPiece;
using examples::WordPieceConfig;
using Ids = std::vector<std::int32_t>;

const nlohmann::json& golden() {
  static const nlohmann::json file = [] {
    std::ifstream stream(EIGENFORMER_TESTS "/examples/word_piece_golden.json");
    return nlohmann::json::parse(stream);
  }();
  return file;
}

std::vector<std::string> golden_texts() {
  auto texts = golden().at("texts").get<std::vector<std::string>>();
  for (const std::string digits : golden().at("texts_in_hexadecimal")) {
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
    texts.push_back(bytes);
  }
  return texts;
}

WordPiece::Vocabulary golden_vocabulary() {
  WordPiece::Vocabulary vocabulary;
  for (const std::string token : golden().at("vocabulary")) {
    vocabulary.emplace(token, static_cast<std::int32_t>(vocabulary.size()));
  }
  return vocabulary;
}

WordPieceConfig config_of(const nlohmann::json& object) {
  WordPieceConfig config;
  config.do_lower_case = object.value("do_lower_case", true);
  if (object.contains("strip_accents")) config.strip_accents = object.at("strip_accents");
  config.tokenize_chinese_chars = object.value("tokenize_chinese_chars", true);
  return config;
}

std::string printable(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

TEST(WordPiece, GivesTheIdsOfTransformers) {
  const std::vector<std::string> texts = golden_texts();
  ASSERT_GT(texts.size(), 80u);
  ASSERT_EQ(golden().at("groups").size(), 9u);
  for (const nlohmann::json& group : golden().at("groups")) {
    const WordPiece tokenizer(golden_vocabulary(), config_of(group.at("config")));
    const std::size_t maximum_length = group.at("maximum_length");
    const auto expected = group.at("ids").get<std::vector<Ids>>();
    ASSERT_EQ(expected.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i], maximum_length), expected[i])
          << group.at("config") << ", maximum length " << maximum_length << ", text " << i << ": "
          << printable(texts[i]);
    }
  }
}

TEST(WordPiece, SplitsIntoWords) {
  const WordPiece tokenizer({{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}});
  EXPECT_EQ(
      tokenizer.split_into_words("\tL'\xC3\x89t\xC3\xA9 -- \xE6\x9D\xB1\xE4\xBA\xAC\xFFx "),
      (std::vector<std::string>{"l", "'", "ete", "-", "-", "\xE6\x9D\xB1", "\xE4\xBA\xAC", "x"}));
  EXPECT_TRUE(tokenizer.split_into_words("").empty());
}

// An empty directory of its own for every test.
class WordPieceDirectory : public testing::Test {
 protected:
  WordPieceDirectory()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   (std::string("word_piece_") + std::to_string(std::random_device()()))) {
    std::filesystem::create_directories(directory_);
  }
  ~WordPieceDirectory() override { std::filesystem::remove_all(directory_); }

  void write(const char* name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }

  // The text of the error that reading the directory gives; empty if there is none.
  std::string error() const {
    try {
      WordPiece::from_directory(directory_);
    } catch (const std::runtime_error& exception) {
      return exception.what();
    }
    return "";
  }

  std::filesystem::path directory_;
};

constexpr const char* lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nete\n\xC3\x89t\xC3\xA9\n##s\n";
constexpr const char* vocabulary_json =
    R"("vocab": {"[UNK]": 7, "[CLS]": 5, "[SEP]": 3, "ete": 11, "\u00c9t\u00e9": 13, "##s": 17})";
const std::string summers = "\xC3\x89t\xC3\xA9s";  // Étés

TEST_F(WordPieceDirectory, ReadsVocabularyLines) {
  write("vocab.txt", lines);
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{2, 4, 6, 3}));
}

TEST_F(WordPieceDirectory, ReadsLinesOfWindows) {
  std::string windows;
  for (const char c : std::string(lines)) windows += c == '\n' ? "\r\n" : std::string(1, c);
  write("vocab.txt", windows);
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{2, 4, 6, 3}));
}

TEST_F(WordPieceDirectory, ReadsTheOptions) {
  write("vocab.txt", lines);
  write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{2, 5, 6, 3}));
}

TEST_F(WordPieceDirectory, ReadsTokenizerJson) {
  write("tokenizer.json", std::string(R"({"normalizer": null, "model": {"type": "WordPiece", )") +
                              vocabulary_json + "}}");
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{5, 11, 17, 3}));
}

TEST_F(WordPieceDirectory, ReadsTheOptionsInTokenizerJson) {
  write("tokenizer.json",
        std::string(R"({"normalizer": {"lowercase": false}, "model": {)") + vocabulary_json + "}}");
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{5, 13, 17, 3}));
  write("tokenizer_config.json", R"({"do_lower_case": true})");  // goes before
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{5, 11, 17, 3}));
}

TEST_F(WordPieceDirectory, PrefersVocabularyLines) {
  write("vocab.txt", lines);
  write("tokenizer.json", std::string("{\"model\": {") + vocabulary_json + "}}");
  EXPECT_EQ(WordPiece::from_directory(directory_).encode(summers), (Ids{2, 4, 6, 3}));
}

TEST_F(WordPieceDirectory, ErrorsNameTheFile) {
  EXPECT_NE(error().find(directory_.string()), std::string::npos);
  EXPECT_NE(error().find("neither vocab.txt nor tokenizer.json"), std::string::npos);
  write("tokenizer.json", "{\"model\": {\"type\": \"BPE\"}}");
  EXPECT_NE(error().find("tokenizer.json: WordPiece is required; it has a BPE tokenizer"),
            std::string::npos);
  for (const char* text : {"{", "[]", "{}", "{\"model\": {}}", "{\"model\": {\"vocab\": [1]}}",
                           "{\"model\": {\"vocab\": {\"a\": 1}}}"}) {
    write("tokenizer.json", text);
    EXPECT_NE(error().find("tokenizer.json: "), std::string::npos) << text;
  }
  write("tokenizer.json", std::string("{\"model\": {") + vocabulary_json + "}}");
  write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n");
  EXPECT_NE(error().find("vocab.txt: "), std::string::npos);
  EXPECT_NE(error().find("[SEP]"), std::string::npos);
  write("vocab.txt", lines);
  EXPECT_EQ(error(), "");
  write("tokenizer_config.json", "not JSON");
  EXPECT_NE(error().find("tokenizer_config.json: "), std::string::npos);
}

TEST(WordPiece, RefusesALengthWithoutRoomForClsAndSep) {
  const WordPiece tokenizer(golden_vocabulary());
  EXPECT_ERROR(tokenizer.encode("a", 1), std::invalid_argument,
               "WordPiece::encode: maximum_length must be at least 2; it is 1");
  EXPECT_ERROR(tokenizer.encode("a", 0), std::invalid_argument,
               "WordPiece::encode: maximum_length must be at least 2; it is 0");
  EXPECT_EQ(tokenizer.encode("a", 2).size(), 2u);
}

}  // namespace
