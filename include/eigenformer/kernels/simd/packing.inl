// SPDX-License-Identifier: MIT

// Panels (kernels/panels.hpp) from rows of weights, by squares transposed between registers.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// Prefetches a cache line into the second-level cache.
EIGENFORMER_ALWAYS_INLINE void prefetch(const char* line) {
#if defined(__GNUC__)
  __builtin_prefetch(line, 0, 2);
#else
  (void)line;
#endif
}

/// Bytes between what is read and what is prefetched, where memory is read in order.
inline constexpr Index prefetch_distance = 16384;

/// A square of B in registers: columns[i] holds element k + i of `width` rows.
template <class T>
struct Square {
  typename Simd<T>::Vector columns[Simd<T>::width];
};

template <class T>
EIGENFORMER_ALWAYS_INLINE Square<T> load_transposed(const T* const* rows, Index k) {
  using S = Simd<T>;
  Square<T> square;
  EIGENFORMER_UNROLL
  for (Index i = 0; i < S::width; ++i) square.columns[i] = S::load(rows[i] + k);
  S::transpose(square.columns);
  return square;
}

/// Packs k0 <= k < k0 + depth of columns n0 <= n < n0 + columns of a factor whose k_stride is 1.
/// `prefetched` is what will be packed next, as much again, one after the other in memory; or null.
template <class T>
void pack_rows(const StridedFactor<T>& b, Index n0, Index columns, Index k0, Index depth,
               const T* prefetched, T* panel) {
  constexpr Index width = Simd<T>::width;
  constexpr Index square_lines = (width * width * static_cast<Index>(sizeof(T)) + 63) / 64;
  const char* next = reinterpret_cast<const char*>(prefetched);
  for (Index part = 0; part < panel_width<T>; part += width) {
    const T* rows[std::size_t{width}];
    for (Index i = 0; i < width; ++i) {
      const Index column = part + i < columns ? part + i : columns - 1;
      rows[i] = b.at(n0 + column, k0);
    }
    Index k = 0;
    for (; k + width <= depth; k += width) {
      if (next != nullptr) {
        EIGENFORMER_UNROLL
        for (Index i = 0; i < square_lines; ++i, next += 64) prefetch(next);
      }
      const Square<T> square = load_transposed(rows, k);
      EIGENFORMER_UNROLL
      for (Index i = 0; i < width; ++i) {
        Simd<T>::store(panel + (k + i) * panel_width<T> + part, square.columns[i]);
      }
    }
    for (; k < depth; ++k) {
      for (Index i = 0; i < width; ++i) panel[k * panel_width<T> + part + i] = rows[i][k];
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
