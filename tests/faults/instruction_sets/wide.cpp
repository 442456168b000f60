// SPDX-License-Identifier: MIT

#include "run.hpp"

const char* run_wide(const float* x, float* y);

const char* run_wide(const float* x, float* y) { return run(x, y); }
