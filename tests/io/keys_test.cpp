// SPDX-License-Identifier: MIT
// Key maps of PyTorch's layers and of two books: files under their names, spelled out here one by one, give back the parameters.

#include "tests/io/foreign_file.hpp"

namespace keys_test {

using ef::Index;
using ef::Tensor;
using test::ForeignFile;
using test::numbered;

const ef::TransformerConfig layer_config{
    .hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 11};

void add_torch_layer(ForeignFile& file, const std::string& prefix,
                     const ef::EncoderLayer<float>& x) {
  file.add_fused(prefix + "self_attn.in_proj_weight", prefix + "self_attn.in_proj_bias",
                 x.attention);
  file.add(prefix + "self_attn.out_proj", x.attention.output);
  file.add(prefix + "linear1", x.feed_forward.linear_1);
  file.add(prefix + "linear2", x.feed_forward.linear_2);
  file.add(prefix + "norm1", x.attention_norm);
  file.add(prefix + "norm2", x.feed_forward_norm);
}

TEST(Keys, TorchEncoderLayer) {
  ef::TransformerConfig config = layer_config;
  for (const bool bias : {true, false}) {
    config.query_bias = config.key_bias = config.value_bias = config.output_bias = bias;
    config.feed_forward_bias = config.norm_bias = bias;
    const auto layer = numbered(ef::EncoderLayer<float>(config));
    ForeignFile file;
    add_torch_layer(file, "", layer);
    file.expect_gives(layer, ef::torch_encoder_layer_keys());
  }
}

TEST(Keys, TorchAttentionWithItsOwnWidths) {
  const auto attention = numbered(ef::MultiHeadAttention<float>(
      {.hidden_size = 6, .num_attention_heads = 3, .key_value_size = 5, .value_size = 7}));
  ForeignFile file;
  file.add("q_proj_weight", attention.query.weight);
  file.add("k_proj_weight", attention.key.weight);
  file.add("v_proj_weight", attention.value.weight);
  Tensor<float, 1> bias({18});
  bias.vector() << attention.query.bias.vector(), attention.key.bias.vector(),
      attention.value.bias.vector();
  file.add("in_proj_bias", bias);
  file.add("out_proj", attention.output);
  file.expect_gives(attention, ef::torch_attention_keys());
}

TEST(Keys, TorchEncoder) {
  for (const bool final_norm : {false, true}) {
    const auto stack = numbered(ef::EncoderStack<float>({.hidden_size = 6,
                                                         .num_hidden_layers = 2,
                                                         .num_attention_heads = 3,
                                                         .intermediate_size = 11,
                                                         .final_norm = final_norm}));
    for (const std::string prefix : {"", "encoder."}) {
      ForeignFile file;
      add_torch_layer(file, prefix + "layers.0.", stack.layers[0]);
      add_torch_layer(file, prefix + "layers.1.", stack.layers[1]);
      if (final_norm) file.add(prefix + "norm", *stack.final_norm);
      if (!prefix.empty()) add_torch_layer(file, "decoder.layers.0.", stack.layers[0]);
      file.expect_gives(stack, ef::torch_encoder_keys());
    }
  }
}

const ef::TransformerConfig decoder_config{.hidden_size = 6,
                                           .num_hidden_layers = 2,
                                           .num_attention_heads = 3,
                                           .intermediate_size = 11,
                                           .cross_attention = true,
                                           .final_norm = true};

void add_torch_layer(ForeignFile& file, const std::string& prefix,
                     const ef::DecoderLayer<float>& x) {
  file.add_fused(prefix + "self_attn.in_proj_weight", prefix + "self_attn.in_proj_bias",
                 x.self_attention);
  file.add(prefix + "self_attn.out_proj", x.self_attention.output);
  file.add_fused(prefix + "multihead_attn.in_proj_weight", prefix + "multihead_attn.in_proj_bias",
                 *x.cross_attention);
  file.add(prefix + "multihead_attn.out_proj", x.cross_attention->output);
  file.add(prefix + "linear1", x.feed_forward.linear_1);
  file.add(prefix + "linear2", x.feed_forward.linear_2);
  file.add(prefix + "norm1", x.self_attention_norm);
  file.add(prefix + "norm2", *x.cross_attention_norm);
  file.add(prefix + "norm3", x.feed_forward_norm);
}

TEST(Keys, TorchDecoderLayer) {
  auto config = decoder_config;
  for (const bool bias : {true, false}) {
    config.query_bias = config.key_bias = config.value_bias = config.output_bias = bias;
    config.feed_forward_bias = config.norm_bias = bias;
    const auto layer = numbered(ef::DecoderLayer<float>(config));
    ForeignFile file;
    add_torch_layer(file, "", layer);
    file.expect_gives(layer, ef::torch_decoder_layer_keys());
  }
}

// The decoder by itself, or out of a whole nn.Transformer.
TEST(Keys, TorchDecoder) {
  for (const bool final_norm : {false, true}) {
    auto config = decoder_config;
    config.final_norm = final_norm;
    const auto stack = numbered(ef::DecoderStack<float>(config));
    for (const std::string prefix : {"", "decoder."}) {
      ForeignFile file;
      add_torch_layer(file, prefix + "layers.0.", stack.layers[0]);
      add_torch_layer(file, prefix + "layers.1.", stack.layers[1]);
      if (final_norm) file.add(prefix + "norm", *stack.final_norm);
      if (!prefix.empty()) file.add_zeros("encoder.norm.bias", 6);
      file.expect_gives(stack, ef::torch_decoder_keys());
    }
  }
}

TEST(Keys, TorchTransformer) {
  const auto stack = numbered(ef::TransformerStack<float>({.encoder = {.hidden_size = 6,
                                                                       .num_hidden_layers = 1,
                                                                       .num_attention_heads = 3,
                                                                       .intermediate_size = 11,
                                                                       .final_norm = true},
                                                           .decoder = decoder_config}));
  ForeignFile file;
  add_torch_layer(file, "encoder.layers.0.", stack.encoder.layers[0]);
  file.add("encoder.norm", *stack.encoder.final_norm);
  add_torch_layer(file, "decoder.layers.0.", stack.decoder.layers[0]);
  add_torch_layer(file, "decoder.layers.1.", stack.decoder.layers[1]);
  file.add("decoder.norm", *stack.decoder.final_norm);
  file.expect_gives(stack, ef::torch_transformer_keys());
}

void add_d2l_attention(ForeignFile& file, const std::string& prefix,
                       const ef::MultiHeadAttention<float>& x) {
  file.add(prefix + "W_q", x.query);
  file.add(prefix + "W_k", x.key);
  file.add(prefix + "W_v", x.value);
  file.add(prefix + "W_o", x.output);
}

TEST(Keys, DiveIntoDeepLearning) {
  const auto encoder = numbered(
      ef::TransformerEncoder<float>({.vocab_size = 13,
                                     .hidden_size = 6,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 3,
                                     .intermediate_size = 11,
                                     .position_embedding = ef::PositionEmbedding::sinusoidal,
                                     .scale_embeddings = true,
                                     .embedding_norm = false,
                                     .query_bias = false,
                                     .key_bias = false,
                                     .value_bias = false,
                                     .output_bias = false}));
  ForeignFile file;
  file.add("embedding.weight", encoder.embeddings.token.weight);
  for (const std::size_t i : {0u, 1u}) {
    const std::string prefix = "blks.block" + std::to_string(i) + ".";
    const auto& layer = encoder.layers[i];
    add_d2l_attention(file, prefix + "attention.", layer.attention);
    file.add(prefix + "addnorm1.ln", layer.attention_norm);
    file.add(prefix + "ffn.dense1", layer.feed_forward.linear_1);
    file.add(prefix + "ffn.dense2", layer.feed_forward.linear_2);
    file.add(prefix + "addnorm2.ln", layer.feed_forward_norm);
  }
  file.expect_gives(encoder, ef::d2l_encoder_keys());
}

TEST(Keys, DiveIntoDeepLearningDecoder) {
  const auto decoder = numbered(
      ef::TransformerDecoder<float>({.vocab_size = 13,
                                     .hidden_size = 6,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 3,
                                     .intermediate_size = 11,
                                     .cross_attention = true,
                                     .position_embedding = ef::PositionEmbedding::sinusoidal,
                                     .scale_embeddings = true,
                                     .norm_placement = ef::NormPlacement::post,
                                     .final_norm = false,
                                     .query_bias = false,
                                     .key_bias = false,
                                     .value_bias = false,
                                     .output_bias = false,
                                     .tie_word_embeddings = false,
                                     .head_bias = true}));
  ForeignFile file;
  file.add("embedding.weight", decoder.embeddings.token.weight);
  for (const std::size_t i : {0u, 1u}) {
    const std::string prefix = "blks.block" + std::to_string(i) + ".";
    const auto& layer = decoder.layers[i];
    add_d2l_attention(file, prefix + "attention1.", layer.self_attention);
    add_d2l_attention(file, prefix + "attention2.", *layer.cross_attention);
    file.add(prefix + "addnorm1.ln", layer.self_attention_norm);
    file.add(prefix + "addnorm2.ln", *layer.cross_attention_norm);
    file.add(prefix + "ffn.dense1", layer.feed_forward.linear_1);
    file.add(prefix + "ffn.dense2", layer.feed_forward.linear_2);
    file.add(prefix + "addnorm3.ln", layer.feed_forward_norm);
  }
  file.add("dense.weight", decoder.head.weight);
  file.add("dense.bias", decoder.head.bias);
  file.expect_gives(decoder, ef::d2l_decoder_keys());
}

const ef::TransformerConfig vision_config{.image_size = {11, 17},
                                          .patch_size = {3, 5},
                                          .num_channels = 2,
                                          .hidden_size = 6,
                                          .num_hidden_layers = 2,
                                          .num_attention_heads = 3,
                                          .intermediate_size = 11,
                                          .num_labels = 7};

TEST(Keys, DiveIntoDeepLearningVision) {
  auto config = vision_config;
  config.query_bias = config.key_bias = config.value_bias = config.output_bias = false;
  const auto model = numbered(ef::VisionTransformer<float>(config));
  ForeignFile file;
  file.add("cls_token", model.class_token, ef::Shape<3>{1, 1, 6});
  file.add("pos_embedding", model.position_embedding, ef::Shape<3>{1, 10, 6});
  file.add("patch_embedding.conv.weight", model.patch_embedding.projection.weight,
           ef::Shape<4>{6, 2, 3, 5});
  file.add("patch_embedding.conv.bias", model.patch_embedding.projection.bias);
  for (const std::size_t i : {0u, 1u}) {
    const std::string prefix = "blks." + std::to_string(i) + ".";
    const auto& layer = model.layers[i];
    add_d2l_attention(file, prefix + "attention.", layer.attention);
    file.add(prefix + "ln1", layer.attention_norm);
    file.add(prefix + "ln2", layer.feed_forward_norm);
    file.add(prefix + "mlp.dense1", layer.feed_forward.linear_1);
    file.add(prefix + "mlp.dense2", layer.feed_forward.linear_2);
  }
  file.add("head.0", *model.final_norm);
  file.add("head.1", model.head);
  file.expect_gives(model, ef::d2l_vision_transformer_keys());
}

TEST(Keys, NaturalLanguageProcessingWithTransformers) {
  const auto model = numbered(ef::SequenceClassifier<float>({.vocab_size = 13,
                                                             .hidden_size = 6,
                                                             .num_hidden_layers = 2,
                                                             .num_attention_heads = 3,
                                                             .intermediate_size = 11,
                                                             .max_position_embeddings = 17,
                                                             .num_labels = 5,
                                                             .pooler = false}));
  ForeignFile file;
  file.add("encoder.embeddings.token_embeddings.weight", model.encoder.embeddings.token.weight);
  file.add("encoder.embeddings.position_embeddings.weight",
           model.encoder.embeddings.position->weight);
  file.add("encoder.embeddings.layer_norm", *model.encoder.embeddings.norm);
  for (const std::size_t i : {0u, 1u}) {
    const std::string prefix = "encoder.layers." + std::to_string(i) + ".";
    const auto& layer = model.encoder.layers[i];
    for (const Index head : {0, 1, 2}) {
      const std::string name = prefix + "attention.heads." + std::to_string(head) + ".";
      file.add_rows(name + "q", layer.attention.query, 2 * head, 2);
      file.add_rows(name + "k", layer.attention.key, 2 * head, 2);
      file.add_rows(name + "v", layer.attention.value, 2 * head, 2);
    }
    file.add(prefix + "attention.output_linear", layer.attention.output);
    file.add(prefix + "layer_norm_1", layer.attention_norm);
    file.add(prefix + "layer_norm_2", layer.feed_forward_norm);
    file.add(prefix + "feed_forward.linear_1", layer.feed_forward.linear_1);
    file.add(prefix + "feed_forward.linear_2", layer.feed_forward.linear_2);
  }
  file.add("classifier", model.classifier);
  file.expect_gives(model, ef::nlp_sequence_classifier_keys());
}

// A head takes part in the layer's parameters as its rows; two heads of three don't fill them.
TEST(Keys, HeadsThatAreMissing) {
  const auto layer = numbered(ef::EncoderLayer<float>(layer_config));
  ForeignFile file;
  file.add_rows("attention.heads.0.q", layer.attention.query, 0, 2);
  file.add_rows("attention.heads.1.q", layer.attention.query, 2, 2);
  test::expect_error([&] { file.expect_gives(layer, ef::nlp_encoder_layer_keys()); },
                     {"attention.heads.0.q.weight (2, 6) and 1 more do not join to (6, "
                      "6) for attention.query.weight",
                      "missing: attention.heads.#.k.weight (attention.key.weight)"});
}

// BERT's two norms of a layer: the inner one guards the attention.
TEST(Keys, BertNorms) {
  const auto has = [](const ef::KeyMap& map, const std::string& stored, const std::string& own) {
    return std::any_of(map.rows.begin(), map.rows.end(), [&](const ef::KeyRow& row) {
      return row.stored == stored && row.own == own;
    });
  };
  EXPECT_TRUE(has(ef::bert_keys(), "encoder.layer.{}.attention.output.LayerNorm.*",
                  "layers.{}.attention_norm.*"));
  EXPECT_TRUE(
      has(ef::bert_keys(), "encoder.layer.{}.output.LayerNorm.*", "layers.{}.feed_forward_norm.*"));
}

}  // namespace keys_test
