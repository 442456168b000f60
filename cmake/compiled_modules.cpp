// SPDX-License-Identifier: MIT

// The kernels, modules and models of eigenformer::compiled, on top of its vector code, compiled.cpp.
#define EIGENFORMER_COMPILED
#define EIGENFORMER_EXTERN

#include "eigenformer/models/compiled.hpp"
