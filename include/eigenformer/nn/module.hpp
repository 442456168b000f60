// SPDX-License-Identifier: MIT
#pragma once

// Modules: plain values that hold parameters and configuration, nothing else; a tree of named
// parameters.
//
// A module lists its fields once, in a static `visit`, which walks one tree or several of the same
// shape in step:
//
//   template <class F, class... Layer> static void visit(F&& f, Layer&... layer) {
//     f("attention_norm", layer.attention_norm...);
//     f("attention", layer.attention...);
//   }
//
// A field is a parameter, a module, a std::vector of modules ("layers.0.attention") or a
// std::optional module (left out while empty). Counting, initialising, casting, saving and loading walk
// over this list. A gradient is a value of the module's own type.
//
// Weights and tables of a new module are 0, so its results are too; `init`, `load` or assignments give
// them values. Norms begin with weights of 1.
//
// A module also has `config`, `WithFormat<F>` (itself in another format) and, if it owns parameters
// directly, `init_own(key)`.
//
// Thread contract of every module: all of inference is const and keeps no state, so one module
// serves any number of threads, each with its own Workspace.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "eigenformer/base/format.hpp"
#include "eigenformer/base/random.hpp"
#include "eigenformer/base/rows_view.hpp"
#include "eigenformer/base/workspace.hpp"
#include "eigenformer/nn/module_walk.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

// What the functions below do with each parameter. They are outside those templates,
// because the compiler then makes their code once for a type of layer, not once for each model that
// contains it.
inline constexpr auto fill_with_zeros = [](const std::string&, auto& parameter) {
  using Scalar = typename std::remove_reference_t<decltype(parameter)>::Scalar;
  std::fill(parameter.begin(), parameter.end(), Scalar(0));
};

inline constexpr auto convert_elements = [](const std::string&, auto& to, const auto& from) {
  using Scalar = typename std::remove_reference_t<decltype(to)>::Scalar;
  std::transform(from.begin(), from.end(), to.begin(),
                 [](auto value) { return static_cast<Scalar>(value); });
};

inline auto add_size_to(Index& count) {
  return [&count](const std::string&, const auto& parameter) { count += parameter.size(); };
}

inline auto compare_into(bool& equal) {
  return [&equal](const std::string&, const auto& a, const auto& b) { equal = equal && a == b; };
}

/// FNV-1a: a number for a name, the same everywhere.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace internal

/// Number of parameters, in elements.
template <Module M>
Index count_parameters(const M& module) {
  Index count = 0;
  for_each_parameter(module, internal::add_size_to(count));
  return count;
}

namespace internal {

template <class M>
concept HasFormat = requires {
  typename M::template WithFormat<typename M::Scalar>;
};

/// A module of plain tensors, whose elements can be written one by one; so are modules without a
/// format.
template <class M>
concept PlainModule =
    !HasFormat<M> || std::same_as<M, typename M::template WithFormat<typename M::Scalar>>;

/// True, or the one error that the compiler reports: for `if constexpr` around what needs it.
template <class M>
constexpr bool require_plain() {
  static_assert(
      PlainModule<M>,
      "this needs a module in a plain format, float or double: packed ones are read-only");
  return PlainModule<M>;
}

/// True, or the one error that the compiler reports.
template <class M, class NewFormat>
constexpr bool require_format() {
  constexpr bool given = requires { typename M::template WithFormat<NewFormat>; };
  static_assert(given,
                "a module that is cast or packed needs `template <class F> using WithFormat`, "
                "itself in another format");
  return given;
}

/// Initialises the parameters that a module owns directly.
inline auto init_with(Key key) {
  return [key](const std::string& name, auto& module) {
    if constexpr (requires { module.init_own(key); }) module.init_own(key.fold_in(hash_of(name)));
  };
}

}  // namespace internal

/// A module of the same type and shape whose parameters are all zero: an empty gradient.
template <Module M>
M zeros_like(const M& module) {
  M zeros(module);
  if constexpr (internal::require_plain<M>()) {
    for_each_parameter(zeros, internal::fill_with_zeros);
  }
  return zeros;
}

/// The same module with parameters in another plain format: cast<double>(model).
template <class NewFormat, Module M>
auto cast(const M& module) {
  if constexpr (internal::require_format<M, NewFormat>()) {
    using Result = typename M::template WithFormat<NewFormat>;
    Result result(module.config);
    if constexpr (internal::require_plain<M>() && internal::require_plain<Result>()) {
      for_each_parameter_in_step(internal::convert_elements, result, module);
    }
    return result;
  }
}

/// True if every parameter has the same shape and elements.
template <Module M>
bool parameters_equal(const M& a, const M& b) {
  bool equal = true;
  for_each_parameter_in_step(internal::compare_into(equal), a, b);
  return equal;
}

/// Throws std::invalid_argument unless 0 <= probability <= 1.
inline void require_probability(std::string_view who, double probability) {
  require(probability >= 0 && probability <= 1, who, " must be in [0, 1]; got ", probability);
}

/// The convenience call of modules that work on rows: a new tensor (..., columns) for x (..., C),
/// and scratch memory of its own.
template <Module M, class T, int Rank>
Tensor<T, Rank> forward_to_new(const M& module, const Tensor<T, Rank>& x, Index columns) {
  Shape<Rank> shape = x.shape();
  shape[Rank - 1] = columns;
  Tensor<T, Rank> y(shape);
  Workspace workspace;
  module.forward(x, y, workspace);
  return y;
}

/// Fills a parameter from the normal distribution with deviation 0.02, as BERT and GPT-2 do it.
template <class P>
void fill_normal(P& parameter, Key key) {
  using Scalar = typename P::Scalar;
  for (Index i = 0; i < parameter.size(); ++i) {
    parameter.data()[i] = static_cast<Scalar>(0.02 * key.normal(static_cast<std::uint64_t>(i)));
  }
}

/// Initializes all parameters at random: weights of linear maps from the Glorot (Xavier) uniform distribution,
/// biases 0, norms 1 and 0, embeddings normal with deviation 0.02. Each module's numbers depend on
/// the key and on its own name alone.
template <Module M>
void init(M& module, Key key) {
  if constexpr (internal::require_plain<M>()) for_each_module(module, internal::init_with(key));
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
