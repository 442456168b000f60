// SPDX-License-Identifier: MIT

// What compile_cost.py compares with: a product of two matrices with all of Eigen.
#include <Eigen/Dense>
#include <cstdio>

int main() {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(7, 24), b = Eigen::MatrixXf::Random(24, 12);
  const Eigen::MatrixXf c = a * b;
  std::printf("%g\n", static_cast<double>(c.sum()));
}
