// SPDX-License-Identifier: MIT
#pragma once

// The right factor B (N, K) of a product: a view of one of four layouts in memory.

#include <cstdint>
#include <utility>
#include <variant>

#include "eigenformer/kernels/panels.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// Element (n, k) at data[n * n_stride + k * k_stride]; one of the strides is 1.
template <class T>
struct StridedFactor {
  const T* data = nullptr;
  Index n_stride = 0, k_stride = 1;

  const T* at(Index n, Index k) const { return data + n * n_stride + k * k_stride; }
  T element(Index n, Index k) const { return *at(n, k); }
  void skip(Index n, Index k) { data = at(n, k); }
};

/// Panels of E that hold all of K, one after the other.
template <class T, class E>
struct PanelFactor {
  const E* panels;
  Index panel_stride;  // elements

  /// Offset of the panel of columns n ... at step k; for int8 k is a multiple of 4.
  Index offset(Index n, Index k) const {
    return n / panel_width<T> * panel_stride + k * panel_width<T>;
  }
  E stored(Index n, Index k) const {
    return panels[offset(n, 0) + place_in_panel<T, E>(n % panel_width<T>, k)];
  }
  void skip(Index n, Index k) { panels += offset(n, k); }
};

template <class T>
struct PlainPanels : PanelFactor<T, T> {
  T element(Index n, Index k) const { return this->stored(n, k); }
};

template <class T>
struct BFloat16Panels : PanelFactor<T, BFloat16> {
  const CompressedTarget<T>* target;

  T element(Index n, Index k) const { return static_cast<T>(to_float(this->stored(n, k))); }
};

/// B(n, k) = scales[n] * the stored number. `quantizes_rows`: the left factor is quantized too.
template <class T>
struct Int8Panels : PanelFactor<T, std::int8_t> {
  const CompressedTarget<T>* target;
  const T* scales;
  bool quantizes_rows;

  T element(Index n, Index k) const { return scales[n] * static_cast<T>(this->stored(n, k)); }
  void skip(Index n, Index k) {
    PanelFactor<T, std::int8_t>::skip(n, k);
    scales += n;
  }
};

template <class T>
class RightFactor {
 public:
  RightFactor() = default;
  template <class Layout>
  explicit RightFactor(const Layout& layout) : layout_(layout) {}

  /// Rows of weights (N, K), as a Linear stores them.
  static RightFactor from_rows(const T* data, Index stride) {
    return RightFactor(StridedFactor<T>{data, stride, 1});
  }
  /// A matrix (K, N), such as the values of attention.
  static RightFactor from_columns(const T* data, Index stride) {
    return RightFactor(StridedFactor<T>{data, 1, stride});
  }
  /// Panels of a depth of K.
  static RightFactor from_panels(const T* panels, Index depth) {
    return RightFactor(PlainPanels<T>{{panels, depth * panel_width<T>}});
  }
  static RightFactor from_panels(const BFloat16* panels, Index depth,
                                 const CompressedTarget<T>& target) {
    return RightFactor(BFloat16Panels<T>{{panels, depth * panel_width<T>}, &target});
  }
  static RightFactor from_panels(const std::int8_t* panels, Index depth, const T* scales,
                                 bool quantizes_rows, const CompressedTarget<T>& target) {
    return RightFactor(Int8Panels<T>{
        {panels, whole_groups(depth) * panel_width<T>}, &target, scales, quantizes_rows});
  }

  /// f(layout), with the layout that it is.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), layout_);
  }

  /// Null if it is another layout.
  const StridedFactor<T>* strided() const { return std::get_if<StridedFactor<T>>(&layout_); }
  const Int8Panels<T>* int8() const { return std::get_if<Int8Panels<T>>(&layout_); }

  bool in_panels() const { return strided() == nullptr; }
  bool quantizes_rows() const { return int8() != nullptr && int8()->quantizes_rows; }

  /// The same factor without the first n columns or k steps; in panels n is a multiple of
  /// panel_width, k of 4.
  RightFactor part(Index n, Index k) const {
    RightFactor result = *this;
    std::visit([&](auto& layout) { layout.skip(n, k); }, result.layout_);
    return result;
  }

  /// B(n, k) for k < depth.
  void copy_row(Index n, Index depth, T* to) const {
    visit([&](const auto& layout) {
      for (Index k = 0; k < depth; ++k) to[k] = layout.element(n, k);
    });
  }

 private:
  std::variant<StridedFactor<T>, PlainPanels<T>, BFloat16Panels<T>, Int8Panels<T>> layout_;
};

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
