// SPDX-License-Identifier: MIT
#pragma once

// Numbers from a file into a parameter, whatever its layout.

#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// Fills a parameter through read(first, count, to), which puts `count` elements, counted in
/// row-major order, into an array. Plain parameters are read in one piece, packed ones (nn/packed.hpp)
/// a group of rows at a time, so that they never exist in both layouts.
template <class Parameter, class Read>
void write_parameter(Parameter& parameter, Read&& read) {
  if constexpr (requires { parameter.data(); }) {
    read(Index{0}, parameter.size(), parameter.data());
  } else {
    using T = typename Parameter::Scalar;
    const Index rows = parameter.dim(0), columns = parameter.dim(1);
    Tensor<T, 2> group({(std::min)(Parameter::row_group, rows), columns});
    for (Index row = 0; row < rows; row += group.dim(0)) {
      const Index count = (std::min)(group.dim(0), rows - row);
      read(row * columns, count * columns, group.data());
      parameter.set_rows(row, count, group.data());
    }
  }
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
