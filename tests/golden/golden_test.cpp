// SPDX-License-Identifier: MIT
#include "tests/golden/golden.hpp"

#include <cctype>
#include <exception>
#include <filesystem>

#include "tests/reference/error_text.hpp"

namespace golden {

Case::Case(ef::SafetensorsReader& file, const std::string& name)
    : file_(file),
      name_(name),
      parameters_of_(name),
      inputs_of_(name),
      description_(nlohmann::json::parse(file.metadata().at(name))) {
  for (const auto& [key, value] : description_.items()) unused_keys_.insert(key);
  unused_keys_.erase("source");  // for the reader
  if (has("parameter_of")) parameters_of_ = get<std::string>("parameter_of");
  if (has("input_of")) inputs_of_ = get<std::string>("input_of");
  for (const std::string& tensor : file.names()) {
    if (tensor.starts_with(inputs_of_ + "/input/d_")) continue;  // for gradients
    if (tensor.starts_with(parameters_of_ + "/parameter/") ||
        tensor.starts_with(inputs_of_ + "/input/") || tensor.starts_with(name + "/parameter/") ||
        tensor.starts_with(name + "/mask/") || tensor.starts_with(name + "/memory_mask/") ||
        tensor.starts_with(name + "/source_mask/") || tensor.starts_with(name + "/output/")) {
      unused_tensors_.insert(tensor);
    }
  }
}

bool Case::has(const std::string& key) const { return description_.contains(key); }

void Case::leave_out() {
  unused_keys_.clear();
  unused_tensors_.clear();
  left_out_ = true;
}

std::vector<std::int64_t> Case::key_lengths(const std::string& group) {
  const std::string tensor = take_tensor(mask_name(group, "key_lengths"));
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(file_.entry(tensor).size));
  file_.read_elements(tensor, lengths.data());
  return lengths;
}

Tensor<bool, 2> Case::key_allowed() {
  return file_.read<bool, 2>(take_tensor(mask_name("mask", "key_allowed")));
}

void Case::expect_all_used() const {
  EXPECT_TRUE(compared_ || left_out_) << "nothing was compared";
  for (const std::string& key : unused_keys_) ADD_FAILURE() << key << " was not used";
  for (const std::string& tensor : unused_tensors_) ADD_FAILURE() << tensor << " was not used";
}

const nlohmann::json& Case::take_key(const std::string& key) {
  unused_keys_.erase(key);
  return description_.at(key);
}

std::string Case::take_tensor(const std::string& tensor) {
  unused_tensors_.erase(tensor);
  return tensor;
}

void run_file(const std::string& name, std::size_t number_of_cases, const Runners& runners) {
  ef::SafetensorsReader file(EIGENFORMER_TESTS "/golden/" + name + ".safetensors");
  EXPECT_EQ(file.metadata().size(), number_of_cases) << "cases of " << name;
  for (const std::string& tensor : file.names()) {
    EXPECT_TRUE(file.metadata().contains(tensor.substr(0, tensor.find('/'))))
        << tensor << " belongs to no case";
  }
  std::set<std::string> tested;
  double largest_error = 0;
  for (const auto& [case_name, description] : file.metadata()) {
    SCOPED_TRACE(name + ", case " + case_name);
    try {
      Case test(file, case_name);
      const auto runner = runners.find(test.module_name());
      if (runner == runners.end()) {
        ADD_FAILURE() << "no test for " << test.module_name();
        continue;
      }
      tested.insert(runner->first);
      runner->second(test);
      test.expect_all_used();
      largest_error = std::max(largest_error, test.largest_error());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  for (const auto& [module, runner] : runners) {
    EXPECT_TRUE(tested.contains(module)) << name << " has no case of " << module;
  }
  std::ostringstream text;
  text << largest_error;
  ::testing::Test::RecordProperty("largest_error", text.str());
}

}  // namespace golden

namespace {

namespace ef = eigenformer;

/// "layer_norm" to "GoldenLayerNorm".
std::string suite_of(const std::string& file) {
  std::string suite = "Golden";
  bool begins_word = true;
  for (char c : file) {
    if (c != '_') {
      suite += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    }
    begins_word = c == '_';
  }
  return suite;
}

/// TEST(GoldenLayerNorm, Float) and Double for layer_norm.safetensors.
TEST(GoldenFiles, AllHaveTests) {
  std::set<std::string> tests;
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      tests.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
    }
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EIGENFORMER_TESTS "/golden")) {
    const std::string file = entry.path().stem().string();
    if (entry.path().extension() != ".safetensors") continue;
    if (file == "bert_checkpoints") continue;  // tested together with the directories checkpoints/
    ++files;
    EXPECT_TRUE(tests.contains(suite_of(file) + ".Float")) << file;
    EXPECT_TRUE(tests.contains(suite_of(file) + ".Double")) << file;
  }
  EXPECT_EQ(files, 32);
}

template <class Config>
Config parse(const char* text) {
  const nlohmann::json object = nlohmann::json::parse(text);
  Config config;
  golden::Fields fields(object);
  read_fields(fields, config);
  fields.require_all_read();
  return config;
}

TEST(GoldenConfigurations, TakeOnlyFieldsOfTheirType) {
  const auto config = parse<ef::TransformerConfig>(
      R"({"hidden_size": 10, "activation": "silu", "norm_placement": "pre", "bias": false})");
  EXPECT_EQ(config.hidden_size, 10);
  EXPECT_EQ(config.activation, ef::Activation::silu);
  EXPECT_EQ(config.norm_placement, ef::NormPlacement::pre);
  EXPECT_FALSE(config.query_bias || config.key_bias || config.value_bias || config.output_bias ||
               config.feed_forward_bias || config.norm_bias);

  using Config = ef::TransformerConfig;
  EXPECT_ERROR(parse<Config>(R"({"hidden_sizes": 10})"), std::runtime_error,
               "config: hidden_sizes is not a field of the configuration");
  EXPECT_ERROR(parse<Config>(R"({"hidden_size": 10.5})"), std::runtime_error,
               "config: hidden_size must be an integer that fits; got 10.5");
  EXPECT_ERROR(parse<Config>(R"({"query_bias": 1})"), std::runtime_error,
               "config: query_bias must be true or false; got 1");
  EXPECT_ERROR(parse<Config>(R"({"activation": "swish"})"), std::runtime_error,
               "config: activation must be one of ");
  EXPECT_ERROR(parse<ef::PatchEmbeddingConfig>(R"({"image_size": [3]})"), std::runtime_error,
               "config: image_size must be [height, width]; got [3]");
}

}  // namespace
