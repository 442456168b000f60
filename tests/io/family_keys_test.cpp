// SPDX-License-Identifier: MIT
// Key maps of the families of decoders and encoder-decoders: files under their names, spelled out here one by one, give back the parameters.

#include "tests/io/foreign_file.hpp"

namespace family_keys_test {

using ef::Index;
using ef::Tensor;
using test::ForeignFile;
using test::numbered;

ef::TransformerConfig gpt2_config(bool tied, bool cross_attention) {
  return {.vocab_size = 13,
          .hidden_size = 6,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 11,
          .cross_attention = cross_attention,
          .max_position_embeddings = 7,
          .tie_word_embeddings = tied};
}

ForeignFile gpt2_file(const ef::TransformerDecoder<float>& model, const std::string& prefix) {
  ForeignFile file;
  file.add(prefix + "wte.weight", model.embeddings.token.weight);
  file.add(prefix + "wpe.weight", model.embeddings.position->weight);
  for (const std::size_t i : {0u, 1u}) {
    const auto& layer = model.layers[i];
    const auto& self = layer.self_attention;
    const std::string h = prefix + "h." + std::to_string(i) + ".";
    file.add(h + "ln_1", layer.self_attention_norm);
    file.add_conv1d(h + "attn.c_attn", {self.query, self.key, self.value});
    file.add_conv1d(h + "attn.c_proj", {self.output});
    if (layer.cross_attention) {
      const auto& cross = *layer.cross_attention;
      file.add(h + "ln_cross_attn", *layer.cross_attention_norm);
      file.add_conv1d(h + "crossattention.q_attn", {cross.query});
      file.add_conv1d(h + "crossattention.c_attn", {cross.key, cross.value});
      file.add_conv1d(h + "crossattention.c_proj", {cross.output});
    }
    file.add(h + "ln_2", layer.feed_forward_norm);
    file.add_conv1d(h + "mlp.c_fc", {layer.feed_forward.linear_1});
    file.add_conv1d(h + "mlp.c_proj", {layer.feed_forward.linear_2});
  }
  file.add(prefix + "ln_f", *model.final_norm);
  return file;
}

TEST(FamilyKeys, Gpt2) {
  for (const std::string prefix : {"", "transformer."}) {
    for (const bool cross_attention : {false, true}) {
      const auto model =
          numbered(ef::TransformerDecoder<float>(gpt2_config(true, cross_attention)));
      gpt2_file(model, prefix).expect_gives(model, ef::gpt2_keys());
    }
  }
}

// Causal masks that are called bias, and the table stored a second time.
TEST(FamilyKeys, Gpt2OfOldFiles) {
  const auto model = numbered(ef::TransformerDecoder<float>(gpt2_config(true, false)));
  ForeignFile file = gpt2_file(model, "");
  for (const std::string h : {"h.0.", "h.1."}) {
    file.add(h + "attn.bias", Tensor<float, 4>({1, 1, 7, 7}));
    file.add_zeros(h + "attn.masked_bias", 1);
  }
  file.add("lm_head.weight", model.embeddings.token.weight);
  file.expect_gives(model, ef::gpt2_keys());
}

TEST(FamilyKeys, Gpt2WithItsOwnHead) {
  const auto model = numbered(ef::TransformerDecoder<float>(gpt2_config(false, false)));
  ForeignFile file = gpt2_file(model, "transformer.");
  test::expect_error([&] { file.expect_gives(model, ef::gpt2_keys(false)); },
                     {"missing: lm_head.weight (head.weight)"});
  file.add("lm_head.weight", model.head.weight);
  file.expect_gives(model, ef::gpt2_keys(false));
}

// A head that is said to be tied, but isn't.
TEST(FamilyKeys, TiedHeadThatDiffers) {
  const auto model = numbered(ef::TransformerDecoder<float>(gpt2_config(true, false)));
  ForeignFile file = gpt2_file(model, "transformer.");
  file.add("lm_head.weight", Tensor<float, 2>({13, 6}));
  test::expect_error([&] { file.expect_gives(model, ef::gpt2_keys()); },
                     {"lm_head.weight: differs from transformer.wte.weight at element 0"});
}

using Llama = ef::TransformerDecoder<float, ef::RMSNorm, ef::GatedFeedForward>;

ef::TransformerConfig llama_config() {
  return {.vocab_size = 13,
          .hidden_size = 6,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_size = 5,
          .intermediate_size = 11,
          .position_embedding = ef::PositionEmbedding::none,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .feed_forward_bias = false,
          .tie_word_embeddings = false};
}

ForeignFile llama_file(const Llama& model, const std::string& prefix) {
  ForeignFile file;
  file.add(prefix + "embed_tokens.weight", model.embeddings.token.weight);
  for (const std::size_t i : {0u, 1u}) {
    const auto& layer = model.layers[i];
    const auto& self = layer.self_attention;
    const std::string name = prefix + "layers." + std::to_string(i) + ".";
    file.add(name + "input_layernorm", layer.self_attention_norm);
    file.add(name + "self_attn.q_proj", self.query);
    file.add(name + "self_attn.k_proj", self.key);
    file.add(name + "self_attn.v_proj", self.value);
    file.add(name + "self_attn.o_proj", self.output);
    if (self.query_norm) file.add(name + "self_attn.q_norm", *self.query_norm);
    if (self.key_norm) file.add(name + "self_attn.k_norm", *self.key_norm);
    file.add(name + "post_attention_layernorm", layer.feed_forward_norm);
    file.add(name + "mlp.gate_proj", layer.feed_forward.gate);
    file.add(name + "mlp.up_proj", layer.feed_forward.up);
    file.add(name + "mlp.down_proj", layer.feed_forward.down);
  }
  file.add(prefix + "norm", *model.final_norm);
  return file;
}

TEST(FamilyKeys, Llama) {
  const Llama model = numbered(Llama(llama_config()));
  for (const std::string prefix : {"", "model."}) {
    ForeignFile file = llama_file(model, prefix);
    file.add("lm_head.weight", model.head.weight);
    file.add_zeros(prefix + "layers.0.self_attn.rotary_emb.inv_freq", 2);
    file.expect_gives(model, ef::llama_keys());
  }
}

TEST(FamilyKeys, Qwen2) {
  auto config = llama_config();
  config.query_bias = config.key_bias = config.value_bias = true;
  const Llama model = numbered(Llama(config));
  ForeignFile file = llama_file(model, "model.");
  file.add("lm_head.weight", model.head.weight);
  file.expect_gives(model, ef::llama_keys());
}

TEST(FamilyKeys, Qwen3) {
  auto config = llama_config();
  config.query_key_norm = config.tie_word_embeddings = true;
  const Llama model = numbered(Llama(config));
  ForeignFile file = llama_file(model, "model.");
  file.expect_gives(model, ef::llama_keys(true));
  file.add("lm_head.weight", model.embeddings.token.weight);
  file.expect_gives(model, ef::llama_keys(true));
}

ef::TransformerConfig t5_config(bool tied) {
  return {.vocab_size = 13,
          .hidden_size = 6,
          .num_hidden_layers = 1,
          .num_decoder_layers = 2,
          .num_attention_heads = 3,
          .head_size = 5,
          .intermediate_size = 11,
          .position_embedding = ef::PositionEmbedding::none,
          .norm_placement = ef::NormPlacement::pre,
          .final_norm = true,
          .query_bias = false,
          .key_bias = false,
          .value_bias = false,
          .output_bias = false,
          .feed_forward_bias = false,
          .attention_positions = {.kind = ef::AttentionPosition::relative_bias},
          .tie_word_embeddings = tied};
}

void add_t5_attention(ForeignFile& file, const std::string& prefix,
                      const ef::MultiHeadAttention<float>& x) {
  file.add(prefix + "q", x.query);
  file.add(prefix + "k", x.key);
  file.add(prefix + "v", x.value);
  file.add(prefix + "o", x.output);
}

void add_t5_feed_forward(ForeignFile& file, const std::string& prefix,
                         const ef::FeedForward<float>& x) {
  file.add(prefix + "DenseReluDense.wi", x.linear_1);
  file.add(prefix + "DenseReluDense.wo", x.linear_2);
}
void add_t5_feed_forward(ForeignFile& file, const std::string& prefix,
                         const ef::GatedFeedForward<float>& x) {
  file.add(prefix + "DenseReluDense.wi_0", x.gate);
  file.add(prefix + "DenseReluDense.wi_1", x.up);
  file.add(prefix + "DenseReluDense.wo", x.down);
}

template <class Model>
ForeignFile t5_file(const Model& model) {
  ForeignFile file;
  file.add("shared.weight", model.encoder.embeddings.token.weight);
  for (std::size_t i = 0; i < model.encoder.layers.size(); ++i) {
    const auto& layer = model.encoder.layers[i];
    const std::string name = "encoder.block." + std::to_string(i) + ".layer.";
    add_t5_attention(file, name + "0.SelfAttention.", layer.attention);
    file.add(name + "0.layer_norm", layer.attention_norm);
    add_t5_feed_forward(file, name + "1.", layer.feed_forward);
    file.add(name + "1.layer_norm", layer.feed_forward_norm);
  }
  for (std::size_t i = 0; i < model.decoder.layers.size(); ++i) {
    const auto& layer = model.decoder.layers[i];
    const std::string name = "decoder.block." + std::to_string(i) + ".layer.";
    add_t5_attention(file, name + "0.SelfAttention.", layer.self_attention);
    file.add(name + "0.layer_norm", layer.self_attention_norm);
    add_t5_attention(file, name + "1.EncDecAttention.", *layer.cross_attention);
    file.add(name + "1.layer_norm", *layer.cross_attention_norm);
    add_t5_feed_forward(file, name + "2.", layer.feed_forward);
    file.add(name + "2.layer_norm", layer.feed_forward_norm);
  }
  const std::string table = ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
  file.add("encoder" + table, model.encoder.relative_bias->weight);
  file.add("decoder" + table, model.decoder.relative_bias->weight);
  file.add("encoder.final_layer_norm", *model.encoder.final_norm);
  file.add("decoder.final_layer_norm", *model.decoder.final_norm);
  return file;
}

// A table that belongs to nothing, and copies of the shared one.
TEST(FamilyKeys, T5) {
  const auto model = numbered(ef::Transformer<float, ef::RMSNorm>(t5_config(true)));
  t5_file(model).expect_gives(model, ef::t5_keys());
  ForeignFile file = t5_file(model);
  file.add("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
           model.decoder.relative_bias->weight);
  for (const char* copy :
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
    file.add(copy, model.encoder.embeddings.token.weight);
  }
  file.expect_gives(model, ef::t5_keys());
  file.expect_gives(model.encoder, ef::t5_encoder_keys());
}

TEST(FamilyKeys, Version1_1) {
  const auto model =
      numbered(ef::Transformer<float, ef::RMSNorm, ef::GatedFeedForward>(t5_config(false)));
  ForeignFile file = t5_file(model);
  file.add("lm_head.weight", model.decoder.head.weight);
  file.expect_gives(model, ef::t5_keys(false));
  file.expect_gives(model.encoder, ef::t5_encoder_keys());
}

void add_bart_attention(ForeignFile& file, const std::string& prefix,
                        const ef::MultiHeadAttention<float>& x) {
  file.add(prefix + "q_proj", x.query);
  file.add(prefix + "k_proj", x.key);
  file.add(prefix + "v_proj", x.value);
  file.add(prefix + "out_proj", x.output);
}

template <class Half>
void add_bart_half(ForeignFile& file, const std::string& prefix, const Half& half) {
  file.add(prefix + "embed_positions.weight", half.embeddings.position->weight);
  file.add(prefix + "layernorm_embedding", *half.embeddings.norm);
  for (std::size_t i = 0; i < half.layers.size(); ++i) {
    const auto& layer = half.layers[i];
    const std::string name = prefix + "layers." + std::to_string(i) + ".";
    if constexpr (requires { layer.self_attention; }) {
      add_bart_attention(file, name + "self_attn.", layer.self_attention);
      file.add(name + "self_attn_layer_norm", layer.self_attention_norm);
      add_bart_attention(file, name + "encoder_attn.", *layer.cross_attention);
      file.add(name + "encoder_attn_layer_norm", *layer.cross_attention_norm);
    } else {
      add_bart_attention(file, name + "self_attn.", layer.attention);
      file.add(name + "self_attn_layer_norm", layer.attention_norm);
    }
    file.add(name + "fc1", layer.feed_forward.linear_1);
    file.add(name + "fc2", layer.feed_forward.linear_2);
    file.add(name + "final_layer_norm", layer.feed_forward_norm);
  }
  if (half.final_norm) file.add(prefix + "layer_norm", *half.final_norm);
}

TEST(FamilyKeys, Bart) {
  for (const bool final_norm : {false, true}) {
    const auto model =
        numbered(ef::Transformer<float>({.vocab_size = 13,
                                         .hidden_size = 6,
                                         .num_hidden_layers = 1,
                                         .num_decoder_layers = 2,
                                         .num_attention_heads = 3,
                                         .intermediate_size = 11,
                                         .max_position_embeddings = 9,
                                         .position_embedding = ef::PositionEmbedding::learned,
                                         .position_offset = 2,
                                         .embedding_norm = true,
                                         .final_norm = final_norm,
                                         .head_bias = true}));
    for (const std::string prefix : {"", "model."}) {
      ForeignFile file;
      file.add(prefix + "shared.weight", model.encoder.embeddings.token.weight);
      add_bart_half(file, prefix + "encoder.", model.encoder);
      add_bart_half(file, prefix + "decoder.", model.decoder);
      file.add("final_logits_bias", model.decoder.head.bias, ef::Shape<2>{1, 13});
      file.expect_gives(model, ef::bart_keys());
      for (const std::string half : {"encoder", "decoder"}) {
        file.add(prefix + half + ".embed_tokens.weight", model.encoder.embeddings.token.weight);
      }
      file.add("lm_head.weight", model.encoder.embeddings.token.weight);
      file.expect_gives(model, ef::bart_keys());
    }
  }
}

}  // namespace family_keys_test
