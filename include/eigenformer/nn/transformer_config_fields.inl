// SPDX-License-Identifier: MIT

// The fields of TransformerConfig (nn/transformer_config.hpp), one line each:
//
//   EIGENFORMER_FIELD(readers, type, name, default)
//
// `readers` says which modules read the field (FieldReaders). An OrDefault that is open, and a size of 0
// where the comment says so, is replaced by the default of the module that is made. The order is that of
// designated initialisers.

// clang-format off
EIGENFORMER_FIELD(images, OrDefault<ImageSize>, image_size, {})  // {height, width}
EIGENFORMER_FIELD(images, OrDefault<ImageSize>, patch_size, {})  // likewise
EIGENFORMER_FIELD(images, OrDefault<Index>, num_channels, {})
EIGENFORMER_FIELD(embeddings, Index, vocab_size, 0)              // V
EIGENFORMER_FIELD(everyone, Index, hidden_size, 0)               // C; 0: the model's default
EIGENFORMER_FIELD(stacks, OrDefault<Index>, num_hidden_layers, {})  // L; default 1
EIGENFORMER_FIELD(encoder_decoders, Index, num_decoder_layers, 0)  // 0: as many as the encoder's
EIGENFORMER_FIELD(layers, OrDefault<Index>, num_attention_heads, {})  // H; default 1
EIGENFORMER_FIELD(layers, Index, num_key_value_heads, 0)         // K; 0: H
EIGENFORMER_FIELD(layers, Index, head_size, 0)                   // D; 0: C / H
EIGENFORMER_FIELD(layers, Index, intermediate_size, 0)           // F; 0: the model's default
EIGENFORMER_FIELD(decoders, bool, cross_attention, false)        // to a memory (B, S, key_value_size)
EIGENFORMER_FIELD(decoders, Index, key_value_size, 0)            // 0: C
EIGENFORMER_FIELD(layers, OrDefault<Activation>, activation, {})
EIGENFORMER_FIELD(embeddings, OrDefault<Index>, max_position_embeddings, {})  // rows of the learned
                                                                 // table
EIGENFORMER_FIELD(embeddings, Index, type_vocab_size, 0)         // 0: no token types
EIGENFORMER_FIELD(embeddings, OrDefault<PositionEmbedding>, position_embedding, {})
EIGENFORMER_FIELD(embeddings, SinusoidalLayout, sinusoidal_layout, SinusoidalLayout::interleaved)
EIGENFORMER_FIELD(embeddings, Index, position_offset, 0)
EIGENFORMER_FIELD(embeddings, OrDefault<bool>, scale_embeddings, {})  // by sqrt(C)
EIGENFORMER_FIELD(embeddings, OrDefault<bool>, embedding_norm, {})
EIGENFORMER_FIELD(layers, OrDefault<NormPlacement>, norm_placement, {})
EIGENFORMER_FIELD(stacks, OrDefault<bool>, final_norm, {})   // a norm after the last layer
EIGENFORMER_FIELD(classifiers, OrDefault<Index>, num_labels, {})
EIGENFORMER_FIELD(classifiers, bool, pooler, true)               // of SequenceClassifier
EIGENFORMER_FIELD(layers, OrDefault<double>, layer_norm_eps, {})
EIGENFORMER_FIELD(layers, OrDefault<double>, rms_norm_eps, {})
EIGENFORMER_FIELD(layers, bool, query_bias, true)
EIGENFORMER_FIELD(layers, bool, key_bias, true)
EIGENFORMER_FIELD(layers, bool, value_bias, true)
EIGENFORMER_FIELD(layers, bool, output_bias, true)
EIGENFORMER_FIELD(layers, bool, feed_forward_bias, true)
EIGENFORMER_FIELD(layers, bool, norm_bias, true)
EIGENFORMER_FIELD(embeddings, std::optional<Index>, padding_id, {})
EIGENFORMER_FIELD(layers, std::optional<double>, attention_scale, {})  // default 1 / sqrt(D)
EIGENFORMER_FIELD(layers, AttentionPositions, attention_positions, {})  // of self-attention
EIGENFORMER_FIELD(layers, bool, query_key_norm, false)           // RMSNorm of each query and key head
EIGENFORMER_FIELD(layers, double, attn_logit_softcapping, 0)     // 0: none
EIGENFORMER_FIELD(layers, Index, sliding_window, 0)              // of self-attention; 0: none
EIGENFORMER_FIELD(stacks, std::vector<LayerType>, layer_types, {})  // of each layer; {}: all alike
EIGENFORMER_FIELD(stacks, std::optional<double>, rope_local_base_freq, {})  // rope_theta of the layers
                                                                 // that are sliding_attention
EIGENFORMER_FIELD(stacks, std::vector<LayerOverrides>, layer_overrides, {})  // likewise
EIGENFORMER_FIELD(decoders_from_ids, OrDefault<bool>, share_embeddings, {})  // the token table is the
                                                                 // encoder's, given to every call
EIGENFORMER_FIELD(decoders_from_ids, bool, tie_word_embeddings, true)  // the head is the token table
EIGENFORMER_FIELD(decoders_from_ids, bool, head_bias, false)
EIGENFORMER_FIELD(decoders_from_ids, double, logit_scale, 1)
EIGENFORMER_FIELD(decoders_from_ids, double, final_logit_softcapping, 0)  // 0: none
EIGENFORMER_FIELD(training, double, attention_probs_dropout_prob, 0)  // of the attention weights
EIGENFORMER_FIELD(training, double, activation_dropout_prob, 0)  // inside the feed-forward network
EIGENFORMER_FIELD(training, double, hidden_dropout_prob, 0)      // of embeddings and branches
// clang-format on
