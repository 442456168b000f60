// SPDX-License-Identifier: MIT
#pragma once

// Activations, element by element:
//
//   identity    x
//   relu        max(x, 0)
//   gelu        x Phi(x), Phi the normal distribution's cumulative function
//               (Hendrycks and Gimpel 2016); PyTorch's default
//   gelu_tanh   x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2; Hugging Face's gelu_new and
//               gelu_pytorch_tanh
//   silu        x sigmoid(x), also called swish
//   quick_gelu  x sigmoid(1.702 x), as in CLIP
//   sigmoid     1 / (1 + e^{-x})
//   tanh
//
// At -infinity the products take their limit, 0; NaN stays NaN.

#include <string>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

enum class Activation { identity, relu, gelu, gelu_tanh, silu, quick_gelu, sigmoid, tanh };

inline constexpr Activation all_activations[] = {
    Activation::identity, Activation::relu,       Activation::gelu,    Activation::gelu_tanh,
    Activation::silu,     Activation::quick_gelu, Activation::sigmoid, Activation::tanh};

inline std::string to_string(Activation activation) {
  switch (activation) {
    case Activation::identity:
      return "identity";
    case Activation::relu:
      return "relu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::silu:
      return "silu";
    case Activation::quick_gelu:
      return "quick_gelu";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
  }
  return std::to_string(static_cast<int>(activation)) + " (unknown)";
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
