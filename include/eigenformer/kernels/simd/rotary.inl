// SPDX-License-Identifier: MIT

// Rotary positions of a head: kernels/rotary.hpp.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// Rotates one head of `size` elements.
template <class T>
void rotate(RotaryLayout layout, const T* cosine, const T* sine, T* x, Index size) {
  using S = Simd<T>;
  const Index half = size / 2;
  const auto rotate_pairs = [&](Index i, Index count, T* a, T* b) {
    const auto c = load_partial<T>(cosine + i, count), s = load_partial<T>(sine + i, count);
    const auto left = load_partial<T>(a, count), right = load_partial<T>(b, count);
    const auto minus_right = S::subtract(S::set(T(0)), right);
    store_partial<T>(a, S::fma(left, c, S::multiply(minus_right, s)), count);
    store_partial<T>(b, S::fma(right, c, S::multiply(left, s)), count);
  };
  for (Index i = 0; i < half; i += S::width) {
    const Index count = half - i < S::width ? half - i : S::width;
    if (layout == RotaryLayout::halves) {
      rotate_pairs(i, count, x + i, x + half + i);
    } else {
      T a[S::width], b[S::width];
      for (Index k = 0; k < count; ++k) {
        a[k] = x[2 * (i + k)];
        b[k] = x[2 * (i + k) + 1];
      }
      rotate_pairs(i, count, a, b);
      for (Index k = 0; k < count; ++k) {
        x[2 * (i + k)] = a[k];
        x[2 * (i + k) + 1] = b[k];
      }
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
