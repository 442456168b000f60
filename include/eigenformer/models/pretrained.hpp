// SPDX-License-Identifier: MIT
#pragma once

// Whole models from directories as Hugging Face's save_pretrained leaves them: config.json and
// model.safetensors.
//
//   auto encoder = ef::load_encoder<float>("all-MiniLM-L6-v2");
//   auto classifier = ef::load_sequence_classifier<float>(directory);
//   auto labels = ef::ConfigFile(directory / "config.json").labels("id2label");
//   auto gpt2 = ef::load_decoder<float>("gpt2");
//   auto llama = ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(directory);
//   auto t5 = ef::load_transformer<float, ef::RMSNorm>("t5-small");
//
// Model types so far: bert, vit; gpt2, llama, mistral, qwen2, qwen3; t5, mt5, bart. Every error is
// a std::runtime_error with path and key or tensor; what a model here can't do (another kind of
// positions, an unknown activation) is one too. Nothing of a size that a file declares is allocated
// before the tensors were found to have it. Not part of eigenformer.hpp: needs nlohmann_json.

#include "eigenformer/models/pretrained_decoders.hpp"
#include "eigenformer/models/pretrained_encoders.hpp"
#include "eigenformer/models/pretrained_transformers.hpp"
