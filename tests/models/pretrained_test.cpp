// SPDX-License-Identifier: MIT
// Directories that transformers wrote, with the numbers that transformers computed from them; and damaged ones.

#include "tests/models/checkpoint_copies.hpp"

namespace pretrained_test {

using ef::Index;
using ef::Tensor;
using test::checkpoints;
using test::Copy;
using test::expect_error;
using test::golden_folder;

ef::SafetensorsReader& outputs() {
  static ef::SafetensorsReader file(golden_folder / "bert_checkpoints.safetensors");
  return file;
}

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;

template <class T, int Rank>
void expect_near(const Tensor<T, Rank>& actual, const Tensor<double, Rank>& wanted) {
  ASSERT_EQ(actual.shape(), wanted.shape());
  double largest = 0;
  for (double x : wanted) largest = std::max(largest, std::abs(x));
  ASSERT_GT(largest, 0);
  for (Index i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual.data()[i]), wanted.data()[i], tolerance<T> * largest)
        << i;
  }
}

// The inputs of all BERT cases.
struct BertInputs {
  Tensor<std::int32_t, 2> ids = outputs().read<std::int32_t, 2>("bert_model/input/ids");
  Tensor<std::int32_t, 2> types = outputs().read<std::int32_t, 2>("bert_model/input/token_types");
  Tensor<std::int64_t, 1> lengths = outputs().read<std::int64_t, 1>("bert_model/mask/key_lengths");
};

template <class Model>
auto run(const Model& model) {
  const BertInputs inputs;
  return model(inputs.ids, {.token_types = inputs.types}, {.key_lengths = inputs.lengths});
}

template <class T>
class Pretrained : public ::testing::Test {};
using Formats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Pretrained, Formats);

TYPED_TEST(Pretrained, BertModel) {
  using T = TypeParam;
  const auto hidden = run(ef::load_encoder<T>(checkpoints / "bert_model"));
  expect_near(hidden, outputs().read<double, 3>("bert_model/output/last_hidden_state"));

  // The pooler by itself, by a map of one row.
  ef::Pooler<T> pooler(ef::PoolerConfig{hidden.dim(2)});
  ef::load(pooler, checkpoints / "bert_model",
           {.rows = {{"pooler.dense.*", "dense.*"}}, .ignored = {"embeddings.*", "encoder.*"}});
  expect_near(pooler(hidden), outputs().read<double, 2>("bert_model/output/pooler_output"));
}

TYPED_TEST(Pretrained, BertForMaskedLM) {
  const auto model = ef::load_masked_language_model<TypeParam>(checkpoints / "bert_masked_lm");
  expect_near(run(model), outputs().read<double, 3>("bert_masked_lm/output/logits"));
}

TYPED_TEST(Pretrained, BertForSequenceClassification) {
  const auto model =
      ef::load_sequence_classifier<TypeParam>(checkpoints / "bert_sequence_classification");
  expect_near(run(model), outputs().read<double, 2>("bert_sequence_classification/output/logits"));
}

// gamma and beta, the buffer position_ids, the decoder stored a second time, another head.
TYPED_TEST(Pretrained, BertForPreTrainingWithOldNames) {
  const auto directory = checkpoints / "bert_pretraining_old_names";
  expect_near(run(ef::load_masked_language_model<TypeParam>(directory)),
              outputs().read<double, 3>("bert_pretraining_old_names/output/logits"));
  expect_near(run(ef::load_encoder<TypeParam>(directory)),
              outputs().read<double, 3>("bert_pretraining_old_names/output/last_hidden_state"));
}

// Positions in the attention; the file has a table of absolute ones as well.
TYPED_TEST(Pretrained, BertWithRelativePositions) {
  for (const std::string name : {"bert_relative_key", "bert_relative_key_query"}) {
    SCOPED_TRACE(name);
    expect_near(run(ef::load_encoder<TypeParam>(checkpoints / name)),
                outputs().read<double, 3>(name + "/output/last_hidden_state"));
  }
}

TYPED_TEST(Pretrained, ViTForImageClassification) {
  using T = TypeParam;
  ef::SafetensorsReader file(golden_folder / "vision_transformer.safetensors");
  const auto model = ef::load_vision_transformer<T>(checkpoints / "vit_image_classification");
  expect_near(model(file.read<T, 4>("image_classification/input/images")),
              file.read<double, 2>("image_classification/output/logits"));
}

TEST(PretrainedFiles, FromMemory) {
  const auto directory = checkpoints / "bert_sequence_classification";
  const std::string config = test::read_file(directory / "config.json"),
                    tensors = test::read_file(directory / "model.safetensors");
  ef::PretrainedFiles files(config, test::as_bytes(tensors), "embedded");
  EXPECT_TRUE(ef::parameters_equal(ef::load_sequence_classifier<float>(files),
                                   ef::load_sequence_classifier<float>(directory)));
  EXPECT_EQ(files.config.labels("id2label").size(), 5u);
  EXPECT_EQ(files.config.labels("id2label")[3], "LABEL_3");
  ef::PretrainedFiles broken("{}", test::as_bytes(tensors), "embedded");
  expect_error([&] { ef::load_encoder<float>(broken); },
               {"embedded/config.json: model_type is missing"});
}

TEST(PretrainedConfig, MissingAndWrongValuesNameFileAndKey) {
  const auto expect_refused = [](const std::string& key, const nlohmann::json& value,
                                 std::initializer_list<std::string_view> parts) {
    Copy copy("bert_sequence_classification");
    copy.set(key, value);
    const std::string path = (copy.path() / "config.json").string();
    expect_error([&] { ef::load_sequence_classifier<float>(copy.path()); }, {path, key});
    expect_error([&] { ef::load_sequence_classifier<float>(copy.path()); }, parts);
  };
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size", "max_position_embeddings",
                          "type_vocab_size", "hidden_act", "layer_norm_eps", "model_type"}) {
    Copy copy("bert_sequence_classification");
    copy.remove(key);
    expect_error([&] { ef::load_sequence_classifier<float>(copy.path()); },
                 {(copy.path() / "config.json").string(), std::string(key) + " is missing"});
    expect_refused(key, nullptr, {"is missing"});
    expect_refused(key, true, {"must be"});
    expect_refused(key, nlohmann::json::array(), {"must be"});
  }
  expect_refused("hidden_size", -10, {"integer in [0, 2^31)", "-10"});
  expect_refused("hidden_size", 10.5, {"integer", "10.5"});
  expect_refused("hidden_size", "10", {"integer", "\"10\""});
  expect_refused("hidden_size", 0, {"> 0"});
  expect_refused("num_attention_heads", 0, {"> 0"});
  expect_refused("num_attention_heads", 3, {"must divide hidden_size; got 3 and 10"});
  expect_refused("num_hidden_layers", 1'000'000'000, {"at most 10000"});
  expect_refused("layer_norm_eps", -1, {">= 0"});
  expect_refused("hidden_dropout_prob", 1.5, {"[0, 1]", "1.5"});
  expect_refused("hidden_act", "mish", {"mish is not known", "gelu_new", "silu"});
  expect_refused("position_embedding_type", "rotary", {"rotary", "absolute", "relative_key"});
  expect_refused("is_decoder", true, {"encoder"});
  expect_refused("model_type", "t5", {"t5", "bert"});
  expect_refused("pad_token_id", 37, {"below vocab_size", "37"});
  expect_refused("id2label", {{"0", "a"}, {"2", "b"}}, {"2 labels", "none for 1"});
}

// A model that has tables of offsets, from a file that has none.
TEST(PretrainedConfig, RelativePositions) {
  Copy copy("bert_masked_lm");
  copy.set("position_embedding_type", "relative_key");
  expect_error([&] { ef::load_masked_language_model<float>(copy.path()); },
               {"missing: bert.encoder.layer.0.attention.self.distance_embedding.weight"});
}

TEST(PretrainedConfig, Activations) {
  const std::map<std::string, ef::Activation> names = {
      {"gelu", ef::Activation::gelu},
      {"gelu_python", ef::Activation::gelu},
      {"gelu_new", ef::Activation::gelu_tanh},
      {"gelu_fast", ef::Activation::gelu_tanh},
      {"relu", ef::Activation::relu},
      {"gelu_pytorch_tanh", ef::Activation::gelu_tanh},
      {"silu", ef::Activation::silu},
      {"swish", ef::Activation::silu},
      {"quick_gelu", ef::Activation::quick_gelu},
      {"tanh", ef::Activation::tanh}};
  for (const auto& [name, activation] : names) {
    Copy copy("bert_model");
    copy.set("hidden_act", name);
    EXPECT_EQ(ef::load_encoder<float>(copy.path()).config.activation, activation) << name;
  }
}

TEST(PretrainedConfig, FieldsArrive) {
  Copy copy("bert_model");
  copy.set("layer_norm_eps", 1e-3);
  copy.set("hidden_dropout_prob", 0.25);
  copy.set("attention_probs_dropout_prob", 0.5);
  copy.set("pad_token_id", 2);
  const auto config = ef::load_encoder<float>(copy.path()).config;
  EXPECT_EQ(config.layer_norm_eps, 1e-3);
  EXPECT_EQ(config.hidden_dropout_prob, 0.25);
  EXPECT_EQ(config.attention_probs_dropout_prob, 0.5);
  EXPECT_EQ(config.padding_id, 2);
  EXPECT_EQ(config.norm_placement, ef::NormPlacement::post);
  copy.set("pad_token_id", nullptr);
  EXPECT_FALSE(ef::load_encoder<float>(copy.path()).config.padding_id.has_value());
}

TEST(PretrainedConfig, VisionTransformer) {
  for (const auto& [key, value, part] : {std::tuple<std::string, nlohmann::json, std::string>{
                                             "image_size", {11, 17, 3}, "one or two"},
                                         {"image_size", 0, "one or two"},
                                         {"image_size", {11, 2147483647}, "one or two"},
                                         {"num_channels", 2147483647, "at most"},
                                         {"patch_size", {30, 5}, "at most image_size"},
                                         {"num_channels", 0, "> 0"},
                                         {"model_type", "bert", "vit is wanted"}}) {
    Copy copy("vit_image_classification");
    copy.set(key, value);
    expect_error([&] { ef::load_vision_transformer<float>(copy.path()); },
                 {(copy.path() / "config.json").string(), key, part});
  }
  Copy copy("vit_image_classification");
  copy.set("qkv_bias", false);
  expect_error([&] { ef::load_vision_transformer<float>(copy.path()); },
               {"unexpected: vit.encoder.layer.1.attention.attention.key.bias"});
}

// A config.json that promises another model than the tensors are; sizes that no memory holds are refused all the same.
TEST(PretrainedFiles, ConfigAndTensorsDisagree) {
  Copy copy("bert_model");
  copy.set("vocab_size", 2147483647);
  expect_error(
      [&] { ef::load_encoder<float>(copy.path()); },
      {(copy.path()).string(),
       "shape: embeddings.word_embeddings.weight has (37, 10); (2147483647, 10) is wanted"});
  copy.set("vocab_size", 37);
  copy.set("num_hidden_layers", 3);
  expect_error(
      [&] { ef::load_encoder<float>(copy.path()); },
      {"missing: encoder.layer.2.attention.self.query.weight (layers.2.attention.query.weight)"});
  copy.set("num_hidden_layers", 1);
  expect_error([&] { ef::load_encoder<float>(copy.path()); },
               {"unexpected: encoder.layer.1.attention.self.query.weight"});
  expect_error([&] { ef::load_sequence_classifier<float>(checkpoints / "bert_masked_lm"); },
               {"missing: bert.pooler.dense.weight (pooler.dense.weight)",
                "missing: classifier.bias", "unexpected: cls.predictions.bias"});
  expect_error([&] { ef::load_masked_language_model<float>(checkpoints / "bert_model"); },
               {"missing: cls.predictions.bias (head.bias)"});
  expect_error([&] { ef::load_encoder<float>(checkpoints); }, {"config.json", "no such file"});
  std::filesystem::remove(copy.path() / "model.safetensors");
  expect_error([&] { ef::load_encoder<float>(copy.path()); }, {copy.path().string(), "neither"});
}

// The decoder may be missing, stand alone, be there twice; it may not differ.
TEST(PretrainedFiles, TiedDecoder) {
  const std::string decoder = "cls.predictions.decoder.weight",
                    table = "bert.embeddings.word_embeddings.weight";
  Copy copy("bert_pretraining_old_names");
  const auto whole = ef::load_masked_language_model<float>(copy.path());
  auto numbers = copy.numbers();
  const auto write = [&](const std::string& without) {
    ef::SafetensorsReader shapes(checkpoints / "bert_pretraining_old_names/model.safetensors");
    std::vector<ef::NamedTensor> tensors;
    for (const auto& [name, flat] : numbers) {
      if (name == without) continue;
      tensors.emplace_back(name, flat);
      tensors.back().shape = shapes.entry(name).shape;
    }
    ef::write_safetensors(copy.path() / "model.safetensors", tensors);
  };
  for (const std::string& without :
       {std::string(), decoder, table, std::string("cls.predictions.bias"),
        std::string("cls.predictions.decoder.bias")}) {
    write(without);
    EXPECT_TRUE(ef::parameters_equal(ef::load_masked_language_model<float>(copy.path()), whole))
        << without;
  }
  copy.set("tie_word_embeddings", false);
  write("");
  EXPECT_TRUE(ef::parameters_equal(ef::load_masked_language_model<float>(copy.path()), whole));
  write(decoder);
  expect_error([&] { ef::load_masked_language_model<float>(copy.path()); },
               {"missing: " + decoder});
  copy.set("tie_word_embeddings", true);
  numbers.at(decoder)(123) += 1;
  write("");
  expect_error([&] { ef::load_masked_language_model<float>(copy.path()); },
               {copy.path().string(), decoder, "differs from " + table, "element 123"});
  EXPECT_NO_THROW(ef::load_encoder<float>(copy.path()));
}

TEST(PretrainedFiles, Shards) {
  Copy copy("bert_model");
  const auto whole = ef::load_encoder<float>(copy.path());
  std::vector<ef::NamedTensor> shards[2];
  nlohmann::json map;
  const auto numbers = copy.numbers();
  {
    ef::SafetensorsReader shapes(copy.path() / "model.safetensors");
    std::size_t next = 0;
    for (const auto& [name, flat] : numbers) {
      shards[next % 2].emplace_back(name, flat);
      shards[next % 2].back().shape = shapes.entry(name).shape;
      map[name] = "model-" + std::to_string(next++ % 2) + ".safetensors";
    }
  }
  std::filesystem::remove(copy.path() / "model.safetensors");
  ef::write_safetensors(copy.path() / "model-0.safetensors", shards[0]);
  ef::write_safetensors(copy.path() / "model-1.safetensors", shards[1]);
  test::write_file(copy.path() / "model.safetensors.index.json",
                   nlohmann::json{{"weight_map", map}}.dump());
  EXPECT_TRUE(ef::parameters_equal(ef::load_encoder<float>(copy.path()), whole));
}

TEST(PretrainedFiles, SurviveMutations) {
  test::expect_survives("bert_masked_lm",
                        [](auto& files) { ef::load_masked_language_model<float>(files); });
  test::expect_survives("vit_image_classification",
                        [](auto& files) { ef::load_vision_transformer<float>(files); });
}

}  // namespace pretrained_test
