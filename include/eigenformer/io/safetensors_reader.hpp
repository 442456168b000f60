// SPDX-License-Identifier: MIT
#pragma once

// Reads safetensors files: names, shapes and numbers, and nothing that a program could execute.
//
//   8 bytes      N, the length of the header, little-endian
//   N bytes      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                "__metadata__": {"key": "text"}}, padded with spaces
//   the rest     the tensors, row-major, little-endian; offsets count from here
//
// Everything is checked on opening (io/safetensors_header.hpp). Elements are read on demand, straight
// into their destination.
//
//   ef::SafetensorsReader file("model.safetensors");
//   ef::Tensor<float, 2> x = file.read<float, 2>("encoder.weight");
//
// Every error is a std::runtime_error with path and tensor. The format:
// github.com/huggingface/safetensors.

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/io/safetensors_header.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Not for concurrent use; several readers may read one file.
class SafetensorsReader {
 public:
  static constexpr std::uint64_t header_limit = internal::SafetensorsHeader::size_limit;  // bytes

  explicit SafetensorsReader(const std::filesystem::path& path,
                             const SafetensorsOptions& options = {})
      : source_(path), header_(source_, options) {}

  /// A file that is in memory, which must stay there for as long as the reader is used. `name` is
  /// for error texts.
  SafetensorsReader(std::span<const std::byte> bytes, std::string name,
                    const SafetensorsOptions& options = {})
      : source_(bytes, std::move(name)), header_(source_, options) {}

  /// The path, or the name of the memory.
  const std::string& path() const { return source_.name(); }

  /// Names of all tensors, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : header_.entries()) names.push_back(name);
    return names;
  }

  bool contains(std::string_view name) const { return header_.entries().contains(name); }

  const TensorEntry& entry(std::string_view name) const {
    const auto place = header_.entries().find(name);
    if (place == header_.entries().end()) fail_file(path(), "has no tensor ", name);
    return place->second;
  }

  const std::map<std::string, std::string, std::less<>>& metadata() const {
    return header_.metadata();
  }

  /// Elements [first, first + count) of a tensor, in row-major order, converted to T.
  template <class T>
  void read_range(std::string_view name, Index first, Index count, T* to) {
    const TensorEntry& tensor = entry(name);
    require(first >= 0 && count >= 0 && first <= tensor.size && count <= tensor.size - first,
            "SafetensorsReader: ", count, " elements from ", first, " on are asked for of ", name,
            ", which has ", tensor.size);
    internal::with_data_type(tensor.type, [&]<class Stored>(std::type_identity<Stored>) {
      if constexpr (!internal::converts<Stored, T>) {
        fail_tensor(name, "dtype ", tensor.type, " does not convert to ", data_type_of<T>());
      } else {
        const std::uint64_t offset = header_.data_begin() + tensor.begin +
                                     static_cast<std::uint64_t>(first) * sizeof(Stored);
        if constexpr (std::is_same_v<Stored, T> && !std::is_same_v<T, bool> &&
                      std::endian::native == std::endian::little) {
          source_.read(offset, to, static_cast<std::size_t>(count) * sizeof(T));
        } else {
          convert_range<Stored>(name, offset, first, count, to);
        }
      }
    });
  }

  /// The whole tensor into an array of `entry(name).size` elements.
  template <class T>
  void read_elements(std::string_view name, T* to) {
    read_range(name, 0, entry(name).size, to);
  }

  /// The whole tensor; its shape must be the view's.
  template <class T, int Rank>
  void read_into(std::string_view name, TensorView<T, Rank> to) {
    require_shape_of(name, shape_vector(to.shape()));
    read_elements(name, to.data());
  }
  template <class T, int Rank>
  void read_into(std::string_view name, Tensor<T, Rank>& to) {
    read_into(name, to.view());
  }

  /// A new tensor; the stored one must have `Rank` axes.
  template <class T, int Rank>
  Tensor<T, Rank> read(std::string_view name) {
    const TensorEntry& tensor = entry(name);
    if (tensor.shape.size() != static_cast<std::size_t>(Rank)) {
      fail_tensor(name, "has shape ", shape_text(tensor.shape), "; ", Rank, " axes are wanted");
    }
    if (!reads_into<T>(tensor.type)) {
      fail_tensor(name, "dtype ", tensor.type, " does not convert to ", data_type_of<T>());
    }
    Shape<Rank> shape;
    for (int axis = 0; axis < Rank; ++axis) {
      shape[axis] = tensor.shape[static_cast<std::size_t>(axis)];
    }
    Tensor<T, Rank> result(shape);
    read_elements(name, result.data());
    return result;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail_tensor(std::string_view name, const Parts&... parts) const {
    internal::fail_tensor(path(), name, parts...);
  }

  void require_shape_of(std::string_view name, const std::vector<Index>& shape) const {
    const TensorEntry& tensor = entry(name);
    if (tensor.shape != shape) {
      fail_tensor(name, "has shape ", shape_text(tensor.shape), "; ", shape_text(shape),
                  " is wanted");
    }
  }

  template <class Stored, class T>
  void convert_range(std::string_view name, std::uint64_t offset, Index first, Index count, T* to) {
    std::array<std::byte, 16384> buffer;
    constexpr Index capacity = static_cast<Index>(buffer.size() / sizeof(Stored));
    for (Index done = 0; done < count;) {
      const Index step = (std::min)(capacity, count - done);
      source_.read(offset + static_cast<std::uint64_t>(done) * sizeof(Stored), buffer.data(),
                   static_cast<std::size_t>(step) * sizeof(Stored));
      for (Index i = 0; i < step; ++i, ++done) {
        if (!internal::convert_element<Stored>(
                buffer.data() + static_cast<std::size_t>(i) * sizeof(Stored), to[done])) {
          fail_tensor(name, "element ", first + done, " does not fit into ", data_type_of<T>());
        }
      }
    }
  }

  ByteSource source_;
  internal::SafetensorsHeader header_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
