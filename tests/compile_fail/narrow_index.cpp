// SPDX-License-Identifier: MIT
// expected: Eigenformer needs an Eigen::Index of 64 bits
#ifdef MUST_NOT_COMPILE
#define EIGEN_DEFAULT_DENSE_INDEX_TYPE int
#endif
#include "eigenformer/base/config.hpp"

eigenformer::Index rows = 3;
