// SPDX-License-Identifier: MIT

// Without the choice at run time: what a processor without AVX2 runs.
#define EIGENFORMER_NO_RUNTIME_CHOICE

#include "run.hpp"

const char* run_narrowest(const float* x, float* y);

const char* run_narrowest(const float* x, float* y) { return run(x, y); }
