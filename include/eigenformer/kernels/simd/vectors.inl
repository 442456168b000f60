// SPDX-License-Identifier: MIT

// Walks over rows of numbers, register by register.
//
// Rules that keep bits the same everywhere:
//   a multiply that feeds an add is an explicit `fma`, so no compiler decides about contraction;
//   the tail of a row goes through the same vector code as the rest, filled up with zeros.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// How many of a register's `width` lanes `rest` more elements fill.
constexpr Index part_of_register(Index rest, Index width) {
  return rest < 0 ? 0 : rest < width ? rest : width;
}

/// The first `count` elements, then zeros; `count` <= width.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector load_partial(const T* from, Index count) {
  using S = Simd<T>;
  if (count == S::width) return S::load(from);
  T buffer[S::width] = {};
  for (Index i = 0; i < count; ++i) buffer[i] = from[i];
  return S::load(buffer);
}

template <class T>
EIGENFORMER_ALWAYS_INLINE void store_partial(T* to, typename Simd<T>::Vector a, Index count) {
  using S = Simd<T>;
  if (count == S::width) return S::store(to, a);
  T buffer[S::width];
  S::store(buffer, a);
  for (Index i = 0; i < count; ++i) to[i] = buffer[i];
}

/// `a` with zeros in all lanes but the first `count`.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector keep_first(typename Simd<T>::Vector a,
                                                              Index count) {
  using S = Simd<T>;
  if (count == S::width) return a;
  T buffer[S::width];
  S::store(buffer, a);
  return load_partial<T>(buffer, count);
}

/// y[i] = f(x[i]) over a row of `n`, `f` from register to register; x and y may be the same. The tail
/// is a row of its own in a second round, so that `f` is compiled once.
template <class T, class F>
EIGENFORMER_ALWAYS_INLINE void transform(const T* x, T* y, Index n, F&& f) {
  using S = Simd<T>;
  const Index rest = n % S::width, whole = n - rest;
  T tail[S::width] = {};
  if (rest > 0) std::copy_n(x + whole, rest, tail);
  T* const end_of_y = y + whole;
  for (Index count = whole, rounds = rest > 0 ? 2 : 1; rounds > 0; --rounds, count = S::width) {
    for (Index i = 0; i < count; i += S::width) S::store(y + i, f(S::load(x + i)));
    x = y = tail;
  }
  if (rest > 0) std::copy_n(tail, rest, end_of_y);
}

/// y[i] = f(x[i], z[i]); any of them may be the same.
template <class T, class F>
EIGENFORMER_ALWAYS_INLINE void transform(const T* x, const T* z, T* y, Index n, F&& f) {
  using S = Simd<T>;
  const Index rest = n % S::width, whole = n - rest;
  T tail[S::width] = {}, tail_of_z[S::width] = {};
  if (rest > 0) {
    std::copy_n(x + whole, rest, tail);
    std::copy_n(z + whole, rest, tail_of_z);
  }
  T* const end_of_y = y + whole;
  for (Index count = whole, rounds = rest > 0 ? 2 : 1; rounds > 0; --rounds, count = S::width) {
    for (Index i = 0; i < count; i += S::width) S::store(y + i, f(S::load(x + i), S::load(z + i)));
    x = y = tail;
    z = tail_of_z;
  }
  if (rest > 0) std::copy_n(tail, rest, end_of_y);
}

/// Sum over i < n of part(i, count), which returns a register with elements i ... i + count - 1.
/// `count` is the register's width, at the end perhaps less: lanes from `count` on are dropped.
/// Four running sums, always combined alike: the order of additions depends on n alone.
template <class T, class Part>
EIGENFORMER_ALWAYS_INLINE T row_sum(Index n, Part&& part) {
  using S = Simd<T>;
  constexpr Index width = S::width;
  const auto zero = S::set(T(0));
  typename S::Vector sum[4] = {zero, zero, zero, zero};
  Index i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    EIGENFORMER_UNROLL
    for (Index lane = 0; lane < 4; ++lane)
      sum[lane] = S::add(sum[lane], part(i + lane * width, width));
  }
  for (Index lane = 0; i < n; ++lane, i += width) {
    const Index count = n - i < width ? n - i : width;
    sum[lane] = S::add(sum[lane], keep_first<T>(part(i, count), count));
  }
  return S::sum(S::add(S::add(sum[0], sum[1]), S::add(sum[2], sum[3])));
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
