// SPDX-License-Identifier: MIT
#pragma once

// `RowsView<T>`: a tensor of any rank seen as rows of its last axis, for operations that treat
// every vector alike (a Linear, a norm). It remembers the full shape for error messages. Tensors
// and views convert to it by themselves.

#include <algorithm>
#include <string>
#include <string_view>

#include "eigenformer/base/disjoint.hpp"
#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class T>
class RowsView {
  using Scalar = std::remove_const_t<T>;

 public:
  static constexpr int largest_rank = 6;

  template <class U, int Rank>
  requires(Rank <= largest_rank && (std::is_same_v<U, T> || std::is_same_v<const U, T>))
      RowsView(TensorView<U, Rank> view)
      : data_(view.data()), rank_(Rank) {
    for (int axis = 0; axis < Rank; ++axis) extents_[axis] = view.dim(axis);
    rows_ = view.rows();
  }
  template <int Rank>
  RowsView(Tensor<Scalar, Rank>& tensor) : RowsView(tensor.view()) {}
  template <int Rank>
  requires std::is_const_v<T> RowsView(const Tensor<Scalar, Rank>& tensor)
      : RowsView(tensor.view()) {}

  /// Elements that may be changed, seen as constants.
  template <class U>
  requires std::is_same_v<const U, T> RowsView(const RowsView<U>& other)
      : data_(other.data_), rows_(other.rows_), rank_(other.rank_) {
    std::copy_n(other.extents_, largest_rank, extents_);
  }

  T* data() const { return data_; }
  Index rows() const { return rows_; }
  Index columns() const { return extents_[rank_ - 1]; }
  Index size() const { return rows_ * columns(); }
  TensorView<T, 2> view() const { return TensorView<T, 2>(data_, {rows_, columns()}); }

  /// True if all extents but the last agree.
  template <class U>
  bool same_rows(const RowsView<U>& other) const {
    return rank_ == other.rank_ && std::equal(extents_, extents_ + rank_ - 1, other.extents_);
  }

  /// The shape, with the last extent replaced.
  std::string shape_text(Index last) const {
    std::string text = "(";
    for (int axis = 0; axis + 1 < rank_; ++axis) text += std::to_string(extents_[axis]) + ", ";
    return text + std::to_string(last) + ")";
  }
  friend std::string to_string(const RowsView& view) { return view.shape_text(view.columns()); }

 private:
  template <class U>
  friend class RowsView;

  T* data_ = nullptr;
  Index rows_ = 0;
  int rank_ = 1;
  Index extents_[largest_rank] = {};
};

/// Throws unless x is (..., inputs) and y is (..., outputs) with the same leading axes.
template <class T>
void require_rows(std::string_view who, const RowsView<const T>& x, Index inputs,
                  const RowsView<T>& y, Index outputs) {
  require(x.columns() == inputs, who, ": x must be ", x.shape_text(inputs), "; got ", x);
  require(y.same_rows(x) && y.columns() == outputs, who, ": y must be ", x.shape_text(outputs),
          " for x ", x, "; got ", y);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
