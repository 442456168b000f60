// SPDX-License-Identifier: MIT
// What decoders and their caches refuse, or must not be confused by.
#include <gtest/gtest.h>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/numbers.hpp"

namespace decoder_arguments_test {

namespace ef = eigenformer;
using ef::Index;
using Ids = ef::Tensor<std::int32_t, 2>;

ef::TransformerConfig small() {
  return {.vocab_size = 11,
          .hidden_size = 8,
          .num_attention_heads = 2,
          .intermediate_size = 13,
          .max_position_embeddings = 6};
}

template <class Model, class Config>
Model initialized(const Config& config) {
  Model model(config);
  ef::init(model, ef::Key{3});
  return model;
}

// With an offset, the first queries would see keys of the future.
TEST(DecoderArguments, OffsetsOfQueriesAreRefused) {
  const auto decoder = initialized<ef::TransformerDecoder<float>>(small());
  const Ids ids({1, 5});
  ef::DecoderInputs<float> inputs;
  inputs.mask.query_offset = 3;
  EXPECT_ERROR(decoder(ids, inputs), std::invalid_argument,
               "TransformerDecoder: mask.query_offset must not be > 0, queries");
  auto cache = decoder.make_cache(1, 6);
  EXPECT_ERROR(decoder(ids, cache, inputs), std::invalid_argument,
               "TransformerDecoder: with a cache, which knows the positions,");
  EXPECT_EQ(cache.length(0), 0);
  const ef::Tensor<float, 3> x({1, 5, 8});
  EXPECT_ERROR(decoder.layers[0](x, inputs.mask), std::invalid_argument,
               "DecoderLayer: mask.query_offset must not be > 0, queries would");
}

TEST(DecoderArguments, TheTableOfAnotherModuleStaysAnothersInOtherFormats) {
  const auto model = initialized<ef::Transformer<float>>(
      ef::TransformerConfig{.vocab_size = 11, .hidden_size = 8, .intermediate_size = 5});
  const auto wide = ef::cast<double>(model.decoder);
  EXPECT_EQ(ef::count_parameters(wide), ef::count_parameters(model.decoder));
}

TEST(DecoderArguments, CachesThatWereMovedFromAreRefused) {
  const auto attention = initialized<ef::MultiHeadAttention<float>>(
      ef::MultiHeadAttentionConfig{.hidden_size = 8, .num_attention_heads = 2});
  auto cache = attention.make_cache(2, 4);
  const auto moved = std::move(cache);
  const ef::Tensor<float, 3> none({0, 2, 8}), two({2, 2, 8});
  ef::Tensor<float, 3> y({0, 2, 8}), z({2, 2, 8});
  ef::Workspace workspace;
  EXPECT_ERROR(attention.forward(none, cache, {}, y, workspace), std::invalid_argument,
               "MultiHeadAttention: cache (batch, key/value heads, head size):");
  EXPECT_ERROR(attention.forward(two, cache, {}, z, workspace), std::invalid_argument,
               "MultiHeadAttention: cache (batch, key/value heads, head size):");
}

TEST(DecoderArguments, ACacheOfOtherHeadsKeepsItsMemory) {
  ef::TransformerConfig config{.hidden_size = 8,
                               .num_hidden_layers = 2,
                               .num_attention_heads = 2,
                               .intermediate_size = 13,
                               .cross_attention = true};
  const auto two = initialized<ef::DecoderStack<float>>(config);
  config.num_attention_heads = 4;
  const auto four = initialized<ef::DecoderStack<float>>(config);
  const auto memory = reference::random_tensor<float, 3>({1, 4, 8}, 1);
  const auto longer = reference::random_tensor<float, 3>({1, 9, 8}, 2);
  const auto x = reference::random_tensor<float, 3>({1, 3, 8}, 3);
  ef::Tensor<float, 3> y(x.shape());
  ef::Workspace workspace;
  auto cache = two.make_cache(1, 5);
  two.remember(memory, {}, cache, workspace);
  EXPECT_ERROR(four.remember(memory, {}, cache, workspace), std::invalid_argument,
               "MultiHeadAttention: cache (batch, key/value heads, head size):");
  EXPECT_ERROR(four.remember(longer, {}, cache, workspace), std::invalid_argument,
               "MultiHeadAttention: cache (batch, key/value heads, head size):");
  ASSERT_TRUE(cache.has_memory());
  two.forward(x, cache, {}, {}, y, workspace);
  EXPECT_EQ(y, two(x, memory));
}

TEST(DecoderArguments, ALayersCacheNeedsItsMemory) {
  const auto layer =
      initialized<ef::DecoderLayer<float>>(ef::TransformerConfig{.hidden_size = 8,
                                                                 .num_attention_heads = 2,
                                                                 .intermediate_size = 13,
                                                                 .cross_attention = true});
  const ef::Tensor<float, 3> x({1, 3, 8});
  ef::Tensor<float, 3> y(x.shape());
  ef::Workspace workspace;
  auto cache = layer.make_cache(1, 5, 4);
  EXPECT_ERROR(layer.forward(x, cache, {}, {}, y, workspace), std::invalid_argument,
               "DecoderLayer: cross_attention is true, but the cache has no");
  EXPECT_EQ(cache.self.length(0), 0);
}

// Lengths that are the cache's own grow while the call runs.
TEST(DecoderArguments, KeyLengthsMayBeTheCachesOwn) {
  const auto attention = initialized<ef::MultiHeadAttention<float>>(
      ef::MultiHeadAttentionConfig{.hidden_size = 8, .num_attention_heads = 2});
  const auto past = reference::random_tensor<float, 3>({1, 4, 8}, 1);
  const auto x = reference::random_tensor<float, 3>({1, 2, 8}, 2);
  ef::Tensor<float, 3> y(past.shape()), own(x.shape()), copied(x.shape());
  ef::Workspace workspace;
  auto a = attention.make_cache(1, 6), b = attention.make_cache(1, 6);
  attention.forward(past, a, {}, y, workspace);
  attention.forward(past, b, {}, y, workspace);
  const std::vector<int> four = {4};
  attention.forward(x, a, {.causal = true, .key_lengths = a.lengths()}, own, workspace);
  attention.forward(x, b, {.causal = true, .key_lengths = four}, copied, workspace);
  EXPECT_EQ(own, copied);
}

TEST(DecoderArguments, ASharedTableMustBeGiven) {
  auto config = small();
  config.share_embeddings = true;
  const auto decoder = initialized<ef::TransformerDecoder<float>>(config);
  EXPECT_ERROR(decoder(Ids({1, 5})), std::invalid_argument,
               "TransformerDecoder: share_embeddings is true, but no token table is given");
}

TEST(DecoderArguments, GenerationThatCannotFitIsRefusedBeforeItBegins) {
  const auto decoder = initialized<ef::TransformerDecoder<float>>(small());
  int tokens = 0;
  const auto count = [&](Index, std::int32_t) { ++tokens; };
  ef::Workspace workspace;
  EXPECT_ERROR(ef::generate(decoder, {{1, 2, 3}}, {.max_new_tokens = 5}, count),
               std::invalid_argument,
               "generate: prompt 0 and 5 new tokens need 7 places; the model");
  EXPECT_ERROR(ef::generate(decoder, {{1}}, {.pad_id = 500}, count), std::invalid_argument,
               "GenerationConfig: pad_id must be in [0, 11); got 500");
  auto cache = decoder.make_cache(1, 4);
  EXPECT_ERROR(ef::generate(decoder, cache, {{1, 2}}, {.max_new_tokens = 4}, workspace, count),
               std::invalid_argument,
               "generate: prompt 0 and 4 new tokens need 5 places; the model");
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_EQ(tokens, 0);
  EXPECT_EQ(ef::generate(decoder, cache, {{1, 2}}, {.max_new_tokens = 3}, workspace).ids[0].size(),
            3u);
  EXPECT_ERROR(ef::generate(decoder, cache, {{1}}, {.max_new_tokens = 1}, workspace, count),
               std::invalid_argument,
               "generate: prompt 0 and 1 new tokens need 5 places; the model");
  EXPECT_EQ(ef::generate(decoder, {{1, 2, 3}}, {.max_new_tokens = 4}).ids[0].size(), 4u);
}

TEST(DecoderArguments, GenerationCountsTheFirstRowsThatPositionsSkip) {
  auto config = small();
  config.position_embedding = ef::PositionEmbedding::learned;
  config.max_position_embeddings = 8;
  config.position_offset = 2;
  const auto decoder = initialized<ef::TransformerDecoder<float>>(config);
  EXPECT_ERROR(ef::generate(decoder, {{1, 2, 3}}, {.max_new_tokens = 5}), std::invalid_argument,
               "generate: prompt 0 and 5 new tokens need 7 places; the model and its cache have 6");
  EXPECT_EQ(ef::generate(decoder, {{1, 2, 3}}, {.max_new_tokens = 4}).ids[0].size(), 4u);
}

TEST(DecoderArguments, NumbersThatAreInfiniteInFloatAreRefused) {
  auto config = small();
  config.attn_logit_softcapping = 1e40;
  EXPECT_ERROR(ef::TransformerDecoder<float>{config}, std::invalid_argument,
               "MultiHeadAttention: attn_logit_softcapping must be in [0, 1e30]");
  config = small();
  config.attention_scale = 1e40;
  EXPECT_ERROR(ef::TransformerDecoder<float>{config}, std::invalid_argument,
               "MultiHeadAttention: scale must be within +-1e30; got 1e+40");
  config = small();
  config.logit_scale = 1e40;
  EXPECT_ERROR(ef::TransformerDecoder<float>{config}, std::invalid_argument,
               "LanguageModelHead: logit_scale must be within +-1e30; got 1e+40");
  config = small();
  config.final_logit_softcapping = 1e40;
  EXPECT_ERROR(ef::TransformerDecoder<float>{config}, std::invalid_argument,
               "LanguageModelHead: final_logit_softcapping must be in [0, 1e30]");
}

TEST(DecoderArguments, RotaryScalingsThatGiveNoNumbersAreRefused) {
  using Type = ef::RotaryScalingType;
  const double infinity = std::numeric_limits<double>::infinity();
  const auto make = [](const ef::RotaryConfig& rotary) {
    auto config = small();
    config.attention_positions = {.kind = ef::AttentionPosition::rotary, .rotary = rotary};
    return ef::TransformerDecoder<float>(config);
  };
  ef::RotaryScaling yarn{.type = Type::yarn, .factor = 2, .original_max_position_embeddings = 64};
  EXPECT_NO_THROW(make({.rope_scaling = yarn}));
  EXPECT_ERROR(make({.rope_theta = 1, .rope_scaling = yarn}), std::invalid_argument,
               "RotaryConfig: yarn needs a rope_theta > 1; got 1");
  yarn.attention_factor = infinity;
  EXPECT_ERROR(make({.rope_scaling = yarn}), std::invalid_argument,
               "RotaryConfig: rope_scaling.attention_factor must be within");
  ef::RotaryScaling llama{
      .type = Type::llama3, .factor = 2, .original_max_position_embeddings = 64};
  EXPECT_NO_THROW(make({.rope_scaling = llama}));
  llama.high_freq_factor = infinity;
  EXPECT_ERROR(make({.rope_scaling = llama}), std::invalid_argument,
               "RotaryConfig: 0 < low_freq_factor < high_freq_factor must hold;");
}

std::string config_text(const std::string& more) {
  return R"({"model_type": "qwen2", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2,
             "num_attention_heads": 2, "intermediate_size": 5, "hidden_act": "silu",
             "max_position_embeddings": 64, "rms_norm_eps": 1e-6)" +
         more + "}";
}

ef::TransformerConfig read(const std::string& more) {
  return ef::decoder_config_from(ef::ConfigFile(config_text(more), "config.json"));
}

TEST(DecoderArguments, TypesOfLayersDecideOnTheWindow) {
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 3)";
  const std::string sliding = R"("sliding_attention")", full = R"("full_attention")";
  const auto with = [&](const std::string& first, const std::string& second) {
    return read(window + ", \"layer_types\": [" + first + ", " + second + "]");
  };
  EXPECT_EQ(with(sliding, sliding).sliding_window, 3);
  EXPECT_EQ(with(full, full).sliding_window, 0);
  const std::string all = R"(, "max_window_layers": 0)";
  EXPECT_EQ(read(window + all).sliding_window, 3);
  EXPECT_EQ(read(R"(, "sliding_window": 3)" + all).sliding_window, 0);
  EXPECT_EQ(read(R"(, "use_sliding_window": false, "sliding_window": 3)" + all).sliding_window, 0);
  EXPECT_ERROR(with(sliding, full), std::runtime_error,
               "config.json: layer_types must be full_attention or");
  EXPECT_ERROR(with("\"chunked\"", "\"chunked\""), std::runtime_error,
               "config.json: layer_types must be full_attention or");
  EXPECT_ERROR(with("5", "5"), std::runtime_error,
               "config.json: layer_types must be a string; got 5");
  EXPECT_ERROR(read(window + R"(, "layer_types": 5)"), std::runtime_error,
               "config.json: layer_types must be an array of strings; got 5");
}

TEST(DecoderArguments, RotaryNumbersMayStandOutsideTheirObject) {
  const auto rotary = [](const std::string& more) { return read(more).attention_positions.rotary; };
  EXPECT_EQ(rotary("").rope_theta, 10000);
  EXPECT_EQ(rotary(R"(, "rope_theta": 100.0)").rope_theta, 100);
  const std::string usual = R"(, "rope_parameters": {"rope_type": "default")";
  EXPECT_EQ(rotary(R"(, "rope_theta": 100.0)" + usual + "}").rope_theta, 100);
  EXPECT_EQ(rotary(R"(, "rope_theta": 100.0)" + usual + R"(, "rope_theta": 7.0})").rope_theta, 7);
  EXPECT_EQ(rotary(R"(, "partial_rotary_factor": 0.5)" + usual + "}").partial_rotary_factor, 0.5);
  const auto yarn = rotary(R"(, "original_max_position_embeddings": 32,
                              "rope_parameters": {"rope_type": "yarn", "factor": 2.0})");
  EXPECT_EQ(yarn.rope_scaling.original_max_position_embeddings, 32);
}

// Every field that the two halves have in common arrives in both.
TEST(TransformerConfig, EveryFieldReachesBothHalves) {
  ef::TransformerConfig c{.vocab_size = 101,
                          .hidden_size = 102,
                          .num_hidden_layers = 103,
                          .num_decoder_layers = 104,
                          .num_attention_heads = 105,
                          .num_key_value_heads = 106,
                          .head_size = 107,
                          .intermediate_size = 108,
                          .activation = ef::Activation::quick_gelu,
                          .max_position_embeddings = 109,
                          .position_embedding = ef::PositionEmbedding::none,
                          .sinusoidal_layout = ef::SinusoidalLayout::interleaved,
                          .position_offset = 110,
                          .scale_embeddings = false,
                          .embedding_norm = true,
                          .norm_placement = ef::NormPlacement::pre,
                          .final_norm = true,
                          .layer_norm_eps = 0.11,
                          .rms_norm_eps = 0.12,
                          .query_bias = false,
                          .key_bias = false,
                          .value_bias = false,
                          .output_bias = false,
                          .feed_forward_bias = false,
                          .norm_bias = false,
                          .padding_id = 13,
                          .attention_scale = 0.14,
                          .attention_positions = {.kind = ef::AttentionPosition::alibi},
                          .query_key_norm = true,
                          .attn_logit_softcapping = 0.15,
                          .sliding_window = 16,
                          .share_embeddings = false,
                          .tie_word_embeddings = false,
                          .head_bias = true,
                          .logit_scale = 0.17,
                          .final_logit_softcapping = 0.18,
                          .attention_probs_dropout_prob = 0.19,
                          .activation_dropout_prob = 0.20,
                          .hidden_dropout_prob = 0.21};
  const ef::EncoderDecoderConfig both = ef::both_halves(c);
  EXPECT_EQ(both.encoder.num_hidden_layers, 103);
  EXPECT_EQ(both.decoder.num_hidden_layers, 104);
  ef::TransformerConfig::visit(
      [](const std::string& name, const auto& whole, const auto& encoder, const auto& decoder) {
        if (name == "num_hidden_layers" || name == "num_decoder_layers") return;
        EXPECT_TRUE(whole == encoder && whole == decoder) << name;
      },
      c, both.encoder, both.decoder);
  c.num_decoder_layers = 0;
  EXPECT_EQ(ef::both_halves(c).decoder.num_hidden_layers, 103);
}

}  // namespace decoder_arguments_test
