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

/// x * factor where the factor isn't 0, else 0 (NaN for NaN): derivatives at infinity take their limit.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector vanishing(typename Simd<T>::Vector x,
                                                             typename Simd<T>::Vector factor) {
  using S = Simd<T>;
  return S::select(S::less(S::set(T(0)), factor), S::multiply(x, factor),
                   S::multiply(S::set(T(0)), factor));
}

/// value(x) and derivative(x) of each row of kernels/activations.inl.
template <class T>
struct identity_function {
  using Vector = typename Simd<T>::Vector;
  static Vector value(Vector x) { return x; }
  static Vector derivative(Vector) { return Simd<T>::set(T(1)); }
};

/// PyTorch's derivative at 0 is 0.
template <class T>
struct relu_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static Vector value(Vector x) { return S::select(S::less(x, S::set(T(0))), S::set(T(0)), x); }
  static Vector derivative(Vector x) {
    return S::select(S::less(S::set(T(0)), x), S::set(T(1)),
                     S::select(S::less(x, S::set(T(0))), S::set(T(0)), x));  // 0 and NaN
  }
};

/// Phi(x) + x phi(x)
template <class T>
struct gelu_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static Vector value(Vector x) { return gated<T>(x, normal_distribution<T>(x).cumulative); }
  static Vector derivative(Vector x) {
    const auto normal = normal_distribution<T>(x);
    const Vector density = S::multiply(normal.bell, S::set(T(0.39894228040143267794)));
    return S::add(normal.cumulative, vanishing<T>(x, density));
  }
};

/// x s(u(x)) with the logistic function s: s + x s (1 - s) u'(x).
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector gated_derivative(
    typename Simd<T>::Vector x, typename Simd<T>::Vector u, typename Simd<T>::Vector slope) {
  using S = Simd<T>;
  const auto s = logistic<T>(u), rest = logistic<T>(S::subtract(S::set(T(0)), u));
  return S::add(s, vanishing<T>(S::multiply(x, slope), S::multiply(s, rest)));
}

template <class T>
struct gelu_tanh_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static constexpr T twice_root = T(1.5957691216057307117597842);  // 2 sqrt(2/pi)
  static constexpr T cubic = T(0.044715);
  /// (1 + tanh(u)) / 2 = sigmoid(2u)
  static Vector twice_u(Vector x) {
    return S::multiply(S::multiply(S::set(twice_root), x),
                       S::fma(S::multiply(x, x), S::set(cubic), S::set(T(1))));
  }
  static Vector value(Vector x) { return gated<T>(x, logistic<T>(twice_u(x))); }
  static Vector derivative(Vector x) {
    const Vector slope =
        S::multiply(S::set(twice_root), S::fma(S::multiply(x, x), S::set(3 * cubic), S::set(T(1))));
    return gated_derivative<T>(x, twice_u(x), slope);
  }
};

template <class T>
struct silu_function {
  using Vector = typename Simd<T>::Vector;
  static Vector value(Vector x) { return gated<T>(x, logistic<T>(x)); }
  static Vector derivative(Vector x) { return gated_derivative<T>(x, x, Simd<T>::set(T(1))); }
};

template <class T>
struct quick_gelu_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static Vector factor() { return S::set(T(1.702)); }
  static Vector value(Vector x) { return gated<T>(x, logistic<T>(S::multiply(factor(), x))); }
  static Vector derivative(Vector x) {
    return gated_derivative<T>(x, S::multiply(factor(), x), factor());
  }
};

/// s (1 - s)
template <class T>
struct sigmoid_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static Vector value(Vector x) { return logistic<T>(x); }
  static Vector derivative(Vector x) {
    return S::multiply(logistic<T>(x), logistic<T>(S::subtract(S::set(T(0)), x)));
  }
};

/// 1 - tanh^2(x) = 4 s(2x) s(-2x)
template <class T>
struct tanh_function {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  static Vector value(Vector x) { return hyperbolic_tangent<T>(x); }
  static Vector derivative(Vector x) {
    return S::multiply(S::set(T(4)), sigmoid_function<T>::derivative(S::add(x, x)));
  }
};

/// Calls f with the function of the activation.
template <class T, class F>
void with_activation(Activation activation, F&& f) {
  switch (activation) {
#define EIGENFORMER_ACTIVATION(name, ...) \
  case Activation::name:                  \
    return f(name##_function<T>());
#include "eigenformer/kernels/activations.inl"
#undef EIGENFORMER_ACTIVATION
  }
  require(false, "activation: must be one of the enumeration; got ", activation);
}

/// y = activation(x) over `n` elements; x and y may be the same.
template <class T>
void activate(Activation activation, const T* x, T* y, Index n) {
  with_activation<T>(activation, [&](auto function) {
    transform(x, y, n, [](auto a) { return decltype(function)::value(a); });
  });
}

/// y = activation'(x) over `n` elements; x and y may be the same.
template <class T>
void activation_derivative(Activation activation, const T* x, T* y, Index n) {
  with_activation<T>(activation, [&](auto function) {
    transform(x, y, n, [](auto a) { return decltype(function)::derivative(a); });
  });
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
