// SPDX-License-Identifier: MIT

// Norms of a row: kernels/layer_norm.hpp, kernels/rms_norm.hpp.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// kernels/layer_norm.hpp; `bias` may be null.
template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T eps, T* y, Index n) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  using std::sqrt;
  const T count = static_cast<T>(n);

  const Vector first = S::set(sum(x, n) / count);
  const auto from_first = [&](Index i, Index part) {
    return S::subtract(load_partial<T>(x + i, part), first);
  };
  const Vector rest = S::set(row_sum<T>(n, from_first) / count);
  const auto deviation = [&](Index i, Index part) {
    return S::subtract(from_first(i, part), rest);
  };
  const T variance = row_sum<T>(n,
                                [&](Index i, Index part) {
                                  const Vector d = deviation(i, part);
                                  return S::multiply(d, d);
                                }) /
                     count;
  const Vector scale = S::set(T(1) / sqrt(variance + eps));

  for (Index i = 0; i < n; i += S::width) {
    const Index part = n - i < S::width ? n - i : S::width;
    const Vector normal = S::multiply(deviation(i, part), scale);
    const Vector w = load_partial<T>(weight + i, part);
    const Vector b = bias == nullptr ? S::set(T(0)) : load_partial<T>(bias + i, part);
    store_partial<T>(y + i, S::fma(normal, w, b), part);
  }
}

/// kernels/rms_norm.hpp
template <class T>
void rms_norm(const T* x, const T* weight, T offset, T eps, T* y, Index n) {
  using S = Simd<T>;
  using std::sqrt;
  const T mean_square = sum_of_squares(x, n) / static_cast<T>(n);
  const auto scale = S::set(T(1) / sqrt(mean_square + eps)), offsets = S::set(offset);
  transform(x, weight, y, n,
            [&](auto a, auto w) { return S::multiply(S::multiply(a, scale), S::add(w, offsets)); });
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
