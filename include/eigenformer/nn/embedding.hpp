// SPDX-License-Identifier: MIT
#pragma once

// A table of vectors (PyTorch's nn.Embedding): ids (B, T) to (B, T, embedding_dim).
//
// `padding_id` marks a row that `init` leaves at zero and that gets no gradient; looking it up
// gives whatever it holds, as in PyTorch.

#include <cstdint>
#include <optional>

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/embedding.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct EmbeddingConfig {
  Index num_embeddings = 0;
  Index embedding_dim = 0;
  std::optional<Index> padding_id = {};

  friend bool operator==(const EmbeddingConfig&, const EmbeddingConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("num_embeddings", c.num_embeddings...);
    f("embedding_dim", c.embedding_dim...);
    f("padding_id", c.padding_id...);
  }
};

template <class Format>
struct Embedding {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = Embedding<F>;

  EmbeddingConfig config;
  Weight<Format> weight;  // (num_embeddings, embedding_dim); empty without rows

  explicit Embedding(const EmbeddingConfig& config_)
      : config(checked(config_)), weight(table_shape()) {}
  EIGENFORMER_STRONG_COPIES(Embedding)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    if (((layer.config.num_embeddings > 0) && ...)) f("weight", layer.weight...);
  }

  /// Normal with deviation 0.02, as BERT and GPT-2.
  void init_own(Key key) {
    fill_normal(weight, key);
    if (config.padding_id)
      std::fill_n(weight.data() + *config.padding_id * config.embedding_dim, config.embedding_dim,
                  Scalar(0));
  }

  /// Throws std::invalid_argument, naming id and table size, for an id outside the table; y is
  /// unchanged then.
  void forward(TensorView<const std::int32_t, 2> ids, TensorView<Scalar, 3> y,
               Workspace& workspace) const {
    require_shape("Embedding: y", y.shape(), {ids.dim(0), ids.dim(1), config.embedding_dim});
    kernels::require_ids("Embedding", ids.data(), ids.size(), config.num_embeddings);
    kernels::look_up<Scalar>(table(), ids.data(), Scalar(1), false, y.folded(), workspace);
  }

  /// The table, as kernels take it. Throws if it doesn't fit the configuration.
  kernels::RightFactor<Scalar> table() const {
    require_shape("Embedding: weight", weight.shape(), table_shape());
    return kernels::right_factor(weight);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids) const {
    Tensor<Scalar, 3> y({ids.dim(0), ids.dim(1), config.embedding_dim});
    Workspace workspace;
    forward(ids, y, workspace);
    return y;
  }

 private:
  Shape<2> table_shape() const {
    if (config.num_embeddings == 0) return {0, 0};
    return {config.num_embeddings, config.embedding_dim};
  }

  static const EmbeddingConfig& checked(const EmbeddingConfig& c) {
    require(c.num_embeddings >= 0 && c.embedding_dim >= 0,
            "Embedding: num_embeddings and embedding_dim must be >= 0; got ", c.num_embeddings,
            " and ", c.embedding_dim);
    require(!c.padding_id || (*c.padding_id >= 0 && *c.padding_id < c.num_embeddings),
            "Embedding: padding_id must be in [0, ", c.num_embeddings, "); got ",
            c.padding_id.value_or(0));
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
