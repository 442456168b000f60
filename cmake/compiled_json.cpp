// SPDX-License-Identifier: MIT

// The JSON parser of eigenformer::compiled. Its users define EIGENFORMER_COMPILED_JSON.
#define EIGENFORMER_COMPILED_JSON

#include "eigenformer/io/json_parser.hpp"
