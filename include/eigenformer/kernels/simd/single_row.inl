// SPDX-License-Identifier: MIT

// The matrix product for one row: c (N) = start + B (N, K) a (K), B in rows as a Linear stores
// them.
//
// The order of additions is the matrix product's, one chain over k for each output, so a row alone
// has the bits that it has among others. Squares of B are transposed between registers and never
// stored; two squares side by side hide the latency of the chains. The next rows are prefetched
// in the order of memory, which the processor doesn't guess from 16 rows read side by side: 12.6 instead of 9 GFLOP/s from memory. Tried: four squares, slower with AVX2 (more rows
// at once than the prefetcher follows); packing a panel first, 0.7 of the speed.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

inline constexpr int squares = 2;

/// Adds a[i] * B(row, k + i) for `width` rows and `width` steps of k.
template <class T>
EIGENFORMER_ALWAYS_INLINE typename Simd<T>::Vector accumulate_square(const T* a,
                                                                     const T* const* rows, Index k,
                                                                     typename Simd<T>::Vector sum) {
  using S = Simd<T>;
  const Square<T> square = load_transposed(rows, k);
  EIGENFORMER_UNROLL
  for (Index i = 0; i < S::width; ++i) sum = S::fma(S::set(a[i]), square.columns[i], sum);
  return sum;
}

/// `squares` registers of outputs from n0 on, of which the first `columns` are stored.
template <class T>
void single_row_microkernel(const T* a, const StridedFactor<T>& b, Index n0, Index columns,
                            Index depth, const T* bias, T* c) {
  using S = Simd<T>;
  using Vector = typename S::Vector;
  constexpr Index width = S::width;

  const T* rows[std::size_t{squares * width}];
  for (Index i = 0; i < squares * width; ++i)
    rows[i] = b.at(n0 + (i < columns ? i : columns - 1), 0);

  Vector sum[squares];
  EIGENFORMER_UNROLL
  for (int s = 0; s < squares; ++s) {
    const Index stored = part_of_register(columns - s * width, width);
    sum[s] = bias == nullptr ? S::set(T(0)) : load_partial<T>(bias + n0 + s * width, stored);
  }

  // A whole cache line of every row of a square before the next square: rows are often a multiple
  // of 4096 bytes apart, and then the first-level cache holds no more lines than one square has.
  constexpr Index in_line = 64 / static_cast<Index>(sizeof(T));
  constexpr Index line = width > in_line ? width : in_line;
  const char* prefetched =
      reinterpret_cast<const char*>(b.at(n0, 0) + squares * width * b.n_stride);
  Index k = 0;
  for (; k + line <= depth; k += line) {
    EIGENFORMER_UNROLL
    for (Index i = 0; i < squares * width * line / in_line; ++i, prefetched += 64)
      prefetch(prefetched);
    EIGENFORMER_UNROLL
    for (int s = 0; s < squares; ++s) {
      for (Index part = k; part < k + line; part += width) {
        sum[s] = accumulate_square<T>(a + part, rows + s * width, part, sum[s]);
      }
    }
  }
  for (; k < depth; ++k) {
    for (int s = 0; s < squares; ++s) {
      T column[std::size_t{width}];
      for (Index i = 0; i < width; ++i) column[i] = rows[s * width + i][k];
      sum[s] = S::fma(S::set(a[k]), S::load(column), sum[s]);
    }
  }
  for (int s = 0; s < squares; ++s) {
    const Index stored = part_of_register(columns - s * width, width);
    store_partial<T>(c + n0 + s * width, sum[s], stored);
  }
}

/// c[n] for column <= n < column_end; `bias` has N elements or is null.
template <class T>
void single_row_macrokernel(const T* a, const StridedFactor<T>& b, Index column, Index column_end,
                            Index depth, const T* bias, T* c) {
  constexpr Index group = squares * Simd<T>::width;
  for (Index n = column; n < column_end; n += group) {
    const Index rest = column_end - n;
    single_row_microkernel(a, b, n, rest < group ? rest : group, depth, bias, c);
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
