// SPDX-License-Identifier: MIT

// Activations (kernels/activation.hpp) on registers and rows.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// x * gate, and exactly 0 where the gate has fallen to 0, so that -infinity gives the limit.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector gated(typename Simd<T>::Vector x,
                                                         typename Simd<T>::Vector gate) {
  using S = Simd<T>;
  const auto product = S::multiply(x, gate);
  return S::select(S::less(S::set(T(0)), gate), product,
                   S::select(S::less(x, S::set(T(0))), S::set(T(0)), product));
}

/// Calls f with the register function of the activation.
template <class T, class F>
void with_activation(Activation activation, F&& f) {
  using S = Simd<T>;
  switch (activation) {
    case Activation::identity:
      return f([](auto x) { return x; });
    case Activation::relu:
      return f([](auto x) { return S::select(S::less(x, S::set(T(0))), S::set(T(0)), x); });
    case Activation::gelu:
      return f([](auto x) { return gated<T>(x, normal_distribution<T>(x).cumulative); });
    case Activation::gelu_tanh:
      return f([](auto x) {
        // (1 + tanh(u)) / 2 = sigmoid(2u)
        const auto square = S::multiply(x, x);
        const auto twice_u = S::multiply(S::multiply(S::set(T(1.5957691216057307117597842)), x),
                                         S::fma(square, S::set(T(0.044715)), S::set(T(1))));
        return gated<T>(x, logistic<T>(twice_u));
      });
    case Activation::silu:
      return f([](auto x) { return gated<T>(x, logistic<T>(x)); });
    case Activation::quick_gelu:
      return f([](auto x) { return gated<T>(x, logistic<T>(S::multiply(S::set(T(1.702)), x))); });
    case Activation::sigmoid:
      return f([](auto x) { return logistic<T>(x); });
    case Activation::tanh:
      return f([](auto x) { return hyperbolic_tangent<T>(x); });
  }
  require(false, "activation: must be one of the enumeration; got ", activation);
}

/// y = activation(x) over `n` elements; x and y may be the same.
template <class T>
void activate(Activation activation, const T* x, T* y, Index n) {
  with_activation<T>(activation, [&](auto function) { transform(x, y, n, function); });
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
