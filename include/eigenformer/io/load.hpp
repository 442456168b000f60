// SPDX-License-Identifier: MIT
#pragma once

// Parameters of modules to and from safetensors files.
//
//   ef::save(layer, "layer.safetensors");
//   ef::load(layer, "layer.safetensors");                        // by the library's own names
//   ef::load(encoder, "bert-base-uncased", ef::bert_keys());     // by the names of a key map
//
// Loading is strict: every parameter must be stored, every tensor must be wanted, shapes must
// agree, and one error lists all that don't. After an error the module is as it was.

#include "eigenformer/io/key_lookup.hpp"
#include "eigenformer/io/safetensors_writer.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct LoadOptions {
  /// Otherwise missing parameters keep their values and unexpected tensors are left out; the report
  /// names them. Shapes must agree anyway.
  bool strict = true;
  /// Reads straight into the module instead of a copy: half the memory, but an error in the numbers
  /// leaves it half read.
  bool in_place = false;
};

namespace internal {

template <class T>
class ParameterReader {
 public:
  ParameterReader(Checkpoint& checkpoint, const std::string& own, const ParameterSource& source,
                  T* to, Index size, Index rows)
      : checkpoint_(checkpoint), own_(own), source_(source), to_(to), size_(size), rows_(rows) {}

  void read() {
    if (source_.row.transpose) {
      read_transposed();
    } else if (source_.row.stored.find('#') != std::string::npos) {
      T* next = to_;
      for (const std::string& name : source_.stored) {
        const Index count = checkpoint_.entry(name).size;
        checkpoint_.read_range(name, 0, count, next);
        next += count;
      }
    } else {
      checkpoint_.read_range(source_.stored.front(), source_.row.part * size_, size_, to_);
    }
    for (const std::string& copy : source_.copies) require_equal(copy);
  }

 private:
  /// Columns part * rows ... of a matrix (columns, parts * rows) become the rows of the parameter.
  void read_transposed() {
    if (size_ == 0) return;
    const Index columns = size_ / rows_, stride = rows_ * source_.row.parts;
    Tensor<T, 2> stored({columns, stride});
    checkpoint_.read_range(source_.stored.front(), 0, stored.size(), stored.data());
    for (Index row = 0; row < rows_; ++row) {
      for (Index column = 0; column < columns; ++column) {
        to_[row * columns + column] = stored(column, source_.row.part * rows_ + row);
      }
    }
  }

  void require_equal(const std::string& copy) {
    std::array<T, 2048> block;
    for (Index first = 0; first < size_; first += static_cast<Index>(block.size())) {
      const Index count = (std::min)(static_cast<Index>(block.size()), size_ - first);
      checkpoint_.read_range(copy, first, count, block.data());
      for (Index i = 0; i < count; ++i) {
        const T stored = block[static_cast<std::size_t>(i)], value = to_[first + i];
        if (!(stored == value || (stored != stored && value != value))) {
          fail_file(checkpoint_.path(), "tensor ", copy, ": differs from ", source_.stored.front(),
                    " at element ", first + i, " (", stored, " and ", value,
                    "), but the module has one parameter for both: ", own_);
        }
      }
    }
  }

  Checkpoint& checkpoint_;
  const std::string& own_;
  const ParameterSource& source_;
  T* to_;
  Index size_;
  Index rows_;
};

template <Module M>
void read_parameters(M& module, Checkpoint& checkpoint, const KeyLookup& lookup) {
  for_each_parameter(module, [&](const std::string& own, auto& parameter) {
    const ParameterSource& source = lookup.source_of(own);
    if (source.stored.empty()) return;
    using T = typename std::remove_reference_t<decltype(parameter)>::Scalar;
    ParameterReader<T>(checkpoint, own, source, parameter.data(), parameter.size(),
                       parameter.dim(0))
        .read();
  });
}

}  // namespace internal

/// Throws std::runtime_error with the path and the names of all tensors that don't fit.
template <Module M>
LoadReport load(M& module, Checkpoint& checkpoint, const KeyMap& map = {},
                const LoadOptions& options = {}) {
  const internal::KeyLookup lookup(module, checkpoint, map);
  lookup.require_fit(options.strict);
  if (options.in_place) {
    internal::read_parameters(module, checkpoint, lookup);
  } else {
    M read(module);
    internal::read_parameters(read, checkpoint, lookup);
    // Elements are copied, not exchanged: views of the parameters stay valid.
    for_each_parameter_in_step(
        [](const std::string&, auto& to, const auto& from) {
          std::copy(from.begin(), from.end(), to.begin());
        },
        module, read);
  }
  return lookup.report();
}

template <Module M>
LoadReport load(M& module, Checkpoint&& checkpoint, const KeyMap& map = {},
                const LoadOptions& options = {}) {
  return load(module, checkpoint, map, options);
}

/// From a file, or a directory of Hugging Face's.
template <Module M>
LoadReport load(M& module, const std::filesystem::path& path, const KeyMap& map = {},
                const LoadOptions& options = {}) {
  return load(module, Checkpoint(path), map, options);
}

/// By the module's own names, with options.
template <Module M>
LoadReport load(M& module, const std::filesystem::path& path, const LoadOptions& options) {
  return load(module, Checkpoint(path), {}, options);
}

/// Throws what `load` would throw for a checkpoint that doesn't fit. Only shapes are needed: the
/// module's format may be ShapeOnly.
template <Module M>
void require_fit(const M& module, const Checkpoint& checkpoint, const KeyMap& map = {}) {
  internal::KeyLookup(module, checkpoint, map).require_fit(true);
}

/// Writes all parameters under their own names, in the module's format.
template <Module M>
void save(const M& module, const std::filesystem::path& path, const Metadata& metadata = {}) {
  std::vector<NamedTensor> tensors;
  for_each_parameter(module, [&](const std::string& name, const auto& parameter) {
    tensors.emplace_back(name, parameter);
  });
  write_safetensors(path, tensors, metadata);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
