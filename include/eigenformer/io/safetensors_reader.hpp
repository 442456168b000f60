// SPDX-License-Identifier: MIT
#pragma once

// Reads safetensors files: names, shapes and numbers, and nothing that a program could execute.
//
//   8 bytes      N, the length of the header, little-endian
//   N bytes      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                "__metadata__": {"key": "text"}}, padded with spaces
//   the rest     the tensors, row-major, little-endian; offsets count from here
//
// Everything is checked on opening, before anything of a declared size is allocated: the offsets of
// the tensors must cover the data without overlap or gap and agree with their shapes. Elements are
// read on demand, straight into their destination.
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

/// Not for concurrent use; several readers may read one file.
class SafetensorsReader {
 public:
  static constexpr std::uint64_t header_limit =
      100'000'000;  // bytes, as in the reference implementation

  explicit SafetensorsReader(const std::filesystem::path& path,
                             const SafetensorsOptions& options = {})
      : source_(path) {
    open(options);
  }

  /// A file that is in memory, which must stay there for as long as the reader is used. `name` is
  /// for error texts.
  SafetensorsReader(std::span<const std::byte> bytes, std::string name,
                    const SafetensorsOptions& options = {})
      : source_(bytes, std::move(name)) {
    open(options);
  }

  /// The path, or the name of the memory.
  const std::string& path() const { return source_.name(); }

  /// Names of all tensors, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  const TensorEntry& entry(std::string_view name) const {
    const auto place = entries_.find(name);
    if (place == entries_.end()) fail_file(path(), "has no tensor ", name);
    return place->second;
  }

  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

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
        const std::uint64_t offset =
            data_begin_ + tensor.begin + static_cast<std::uint64_t>(first) * sizeof(Stored);
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
    fail_file(path(), "tensor ", name, ": ", parts...);
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

  // ---------------------------------------------------------------- opening

  void open(const SafetensorsOptions& options) {
    std::array<std::byte, 8> prefix;
    if (source_.size() < prefix.size()) {
      fail_file(path(), source_.size(), " bytes are too few for a safetensors file");
    }
    source_.read(0, prefix.data(), prefix.size());
    const auto length = internal::load_little_endian<std::uint64_t>(prefix.data());
    if (length > header_limit) {
      fail_file(path(), "is no safetensors file: a header of ", length,
                " bytes is longer than the limit of ", header_limit);
    }
    if (length > source_.size() - prefix.size()) {
      fail_file(path(), "a header of ", length, " bytes does not fit into a file of ",
                source_.size(), " bytes");
    }
    data_begin_ = prefix.size() + length;
    std::string text(static_cast<std::size_t>(length), ' ');
    source_.read(prefix.size(), text.data(), text.size());
    if (text.empty() || text.front() != '{') fail_file(path(), "the header is not a JSON object");

    const Json header = parse_json(text, path());
    for (const auto& [name, value] : header.as_object()) {
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        entries_.emplace(name, entry_from(name, value));
      }
    }
    require_no_gaps(options);
  }

  void read_metadata(const Json& value) {
    if (!value.is_object()) fail_file(path(), "__metadata__ is not an object");
    for (const auto& [key, text] : value.as_object()) {
      if (!text.is_string()) fail_file(path(), "__metadata__: ", key, " is not a string");
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
    const std::uint64_t available = source_.size() - data_begin_;
    if (tensor.begin > tensor.end || tensor.end > available) {
      fail_tensor(name, "data_offsets [", tensor.begin, ", ", tensor.end,
                  "] are not a range within the ", available, " bytes of data");
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
    const std::uint64_t available = source_.size() - data_begin_;
    if (covered != available && !options.allow_trailing_bytes) {
      fail_file(path(), available - covered, " bytes behind the last tensor");
    }
  }

  ByteSource source_;
  std::uint64_t data_begin_ = 0;
  std::map<std::string, TensorEntry, std::less<>> entries_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
