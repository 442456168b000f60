// SPDX-License-Identifier: MIT
#pragma once

// A mask that owns what it points to, with masks of any rank that broadcasts.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "eigenformer/io/safetensors_reader.hpp"
#include "eigenformer/kernels/mask.hpp"

namespace golden {

template <class T>
using AnyRank = std::variant<std::monostate, eigenformer::Tensor<T, 2>, eigenformer::Tensor<T, 3>,
                             eigenformer::Tensor<T, 4>>;

template <class T>
AnyRank<T> read_any_rank(eigenformer::SafetensorsReader& file, const std::string& name) {
  switch (file.entry(name).shape.size()) {
    case 2:
      return file.read<T, 2>(name);
    case 3:
      return file.read<T, 3>(name);
    case 4:
      return file.read<T, 4>(name);
    default:
      throw std::runtime_error(name + ": 2, 3 or 4 axes are wanted");
  }
}

template <class T>
std::optional<eigenformer::Broadcast<T>> broadcast(const AnyRank<T>& tensor) {
  return std::visit(
      []<class Held>(const Held& held) -> std::optional<eigenformer::Broadcast<T>> {
        if constexpr (std::is_same_v<Held, std::monostate>) {
          return std::nullopt;
        } else {
          return eigenformer::Broadcast<T>(held);
        }
      },
      tensor);
}

template <class T>
struct StoredMask {
  bool causal = false;
  eigenformer::Index query_offset = 0;
  std::optional<std::vector<std::int64_t>> key_lengths;
  std::optional<eigenformer::Tensor<bool, 2>> key_allowed;
  AnyRank<bool> allowed;
  AnyRank<T> bias;
  eigenformer::Index window = 0;

  /// Valid for as long as this object.
  eigenformer::Mask<T> view() const {
    eigenformer::Mask<T> mask{.causal = causal, .query_offset = query_offset, .window = window};
    if (key_lengths) mask.key_lengths = *key_lengths;
    if (key_allowed) mask.key_allowed = *key_allowed;
    mask.allowed = broadcast(allowed);
    mask.bias = broadcast(bias);
    return mask;
  }
};

}  // namespace golden
