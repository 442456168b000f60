// SPDX-License-Identifier: MIT
#pragma once

// One vector from a sequence: the mean over the tokens that take part, and scaling to length 1
// (sentence-transformers' formulas).

#include <cmath>

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/rows.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

namespace kernels {

/// The mean of x_bt over the t with takes_part(b, t); (B, T, C) to (B, C). No such t gives zeros.
template <class T, class TakesPart>
Tensor<T, 2> mean_over_tokens(TensorView<const T, 3> x, TakesPart&& takes_part) {
  const Index batch = x.dim(0), tokens = x.dim(1), width = x.dim(2);
  Tensor<T, 2> y({batch, width});
  for (Index b = 0; b < batch; ++b) {
    T* sum = y.data() + b * width;
    Index count = 0;
    for (Index t = 0; t < tokens; ++t) {
      if (!takes_part(b, t)) continue;
      ++count;
      target<T>().add(x.data() + (b * tokens + t) * width, sum, sum, width);
    }
    target<T>().divide(sum, static_cast<T>(std::max<Index>(1, count)), sum, width);
  }
  return y;
}

}  // namespace kernels

/// The mean over the tokens t < lengths[b]; x (B, T, C), result (B, C). Length 0 gives zeros.
template <class T>
Tensor<T, 2> mean_pooling(const Tensor<T, 3>& x, IntegerSequence lengths) {
  const Index batch = x.dim(0), tokens = x.dim(1);
  require(lengths.size() == batch, "mean_pooling: lengths must be one for each of ", batch,
          " batch rows; got ", lengths.size());
  for (Index b = 0; b < batch; ++b) {
    require(lengths[b] >= 0 && lengths[b] <= tokens, "mean_pooling: lengths must be in [0, ",
            tokens, "]; got ", lengths[b]);
  }
  return kernels::mean_over_tokens(TensorView<const T, 3>(x),
                                   [&](Index b, Index t) { return t < lengths[b]; });
}

/// The mean over the tokens with keep(b, t); x (B, T, C), keep (B, T), result (B, C). No token kept
/// gives zeros.
template <class T>
Tensor<T, 2> mean_pooling(const Tensor<T, 3>& x, const Tensor<bool, 2>& keep) {
  require_shape("mean_pooling: keep", keep.shape(), Shape<2>{x.dim(0), x.dim(1)});
  return kernels::mean_over_tokens(TensorView<const T, 3>(x),
                                   [&](Index b, Index t) { return keep(b, t); });
}

/// The mean of each of the consecutive sequences in x (1, T, C): kernels/mask.hpp.
/// Result (sequences, C). Length 0 gives zeros.
template <class T>
Tensor<T, 2> mean_pooling_of_sequences(const Tensor<T, 3>& x, IntegerSequence lengths) {
  kernels::require_sequences("mean_pooling_of_sequences", lengths, x.dim(0), x.dim(1));
  const Index width = x.dim(2);
  Tensor<T, 2> y({lengths.size(), width});
  const T* from = x.data();
  for (Index b = 0; b < lengths.size(); ++b) {
    const TensorView<const T, 3> sequence(from, {1, lengths[b], width});
    const auto mean = kernels::mean_over_tokens(sequence, [](Index, Index) { return true; });
    std::copy(mean.begin(), mean.end(), y.data() + b * width);
    from += sequence.size();
  }
  return y;
}

/// Scales every row to Euclidean length 1: y = x / max(|x|, eps), as torch.nn.functional.normalize.
template <class T>
void normalize_rows(Tensor<T, 2>& x, T eps = T(1e-12)) {
  using std::sqrt;
  const Index n = x.dim(1);
  for (Index row = 0; row < x.dim(0); ++row) {
    T* a = x.data() + row * n;
    const T length = sqrt(kernels::target<T>().sum_of_squares(a, n));
    kernels::target<T>().divide(a, (std::max)(eps, length), a, n);
  }
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
