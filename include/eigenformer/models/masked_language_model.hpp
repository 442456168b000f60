// SPDX-License-Identifier: MIT
#pragma once

// An encoder with the masked-language-model head, tied to the encoder's own token table
// (BertForMaskedLM).
//
//   ids: (B, T)   logits: (B, T, vocab_size)

#include "eigenformer/models/transformer_encoder.hpp"
#include "eigenformer/nn/masked_language_model_head.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

template <class Format, template <class> class Norm = LayerNorm,
          template <class> class FeedForwardNetwork = FeedForward>
struct MaskedLanguageModel {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = MaskedLanguageModel<F, Norm, FeedForwardNetwork>;

  using Ids = TensorView<const std::int32_t, 2>;

  TransformerConfig config;
  TransformerEncoder<Format, Norm, FeedForwardNetwork> encoder;
  MaskedLanguageModelHead<Format> head;

  explicit MaskedLanguageModel(const TransformerConfig& config_)
      : config(config_.with_defaults(encoder_defaults())),
        encoder(config),
        head(MaskedLanguageModelHeadConfig::from(config)) {}
  EIGENFORMER_STRONG_COPIES(MaskedLanguageModel)

  template <class F, class... Model>
  static void visit(F&& f, Model&... model) {
    f("encoder", model.encoder...);
    f("head", model.head...);
  }

  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> logits, const LayerObserver<Scalar>& observer,
               Workspace& workspace) const {
    require_shape("MaskedLanguageModel: logits", logits.shape(),
                  {ids.dim(0), ids.dim(1), config.vocab_size});
    Scratch scratch(workspace);
    const auto hidden = scratch.tensor<Scalar, 3>({ids.dim(0), ids.dim(1), config.hidden_size});
    encoder.forward(ids, inputs, mask, hidden, observer, workspace);
    head.forward(hidden, encoder.embeddings.token.weight, logits, workspace);
  }
  void forward(Ids ids, const EmbeddingInputs& inputs, const Mask<Scalar>& mask,
               TensorView<Scalar, 3> logits, Workspace& workspace) const {
    forward(ids, inputs, mask, logits, Observer<Scalar>(), workspace);
  }

  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids, const EmbeddingInputs& inputs,
                               const Mask<Scalar>& mask) const {
    Tensor<Scalar, 3> logits({ids.dim(0), ids.dim(1), config.vocab_size});
    Workspace workspace;
    forward(ids, inputs, mask, logits, workspace);
    return logits;
  }
  Tensor<Scalar, 3> operator()(const Tensor<std::int32_t, 2>& ids,
                               const Mask<Scalar>& mask = {}) const {
    return (*this)(ids, {}, mask);
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
