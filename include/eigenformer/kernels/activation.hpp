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

#include "eigenformer/base/tensor.hpp"
#include "eigenformer/kernels/elementary.hpp"

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

namespace kernels {

namespace internal {

/// x * gate, and exactly 0 where the gate has fallen to 0, so that -infinity gives the limit.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector gated(typename Simd<T>::Vector x,
                                                         typename Simd<T>::Vector gate) {
  using S = Simd<T>;
  const auto product = S::multiply(x, gate);
  return S::select(S::less(S::zero(), gate), product,
                   S::select(S::less(x, S::zero()), S::zero(), product));
}

/// Calls f with the register function of the activation.
template <class T, class F>
void with_activation(Activation activation, F&& f) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  switch (activation) {
    case Activation::identity:
      return f([](Vector x) { return x; });
    case Activation::relu:
      return f([](Vector x) { return S::select(S::less(x, S::zero()), S::zero(), x); });
    case Activation::gelu:
      return f([](Vector x) { return gated<T>(x, normal_distribution<T>(x).cumulative); });
    case Activation::gelu_tanh:
      return f([](Vector x) {
        // (1 + tanh(u)) / 2 = sigmoid(2u)
        const auto square = S::multiply(x, x);
        const auto twice_u = S::multiply(S::multiply(S::set(T(1.5957691216057307117597842)), x),
                                         S::fma(square, S::set(T(0.044715)), S::set(T(1))));
        return gated<T>(x, logistic<T>(twice_u));
      });
    case Activation::silu:
      return f([](Vector x) { return gated<T>(x, logistic<T>(x)); });
    case Activation::quick_gelu:
      return f([](Vector x) { return gated<T>(x, logistic<T>(S::multiply(S::set(T(1.702)), x))); });
    case Activation::sigmoid:
      return f([](Vector x) { return logistic<T>(x); });
    case Activation::tanh:
      return f([](Vector x) { return hyperbolic_tangent<T>(x); });
  }
  require(false, "activation: must be one of the enumeration; got ", activation);
}

}  // namespace internal

/// y = activation(x) over `n` elements; x and y may be the same.
template <class T>
void activate(Activation activation, const T* x, T* y, Index n) {
  internal::with_activation<T>(activation, [&](auto function) { transform(x, y, n, function); });
}

/// y = activation(x), same shape; x and y may be the same.
template <class T, int Rank>
void activate(Activation activation, TensorView<const T, Rank> x, TensorView<T, Rank> y) {
  require_shape("activate: y", y.shape(), x.shape());
  activate(activation, x.data(), y.data(), x.size());
}

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
