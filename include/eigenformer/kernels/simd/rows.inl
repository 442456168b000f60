// SPDX-License-Identifier: MIT

// Rows of numbers, one at a time: arithmetic, sums, softmax, norms, rotation. What the longer ones
// compute is said in the headers named beside them.

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

// ------------------------------------------------------------------ kernels/softmax.hpp

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

// ------------------------------------------------------------------ norms

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

// ------------------------------------------------------------------ kernels/rotary.hpp

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
