// SPDX-License-Identifier: MIT
// Changing a field of the configuration changes the parameters or the result of each module that reads
// it, or is refused; for the modules that don't, as nn/transformer_config_fields.inl says, nothing
// changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/transformer.hpp"
#include "eigenformer/models/transformer_stack.hpp"
#include "eigenformer/models/vision_transformer.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/numbers.hpp"

namespace config_fields_test {

using namespace eigenformer;

/// What a module made from a configuration is and does, or why it can't be.
struct Outcome {
  std::string error;
  std::vector<std::string> names;
  std::vector<float> values;  // of the parameters after init, then of the result

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

template <class M, class Call>
Outcome outcome_of(const TransformerConfig& config, Call&& call) {
  Outcome outcome;
  try {
    M module(config);
    init(module, Key{1});
    for_each_parameter(module, [&](const std::string& name, auto& parameter) {
      outcome.names.push_back(name + to_string(parameter.shape()));
      outcome.values.insert(outcome.values.end(), parameter.begin(), parameter.end());
      // Biases and norms that are neither 0 nor 1, by name.
      const Key key(internal::hash_of(name));
      for (Index i = 0; i < parameter.size(); ++i) {
        parameter.data()[i] += static_cast<float>(0.3 * key.normal(std::uint64_t(i)));
      }
    });
    const auto y = call(module);
    outcome.values.insert(outcome.values.end(), y.begin(), y.end());
  } catch (const std::invalid_argument& error) {
    outcome.error = error.what();
  }
  return outcome;
}

Tensor<std::int32_t, 2> ids(Index tokens) {
  Tensor<std::int32_t, 2> numbers({2, tokens});
  for (Index i = 0; i < numbers.size(); ++i) numbers.data()[i] = std::int32_t(i * 5 % 11);
  return numbers;
}

Tensor<float, 3> vectors(Index tokens, Index width) {
  return reference::random_tensor<float, 3>({2, tokens, width}, 7);
}

template <class M>
Outcome layer_outcome(const TransformerConfig& config) {
  return outcome_of<M>(config,
                       [](const M& layer) { return layer(vectors(7, layer.config.hidden_size)); });
}

template <class M>
Outcome decoder_layer_outcome(const TransformerConfig& config) {
  return outcome_of<M>(config, [](const M& layer) {
    const auto x = vectors(7, layer.config.hidden_size);
    if (!layer.config.cross_attention) return layer(x);
    return layer(x, vectors(5, layer.config.memory_size()));
  });
}

using Readers = std::set<FieldReaders>;

struct ModuleCase {
  std::string name;
  Readers reads;
  Outcome (*outcome)(const TransformerConfig&);
  std::set<std::string> passed_over = {};  // though another module of the group reads them
};

std::vector<ModuleCase> modules() {
  using R = FieldReaders;
  const Readers layer = {R::everyone, R::layers};
  const auto with = [](Readers readers, std::initializer_list<R> more) {
    readers.insert(more);
    return readers;
  };
  const Readers stack = with(layer, {R::stacks}), encoder = with(stack, {R::embeddings});
  return {
      {"EncoderLayer", layer, layer_outcome<EncoderLayer<float>>},
      {"DecoderLayer", with(layer, {R::decoders}), decoder_layer_outcome<DecoderLayer<float>>},
      {"EncoderStack", stack, layer_outcome<EncoderStack<float>>},
      {"DecoderStack", with(stack, {R::decoders}), decoder_layer_outcome<DecoderStack<float>>},
      {"TransformerEncoder", encoder,
       [](const TransformerConfig& config) {
         using M = TransformerEncoder<float>;
         return outcome_of<M>(config, [](const M& model) { return model(ids(7)); });
       }},
      {"TransformerDecoder", with(encoder, {R::decoders, R::decoders_from_ids}),
       [](const TransformerConfig& config) {
         using M = TransformerDecoder<float>;
         return outcome_of<M>(config, [](const M& model) {
           if (!model.config.cross_attention) return model(ids(7));
           const auto memory = vectors(5, model.config.memory_size());
           return model(ids(7), {.memory = memory});
         });
       }},
      {"Transformer", with(encoder, {R::decoders_from_ids, R::encoder_decoders}),
       [](const TransformerConfig& config) {
         using M = Transformer<float>;
         return outcome_of<M>(config, [](const M& model) { return model(ids(5), ids(7)); });
       }},
      {"SequenceClassifier", with(encoder, {R::classifiers}),
       [](const TransformerConfig& config) {
         using M = SequenceClassifier<float>;
         return outcome_of<M>(config, [](const M& model) { return model(ids(7)); });
       }},
      {"VisionTransformer",
       with(stack, {R::classifiers, R::images}),
       [](const TransformerConfig& config) {
         using M = VisionTransformer<float>;
         return outcome_of<M>(config, [](const M& model) {
           const ImageSize size = model.config.image_size;
           const Index channels = model.config.num_channels;
           return model(
               reference::random_tensor<float, 4>({2, channels, size.height, size.width}, 7));
         });
       },
       {"pooler"}},
  };
}

/// What makes a field matter, and another value for it.
struct Change {
  std::function<void(TransformerConfig&)> prepare, change;
};

std::map<std::string, Change> changes() {
  using C = TransformerConfig;
  const auto nothing = [](C&) {};
  const auto sinusoids = [](C& c) { c.position_embedding = PositionEmbedding::sinusoidal; };
  const auto memory = [](C& c) { c.cross_attention = true; };
  const auto head_norms = [](C& c) { c.query_key_norm = true; };
  const auto window = [](C& c) { c.sliding_window = 2; };
  const auto mixed = [](C& c) {
    c.sliding_window = 2;
    c.layer_types = {LayerType::sliding_attention, LayerType::full_attention};
    c.attention_positions.kind = AttentionPosition::rotary;
  };
  return {
      {"image_size",
       {nothing,
        [](C& c) {
          c.image_size = ImageSize{8, 12};
        }}},
      {"patch_size",
       {nothing,
        [](C& c) {
          c.patch_size = ImageSize{4, 2};
        }}},
      {"num_channels", {nothing, [](C& c) { c.num_channels = 1; }}},
      {"vocab_size", {nothing, [](C& c) { c.vocab_size = 14; }}},
      {"hidden_size", {nothing, [](C& c) { c.hidden_size = 24; }}},
      {"num_hidden_layers", {nothing, [](C& c) { c.num_hidden_layers = 1; }}},
      {"num_decoder_layers", {nothing, [](C& c) { c.num_decoder_layers = 3; }}},
      {"num_attention_heads", {nothing, [](C& c) { c.num_attention_heads = 2; }}},
      {"num_key_value_heads", {nothing, [](C& c) { c.num_key_value_heads = 2; }}},
      {"head_size", {nothing, [](C& c) { c.head_size = 5; }}},
      {"intermediate_size", {nothing, [](C& c) { c.intermediate_size = 19; }}},
      {"cross_attention", {nothing, [](C& c) { c.cross_attention = true; }}},
      {"key_value_size", {memory, [](C& c) { c.key_value_size = 5; }}},
      {"activation", {nothing, [](C& c) { c.activation = Activation::silu; }}},
      {"max_position_embeddings", {nothing, [](C& c) { c.max_position_embeddings = 23; }}},
      {"type_vocab_size", {nothing, [](C& c) { c.type_vocab_size = 2; }}},
      {"position_embedding",
       {nothing, [](C& c) { c.position_embedding = PositionEmbedding::none; }}},
      {"sinusoidal_layout",
       {sinusoids, [](C& c) { c.sinusoidal_layout = SinusoidalLayout::concatenated; }}},
      {"position_offset", {nothing, [](C& c) { c.position_offset = 2; }}},
      {"scale_embeddings", {nothing, [](C& c) { c.scale_embeddings = true; }}},
      {"embedding_norm", {nothing, [](C& c) { c.embedding_norm = true; }}},
      {"norm_placement", {nothing, [](C& c) { c.norm_placement = NormPlacement::pre; }}},
      {"final_norm", {nothing, [](C& c) { c.final_norm = true; }}},
      {"num_labels", {nothing, [](C& c) { c.num_labels = 3; }}},
      {"pooler", {nothing, [](C& c) { c.pooler = false; }}},
      {"layer_norm_eps", {nothing, [](C& c) { c.layer_norm_eps = 0.1; }}},
      {"rms_norm_eps", {head_norms, [](C& c) { c.rms_norm_eps = 0.1; }}},
      {"query_bias", {nothing, [](C& c) { c.query_bias = false; }}},
      {"key_bias", {nothing, [](C& c) { c.key_bias = false; }}},
      {"value_bias", {nothing, [](C& c) { c.value_bias = false; }}},
      {"output_bias", {nothing, [](C& c) { c.output_bias = false; }}},
      {"feed_forward_bias", {nothing, [](C& c) { c.feed_forward_bias = false; }}},
      {"norm_bias", {nothing, [](C& c) { c.norm_bias = false; }}},
      {"padding_id", {nothing, [](C& c) { c.padding_id = 3; }}},
      {"attention_scale", {nothing, [](C& c) { c.attention_scale = 0.9; }}},
      {"attention_positions",
       {nothing, [](C& c) { c.attention_positions.kind = AttentionPosition::alibi; }}},
      {"query_key_norm", {nothing, [](C& c) { c.query_key_norm = true; }}},
      {"attn_logit_softcapping", {nothing, [](C& c) { c.attn_logit_softcapping = 0.5; }}},
      {"sliding_window", {nothing, [](C& c) { c.sliding_window = 2; }}},
      {"layer_types",
       {window,
        [](C& c) {
          c.layer_types = {LayerType::full_attention, LayerType::sliding_attention};
        }}},
      {"rope_local_base_freq", {mixed, [](C& c) { c.rope_local_base_freq = 17; }}},
      {"layer_overrides",
       {nothing,
        [](C& c) {
          c.layer_overrides = {{.sliding_window = 2}, {}};
        }}},
      {"share_embeddings", {nothing, [](C& c) { c.share_embeddings = true; }}},
      {"tie_word_embeddings", {nothing, [](C& c) { c.tie_word_embeddings = false; }}},
      {"head_bias", {nothing, [](C& c) { c.head_bias = true; }}},
      {"logit_scale", {nothing, [](C& c) { c.logit_scale = 0.3; }}},
      {"final_logit_softcapping", {nothing, [](C& c) { c.final_logit_softcapping = 0.5; }}},
      {"attention_probs_dropout_prob",
       {nothing, [](C& c) { c.attention_probs_dropout_prob = 0.5; }}},
      {"activation_dropout_prob", {nothing, [](C& c) { c.activation_dropout_prob = 0.5; }}},
      {"hidden_dropout_prob", {nothing, [](C& c) { c.hidden_dropout_prob = 0.5; }}},
  };
}

TransformerConfig base() {
  return {.image_size = ImageSize{8, 8},
          .patch_size = ImageSize{4, 4},
          .num_channels = 3,
          .vocab_size = 13,
          .hidden_size = 16,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .intermediate_size = 17,
          .activation = Activation::gelu,
          .max_position_embeddings = 19,
          .position_embedding = PositionEmbedding::learned,
          .scale_embeddings = false,
          .embedding_norm = false,
          .norm_placement = NormPlacement::post,
          .final_norm = false,
          .num_labels = 2,
          .layer_norm_eps = 1e-5,
          .rms_norm_eps = 1e-5,
          .share_embeddings = false};
}

TEST(ConfigFields, AreReadByTheModulesThatAreSaidToReadThem) {
  const auto by_name = changes();
  for (const ModuleCase& module : modules()) {
    TransformerConfig list;
    TransformerConfig::visit_with_readers(
        [&](const std::string& field, FieldReaders readers, auto&) {
          SCOPED_TRACE(module.name + ", " + field);
          const auto found = by_name.find(field);
          ASSERT_NE(found, by_name.end()) << "a new field needs its change in this test";
          TransformerConfig config = base();
          found->second.prepare(config);
          const Outcome before = module.outcome(config);
          found->second.change(config);
          const Outcome after = module.outcome(config);
          const bool read = module.reads.contains(readers) && !module.passed_over.contains(field);
          EXPECT_EQ(before.error, "");
          EXPECT_EQ(!(after == before), read) << after.error;
        },
        list);
  }
}

TEST(ConfigFields, OfALayerAreTheCommonOnesWithItsOwnInTheirPlace) {
  TransformerConfig c = base();
  c.num_hidden_layers = 4;
  c.sliding_window = 6;
  c.attention_positions.kind = AttentionPosition::rotary;
  c.attention_positions.rotary.rope_theta = 500;
  c.rope_local_base_freq = 30;
  using enum LayerType;
  c.layer_types = {full_attention, sliding_attention, full_attention, sliding_attention};
  c.layer_overrides = {{},
                       {},
                       {.sliding_window = 3, .intermediate_size = 5},
                       {.rope_theta = 70, .norm_placement = NormPlacement::pre}};
  const Index windows[] = {0, 6, 3, 6}, widths[] = {17, 17, 5, 17};
  const double bases[] = {500, 30, 500, 70};
  for (Index i = 0; i < 4; ++i) {
    TransformerConfig expected = base();
    expected.num_hidden_layers = 1;
    expected.attention_positions = c.attention_positions;
    expected.sliding_window = windows[i];
    expected.intermediate_size = widths[i];
    expected.attention_positions.rotary.rope_theta = bases[i];
    if (i == 3) expected.norm_placement = NormPlacement::pre;
    EXPECT_EQ(c.of_layer(i), expected) << i;
  }
}

TEST(ConfigFields, OfLayersThatDoNotFitAreRefused) {
  const auto of_layer = [](auto&& change, Index i = 0) {
    TransformerConfig c = base();
    change(c);
    c.of_layer(i);
  };
  using C = TransformerConfig;
  const auto nothing = [](C&) {};
  EXPECT_ERROR(of_layer(nothing, 2), std::invalid_argument, "there is no layer 2 among 2");
  EXPECT_ERROR(of_layer(nothing, -1), std::invalid_argument, "there is no layer -1 among 2");
  EXPECT_ERROR(of_layer([](C& c) { c.layer_types = {LayerType::full_attention}; }),
               std::invalid_argument,
               "layer_types must hold one entry for each of 2 layers; got 1");
  EXPECT_ERROR(of_layer([](C& c) { c.layer_overrides.resize(3); }), std::invalid_argument,
               "layer_overrides must hold one entry for each of 2 layers; got 3");
  EXPECT_ERROR(of_layer([](C& c) { c.rope_local_base_freq = 5; }), std::invalid_argument,
               "layer_types is empty");
  EXPECT_ERROR(of_layer([](C& c) { c.layer_types.assign(2, LayerType::sliding_attention); }),
               std::invalid_argument, "sliding_window is 0");
}

}  // namespace config_fields_test
