// SPDX-License-Identifier: MIT

// The activations, one row each:
//
//   EIGENFORMER_ACTIVATION(name, names in config.json ...)     // formula
//
// The rows make the enumeration, its names, the reader of config.json and the free functions. How a row
// is computed, and its derivative, is `struct name##_function` in simd/activation.inl.
//
// At -infinity the products take their limit, 0; NaN stays NaN.

// clang-format off
EIGENFORMER_ACTIVATION(identity, "linear")         // x
EIGENFORMER_ACTIVATION(relu, "relu")               // max(x, 0)
EIGENFORMER_ACTIVATION(gelu, "gelu", "gelu_python")  // x Phi(x), Phi the normal distribution's cumulative
                                                   // function (Hendrycks and Gimpel 2016); PyTorch's default
EIGENFORMER_ACTIVATION(gelu_tanh, "gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh",
                       "gelu_python_tanh")         // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
EIGENFORMER_ACTIVATION(silu, "silu", "swish")      // x sigmoid(x)
EIGENFORMER_ACTIVATION(quick_gelu, "quick_gelu")   // x sigmoid(1.702 x), as in CLIP
EIGENFORMER_ACTIVATION(sigmoid, "sigmoid")         // 1 / (1 + e^{-x})
EIGENFORMER_ACTIVATION(tanh, "tanh")               // tanh(x)
// clang-format on
