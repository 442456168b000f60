// SPDX-License-Identifier: MIT
#pragma once

// All of io/: safetensors, config.json, llama2.c's files, loading and saving of modules, key maps.
// Needs nlohmann_json.

#include "eigenformer/io/bart_keys.hpp"
#include "eigenformer/io/bert_keys.hpp"
#include "eigenformer/io/book_keys.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/io/config_file.hpp"
#include "eigenformer/io/config_json.hpp"
#include "eigenformer/io/gpt2_keys.hpp"
#include "eigenformer/io/key_map.hpp"
#include "eigenformer/io/llama2c.hpp"
#include "eigenformer/io/llama_keys.hpp"
#include "eigenformer/io/load.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/io/t5_keys.hpp"
#include "eigenformer/io/torch_keys.hpp"
#include "eigenformer/io/vit_keys.hpp"
