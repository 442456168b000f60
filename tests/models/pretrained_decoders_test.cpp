// SPDX-License-Identifier: MIT
// Configurations of decoders and encoder-decoders as transformers writes them, now and before; and damaged checkpoints. Their numbers are compared by
// golden/decoder_checkpoints_test.cpp and golden/encoder_decoder_checkpoints_test.cpp.

#include "tests/models/checkpoint_copies.hpp"

namespace pretrained_decoders_test {

using ef::Index;
using nlohmann::json;
using test::checkpoints;
using test::Copy;
using test::expect_error;

template <class Format>
using Llama = ef::TransformerDecoder<Format, ef::RMSNorm, ef::GatedFeedForward>;

auto load_llama(const std::filesystem::path& directory) {
  return ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(directory);
}

/// The config.json of a checkpoint with other members; null takes one away.
ef::ConfigFile config_of(const std::string& name, const json& changes = json::object()) {
  json config = json::parse(test::read_file(checkpoints / name / "config.json"));
  config.merge_patch(changes);
  return ef::ConfigFile(config.dump(), "config.json");
}

ef::TransformerConfig decoder(const std::string& name, const json& changes = json::object()) {
  return ef::decoder_config_from(config_of(name, changes));
}
ef::TransformerConfig transformer(const std::string& name, const json& changes = json::object()) {
  return ef::transformer_config_from(config_of(name, changes));
}
ef::RotaryConfig rotary(const std::string& name, const json& changes = json::object()) {
  return decoder(name, changes).attention_positions.rotary;
}

TEST(PretrainedDecoders, Gpt2) {
  const auto c = decoder("gpt2");
  EXPECT_EQ(c.hidden_size, 10);
  EXPECT_EQ(c.intermediate_size, 23);
  EXPECT_EQ(c.max_position_embeddings, 41);
  EXPECT_EQ(c.activation, ef::Activation::gelu_tanh);
  EXPECT_EQ(c.norm_placement, ef::NormPlacement::pre);
  EXPECT_TRUE(c.final_norm && c.tie_word_embeddings);
  EXPECT_FALSE(c.cross_attention || c.embedding_norm || c.attention_scale);
  EXPECT_EQ(c.hidden_dropout_prob, 0.1);
  EXPECT_EQ(decoder("gpt2", {{"n_inner", nullptr}}).intermediate_size, 40);
  EXPECT_EQ(decoder("gpt2", {{"activation_function", "relu"}}).activation, ef::Activation::relu);
  EXPECT_EQ(decoder("gpt2", {{"scale_attn_weights", false}}).attention_scale, 1);
  EXPECT_TRUE(decoder("gpt2", {{"add_cross_attention", true}}).cross_attention);
  EXPECT_FALSE(decoder("gpt2", {{"tie_word_embeddings", false}}).tie_word_embeddings);
  expect_error(
      [] {
        decoder("gpt2", {{"n_head", 3}});
      },
      {"n_head must divide n_embd; got 3 and 10"});
  expect_error([] { decoder("gpt2", {{"n_head", 0}}); }, {"n_head must be > 0"});
  expect_error([] { decoder("gpt2", {{"n_layer", 10'001}}); }, {"n_layer", "at most 10000"});
  expect_error(
      [] {
        decoder("gpt2", {{"scale_attn_by_inverse_layer_idx", true}});
      },
      {"config.json: scale_attn_by_inverse_layer_idx"});
  expect_error(
      [] {
        decoder("gpt2", {{"model_type", "bert"}});
      },
      {"model_type is bert; one of gpt2, llama"});
}

TEST(PretrainedDecoders, Llama) {
  const auto c = decoder("llama");
  EXPECT_EQ(c.num_key_value_heads, 2);
  EXPECT_EQ(c.head_size, 0);
  EXPECT_EQ(c.activation, ef::Activation::silu);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.position_embedding, ef::PositionEmbedding::none);
  EXPECT_EQ(c.attention_positions.kind, ef::AttentionPosition::rotary);
  EXPECT_EQ(c.attention_positions.rotary.layout, ef::RotaryLayout::halves);
  EXPECT_EQ(c.attention_positions.rotary.rope_theta, 10000);
  EXPECT_EQ(c.attention_positions.rotary.rope_scaling.type, ef::RotaryScalingType::none);
  EXPECT_FALSE(c.tie_word_embeddings || c.query_bias || c.output_bias || c.feed_forward_bias);
  EXPECT_EQ(decoder("llama", {{"num_key_value_heads", nullptr}}).num_key_value_heads, 4);
  EXPECT_EQ(decoder("llama", {{"head_dim", 10}}).head_size, 10);
  EXPECT_TRUE(decoder("llama", {{"mlp_bias", true}}).feed_forward_bias);
  const auto biased = decoder("llama", {{"attention_bias", true}});
  EXPECT_TRUE(biased.query_bias && biased.key_bias && biased.value_bias && biased.output_bias);
  EXPECT_EQ(rotary("llama", {{"rope_theta", nullptr}}).rope_theta, 10000);
  EXPECT_EQ(rotary("llama", {{"partial_rotary_factor", 0.5}}).partial_rotary_factor, 0.5);
  expect_error(
      [] {
        decoder("llama", {{"num_attention_heads", 5}});
      },
      {"num_attention_heads must divide hidden_size; got 5 and 24"});
  expect_error([] { decoder("llama", {{"head_dim", 2147483647}}); }, {"below 2^31"});
  expect_error([] { decoder("llama", {{"hidden_act", "mish"}}); }, {"mish is not known"});
}

TEST(PretrainedDecoders, Families) {
  const auto qwen2 = decoder("qwen2"), qwen3 = decoder("qwen3"), mistral = decoder("mistral");
  EXPECT_TRUE(qwen2.query_bias && qwen2.key_bias && qwen2.value_bias && !qwen2.output_bias);
  EXPECT_TRUE(qwen3.query_key_norm && qwen3.tie_word_embeddings && !qwen3.query_bias);
  EXPECT_EQ(qwen3.head_size, 14);
  EXPECT_EQ(decoder("qwen3", {{"head_dim", nullptr}}).head_size, 128);
  EXPECT_EQ(mistral.sliding_window, 5);
  EXPECT_FALSE(mistral.query_key_norm || mistral.query_bias);
  EXPECT_EQ(decoder("mistral", {{"sliding_window", nullptr}}).sliding_window, 0);
  EXPECT_EQ(decoder("llama", {{"sliding_window", 5}}).sliding_window, 0);

  EXPECT_EQ(decoder("qwen2", {{"sliding_window", 5}}).sliding_window, 0);
  json windows = {{"sliding_window", 5},
                  {"use_sliding_window", true},
                  {"max_window_layers", 2},
                  {"layer_types", nullptr}};
  EXPECT_EQ(decoder("qwen2", windows).sliding_window, 0);
  windows["max_window_layers"] = 0;
  EXPECT_EQ(decoder("qwen2", windows).sliding_window, 5);
  windows["max_window_layers"] = 1;
  expect_error([&] { decoder("qwen2", windows); }, {"max_window_layers is 1 of 2"});
}

// rope_theta and rope_scaling, or both in rope_parameters.
TEST(PretrainedDecoders, RotaryPositions) {
  const auto expect_scaling = [](json scaling, auto&& look) {
    look(rotary("llama", {{"rope_theta", 77}, {"rope_scaling", scaling}}));
    scaling["rope_theta"] = 77;
    look(rotary("llama", {{"rope_theta", nullptr}, {"rope_parameters", scaling}}));
  };
  using Type = ef::RotaryScalingType;
  expect_scaling({{"rope_type", "default"}}, [](const auto& c) {
    EXPECT_EQ(c.rope_theta, 77);
    EXPECT_EQ(c.rope_scaling.type, Type::none);
  });
  expect_scaling({{"type", "linear"}, {"factor", 3}}, [](const auto& c) {
    EXPECT_EQ(c.rope_theta, 77);
    EXPECT_EQ(c.rope_scaling.type, Type::linear);
    EXPECT_EQ(c.rope_scaling.factor, 3);
  });
  expect_scaling({{"rope_type", "dynamic"}, {"factor", 3}}, [](const auto& c) {
    EXPECT_EQ(c.rope_scaling.type, Type::dynamic);
    EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 61);
    EXPECT_EQ(c.rope_scaling.length, 0);
  });
  // transformers reads original_max_position_embeddings for other types than this.
  expect_scaling(
      {{"rope_type", "dynamic"}, {"factor", 3}, {"original_max_position_embeddings", 19}},
      [](const auto& c) { EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 61); });
  expect_scaling({{"rope_type", "llama3"},
                  {"factor", 8},
                  {"low_freq_factor", 2},
                  {"high_freq_factor", 5},
                  {"original_max_position_embeddings", 19}},
                 [](const auto& c) {
                   EXPECT_EQ(c.rope_scaling.type, Type::llama3);
                   EXPECT_EQ(c.rope_scaling.low_freq_factor, 2);
                   EXPECT_EQ(c.rope_scaling.high_freq_factor, 5);
                   EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 19);
                 });
  json yarn = {{"rope_type", "yarn"}, {"factor", 4}};
  expect_scaling(yarn, [](const auto& c) {
    EXPECT_EQ(c.rope_scaling.type, Type::yarn);
    EXPECT_EQ(c.rope_scaling.original_max_position_embeddings, 61);
    EXPECT_EQ(c.rope_scaling.beta_fast, 32);
    EXPECT_EQ(c.rope_scaling.beta_slow, 1);
    EXPECT_FALSE(c.rope_scaling.attention_factor.has_value());
  });
  for (const char* only : {"mscale", "mscale_all_dim"}) {
    json one = yarn;
    one[only] = 2;
    expect_scaling(
        one, [](const auto& c) { EXPECT_FALSE(c.rope_scaling.attention_factor.has_value()); });
  }
  yarn.update({{"mscale", 2}, {"mscale_all_dim", 0.5}, {"beta_fast", 9}, {"beta_slow", 2}});
  expect_scaling(yarn, [](const auto& c) {
    EXPECT_EQ(c.rope_scaling.beta_fast, 9);
    EXPECT_EQ(c.rope_scaling.beta_slow, 2);
    EXPECT_DOUBLE_EQ(c.rope_scaling.attention_factor.value(),
                     (1 + 0.2 * std::log(4.0)) / (1 + 0.05 * std::log(4.0)));
  });
  yarn["attention_factor"] = 1.25;
  expect_scaling(yarn, [](const auto& c) { EXPECT_EQ(c.rope_scaling.attention_factor, 1.25); });

  expect_error(
      [] {
        rotary("llama", {{"rope_scaling", {{"type", "longrope"}}}});
      },
      {"rope_type longrope is not known", "linear, dynamic, llama3, yarn"});
  expect_error(
      [] {
        rotary("llama", {{"rope_scaling", {{"type", "linear"}}}});
      },
      {"factor is missing"});
  expect_error(
      [] {
        rotary("llama_yarn", {{"rope_parameters", {{"truncate", false}}}});
      },
      {"truncate"});
  expect_error([] { rotary("llama", {{"rope_scaling", 3}}); }, {"rope_scaling must be an object"});
}

// What a module's constructor refuses is an error of the file.
TEST(PretrainedDecoders, RefusedByTheModule) {
  Copy copy("llama");
  copy.set("rope_scaling", {{"type", "linear"}, {"factor", 0.5}});
  expect_error([&] { load_llama(copy.path()); },
               {(copy.path() / "config.json").string(), "factor must be >= 1; got 0.5"});
  copy.remove("rope_scaling");
  copy.set("num_key_value_heads", 3);
  expect_error([&] { load_llama(copy.path()); },
               {(copy.path() / "config.json").string(), "num_key_value_heads must divide"});
}

TEST(PretrainedDecoders, PartsOfTheModel) {
  expect_error([] { ef::load_decoder<float>(checkpoints / "llama"); },
               {"config.json: model_type llama has RMSNorm"});
  expect_error([] { ef::load_decoder<float, ef::RMSNorm>(checkpoints / "llama"); },
               {"config.json: model_type llama has GatedFeedForward"});
  expect_error([] { load_llama(checkpoints / "gpt2"); }, {"model_type gpt2 has LayerNorm"});
  expect_error([] { ef::load_transformer<float>(checkpoints / "t5"); }, {"t5 has RMSNorm"});
  expect_error([] { ef::load_transformer<float, ef::RMSNorm>(checkpoints / "t5_v1_1"); },
               {"t5 has GatedFeedForward"});
  expect_error([] { ef::load_transformer<float>(checkpoints / "gpt2"); },
               {"model_type is gpt2; one of t5"});
  expect_error([] { ef::load_decoder<float>(checkpoints / "bart"); }, {"model_type is bart"});
  expect_error([] { ef::load_encoder<float>(checkpoints / "gpt2"); }, {"bert is wanted"});
}

// The file holds what config.json says, and no other numbers.
TEST(PretrainedDecoders, ConfigAndTensorsDisagree) {
  Copy copy("gpt2");
  copy.set("vocab_size", 2147483647);
  expect_error([&] { ef::load_decoder<float>(copy.path()); },
               {"shape: transformer.wte.weight has (37, 10); (2147483647, 10) is wanted"});
  copy.set("vocab_size", 37);
  copy.set("tie_word_embeddings", false);
  expect_error([&] { ef::load_decoder<float>(copy.path()); }, {"missing: lm_head.weight"});
  Copy llama("llama");
  llama.set("tie_word_embeddings", true);
  expect_error([&] { load_llama(llama.path()); }, {"lm_head.weight: differs from"});
  llama.set("tie_word_embeddings", false);
  llama.set("attention_bias", true);
  expect_error([&] { load_llama(llama.path()); },
               {"missing: model.layers.1.self_attn.o_proj.bias"});
  Copy qwen("qwen3");
  qwen.set("model_type", "llama");
  expect_error([&] { load_llama(qwen.path()); },
               {"unexpected: model.layers.0.self_attn.q_norm.weight"});
}

TEST(PretrainedTransformers, T5) {
  const auto c = transformer("t5");
  EXPECT_EQ(c.hidden_size, 10);
  EXPECT_EQ(c.head_size, 6);
  EXPECT_EQ(c.num_hidden_layers, 2);
  EXPECT_EQ(c.num_decoder_layers, 3);
  EXPECT_EQ(c.activation, ef::Activation::relu);
  EXPECT_EQ(c.attention_scale, 1);
  EXPECT_EQ(c.attention_positions.kind, ef::AttentionPosition::relative_bias);
  EXPECT_EQ(c.attention_positions.relative_attention_num_buckets, 32);
  EXPECT_EQ(c.norm_placement, ef::NormPlacement::pre);
  EXPECT_TRUE(c.final_norm && c.share_embeddings && c.tie_word_embeddings);
  EXPECT_FALSE(c.scale_embeddings || c.embedding_norm || c.query_bias || c.feed_forward_bias);
  EXPECT_DOUBLE_EQ(c.logit_scale, 1 / std::sqrt(10.0));
  EXPECT_EQ(transformer("t5", {{"num_decoder_layers", nullptr}}).num_decoder_layers, 2);
  EXPECT_EQ(transformer("t5", {{"feed_forward_proj", nullptr}}).activation, ef::Activation::relu);
  const auto gated = transformer("t5_v1_1");
  EXPECT_EQ(gated.activation, ef::Activation::gelu_tanh);
  EXPECT_EQ(gated.attention_positions.relative_attention_num_buckets, 14);
  EXPECT_EQ(gated.attention_positions.relative_attention_max_distance, 17);
  EXPECT_FALSE(gated.tie_word_embeddings);
  EXPECT_EQ(gated.logit_scale, 1);
  EXPECT_EQ(transformer("t5_v1_1", {{"feed_forward_proj", "gated-silu"}}).activation,
            ef::Activation::silu);
  expect_error(
      [] {
        transformer("t5", {{"feed_forward_proj", "gated-mish"}});
      },
      {"feed_forward_proj mish is not known"});
  expect_error([] { transformer("t5", {{"d_kv", 0}}); }, {"d_kv must be > 0"});
  expect_error([] { transformer("t5", {{"d_kv", 2147483647}}); }, {"below 2^31"});
}

// Version 5 of transformers says that every T5's head is tied, and whether logits are scaled.
TEST(PretrainedTransformers, HeadsOfBothVersions) {
  const auto load = [](const Copy& copy) {
    return ef::load_transformer<float, ef::RMSNorm, ef::GatedFeedForward>(copy.path());
  };
  Copy copy("t5_v1_1");
  const auto model = load(copy);
  copy.set("tie_word_embeddings", true);
  copy.set("scale_decoder_outputs", false);
  EXPECT_TRUE(ef::parameters_equal(load(copy), model));
  EXPECT_EQ(load(copy).decoder.config.logit_scale, 1);

  std::vector<ef::NamedTensor> tensors;
  const auto numbers = copy.numbers();
  {
    ef::SafetensorsReader shapes(checkpoints / "t5_v1_1/model.safetensors");
    for (const auto& [name, flat] : numbers) {
      if (name == "lm_head.weight") continue;
      tensors.emplace_back(name, flat);
      tensors.back().shape = shapes.entry(name).shape;
    }
  }
  ef::write_safetensors(copy.path() / "model.safetensors", tensors);
  EXPECT_TRUE(load(copy).decoder.config.tie_word_embeddings);
  EXPECT_EQ(load(copy).decoder.config.logit_scale, 1);
  copy.remove("scale_decoder_outputs");
  copy.set("tie_word_embeddings", false);
  expect_error([&] { load(copy); }, {"missing: lm_head.weight (decoder.head.weight)"});
}

TEST(PretrainedTransformers, Bart) {
  const auto c = transformer("bart");
  EXPECT_EQ(c.num_hidden_layers, 2);
  EXPECT_EQ(c.num_decoder_layers, 3);
  EXPECT_EQ(c.max_position_embeddings, 31);
  EXPECT_EQ(c.position_offset, 2);
  EXPECT_EQ(c.padding_id, 1);
  EXPECT_EQ(c.norm_placement, ef::NormPlacement::post);
  EXPECT_TRUE(c.scale_embeddings && c.embedding_norm && c.head_bias && c.tie_word_embeddings);
  EXPECT_FALSE(c.final_norm);
  EXPECT_FALSE(transformer("bart", {{"scale_embedding", nullptr}}).scale_embeddings);
  expect_error(
      [] {
        transformer("bart", {{"decoder_ffn_dim", 19}});
      },
      {"encoder_ffn_dim and decoder_ffn_dim must be equal; got 23 and 19"});
  expect_error([] { transformer("bart", {{"decoder_attention_heads", 2}}); }, {"must be equal"});
  expect_error([] { transformer("bart", {{"normalize_before", true}}); }, {"normalize_before"});
  expect_error(
      [] {
        transformer("bart", {{"tie_word_embeddings", false}});
      },
      {"tie_word_embeddings is false"});
}

TEST(PretrainedDecoders, MissingAndWrongValuesNameFileAndKey) {
  const auto expect_needed = [](const std::string& name, std::initializer_list<const char*> keys,
                                auto&& read) {
    for (const char* key : keys) {
      expect_error(
          [&] {
            read(name, json{{key, nullptr}});
          },
          {"config.json: " + std::string(key) + " is missing"});
      expect_error(
          [&] {
            read(name, json{{key, json::array()}});
          },
          {"config.json: " + std::string(key) + " must be"});
    }
  };
  expect_needed("gpt2",
                {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "layer_norm_epsilon"},
                decoder);
  expect_needed("llama",
                {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                 "intermediate_size", "max_position_embeddings", "hidden_act", "rms_norm_eps"},
                decoder);
  expect_needed(
      "t5",
      {"vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads", "layer_norm_epsilon"},
      transformer);
  expect_needed("bart",
                {"vocab_size", "d_model", "encoder_layers", "decoder_layers",
                 "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
                 "decoder_ffn_dim", "max_position_embeddings", "activation_function"},
                transformer);
}

TEST(PretrainedDecoders, Llama2c) {
  const ef::Llama2cHeader header{.hidden_size = 12,
                                 .intermediate_size = 7,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 3,
                                 .num_key_value_heads = 1,
                                 .vocab_size = 5,
                                 .max_position_embeddings = 11,
                                 .tie_word_embeddings = false};
  const auto c = ef::decoder_config_from(header);
  EXPECT_EQ(c.attention_positions.rotary.layout, ef::RotaryLayout::interleaved);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(c.activation, ef::Activation::silu);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(ef::count_parameters(Llama<float>(c)),
            2 * 5 * 12 + 2 * (2 * 12 + 2 * 12 * 12 + 2 * 4 * 12 + 3 * 7 * 12) + 12);
}

TEST(PretrainedDecoders, SurviveMutations) {
  test::expect_survives("gpt2", [](auto& files) { ef::load_decoder<float>(files); });
  test::expect_survives("llama_yarn", [](auto& files) {
    ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(files);
  });
}

TEST(PretrainedTransformers, SurviveMutations) {
  test::expect_survives("t5_v1_1", [](auto& files) {
    ef::load_transformer<float, ef::RMSNorm, ef::GatedFeedForward>(files);
  });
  test::expect_survives("bart", [](auto& files) { ef::load_transformer<float>(files); });
}

}  // namespace pretrained_decoders_test
