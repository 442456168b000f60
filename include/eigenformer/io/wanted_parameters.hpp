// SPDX-License-Identifier: MIT
#pragma once

// A module's parameters as a list of names, shapes and types, for finding them in a checkpoint.

#include <string>
#include <type_traits>
#include <vector>

#include "eigenformer/io/safetensors_header.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// A parameter as its module has it.
struct WantedParameter {
  std::string own;
  std::vector<Index> shape;
  bool (*converts)(DataType);  // true if elements of that type can be read into it
};

inline auto list_into(std::vector<WantedParameter>& wanted) {
  return [&wanted](const std::string& own, const auto& parameter) {
    using Parameter = std::remove_cvref_t<decltype(parameter)>;
    bool (*converts)(DataType) = reads_into<float>;
    if constexpr (requires { typename Parameter::Scalar; }) {
      converts = reads_into<typename Parameter::Scalar>;
    }
    wanted.push_back({own, shape_vector(parameter.shape()), converts});
  };
}

template <Module M>
std::vector<WantedParameter> list_parameters(const M& module) {
  std::vector<WantedParameter> wanted;
  for_each_parameter(module, list_into(wanted));
  return wanted;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
