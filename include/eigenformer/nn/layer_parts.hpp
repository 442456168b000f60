// SPDX-License-Identifier: MIT
#pragma once

// What a layer requires of the norms and feed-forward networks that are its template parameters, such as
// EncoderLayer<float, MyNorm>. Both are modules (nn/module.hpp) with, for a module M:
//
//   static Config config_from(const TransformerConfig&)    the configuration of this part of a layer
//   explicit M(const Config&)
//   template <class F> using WithFormat                    M in another format
//   void forward(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace&) const
//
// forward reads rows x (..., hidden_size) and writes each row of y from the same row of x. A norm is
// also called with y as x itself, a feed-forward network never. A norm may have
//
//   void forward_sum(RowsView<const Scalar> x, RowsView<Scalar> y, Workspace&) const
//
// which normalizes x + y in place of y. What no concept can see is tested by check_norm and
// check_feed_forward (nn/check_module.hpp).

#include <concepts>
#include <type_traits>

#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/transformer_config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A module whose constructor takes what its own config_from makes of a layer's configuration.
template <class M>
concept MadeFromLayerConfig = requires(const TransformerConfig& config) {
  M(M::config_from(config));
};

/// A module that computes rows of numbers from rows of numbers.
template <class M>
concept RowsModule = Module<M> && internal::HasFormat<M> &&
    requires(const M& module, RowsView<const typename M::Scalar> x, RowsView<typename M::Scalar> y,
             Workspace& workspace) {
  module.forward(x, y, workspace);
};

/// What can be a norm or a feed-forward network of a layer.
template <class M>
concept LayerPart = RowsModule<M> && MadeFromLayerConfig<M>;

namespace internal {

/// Whether M defines `forward_sum` itself. An inherited one doesn't fit a norm that has replaced the
/// inherited `forward`.
template <class M>
concept NormalizesSums =
    std::is_same_v<decltype(&M::forward_sum),
                   void (M::*)(RowsView<const typename M::Scalar>, RowsView<typename M::Scalar>,
                               Workspace&) const>;

/// True, or the one error that the compiler reports.
template <class M>
constexpr bool require_layer_part() {
  constexpr bool lists = Module<M>, has_format = HasFormat<M>, made = MadeFromLayerConfig<M>;
  static_assert(lists,
                "a norm or feed-forward network of a layer needs `template <class F, class... "
                "Layer> static void visit(F&& f, Layer&... layer)` that lists its fields");
  static_assert(!lists || has_format,
                "a norm or feed-forward network of a layer needs `Scalar`, its type of numbers, "
                "and `template <class F> using WithFormat`, itself in another format");
  static_assert(!lists || !has_format || made,
                "a norm or feed-forward network of a layer needs `static config_from(const "
                "TransformerConfig&)`, whose result its constructor takes");
  static_assert(!lists || !has_format || !made || RowsModule<M>,
                "a norm or feed-forward network of a layer needs `void forward(RowsView<const "
                "Scalar> x, RowsView<Scalar> y, Workspace&) const`");
  return LayerPart<M>;
}

/// Part, or Standard after the error of require_layer_part, so that no second one follows.
template <class Part, class Standard>
using CheckedPart = std::conditional_t<require_layer_part<Part>(), Part, Standard>;

}  // namespace internal

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
