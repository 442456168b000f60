// SPDX-License-Identifier: MIT
// expected: a view needs a row-major Eigen object
#include "eigenformer/base/tensor.hpp"

void use() {
#ifdef MUST_NOT_COMPILE
  Eigen::MatrixXf matrix(3, 4);
#else
  eigenformer::RowMajorMatrix<float> matrix(3, 4);
#endif
  eigenformer::TensorView<const float, 2> view(matrix);
  (void)view;
}
