// SPDX-License-Identifier: MIT
//
// The reader of dates against golden.json and golden.safetensors, which write_golden.py makes with
// PyTorch, and against the expressions of written.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "date_reader.hpp"
#include "eigenformer/models/generation.hpp"

namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path folder =
    std::filesystem::path(EIGENFORMER_TESTS).parent_path() / "examples/read_dates";

nlohmann::json read_golden() {
  std::ifstream file(folder / "golden.json");
  EXPECT_TRUE(file);
  return nlohmann::json::parse(file);
}

class ReadDates : public testing::Test {
 protected:
  const nlohmann::json golden = read_golden();
  const examples::DateReader reader{ef::PretrainedFiles(folder / "model")};
  ef::Workspace workspace;
};

ef::Tensor<std::int32_t, 2> row_of(std::span<const std::int32_t> ids) {
  ef::Tensor<std::int32_t, 2> row({1, std::ssize(ids)});
  std::ranges::copy(ids, row.begin());
  return row;
}

template <class T>
ef::Transformer<T> load_model() {
  ef::PretrainedFiles files(folder / "model");
  ef::Transformer<T> model(examples::date_model_config(files.config));
  ef::load(model, files.checkpoint);
  return model;
}

void expect_near(ef::TensorView<const double, 3> actual, ef::SafetensorsReader& file,
                 const std::string& name, double tolerance) {
  const auto wanted = file.read<double, 2>(name);
  ASSERT_EQ(actual.dim(0), 1);
  ASSERT_EQ(actual.dim(1), wanted.dim(0)) << name;
  ASSERT_EQ(actual.dim(2), wanted.dim(1)) << name;
  for (ef::Index i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(actual.data()[i], wanted.data()[i], tolerance) << name << ", element " << i;
  }
}

TEST_F(ReadDates, ExpressionsBecomeTheSameIds) {
  ASSERT_GE(golden.size(), 10u);
  for (const auto& entry : golden) {
    const auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(reader.encode(text), entry.at("ids").get<Ids>()) << text;
  }
}

TEST_F(ReadDates, EncoderAndDecoderGiveTheSameNumbers) {
  const auto model = load_model<double>();
  ef::SafetensorsReader file(folder / "golden.safetensors");
  const std::size_t cases = file.names().size() / 2;
  ASSERT_GE(cases, 3u);
  for (std::size_t i = 0; i < cases; ++i) {
    const auto ids = golden.at(i).at("ids").get<Ids>();
    Ids target = golden.at(i).at("answer").get<Ids>();
    target.insert(target.begin(), 1);  // the start
    target.pop_back();
    const std::string name = "case." + std::to_string(i);
    expect_near(model.encoder(row_of(ids)), file, name + ".encoder", 1e-11);
    expect_near(model(row_of(ids), row_of(target)), file, name + ".logits", 1e-10);
  }
}

TEST_F(ReadDates, GreedyAnswersAreTheSame) {
  for (const auto& entry : golden) {
    const auto text = entry.at("text").get<std::string>();
    const auto answers = reader.read({text}, workspace);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].text, entry.at("date").get<std::string>()) << text;
    EXPECT_NEAR(answers[0].probability, entry.at("probability").get<double>(), 1e-4) << text;
  }
}

TEST_F(ReadDates, BatchGivesTheBitsOfEachAlone) {
  std::vector<std::string> texts;
  for (const auto& entry : golden) texts.push_back(entry.at("text"));
  const auto together = reader.read(texts, workspace);
  ASSERT_EQ(together.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto alone = reader.read({texts[i]}, workspace);
    EXPECT_EQ(together[i].text, alone[0].text) << texts[i];
    EXPECT_EQ(together[i].probability, alone[0].probability) << texts[i];
  }
  EXPECT_TRUE(reader.read({}, workspace).empty());
}

TEST_F(ReadDates, ExpressionsWrittenByHandAreRead) {
  std::ifstream file(folder / "written.txt");
  std::vector<std::string> texts, dates;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    dates.push_back(line.substr(0, tab));
    texts.push_back(line.substr(tab + 1));
  }
  ASSERT_EQ(texts.size(), 60u);
  const auto answers = reader.read(texts, workspace);
  int right = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) right += answers[i].text == dates[i];
  EXPECT_EQ(right, 60);  // as README.md says
}

// Whatever bytes come, there is an answer or "?", never an error.
TEST_F(ReadDates, AnyBytesAreRead) {
  std::vector<std::string> texts(50);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const ef::Key key{i};
    for (std::uint64_t k = 0; k < 3 * i; ++k) texts[i] += static_cast<char>(key.bits(k) & 0xFFu);
    EXPECT_LE(reader.encode(texts[i]).size(), 96u);
  }
  for (const auto& [text, probability] : reader.read(texts, workspace)) {
    EXPECT_LE(text.size(), 11u);
    EXPECT_GT(probability, 0);
    EXPECT_LE(probability, 1);
  }
}

TEST(IsDate, KnowsTheCalendar) {
  EXPECT_TRUE(examples::is_date("2000-02-29"));
  EXPECT_TRUE(examples::is_date("1998-11-03"));
  for (const char* text : {"1900-02-29", "2001-13-01", "2001-00-10", "2001-04-31", "2001-4-3", "",
                           "2001/04/03", "20o1-04-03", "2001-04-03 ", "-001-04-03"}) {
    EXPECT_FALSE(examples::is_date(text)) << text;
  }
}

}  // namespace
