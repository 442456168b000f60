// SPDX-License-Identifier: MIT
#pragma once

// Walks over the fields that a module's `visit` lists: nn/module.hpp.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

struct IgnoreFields {
  template <class... Fields>
  void operator()(const char*, Fields&...) const {}
};

}  // namespace internal

template <class M>
concept Module = requires(M& module) {
  std::remove_const_t<M>::visit(internal::IgnoreFields{}, module);
};

namespace internal {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// "attention.query" inside "layers.0", which is empty at the root.
inline std::string join_path(const std::string& prefix, std::string_view name) {
  std::string path = prefix;
  if (!path.empty()) path += '.';
  return path += name;
}

inline void require_same_layers(bool same, const std::string& path) {
  require(same, "visit: ", path, ": the modules differ in their number of layers");
}

inline void require_all_present(bool present, const std::string& path) {
  require(present, "visit: ", path, " is missing in one of the modules");
}

/// Walks fields in step. `on_module(name, modules...)` is called for each module before its fields,
/// `on_parameter(name, ...)` for each parameter; names are dotted paths from the root.
template <class OnModule, class OnParameter>
struct Walker {
  const std::string& prefix;
  OnModule& on_module;
  OnParameter& on_parameter;

  template <class First, class... Rest>
  void operator()(std::string_view name, First& first, Rest&... rest) const {
    using Field = std::remove_const_t<First>;
    const std::string path = join_path(prefix, name);
    if constexpr (is_vector<Field>) {
      require_same_layers(((rest.size() == first.size()) && ...), path);
      const Walker inside{path, on_module, on_parameter};
      for (std::size_t i = 0; i < first.size(); ++i)
        inside(std::to_string(i), first[i], rest[i]...);
    } else if constexpr (is_optional<Field>) {
      require_all_present(((rest.has_value() == first.has_value()) && ...), path);
      if (first.has_value()) (*this)(name, *first, *rest...);
    } else if constexpr (Module<Field>) {
      on_module(path, first, rest...);
      const Walker inside{path, on_module, on_parameter};
      Field::visit(inside, first, rest...);
    } else {
      on_parameter(path, first, rest...);
    }
  }
};

template <class OnModule, class OnParameter, class First, class... Rest>
void walk(OnModule&& on_module, OnParameter&& on_parameter, First& first, Rest&... rest) {
  const std::string root;
  on_module(root, first, rest...);
  const Walker<std::remove_reference_t<OnModule>, std::remove_reference_t<OnParameter>> walker{
      root, on_module, on_parameter};
  std::remove_const_t<First>::visit(walker, first, rest...);
}

/// For walks that need only the modules, or only the parameters.
inline constexpr auto ignore = [](const std::string&, auto&...) {};

}  // namespace internal

/// Calls f(name, parameter) for each parameter, in a fixed order; name is a dotted path such as
/// "attention.query.weight".
template <Module M, class F>
void for_each_parameter(M& module, F&& f) {
  internal::walk(internal::ignore, f, module);
}

/// Calls f(name, parameter of first, parameter of each of the rest) over modules of the same shape,
/// in step. They may differ in format or constness.
template <class F, Module First, Module... Rest>
void for_each_parameter_in_step(F&& f, First& first, Rest&... rest) {
  internal::walk(internal::ignore, f, first, rest...);
}

/// Calls f(name, module) for the module itself, with an empty name, and for each module inside it.
template <Module M, class F>
void for_each_module(M& module, F&& f) {
  internal::walk(f, internal::ignore, module);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
