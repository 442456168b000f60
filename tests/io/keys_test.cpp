// SPDX-License-Identifier: MIT
// Key maps of PyTorch's layers and of two books: files under their names, spelled out here one by one, give back the parameters.

#include <memory>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/io/io.hpp"
#include "tests/io/file_builder.hpp"

namespace {

using ef::Index;
using ef::Tensor;
using test::TemporaryFolder;

// Tensors under another library's names.
class ForeignFile {
 public:
  template <int Rank, int NewRank>
  void add(const std::string& name, const Tensor<float, Rank>& x, const ef::Shape<NewRank>& shape) {
    auto copy =
        std::make_shared<Tensor<float, NewRank>>(x.view().template reshaped<NewRank>(shape));
    tensors_.emplace_back(name, *copy);
    kept_.push_back(std::move(copy));
  }
  template <int Rank>
  void add(const std::string& name, const Tensor<float, Rank>& x) {
    add(name, x, x.shape());
  }
  void add(const std::string& name, const ef::Linear<float>& x) {
    add(name + ".weight", x.weight);
    if (x.config.bias) add(name + ".bias", x.bias);
  }
  void add(const std::string& name, const ef::LayerNorm<float>& x) {
    add(name + ".weight", x.weight);
    if (x.config.bias) add(name + ".bias", x.bias);
  }
  /// Rows of query, key and value on top of each other.
  void add_fused(const std::string& weight, const std::string& bias,
                 const ef::MultiHeadAttention<float>& x) {
    const Index rows = x.query.weight.dim(0), columns = x.query.weight.dim(1);
    Tensor<float, 2> weights({3 * rows, columns});
    Tensor<float, 1> biases({3 * rows});
    for (Index part = 0; part < 3; ++part) {
      const ef::Linear<float>& linear = part == 0 ? x.query : part == 1 ? x.key : x.value;
      weights.matrix().middleRows(part * rows, rows) = linear.weight.matrix();
      if (linear.config.bias) biases.vector().segment(part * rows, rows) = linear.bias.vector();
    }
    add(weight, weights);
    if (x.query.config.bias) add(bias, biases);
  }
  /// Rows [first, first + count) of a Linear.
  void add_rows(const std::string& name, const ef::Linear<float>& x, Index first, Index count) {
    Tensor<float, 2> weight({count, x.weight.dim(1)});
    weight.matrix() = x.weight.matrix().middleRows(first, count);
    Tensor<float, 1> bias({count});
    bias.vector() = x.bias.vector().segment(first, count);
    add(name + ".weight", weight);
    add(name + ".bias", bias);
  }

  /// Loads a copy of `module` from these tensors and expects the same numbers.
  template <class M>
  void expect_gives(const M& module, const ef::KeyMap& map) const {
    const TemporaryFolder folder;
    ef::write_safetensors(folder / "x", tensors_);
    M copy = ef::zeros_like(module);
    ef::load(copy, folder / "x", map);
    EXPECT_TRUE(ef::parameters_equal(copy, module));
  }

 private:
  std::vector<ef::NamedTensor> tensors_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Every parameter another number.
template <class M>
M numbered(M module) {
  float next = 1;
  ef::for_each_parameter(module, [&](const std::string&, auto& parameter) {
    for (auto& x : parameter) x = next++;
  });
  return module;
}

const ef::EncoderLayerConfig layer_config{
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
  ef::EncoderLayerConfig config = layer_config;
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

void add_d2l_attention(ForeignFile& file, const std::string& prefix,
                       const ef::MultiHeadAttention<float>& x) {
  file.add(prefix + "attention.W_q", x.query);
  file.add(prefix + "attention.W_k", x.key);
  file.add(prefix + "attention.W_v", x.value);
  file.add(prefix + "attention.W_o", x.output);
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
    add_d2l_attention(file, prefix, layer.attention);
    file.add(prefix + "addnorm1.ln", layer.attention_norm);
    file.add(prefix + "ffn.dense1", layer.feed_forward.linear_1);
    file.add(prefix + "ffn.dense2", layer.feed_forward.linear_2);
    file.add(prefix + "addnorm2.ln", layer.feed_forward_norm);
  }
  file.expect_gives(encoder, ef::d2l_encoder_keys());
}

const ef::VisionTransformerConfig vision_config{.image_size = {11, 17},
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
    add_d2l_attention(file, prefix, layer.attention);
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
  const auto model =
      numbered(ef::SequenceClassifier<float>({.encoder = {.vocab_size = 13,
                                                          .hidden_size = 6,
                                                          .num_hidden_layers = 2,
                                                          .num_attention_heads = 3,
                                                          .intermediate_size = 11,
                                                          .max_position_embeddings = 17},
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

}  // namespace
