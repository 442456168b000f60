// SPDX-License-Identifier: MIT
#pragma once

// All of Eigenformer but io/ (which needs a JSON parser: eigenformer/io/io.hpp), in the order of
// its floors.

// clang-format off
#include "eigenformer/base/config.hpp"
#include "eigenformer/base/error.hpp"
#include "eigenformer/base/shape.hpp"
#include "eigenformer/base/tensor.hpp"
#include "eigenformer/base/rows_view.hpp"
#include "eigenformer/base/format.hpp"
#include "eigenformer/base/executor.hpp"
#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/base/workspace.hpp"
#include "eigenformer/base/random.hpp"

#include "eigenformer/kernels/activation.hpp"
#include "eigenformer/kernels/attention.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/pooling.hpp"
#include "eigenformer/kernels/sinusoidal.hpp"
#include "eigenformer/kernels/softmax.hpp"

#include "eigenformer/nn/module.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "eigenformer/nn/gelu.hpp"
#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/multi_head_attention.hpp"
#include "eigenformer/nn/additive_attention.hpp"
#include "eigenformer/nn/embedding.hpp"
#include "eigenformer/nn/embeddings.hpp"
#include "eigenformer/nn/encoder_layer.hpp"
#include "eigenformer/nn/patch_embedding.hpp"
#include "eigenformer/nn/pooler.hpp"
#include "eigenformer/nn/masked_language_model_head.hpp"

#include "eigenformer/models/encoder_stack.hpp"
#include "eigenformer/models/transformer_encoder.hpp"
#include "eigenformer/models/sequence_classifier.hpp"
#include "eigenformer/models/masked_language_model.hpp"
#include "eigenformer/models/vision_transformer.hpp"
// clang-format on
