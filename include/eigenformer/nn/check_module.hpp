// SPDX-License-Identifier: MIT
#pragma once

// For the tests of your own modules. Each throws std::invalid_argument with a sentence that says what
// is wrong, such as a field that `visit` doesn't list:
//
//   check_module(module)                              any module in a plain format
//   check_norm<MyNorm<float>>(config)                 a norm for layers, made from a TransformerConfig
//   check_feed_forward<MyFeedForward<float>>(config)  likewise a feed-forward network

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/nn/layer_parts.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace internal {

/// The bytes of an object, and which of them belong to a known field.
class ObjectBytes {
 public:
  template <class Object>
  explicit ObjectBytes(const Object& object)
      : bytes_(reinterpret_cast<const unsigned char*>(&object)), known_(sizeof(Object)) {}

  template <class Field>
  void add(const Field& field) {
    const auto offset = reinterpret_cast<const unsigned char*>(&field) - bytes_;
    if (offset < 0 || static_cast<std::size_t>(offset) >= known_.size()) return;
    std::fill_n(known_.begin() + offset, sizeof(Field), true);
  }

  /// Whether bytes that can't be padding belong to no field and aren't all zero, as those of an empty
  /// tensor are.
  bool has_unknown_field() const {
    for (std::size_t begin = 0, end = 0; begin < known_.size(); begin = end + 1) {
      end = begin;
      while (end < known_.size() && !known_[end]) ++end;
      const bool padding = end - begin < alignof(std::max_align_t) / 2;
      const auto is_zero = [](unsigned char byte) { return byte == 0; };
      if (!padding && !std::all_of(bytes_ + begin, bytes_ + end, is_zero)) return true;
    }
    return false;
  }

 private:
  const unsigned char* bytes_;
  std::vector<bool> known_;
};

inline constexpr auto require_all_listed = [](const std::string& name, const auto& module) {
  ObjectBytes bytes(module);
  if constexpr (requires { module.config; }) bytes.add(module.config);
  module.visit([&bytes](const char*, const auto& field) { bytes.add(field); }, module);
  require(!bytes.has_unknown_field(), "check_module: ", name.empty() ? "the module" : name,
          " has a field that `visit` doesn't list and that isn't in `config`");
};

/// (name, shape as text) of each parameter.
template <class M>
std::vector<std::pair<std::string, std::string>> names_and_shapes(const M& module) {
  std::vector<std::pair<std::string, std::string>> found;
  for_each_parameter(module, [&found](const std::string& name, const auto& parameter) {
    found.push_back({name, to_string(parameter.shape())});
  });
  return found;
}

template <class M>
void fill_parameters(M& module, int value) {
  for_each_parameter(module, [value](const std::string&, auto& parameter) {
    using Scalar = typename std::remove_reference_t<decltype(parameter)>::Scalar;
    std::fill(parameter.begin(), parameter.end(), static_cast<Scalar>(value));
  });
}

/// Throws unless `fits(number of elements that equal value, number of elements)` for each parameter.
template <class M, class Fits>
void require_elements(const M& module, int value, Fits fits, std::string_view before,
                      std::string_view after) {
  for_each_parameter(module, [&](const std::string& name, const auto& parameter) {
    using Scalar = typename std::remove_reference_t<decltype(parameter)>::Scalar;
    const Index equal = std::count(parameter.begin(), parameter.end(), static_cast<Scalar>(value));
    require(fits(equal, parameter.size()), "check_module: ", before, name, after);
  });
}

/// The result for rows x; the same for each row by itself, or throws.
template <class T, class M>
Tensor<T, 2> checked_rows(const char* who, const M& module, const Tensor<T, 2>& x) {
  Workspace workspace;
  Tensor<T, 2> y(x.shape()), row({1, x.dim(1)}), alone({1, x.dim(1)});
  const Tensor<T, 2> before(x);
  module.forward(x, y, workspace);
  require(x == before, who, ": forward changes x");
  for (Index i = 0; i < x.dim(0); ++i) {
    std::copy_n(&x(i, 0), x.dim(1), row.data());
    module.forward(row, alone, workspace);
    require(std::equal(alone.begin(), alone.end(), &y(i, 0)), who,
            ": forward gives a row by itself another result than the same row among others");
  }
  return y;
}

template <class T>
Tensor<T, 2> normal_rows(Index rows, Index columns, Key key) {
  Tensor<T, 2> x({rows, columns});
  for (Index i = 0; i < x.size(); ++i) {
    x.data()[i] = static_cast<T>(key.normal(static_cast<std::uint64_t>(i)));
  }
  return x;
}

}  // namespace internal

/// Throws unless
/// - every field of the module, and of the modules in it, is `config` or listed by `visit`,
/// - names are unique,
/// - its constructor makes the same parameters from `config`,
/// - copies and assignments are deep and complete,
/// - `init` sets every element.
template <Module M>
void check_module(const M& module) {
  if constexpr (internal::require_plain<M>()) {
    for_each_module(module, internal::require_all_listed);

    const auto listed = internal::names_and_shapes(module);
    std::set<std::string> names;
    for (const auto& [name, shape] : listed) {
      require(names.insert(name).second, "check_module: two parameters are called ", name);
    }
    M other{module.config};
    require(
        internal::names_and_shapes(other) == listed,
        "check_module: the constructor makes other parameters from `config` than the module has");

    internal::fill_parameters(other, 1);
    M copy(other);
    internal::fill_parameters(copy, 2);
    const auto all = [](Index equal, Index size) { return equal == size; };
    internal::require_elements(other, 1, all, "a copy shares ", " with the original");
    copy = other;
    internal::require_elements(copy, 1, all, "assignment doesn't copy ", "");

    constexpr int unlikely = 12345;
    internal::fill_parameters(other, unlikely);
    init(other, Key{1});
    const auto none = [](Index equal, Index) { return equal == 0; };
    internal::require_elements(other, unlikely, none, "init doesn't set ",
                               "; `init_own` of its module must");
  }
}

/// check_module of the norm that a layer with this configuration has; also throws unless each row is
/// normalized by itself, in place with the same bits, and `forward_sum`, where there is one, is
/// `forward` of the sum.
template <LayerPart Norm>
void check_norm(const TransformerConfig& of_layer) {
  using T = typename Norm::Scalar;
  const TransformerConfig config = of_layer.with_defaults(layer_defaults());
  Norm norm(Norm::config_from(config));
  check_module(norm);
  init(norm, Key{2});
  const Tensor<T, 2> x = internal::normal_rows<T>(7, config.hidden_size, Key{3});
  const Tensor<T, 2> expected = internal::checked_rows<T>("check_norm", norm, x);
  Workspace workspace;
  Tensor<T, 2> y(x);
  norm.forward(y, y, workspace);
  require(y == expected, "check_norm: forward in place, y being x, gives another result");
  if constexpr (internal::NormalizesSums<Norm>) {
    Tensor<T, 2> z = internal::normal_rows<T>(7, config.hidden_size, Key{4}), sum(z);
    for (Index i = 0; i < sum.size(); ++i) sum.data()[i] += x.data()[i];
    norm.forward_sum(x, z, workspace);
    norm.forward(sum, y, workspace);
    require(z == y, "check_norm: forward_sum gives another result than forward of the sum");
  }
}

/// check_module of the feed-forward network that a layer with this configuration has; also throws
/// unless each row of the result depends on the same row of x alone.
template <LayerPart FeedForwardNetwork>
void check_feed_forward(const TransformerConfig& of_layer) {
  using T = typename FeedForwardNetwork::Scalar;
  const TransformerConfig config = of_layer.with_defaults(layer_defaults());
  FeedForwardNetwork network(FeedForwardNetwork::config_from(config));
  check_module(network);
  init(network, Key{2});
  internal::checked_rows<T>("check_feed_forward", network,
                            internal::normal_rows<T>(7, config.hidden_size, Key{3}));
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
