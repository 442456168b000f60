// SPDX-License-Identifier: MIT
#pragma once

// Writes safetensors files:
//
//   ef::write_safetensors("x.safetensors", {{"x", x}, {"lengths", lengths}}, {{"made_by", "me"}});
//
// The same tensors give the same bytes: wide elements first, so that each tensor is aligned to its
// element, then by name. The file is written beside its destination and renamed at the end, so a
// failure leaves the old one as it was.

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/io/data_type.hpp"
#include "eigenformer/io/json.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A name and a view of elements, which must live until they are written.
class NamedTensor {
 public:
  template <class T, int Rank>
  NamedTensor(std::string name_, TensorView<T, Rank> view)
      : name(std::move(name_)),
        type(data_type_of<std::remove_const_t<T>>()),
        shape(std::begin(view.shape().extents), std::end(view.shape().extents)),
        data(view.data()),
        bytes(static_cast<std::size_t>(view.size()) * sizeof(T)) {}

  template <class T, int Rank>
  NamedTensor(std::string name_, const Tensor<T, Rank>& tensor)
      : NamedTensor(std::move(name_), tensor.view()) {}

  std::string name;
  DataType type;
  std::vector<Index> shape;
  const void* data;
  std::size_t bytes;
};

using Metadata = std::map<std::string, std::string, std::less<>>;

namespace internal {

/// A new file beside `path` that takes its place on `commit`, and vanishes otherwise.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::filesystem::path& path) : path_(path) {
    for (int attempt = 0; attempt < 100 && file_ == nullptr; ++attempt) {
      partial_ = path;
      partial_ += '.';
      partial_ += std::to_string(attempt);
      partial_ += ".partial";
      file_ = std::fopen(partial_.string().c_str(), "wbx");  // x: never an existing file
    }
    if (file_ == nullptr) fail_file(path.string(), "cannot create a file beside it");
  }
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  ~ReplacementFile() {
    if (file_ != nullptr) std::fclose(file_);
    std::error_code ignored;
    if (!committed_) std::filesystem::remove(partial_, ignored);
  }

  void write(const void* data, std::size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail_writing();
  }

  void commit() {
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!closed) fail_writing();
    std::error_code error;
    std::filesystem::rename(partial_, path_, error);
    if (error) fail_file(path_.string(), "cannot be replaced: ", error.message());
    committed_ = true;
  }

 private:
  [[noreturn]] void fail_writing() const {
    fail_file(path_.string(), "writing failed; is the disk full?");
  }

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::FILE* file_ = nullptr;
  bool committed_ = false;
};

/// Elements in the byte order of the file.
inline void write_elements(const NamedTensor& tensor, ReplacementFile& file) {
  if constexpr (std::endian::native == std::endian::little) {
    file.write(tensor.data, tensor.bytes);
  } else {
    const auto* from = static_cast<const std::byte*>(tensor.data);
    const std::size_t width = bytes_of(tensor.type);
    std::array<std::byte, 8> element;
    for (std::size_t i = 0; i < tensor.bytes; i += width) {
      std::reverse_copy(from + i, from + i + width, element.begin());
      file.write(element.data(), width);
    }
  }
}

/// The JSON header, padded with spaces to a multiple of 8 bytes.
inline std::string safetensors_header(const std::vector<const NamedTensor*>& tensors,
                                      const Metadata& metadata) {
  const auto spelled = [](std::string_view name) {
    std::string text = json_string(name);
    require(!text.empty(), "write_safetensors: names and metadata must be UTF-8");
    return text;
  };
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += spelled(key) + ":" + spelled(value);
    }
    text += '}';
  }
  std::uint64_t begin = 0;
  for (const NamedTensor* tensor : tensors) {
    const std::uint64_t end = begin + tensor->bytes;
    if (text.back() != '{') text += ',';
    text += spelled(tensor->name) + ":{\"dtype\":\"" + to_string(tensor->type) + "\",\"shape\":[";
    for (const Index extent : tensor->shape) {
      if (text.back() != '[') text += ',';
      text += std::to_string(extent);
    }
    text += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(end) + "]}";
    begin = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace internal

/// Throws std::runtime_error if the file can't be written, std::invalid_argument for names that are
/// reserved, doubled or no UTF-8.
inline void write_safetensors(const std::filesystem::path& path,
                              const std::vector<NamedTensor>& tensors,
                              const Metadata& metadata = {}) {
  std::vector<const NamedTensor*> in_order;
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    require(tensor.name != "__metadata__", "write_safetensors: a tensor may not be called ",
            tensor.name);
    require(names.insert(tensor.name).second, "write_safetensors: two tensors are called ",
            tensor.name);
    in_order.push_back(&tensor);
  }
  std::sort(in_order.begin(), in_order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const auto key = [](const NamedTensor* x) {
      return std::tuple(-static_cast<int>(bytes_of(x->type)), std::string_view(x->name));
    };
    return key(a) < key(b);
  });

  const std::string header = internal::safetensors_header(in_order, metadata);
  std::array<std::byte, 8> length;
  internal::store_little_endian<std::uint64_t>(header.size(), length.data());
  internal::ReplacementFile file(path);
  file.write(length.data(), length.size());
  file.write(header.data(), header.size());
  for (const NamedTensor* tensor : in_order) internal::write_elements(*tensor, file);
  file.commit();
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
