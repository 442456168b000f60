// SPDX-License-Identifier: MIT
#pragma once

// Whether the kernels that the program has chosen round a * b + c once.

#include "eigenformer/kernels/target.hpp"

namespace reference {

inline bool has_fused_multiply_add() {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return true;
#else
  return eigenformer::kernels::instruction_set() != eigenformer::kernels::InstructionSet::native;
#endif
}

}  // namespace reference
