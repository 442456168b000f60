// SPDX-License-Identifier: MIT

// Softmax of a row, whole or tile by tile: kernels/softmax.hpp.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// p_j = e^{s_j - maximum} for s_j <= maximum, 0 for s_j = -infinity; returns the sum. s and p may be
/// the same.
template <class T>
T exponentials(const T* s, T maximum, T* p, Index n) {
  using S = Simd<T>;
  const auto shift = S::set(maximum);
  return row_sum<T>(n, [&](Index i, Index part) {
    const auto e = exponential_of_nonpositive<T>(S::subtract(load_partial<T>(s + i, part), shift));
    store_partial<T>(p + i, e, part);
    return e;
  });
}

/// What is subtracted from scores: their maximum, or nothing if there is no score.
template <class T>
T softmax_shift(T maximum) {
  return maximum == -std::numeric_limits<T>::infinity() ? T(0) : maximum;
}

template <class T>
void softmax(const T* x, T* y, Index n) {
  const T sum = exponentials(x, softmax_shift(largest(x, n)), y, n);
  scale(y, sum == T(0) ? T(0) : T(1) / sum, y, n);
}

/// One step of softmaxes over rows that come in tiles. Scores s become e^{s - maximum}, or 0 where
/// they aren't seen; the maximum and the sums are brought up to date, and the weighted sum of values
/// is scaled to the new maximum. Rows go through each part together: the exponentials of one needn't
/// wait for the maximum of another. Rows of scores may be written up to whole registers.
template <class T>
void softmax_step(const SoftmaxTile<T>& tile) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr T minus_infinity = -std::numeric_limits<T>::infinity();
  constexpr Index width = S::width, rows_together = 16;
  for (Index first = 0; first < tile.rows; first += rows_together) {
    const Index rows = tile.rows - first < rows_together ? tile.rows - first : rows_together;
    T* const maxima = tile.maximum + first;
    T shift[rows_together], shrink[rows_together];
    const auto whole_registers = [&](Index i) EIGENFORMER_INLINE_LAMBDA {
      return (tile.seen[first + i] + width - 1) / width * width;
    };

    for (Index i = 0; i < rows; ++i) {
      T* s = tile.scores + (first + i) * tile.stride;
      const Index whole = whole_registers(i);
      for (Index j = tile.seen[first + i]; j < whole; ++j) s[j] = minus_infinity;
      const T before = maxima[i], of_tile = largest(s, whole);
      maxima[i] = of_tile > before ? of_tile : before;
      shift[i] = softmax_shift(maxima[i]);
      shrink[i] = before == minus_infinity ? T(0) : before - maxima[i];
    }
    transform(shrink, shrink, rows, [](auto x) { return exponential_of_nonpositive<T>(x); });

    for (Index i = 0; i < rows; ++i) {
      T* s = tile.scores + (first + i) * tile.stride;
      const Index whole = whole_registers(i);
      const Vector top = S::set(shift[i]), zero = S::set(T(0));
      Vector sum[4] = {zero, zero, zero, zero};
      for (Index j = 0; j < whole; j += 4 * width) {
        EIGENFORMER_UNROLL
        for (int lane = 0; lane < 4; ++lane) {
          if (j + lane * width >= whole) break;
          T* const p = s + j + lane * width;
          const Vector e = exponential_of_nonpositive<T>(S::subtract(S::load(p), top));
          S::store(p, e);
          sum[lane] = S::add(sum[lane], e);
        }
      }
      for (Index j = whole; j < tile.columns; ++j) s[j] = T(0);

      T* const sums = tile.sums + (first + i) * SoftmaxTile<T>::lanes;
      const Vector added = S::add(S::add(sum[0], sum[1]), S::add(sum[2], sum[3]));
      S::store(sums, S::fma(S::load(sums), S::set(shrink[i]), added));
      T* const result = tile.result + (first + i) * tile.size;
      if (shrink[i] != T(1)) scale(result, shrink[i], result, tile.size);
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
