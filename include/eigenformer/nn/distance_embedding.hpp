// SPDX-License-Identifier: MIT
#pragma once

// The table of the relative embeddings that join the scores of attention: kernels/relative_keys.hpp.

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/relative_keys.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct DistanceEmbeddingConfig {
  Index max_position_embeddings = 0;  // M
  Index head_size = 0;                // D

  friend bool operator==(const DistanceEmbeddingConfig&, const DistanceEmbeddingConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("max_position_embeddings", c.max_position_embeddings...);
    f("head_size", c.head_size...);
  }
};

template <class Format>
struct DistanceEmbedding {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = DistanceEmbedding<F>;

  DistanceEmbeddingConfig config;
  Parameter<Format, 2> weight;  // (2 M - 1, D): offsets -(M - 1) ... M - 1

  explicit DistanceEmbedding(const DistanceEmbeddingConfig& config_)
      : config(config_), weight({2 * config.max_position_embeddings - 1, config.head_size}) {}
  EIGENFORMER_STRONG_COPIES(DistanceEmbedding)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
  }

  /// Normal with deviation 0.02.
  void init_own(Key key) { fill_normal(weight, key); }

  kernels::RelativeKeys<Scalar> table(bool with_keys) const {
    require_shape("DistanceEmbedding: weight", weight.shape(),
                  {2 * config.max_position_embeddings - 1, config.head_size});
    return {weight.data(), config.max_position_embeddings - 1, with_keys};
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
