// SPDX-License-Identifier: MIT
// Every configuration reads back as it was written, whatever its fields hold, and saved modules are made
// again from their files.
#include "eigenformer/io/config_json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/io/load.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/transformer.hpp"
#include "eigenformer/nn/gelu.hpp"
#include "tests/io/file_builder.hpp"
#include "tests/reference/error_text.hpp"

namespace config_json_test {

using namespace eigenformer;

/// Another value than the field has; the next one for each call.
template <class Field>
void change(Field& field, Index& count) {
  ++count;
  if constexpr (Configuration<Field>) {
    Field::visit([&](const char*, auto& inner) { change(inner, count); }, field);
  } else if constexpr (internal::OpenField<Field>) {
    std::remove_cvref_t<decltype(field.value())> given{};
    change(given, count);
    field = given;
  } else if constexpr (std::is_same_v<Field, bool>) {
    field = !field;
  } else if constexpr (std::is_same_v<Field, Index>) {
    field = (count % 2 == 0 ? -1 : 1) * (Index{1} << 53) + count;
  } else if constexpr (std::is_same_v<Field, double>) {
    field = std::exp(static_cast<double>(count % 600 - 300));
  } else if constexpr (std::is_same_v<Field, ImageSize>) {
    field = {count, count + 1};
  } else if constexpr (NamedEnumeration<Field>) {
    const auto& all = Enumeration<Field>::all;
    field = field == std::end(all)[-1].value ? all[0].value : std::end(all)[-1].value;
  } else {
    field.resize(3);
    for (auto& element : field) change(element, count);
  }
}

template <class C>
C read_back(const C& config) {
  return config_from_json<C>(to_json(config), "text");
}

template <class C>
class ConfigJson : public ::testing::Test {};
using Configurations =
    ::testing::Types<TransformerConfig, EncoderDecoderConfig, EmbeddingsConfig, LinearConfig,
                     MultiHeadAttentionConfig, FeedForwardConfig, GELUConfig>;
TYPED_TEST_SUITE(ConfigJson, Configurations);

TYPED_TEST(ConfigJson, ReadsBackEveryField) {
  EXPECT_EQ(read_back(TypeParam{}), TypeParam{});
  TypeParam all{};
  Index count = 0;
  TypeParam::visit(
      [&](const char* name, auto& of_all, auto&) {
        TypeParam one{};
        TypeParam::visit(
            [&](const char* other, auto& field) {
              if (std::string(other) == name) change(field, count);
            },
            one);
        change(of_all, count);
        EXPECT_NE(one, TypeParam{}) << name;
        EXPECT_EQ(read_back(one), one) << name << ": " << to_json(one);
      },
      all, all);
  EXPECT_EQ(read_back(all), all) << to_json(all);
}

TEST(ConfigJsonText, NamesWhatIsWrong) {
  const auto read = [](const char* text) {
    return config_from_json<TransformerConfig>(text, "model.safetensors: config");
  };
  EXPECT_EQ(read("{}"), TransformerConfig{});
  EXPECT_EQ(read(R"({"layer_norm_eps": 1})").layer_norm_eps, 1.0);
  EXPECT_ERROR(read(R"({"hidden": 3})"), std::runtime_error,
               "model.safetensors: config: hidden is not a field of the configuration");
  EXPECT_ERROR(read(R"({"hidden_size": "3"})"), std::runtime_error,
               "hidden_size must be an integer that fits; got \"3\"");
  EXPECT_ERROR(read(R"({"hidden_size": 9223372036854775808})"), std::runtime_error,
               "hidden_size must be an integer that fits; got 9223372036854775808");
  EXPECT_ERROR(read(R"({"hidden_size": null})"), std::runtime_error,
               "hidden_size must be an integer that fits; got null");
  EXPECT_ERROR(read(R"({"logit_scale": true})"), std::runtime_error,
               "logit_scale must be a number; got true");
  EXPECT_ERROR(read(R"({"query_bias": 0})"), std::runtime_error,
               "query_bias must be true or false; got 0");
  EXPECT_ERROR(read(R"({"norm_placement": "middle"})"), std::runtime_error,
               "norm_placement must be one of pre, post; got \"middle\"");
  EXPECT_ERROR(read(R"({"image_size": 3})"), std::runtime_error,
               "image_size must be [height, width]; got 3");
  EXPECT_ERROR(read(R"({"attention_positions": {"rotary": {"theta": 1}}})"), std::runtime_error,
               "attention_positions.rotary.theta is not a field of the configuration");
  EXPECT_ERROR(read(R"({"layer_types": ["full_attention", 1]})"), std::runtime_error,
               "layer_types[1] must be one of full_attention, sliding_attention; got 1");
  EXPECT_ERROR(read("[]"), std::runtime_error,
               "config: the configuration must be an object; got []");
  const TransformerConfig infinite = {.logit_scale = std::numeric_limits<double>::infinity()};
  EXPECT_ERROR(to_json(infinite), std::invalid_argument,
               "to_json: numbers must be finite; got inf");
}

template <class M>
void expect_made_again(const M& module, const std::filesystem::path& path) {
  save(module, path);
  const M again = load_saved<M>(path);
  EXPECT_EQ(again.config, module.config);
  EXPECT_TRUE(parameters_equal(again, module));
}

TEST(SavedModules, AreMadeAgainFromTheirFile) {
  const test::TemporaryFolder folder;
  const auto path = folder / "module.safetensors";
  SequenceClassifier<float> classifier({.vocab_size = 11,
                                        .hidden_size = 6,
                                        .num_hidden_layers = 2,
                                        .num_attention_heads = 3,
                                        .intermediate_size = 7,
                                        .num_labels = 4});
  init(classifier, Key{1});
  expect_made_again(classifier, path);
  const TransformerConfig half = {.vocab_size = 11,
                                  .hidden_size = 6,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 3,
                                  .intermediate_size = 7,
                                  .attention_positions = {.kind = AttentionPosition::rotary}};
  Transformer<double> transformer(EncoderDecoderConfig{half, half});
  init(transformer, Key{2});
  expect_made_again(transformer, path);

  Linear<float> linear({3, 5});
  init(linear, Key{3});
  save(linear, path, {{"config", "{}"}});
  EXPECT_ERROR(load_saved<Linear<float>>(path), std::runtime_error, "weight");
  write_safetensors(path, {});
  EXPECT_ERROR(load_saved<Linear<float>>(path), std::runtime_error, "the metadata have no config");
}

}  // namespace config_json_test
