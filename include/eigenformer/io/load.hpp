// SPDX-License-Identifier: MIT
#pragma once

// Parameters of modules to and from safetensors files.
//
//   ef::save(layer, "layer.safetensors");
//   ef::load(layer, "layer.safetensors");                        // by the library's own names
//   auto same = ef::load_saved<ef::EncoderLayer<float>>("layer.safetensors");  // sizes from the file
//   ef::load(encoder, "bert-base-uncased", ef::bert_keys());     // by the names of a key map
//
// Loading is strict: every parameter must be stored, every tensor must be wanted, shapes must
// agree, and one error lists all that don't. After an error the module is as it was.

#include <algorithm>
#include <cmath>
#include <functional>

#include "eigenformer/io/config_json.hpp"
#include "eigenformer/io/key_lookup.hpp"
#include "eigenformer/io/parameter_writer.hpp"
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

/// One parameter of T, (rows, ...), as a key map finds it in a checkpoint.
template <class T>
class StoredParameter {
 public:
  StoredParameter(Checkpoint& checkpoint, const std::string& own, const ParameterSource& source,
                  Index size, Index rows)
      : checkpoint_(checkpoint), own_(own), source_(source), size_(size), rows_(rows) {
    if (!source.row.transpose || size == 0) return;
    transposed_ = Tensor<T, 2>({size / rows, rows * source.row.parts});
    checkpoint_.read_range(source.stored.front(), 0, transposed_.size(), transposed_.data());
  }

  /// Elements first ... first + count - 1 in the parameter's own order.
  void read(Index first, Index count, T* to) {
    if (transposed_.size() > 0) {
      read_transposed(first, count, to);
    } else if (source_.row.stored.find('#') != std::string::npos) {
      read_joined(first, count, to);
    } else {
      checkpoint_.read_range(source_.stored.front(), source_.row.part * size_ + first, count, to);
    }
  }

  /// Throws unless the other tensors that stand for the parameter hold the same.
  void require_equal_copies() {
    std::array<T, 2048> ours, theirs;
    for (const std::string& copy : source_.copies) {
      for (Index first = 0; first < size_; first += static_cast<Index>(ours.size())) {
        const Index count = (std::min)(static_cast<Index>(ours.size()), size_ - first);
        read(first, count, ours.data());
        checkpoint_.read_range(copy, first, count, theirs.data());
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
          const T stored = theirs[i], value = ours[i];
          if (!(stored == value || (stored != stored && value != value))) {
            fail_file(checkpoint_.path(), "tensor ", copy, ": differs from ",
                      source_.stored.front(), " at element ", first + static_cast<Index>(i), " (",
                      stored, " and ", value,
                      "), but the module has one parameter for both: ", own_);
          }
        }
      }
    }
  }

 private:
  /// Columns part * rows ... of a matrix (columns, parts * rows) are the rows of the parameter.
  void read_transposed(Index first, Index count, T* to) const {
    const Index columns = size_ / rows_;
    Index row = first / columns, column = first % columns;
    for (Index i = 0; i < count; ++i) {
      to[i] = transposed_(column, source_.row.part * rows_ + row);
      if (++column == columns) {
        column = 0;
        ++row;
      }
    }
  }

  /// The tensors follow each other.
  void read_joined(Index first, Index count, T* to) {
    Index begin = 0;
    for (const std::string& name : source_.stored) {
      const Index size = checkpoint_.entry(name).size;
      const Index from = (std::max)(first, begin), end = (std::min)(first + count, begin + size);
      if (from < end) checkpoint_.read_range(name, from - begin, end - from, to + (from - first));
      begin += size;
    }
  }

  Checkpoint& checkpoint_;
  const std::string& own_;
  const ParameterSource& source_;
  Index size_, rows_;
  Tensor<T, 2> transposed_;  // (columns, parts * rows), if stored so
};

inline auto read_from(Checkpoint& checkpoint, const KeyLookup& lookup) {
  return [&](const std::string& own, auto& parameter) {
    const ParameterSource& source = lookup.source_of(own);
    if (source.stored.empty()) return;
    using Parameter = std::remove_reference_t<decltype(parameter)>;
    using T = typename Parameter::Scalar;
    StoredParameter<T> stored(checkpoint, own, source, parameter.size(), parameter.dim(0));
    write_parameter(parameter, [&](Index first, Index count, T* to) {
      stored.read(first, count, to);
      if constexpr (requires { requires Parameter::finite_only; }) {
        const T* infinite = std::find_if_not(to, to + count, [](T x) { return std::isfinite(x); });
        if (infinite != to + count) {
          fail_file(checkpoint.path(), "tensor ", source.stored.front(), ": ", *infinite,
                    " at element ", first + (infinite - to), " of ", own, " has no place in int8");
        }
      }
    });
    stored.require_equal_copies();
  };
}

/// Adds a step that can't throw: it copies the elements of one parameter into another. Views of the
/// other stay valid.
inline auto list_copies_into(std::vector<std::function<void()>>& copies) {
  return [&copies](const std::string&, auto& to, auto& from) {
    copies.emplace_back([&to, &from] {
      if constexpr (requires { to.begin(); }) {
        std::copy(from.begin(), from.end(), to.begin());
      } else {
        to = std::move(from);
      }
    });
  };
}

inline auto list_tensors_into(std::vector<NamedTensor>& tensors) {
  return [&tensors](const std::string& name, const auto& parameter) {
    tensors.emplace_back(name, parameter);
  };
}

}  // namespace internal

/// Throws std::runtime_error with the path and the names of all tensors that don't fit.
template <Module M>
LoadReport load(M& module, Checkpoint& checkpoint, const KeyMap& map = {},
                const LoadOptions& options = {}) {
  const internal::KeyLookup lookup(internal::list_parameters(module), checkpoint, map);
  lookup.require_fit(options.strict);
  LoadReport report = lookup.report();
  if (options.in_place) {
    for_each_parameter(module, internal::read_from(checkpoint, lookup));
    return report;
  }
  M read(module);
  for_each_parameter(read, internal::read_from(checkpoint, lookup));
  // Everything that may throw comes before the first parameter is changed.
  std::vector<std::function<void()>> copies;
  for_each_parameter_in_step(internal::list_copies_into(copies), module, read);
  for (const auto& copy : copies) copy();
  return report;
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
  internal::KeyLookup(internal::list_parameters(module), checkpoint, map).require_fit(true);
}

/// Writes all parameters under their own names, in the module's format, and the configuration into the
/// metadata's `config` (io/config_json.hpp), unless they have one.
template <Module M>
void save(const M& module, const std::filesystem::path& path, Metadata metadata = {}) {
  std::vector<NamedTensor> tensors;
  if constexpr (internal::require_plain<M>()) {
    for_each_parameter(module, internal::list_tensors_into(tensors));
  }
  if constexpr (requires { to_json(module.config); }) {
    metadata.try_emplace("config", to_json(module.config));
  }
  write_safetensors(path, tensors, metadata);
}

/// The module that was saved, made from its configuration in the file.
template <Module M>
M load_saved(const std::filesystem::path& path) {
  SafetensorsReader file(path);
  const auto config = file.metadata().find("config");
  if (config == file.metadata().end()) fail_file(file.path(), "the metadata have no config");
  M module(config_from_json<decltype(M::config)>(config->second, file.path() + ": config"));
  load(module, Checkpoint(std::move(file)), {}, {.in_place = true});
  return module;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
