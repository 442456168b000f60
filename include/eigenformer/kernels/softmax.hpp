// SPDX-License-Identifier: MIT
#pragma once

// Softmax over the last axis: y_j = e^{x_j - max} / sum_k e^{x_k - max}.
//
// A row of -infinity alone gives zeros: no key takes part. A row that holds +infinity or NaN gives
// NaN, as in PyTorch.

#include <limits>
#include <string>
#include <string_view>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/rows.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

/// x and y may be the same.
template <class T>
void softmax(TensorView<const T, 2> x, TensorView<T, 2> y, Workspace& workspace) {
  require_shape("softmax: y", y.shape(), x.shape());
  const Index n = x.columns();
  for_each_row_block(x.rows(), n, workspace, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row)
      target<T>().softmax(x.data() + row * n, y.data() + row * n, n);
  });
}

/// Throws unless the lengths are one for each batch row or each query, each within the keys.
inline void require_lengths(std::string_view who, const IntegerSequence& lengths, Index batch,
                            Index queries, Index keys) {
  require(lengths.size() == batch || lengths.size() == batch * queries, who,
          ": lengths must be one for each of ", batch, " batch rows or ", batch * queries,
          " queries; got ", lengths.size());
  for (Index i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0 && lengths[i] <= keys, who, ": lengths must be in [0, ", keys,
            "]; got ", lengths[i]);
  }
}

}  // namespace kernels

/// Softmax over the last axis of a tensor of any rank.
template <class T, int Rank>
Tensor<T, Rank> softmax(const Tensor<T, Rank>& x) {
  Tensor<T, Rank> y(x.shape());
  Workspace workspace;
  kernels::softmax(TensorView<const T, Rank>(x).folded(), y.view().folded(), workspace);
  return y;
}

/// Softmax of scores (B, T, S) over the keys j < lengths, which are given for each batch row (B) or
/// each query (B * T). The other scores are replaced by `fill`: -infinity takes them out, so that
/// length 0 gives zeros; Dive into Deep Learning fills with -1e6, with which length 0 gives the
/// uniform row.
template <class T>
Tensor<T, 3> masked_softmax(const Tensor<T, 3>& scores, IntegerSequence lengths,
                            T fill = -std::numeric_limits<T>::infinity()) {
  const Index batch = scores.dim(0), queries = scores.dim(1), keys = scores.dim(2);
  kernels::require_lengths("masked_softmax", lengths, batch, queries, keys);
  Tensor<T, 3> y(scores);
  for (Index row = 0; row < batch * queries; ++row) {
    const Index length = lengths[lengths.size() == batch * queries ? row : row / queries];
    std::fill(y.data() + row * keys + length, y.data() + (row + 1) * keys, fill);
    kernels::target<T>().softmax(y.data() + row * keys, y.data() + row * keys, keys);
  }
  return y;
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
