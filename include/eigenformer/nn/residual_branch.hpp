// SPDX-License-Identifier: MIT
#pragma once

// A branch beside a residual connection, with its norm:
//
//   pre:   y = x + branch(norm(x))      GPT-2, ViT (Xiong et al. 2020)
//   post:  y = norm(x + branch(x))      BERT (Vaswani et al. 2017)
//
//   x, y: (B, T, hidden_size)

#include "eigenformer/kernels/elementwise.hpp"
#include "eigenformer/nn/layer_parts.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// The only place that knows the difference. `branch(from, to)`; y must not overlap x. A norm with
/// `forward_sum` adds and normalizes in one pass.
template <class T, class Norm, class Branch>
void add_branch(NormPlacement placement, const Norm& norm, TensorView<const T, 3> x,
                TensorView<T, 3> y, Workspace& workspace, Branch&& branch) {
  if (placement == NormPlacement::pre) {
    Scratch scratch(workspace);
    const auto normal = scratch.tensor<T, 3>(x.shape());
    norm.forward(x, normal, workspace);
    branch(TensorView<const T, 3>(normal), y);
  } else {
    branch(x, y);
  }
  if constexpr (internal::NormalizesSums<Norm>) {
    if (placement == NormPlacement::post) return norm.forward_sum(x, y, workspace);
  }
  kernels::add<T>(x.folded(), y.folded(), y.folded(), workspace);
  if (placement == NormPlacement::post) norm.forward(y, y, workspace);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
