// SPDX-License-Identifier: MIT
#pragma once

// Reading and writing safetensors files.

#include "eigenformer/io/safetensors_reader.hpp"
#include "eigenformer/io/safetensors_writer.hpp"
