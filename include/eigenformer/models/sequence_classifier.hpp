// SPDX-License-Identifier: MIT
#pragma once

// An encoder that names the class of a sequence from its first token:
//
//   logits = classifier(pooler(h))    or, without pooler, classifier(h_0)      h = encoder(ids)
//
//   ids: (B, T), T >= 1   logits: (B, num_labels)
//
// With pooler: BertForSequenceClassification. Without: "NLP with Transformers", chapter 3.

#include "eigenformer/models/transformer_encoder.hpp"
#include "eigenformer/nn/pooler.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct SequenceClassifier {
  using Scalar = ScalarOf<Format>;
  using Ids = TensorView<const std::int32_t, 2>;
  template <class F>
  using WithFormat = SequenceClassifier<F, Norm, FeedForwardNetwork>;

  TransformerConfig config;  // two labels by default
  TransformerEncoder<Format, Norm, FeedForwardNetwork> encoder;
  std::optional<Pooler<Format>> pooler;
  Linear<Format> classifier;

  explicit SequenceClassifier(const TransformerConfig& config_)
      : config(config_.with_defaults(encoder_defaults()).with_defaults({.num_labels = 2})),
        encoder(config),
        classifier({config.hidden_size, config.num_labels}) {
    if (config.pooler) pooler.emplace(PoolerConfig{config.hidden_size});
  }
  EIGENFORMER_STRONG_COPIES(SequenceClassifier)

  template <class F, class... Model>
  static void visit(F&& f, Model&... model) {
    f("encoder", model.encoder...);
    f("pooler", model.pooler...);
    f("classifier", model.classifier...);
  }

  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 2> logits, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_shape("SequenceClassifier: logits", logits.shape(), {ids.dim(0), config.num_labels});
    require(!mask.sequence_lengths, "SequenceClassifier: takes rows, not mask.sequence_lengths");
    require(pooler.has_value() == config.pooler,
            "SequenceClassifier: pooler must be that of the configuration");
    internal::require_linear("SequenceClassifier", "classifier", classifier, config.hidden_size,
                             config.num_labels);
    Scratch scratch(workspace);
    const auto hidden = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    const auto pooled = scratch.tensor<Scalar, 2>({ids.dim(0), config.hidden_size});
    encoder.forward(ids, inputs, mask, hidden, observer, workspace);
    if (pooler) {
      pooler->forward(hidden, pooled, workspace);
    } else {
      first_tokens<Scalar>(hidden, pooled);
    }
    classifier.forward(pooled, logits, workspace);
  }
  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 2> logits, Workspace& workspace) const {
    forward(ids, inputs, mask, logits, Observer<Scalar>(), workspace);
  }

  Tensor<Scalar, 2> operator()(const Tensor<std::int32_t, 2>& ids, const EmbeddingInputs& inputs,
                               const Mask<Scalar>& mask) const {
    Tensor<Scalar, 2> logits({ids.dim(0), config.num_labels});
    Workspace workspace;
    forward(ids, inputs, mask, logits, workspace);
    return logits;
  }
  Tensor<Scalar, 2> operator()(const Tensor<std::int32_t, 2>& ids,
                               const Mask<Scalar>& mask = {}) const {
    return (*this)(ids, {}, mask);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
