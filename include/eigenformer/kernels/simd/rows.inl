// SPDX-License-Identifier: MIT

// Rows of numbers, one at a time: arithmetic, sums and elementary functions.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

// ------------------------------------------------------------------ arithmetic; results may be any
// of the arguments

/// y = x + z
template <class T>
void add(const T* x, const T* z, T* y, Index n) {
  transform(x, z, y, n, [](auto a, auto b) { return Simd<T>::add(a, b); });
}

/// y = x * z
template <class T>
void multiply_elements(const T* x, const T* z, T* y, Index n) {
  transform(x, z, y, n, [](auto a, auto b) { return Simd<T>::multiply(a, b); });
}

/// y = x * factor
template <class T>
void scale(const T* x, T factor, T* y, Index n) {
  const auto f = Simd<T>::set(factor);
  transform(x, y, n, [&](auto a) { return Simd<T>::multiply(a, f); });
}

/// y = x / divisor
template <class T>
void divide(const T* x, T divisor, T* y, Index n) {
  const auto d = Simd<T>::set(divisor);
  transform(x, y, n, [&](auto a) { return Simd<T>::divide(a, d); });
}

/// y += x * factor, rounded once
template <class T>
void add_scaled(const T* x, T factor, T* y, Index n) {
  const auto f = Simd<T>::set(factor);
  transform(x, y, y, n, [&](auto a, auto sum) { return Simd<T>::fma(a, f, sum); });
}

/// y = x * factor + 0: as `scale`, but -0 becomes 0
template <class T>
void scale_unsigned_zero(const T* x, T factor, T* y, Index n) {
  const auto f = Simd<T>::set(factor), zero = Simd<T>::set(T(0));
  transform(x, y, n, [&](auto a) { return Simd<T>::fma(a, f, zero); });
}

// ------------------------------------------------------------------ sums

template <class T>
T sum(const T* x, Index n) {
  return row_sum<T>(n, [&](Index i, Index part) { return load_partial<T>(x + i, part); });
}

template <class T>
T sum_of_squares(const T* x, Index n) {
  return row_sum<T>(n, [&](Index i, Index part) {
    const auto a = load_partial<T>(x + i, part);
    return Simd<T>::multiply(a, a);
  });
}

/// The largest element, passing over NaN; -infinity if there is none.
template <class T>
T largest(const T* x, Index n) {
  using S = Simd<T>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  auto registers = S::set(lowest);
  Index i = 0;
  for (; i + S::width <= n; i += S::width) registers = S::maximum(S::load(x + i), registers);
  T result = S::largest(registers);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

template <class T>
bool all_finite(const T* x, Index n) {
  using S = Simd<T>;
  const auto zero = S::set(T(0));
  return row_sum<T>(n, [&](Index i, Index part) {
           return S::multiply(load_partial<T>(x + i, part), zero);
         }) == T(0);
}

// ------------------------------------------------------------------ elementary functions

/// y = function(x)
template <class T>
void evaluate(Elementary function, const T* x, T* y, Index n) {
  switch (function) {
    case Elementary::exponential:
      return transform(x, y, n, [](auto a) { return exponential<T>(a); });
    case Elementary::hyperbolic_tangent:
      return transform(x, y, n, [](auto a) { return hyperbolic_tangent<T>(a); });
    case Elementary::logistic:
      return transform(x, y, n, [](auto a) { return logistic<T>(a); });
    case Elementary::normal_cumulative:
      return transform(x, y, n, [](auto a) { return normal_distribution<T>(a).cumulative; });
    case Elementary::normal_bell:
      return transform(x, y, n, [](auto a) { return normal_distribution<T>(a).bell; });
  }
}

/// s = cap tanh(s / cap): kernels/logits.hpp
template <class T>
void soft_cap(T* s, Index n, T cap) {
  using S = Simd<T>;
  const auto top = S::set(cap), inverse = S::set(T(1) / cap);
  transform(s, s, n, [&](auto score) {
    return S::multiply(top, hyperbolic_tangent<T>(S::multiply(score, inverse)));
  });
}

/// sum_i w_i tanh(x_i + z_i): nn/additive_attention.hpp
template <class T>
T additive_score(const T* x, const T* z, const T* w, Index n) {
  using S = Simd<T>;
  return row_sum<T>(n, [&](Index i, Index part) {
    const auto sum = S::add(load_partial<T>(x + i, part), load_partial<T>(z + i, part));
    return S::multiply(hyperbolic_tangent<T>(sum), load_partial<T>(w + i, part));
  });
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
