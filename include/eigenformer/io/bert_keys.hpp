// SPDX-License-Identifier: MIT
#pragma once

// Names of BERT's parameters in Hugging Face's checkpoints, and of every model with the same ones:
// MiniLM, BGE, E5.
//
// BERT is post-norm: attention.output.LayerNorm comes after attention's residual and is the
// attention_norm, output.LayerNorm the feed_forward_norm. Files of 2018 call a norm's parameters
// gamma and beta. Whole models and those with a head have the prefix "bert.", encoders saved by
// themselves don't. Models with relative positions hold a table of absolute ones besides, which is
// left out.

#include "eigenformer/io/key_map.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// For TransformerEncoder. Heads in the file are left out.
inline KeyMap bert_keys() {
  return {
      .prefixes = {"", "bert."},
      .rows = {{"embeddings.word_embeddings.*", "embeddings.token.*"},
               {"embeddings.position_embeddings.*", "embeddings.position.*"},
               {"embeddings.token_type_embeddings.*", "embeddings.token_type.*"},
               {"embeddings.LayerNorm.*", "embeddings.norm.*"},
               {"encoder.layer.{}.attention.self.query.*", "layers.{}.attention.query.*"},
               {"encoder.layer.{}.attention.self.key.*", "layers.{}.attention.key.*"},
               {"encoder.layer.{}.attention.self.value.*", "layers.{}.attention.value.*"},
               {"encoder.layer.{}.attention.self.distance_embedding.*",
                "layers.{}.attention.distance_embedding.*"},
               {"encoder.layer.{}.attention.output.dense.*", "layers.{}.attention.output.*"},
               {"encoder.layer.{}.attention.output.LayerNorm.*", "layers.{}.attention_norm.*"},
               {"encoder.layer.{}.intermediate.dense.*", "layers.{}.feed_forward.linear_1.*"},
               {"encoder.layer.{}.output.dense.*", "layers.{}.feed_forward.linear_2.*"},
               {"encoder.layer.{}.output.LayerNorm.*", "layers.{}.feed_forward_norm.*"}},
      .aliases = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}},
      .ignored = {"embeddings.position_ids", "embeddings.token_type_ids",
                  "embeddings.position_embeddings.weight", "pooler.*", "cls.*", "classifier.*",
                  "qa_outputs.*"}};
}

namespace internal {

/// For a module with a TransformerEncoder in its field `encoder`, and other heads than the encoder
/// alone.
inline KeyMap bert_keys_with_head(const std::vector<KeyRow>& rows,
                                  const std::vector<std::string>& ignored) {
  KeyMap map = nested(bert_keys(), "", "encoder.");
  map.ignored = {"embeddings.position_ids", "embeddings.token_type_ids",
                 "embeddings.position_embeddings.weight"};
  return extended(std::move(map), rows, ignored);
}

}  // namespace internal

/// For SequenceClassifier, with or without pooler.
inline KeyMap bert_sequence_classifier_keys() {
  return internal::bert_keys_with_head(
      {{"pooler.dense.*", "pooler.dense.*"},
       {.stored = "classifier.*", .own = "classifier.*", .prefixed = false}},
      {"pooler.*"});
}

/// For MaskedLanguageModel, whose output projection is the token table. The file may hold it again
/// as cls.predictions.decoder, which must then be equal; `decoder_required` if its config.json says
/// that the two aren't tied.
inline KeyMap bert_masked_language_model_keys(bool decoder_required = false) {
  KeyMap map = internal::bert_keys_with_head(
      {{.stored = "cls.predictions.transform.dense.*",
        .own = "head.transform.*",
        .prefixed = false},
       {.stored = "cls.predictions.transform.LayerNorm.*", .own = "head.norm.*", .prefixed = false},
       {.stored = "cls.predictions.bias", .own = "head.bias", .prefixed = false}},
      {"pooler.*", "cls.seq_relationship.*"});
  map.tied = {
      {"cls.predictions.decoder.weight", "encoder.embeddings.token.weight", decoder_required},
      {"cls.predictions.decoder.bias", "head.bias"}};
  return map;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
