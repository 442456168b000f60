// SPDX-License-Identifier: MIT
#pragma once

// The header of a safetensors file: what each tensor is and where its elements are. The format:
// io/safetensors_reader.hpp.
//
// Everything is checked before anything of a declared size is allocated: the offsets of the tensors
// must cover the data without overlap or gap and agree with their shapes. Every error is a
// std::runtime_error with path and tensor.

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "eigenformer/base/shape.hpp"
#include "eigenformer/io/data_type.hpp"
#include "eigenformer/io/json.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What a header says about one tensor.
struct TensorEntry {
  DataType type = DataType::f32;
  std::vector<Index> shape;
  Index size = 0;           // elements
  std::uint64_t begin = 0;  // bytes, counted from the first byte of data
  std::uint64_t end = 0;
};

/// "(2, 3)", and "()" for a single number without axes.
inline std::string shape_text(const std::vector<Index>& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  }
  return text + ")";
}

template <int Rank>
std::vector<Index> shape_vector(const Shape<Rank>& shape) {
  return {std::begin(shape.extents), std::end(shape.extents)};
}

struct SafetensorsOptions {
  bool allow_trailing_bytes = false;  // behind the last tensor
};

namespace internal {

template <class... Parts>
[[noreturn]] void fail_tensor(const std::string& path, std::string_view name,
                              const Parts&... parts) {
  fail_file(path, "tensor ", name, ": ", parts...);
}

class SafetensorsHeader {
 public:
  static constexpr std::uint64_t size_limit =
      100'000'000;  // bytes, as in the reference implementation

  SafetensorsHeader(ByteSource& source, const SafetensorsOptions& options) : path_(source.name()) {
    std::array<std::byte, 8> prefix;
    if (source.size() < prefix.size()) {
      fail_file(path_, source.size(), " bytes are too few for a safetensors file");
    }
    source.read(0, prefix.data(), prefix.size());
    const auto length = internal::load_little_endian<std::uint64_t>(prefix.data());
    if (length > size_limit) {
      fail_file(path_, "is no safetensors file: a header of ", length,
                " bytes is longer than the limit of ", size_limit);
    }
    if (length > source.size() - prefix.size()) {
      fail_file(path_, "a header of ", length, " bytes does not fit into a file of ", source.size(),
                " bytes");
    }
    data_begin_ = prefix.size() + length;
    data_size_ = source.size() - data_begin_;
    std::string text(static_cast<std::size_t>(length), ' ');
    source.read(prefix.size(), text.data(), text.size());
    if (text.empty() || text.front() != '{') fail_file(path_, "the header is not a JSON object");

    const Json header = parse_json(text, path_);
    for (const auto& [name, value] : header.as_object()) {
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        entries_.emplace(name, entry_from(name, value));
      }
    }
    require_no_gaps(options);
  }

  /// Where the data begins in the file; the tensors' offsets count from here.
  std::uint64_t data_begin() const { return data_begin_; }
  const std::map<std::string, TensorEntry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

 private:
  template <class... Parts>
  [[noreturn]] void fail_tensor(std::string_view name, const Parts&... parts) const {
    internal::fail_tensor(path_, name, parts...);
  }

  void read_metadata(const Json& value) {
    if (!value.is_object()) fail_file(path_, "__metadata__ is not an object");
    for (const auto& [key, text] : value.as_object()) {
      if (!text.is_string()) fail_file(path_, "__metadata__: ", key, " is not a string");
      metadata_.emplace(key, text.as_string());
    }
  }

  TensorEntry entry_from(const std::string& name, const Json& value) const {
    if (!value.is_object()) fail_tensor(name, "is not an object");
    const auto member = [&](const char* key) -> const Json& {
      const Json* found = value.find(key);
      if (found == nullptr) fail_tensor(name, "has no ", key);
      return *found;
    };
    const Json& type = member("dtype");
    const Json& shape = member("shape");
    const Json& offsets = member("data_offsets");
    if (value.as_object().size() != 3)
      fail_tensor(name, "has more than dtype, shape and data_offsets");

    TensorEntry tensor;
    if (!type.is_string()) fail_tensor(name, "dtype is not a string");
    const auto known = data_type_named(type.as_string());
    if (!known) fail_tensor(name, "dtype ", type.as_string(), " is not known");
    tensor.type = *known;
    read_shape(name, shape, tensor);

    if (!offsets.is_array() || offsets.as_array().size() != 2 ||
        !offsets.as_array()[0].is_unsigned() || !offsets.as_array()[1].is_unsigned()) {
      fail_tensor(name, "data_offsets are not two integers >= 0");
    }
    tensor.begin = offsets.as_array()[0].as_unsigned();
    tensor.end = offsets.as_array()[1].as_unsigned();
    if (tensor.begin > tensor.end || tensor.end > data_size_) {
      fail_tensor(name, "data_offsets [", tensor.begin, ", ", tensor.end,
                  "] are not a range within the ", data_size_, " bytes of data");
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(tensor.size) * bytes_of(tensor.type);
    if (tensor.end - tensor.begin != bytes) {
      fail_tensor(name, "shape ", shape_text(tensor.shape), " of ", tensor.type, " takes ", bytes,
                  " bytes; data_offsets hold ", tensor.end - tensor.begin);
    }
    return tensor;
  }

  /// Shape and size. The extents that aren't 0 must have a product that can be addressed in any
  /// element type.
  void read_shape(const std::string& name, const Json& shape, TensorEntry& tensor) const {
    if (!shape.is_array()) fail_tensor(name, "shape is not an array");
    bool is_empty = false;
    std::uint64_t limit = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()) / 8;
    std::uint64_t size = 1;
    for (const Json& extent : shape.as_array()) {
      if (!extent.is_unsigned()) fail_tensor(name, "shape holds what is no integer >= 0");
      const auto n = extent.as_unsigned();
      if (n > limit) fail_tensor(name, "shape has too many elements to address");
      tensor.shape.push_back(static_cast<Index>(n));
      if (n == 0) {
        is_empty = true;
      } else {
        limit /= n;
        size *= n;
      }
    }
    tensor.size = is_empty ? 0 : static_cast<Index>(size);
  }

  void require_no_gaps(const SafetensorsOptions& options) const {
    std::vector<std::pair<const TensorEntry*, const std::string*>> in_order;
    for (const auto& [name, tensor] : entries_) in_order.emplace_back(&tensor, &name);
    std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
    });
    std::uint64_t covered = 0;
    for (const auto& [tensor, name] : in_order) {
      if (tensor->begin != covered) {
        fail_tensor(*name, "data begins at ", tensor->begin, "; the tensors before it end at ",
                    covered, ": ", tensor->begin < covered ? "an overlap" : "a gap");
      }
      covered = tensor->end;
    }
    if (covered != data_size_ && !options.allow_trailing_bytes) {
      fail_file(path_, data_size_ - covered, " bytes behind the last tensor");
    }
  }

  std::string path_;
  std::uint64_t data_begin_ = 0, data_size_ = 0;
  std::map<std::string, TensorEntry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
