// SPDX-License-Identifier: MIT
#pragma once

// What the CMake target eigenformer::compiled holds besides the vector code of kernels/target.hpp:
// the kernels, modules and models listed here, in float and double. Its users define
// EIGENFORMER_COMPILED and are spared compiling these; whatever isn't listed is compiled as ever.
// EIGENFORMER_EXTERN is empty in the library itself.

#if defined(EIGENFORMER_COMPILED)

#include <array>
#include <string_view>

#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/transformer.hpp"
#include "eigenformer/models/transformer_stack.hpp"
#include "eigenformer/models/vision_transformer.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"

#if !defined(EIGENFORMER_EXTERN)
#define EIGENFORMER_EXTERN extern
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

#define EIGENFORMER_KERNELS(T)                                                                     \
  EIGENFORMER_EXTERN template void multiply<T>(const MatrixProduct<T>&, EpilogueFunction,          \
                                               Workspace&);                                        \
  EIGENFORMER_EXTERN template void multiply_together<T, 3>(const std::array<MatrixProduct<T>, 3>&, \
                                                           Workspace&);                            \
  EIGENFORMER_EXTERN template void feed_forward<T>(                                                \
      TensorView<const T, 2>, const FeedForwardMaps<T>&, TensorView<T, 2>, Workspace&);            \
  EIGENFORMER_EXTERN template void attend<T>(const Attention<T>&, const KeyValuePanels<const T>&,  \
                                             const Mask<T>&, Workspace&);                          \
  EIGENFORMER_EXTERN template void attend<T>(const Attention<T>&, const KeysAndValues<T>&,         \
                                             const Mask<T>&, Workspace&);                          \
  EIGENFORMER_EXTERN template void require_valid_mask<T>(std::string_view, const Mask<T>&,         \
                                                         const Shape<4>&);

// clang-format off
#define EIGENFORMER_MODULES(Format)                                                        \
  EIGENFORMER_EXTERN template struct Linear<Format>;                                       \
  EIGENFORMER_EXTERN template struct LayerNorm<Format>;                                    \
  EIGENFORMER_EXTERN template struct RMSNorm<Format>;                                      \
  EIGENFORMER_EXTERN template struct FeedForward<Format>;                                  \
  EIGENFORMER_EXTERN template struct GatedFeedForward<Format>;                             \
  EIGENFORMER_EXTERN template struct MultiHeadAttention<Format>;                           \
  EIGENFORMER_EXTERN template struct Embedding<Format>;                                    \
  EIGENFORMER_EXTERN template struct Embeddings<Format>;                                   \
  EIGENFORMER_EXTERN template struct LanguageModelHead<Format>;                            \
  EIGENFORMER_EXTERN template struct EncoderLayer<Format>;                                 \
  EIGENFORMER_EXTERN template struct EncoderLayer<Format, RMSNorm, GatedFeedForward>;      \
  EIGENFORMER_EXTERN template struct DecoderLayer<Format>;                                 \
  EIGENFORMER_EXTERN template struct DecoderLayer<Format, RMSNorm, GatedFeedForward>;      \
  EIGENFORMER_EXTERN template struct EncoderStack<Format>;                                 \
  EIGENFORMER_EXTERN template struct DecoderStack<Format>;                                 \
  EIGENFORMER_EXTERN template struct TransformerStack<Format>;                             \
  EIGENFORMER_EXTERN template struct TransformerEncoder<Format>;                           \
  EIGENFORMER_EXTERN template struct TransformerDecoder<Format>;                           \
  EIGENFORMER_EXTERN template struct TransformerDecoder<Format, RMSNorm, GatedFeedForward>;\
  EIGENFORMER_EXTERN template struct Transformer<Format>;                                  \
  EIGENFORMER_EXTERN template struct SequenceClassifier<Format>;                           \
  EIGENFORMER_EXTERN template struct MaskedLanguageModel<Format>;                          \
  EIGENFORMER_EXTERN template struct VisionTransformer<Format>;
// clang-format on

namespace kernels {
EIGENFORMER_KERNELS(float)
EIGENFORMER_KERNELS(double)
}  // namespace kernels

EIGENFORMER_MODULES(float)
EIGENFORMER_MODULES(double)

#undef EIGENFORMER_KERNELS
#undef EIGENFORMER_MODULES

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer

#undef EIGENFORMER_EXTERN

#endif
