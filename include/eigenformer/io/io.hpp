// SPDX-License-Identifier: MIT
#pragma once

// All of io/: safetensors, config.json, loading and saving of modules, key maps. Needs
// nlohmann_json.

#include "eigenformer/io/bert_keys.hpp"
#include "eigenformer/io/book_keys.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/io/config_file.hpp"
#include "eigenformer/io/key_map.hpp"
#include "eigenformer/io/load.hpp"
#include "eigenformer/io/safetensors.hpp"
#include "eigenformer/io/torch_keys.hpp"
#include "eigenformer/io/vit_keys.hpp"
