// SPDX-License-Identifier: MIT

// Rows quantized to int8, and their products with weights in int8 panels (kernels/panels.hpp).

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// Products of int8 in registers of sums: one step adds four products to each lane. The machines
/// multiply unsigned with signed numbers. VNNI: a is kept as a + 128, and the sums of 128 b are
/// subtracted at the end; they may wrap, the difference is right. AVX2: |b| * (a with b's sign), since
/// its 16-bit sums of pairs would be cut off.
#if EIGENFORMER_TARGET_HAS_VNNI
inline constexpr std::int8_t quantized_zero = -128;  // 128, unsigned

struct Integers {
  using Vector = __m512i;
  static constexpr Index width = 16;
  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Vector load(const std::int8_t* from) { return _mm512_loadu_si512(from); }
  static Vector add_products(Vector sum, Vector b, std::int32_t four) {
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(four), b);
  }
  static void store(std::int32_t* to, Vector sum) { _mm512_storeu_si512(to, sum); }
};
#else
inline constexpr std::int8_t quantized_zero = 0;
#if EIGENFORMER_TARGET_HAS_AVX2
struct Integers {
  using Vector = __m256i;
  static constexpr Index width = 8;
  struct Factor {
    Vector b, magnitude;
  };
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector subtract(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
  static Factor load(const std::int8_t* from) {
    const Vector b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {b, _mm256_abs_epi8(b)};
  }
  static Vector add_products(Vector sum, const Factor& b, std::int32_t four) {
    const Vector pairs =
        _mm256_maddubs_epi16(b.magnitude, _mm256_sign_epi8(_mm256_set1_epi32(four), b.b));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static void store(std::int32_t* to, Vector sum) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sum);
  }
};
#endif
#endif

/// y = y * scales + bias; `bias` may be null.
template <class T>
void scale_columns(const T* scales, const T* bias, T* y, Index n) {
  using S = Simd<T>;
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    const auto b = bias == nullptr ? S::set(T(0)) : load_partial<T>(bias + i, part);
    store_partial<T>(
        y + i, S::fma(load_partial<T>(y + i, part), load_partial<T>(scales + i, part), b), part);
  }
}

/// Quantizes x: quantized_zero + round(x / scale), within +-127 of it, followed by
/// quantized_zero up to whole_groups(n), and returns the scale. A row with NaN or infinity gets the
/// scale NaN.
template <class T>
T quantize(const T* x, Index n, std::int8_t* q) {
  using S = Simd<T>;
  static_assert(std::is_same_v<T, float>);
  std::fill(q + n, q + whole_groups(n), quantized_zero);
  auto tops = S::set(0);
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    tops = S::maximum(S::absolute(load_partial<T>(x + i, part)), tops);
  }
  const T top = S::largest(tops);
  const bool finite = all_finite(x, n);
  // Where 127 / top overflows, the row is as good as zero.
  constexpr T highest = (std::numeric_limits<T>::max)();
  const T inverse = finite && T(127) / top <= highest ? T(127) / top : T(0);
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  const auto factor = S::set(inverse), shift = S::set(0x1.8p23f);
  for (Index i = 0; i < n && finite; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    T lanes[S::width];
    S::store(lanes, S::fma(load_partial<T>(x + i, part), factor, shift));
    std::uint32_t bits[S::width];
    std::memcpy(bits, lanes, sizeof bits);
    for (Index j = 0; j < part; ++j)
      q[i + j] =
          static_cast<std::int8_t>((bits[j] + static_cast<std::uint8_t>(quantized_zero)) & 0xFFu);
  }
  if (!finite) std::fill(q, q + n, quantized_zero);
  return finite ? top / T(127) : std::numeric_limits<T>::quiet_NaN();
}

/// Int32 sums (rows, panel_width) of one panel.
template <class T, int Rows>
void integer_microkernel(const std::int8_t* const* a, Index depth, const std::int8_t* panel,
                         std::int32_t (*sums)[panel_width<T>]) {
#if EIGENFORMER_TARGET_HAS_VNNI || EIGENFORMER_TARGET_HAS_AVX2
  static_assert(panel_width<T> % Integers::width == 0);
  constexpr int registers = static_cast<int>(panel_width<T> / Integers::width);
  const auto zero = Integers::zero();
  Integers::Vector sum[std::size_t{Rows}][std::size_t{registers}], of_zeros[std::size_t{registers}];
  EIGENFORMER_UNROLL
  for (int v = 0; v < registers; ++v) {
    of_zeros[v] = zero;
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) sum[i][v] = zero;
  }
  for (Index k = 0; k < depth; k += 4, panel += 4 * panel_width<T>) {
    prefetch(reinterpret_cast<const char*>(panel) + prefetch_distance);
    EIGENFORMER_UNROLL
    for (int v = 0; v < registers; ++v) {
      const auto b = Integers::load(panel + 4 * Integers::width * v);
      if constexpr (quantized_zero != 0) {
        of_zeros[v] = Integers::add_products(of_zeros[v], b, static_cast<int>(0x80808080u));
      }
      EIGENFORMER_UNROLL
      for (int i = 0; i < Rows; ++i) {
        std::int32_t four;
        std::memcpy(&four, a[i] + k, sizeof four);
        sum[i][v] = Integers::add_products(sum[i][v], b, four);
      }
    }
  }
  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < registers; ++v)
      Integers::store(sums[i] + Integers::width * v, Integers::subtract(sum[i][v], of_zeros[v]));
  }
#else
  for (int i = 0; i < Rows; ++i) {
    for (Index j = 0; j < panel_width<T>; ++j) sums[i][j] = 0;
    for (Index k = 0; k < depth; k += 4) {
      const std::int8_t* from = panel + k * panel_width<T>;
      for (Index j = 0; j < panel_width<T>; ++j) {
        for (Index step = 0; step < 4; ++step)
          sums[i][j] += std::int32_t{a[i][k + step]} * std::int32_t{from[4 * j + step]};
      }
    }
  }
#endif
}

template <class T, int Rows>
void quantized_microkernel(const QuantizedProduct<T>& p, Index row, Index column) {
  using S = Simd<T>;
  const std::int8_t* a[std::size_t{Rows}];
  for (int i = 0; i < Rows; ++i) a[i] = p.a + (row + i) * p.a_stride;
  std::int32_t sums[std::size_t{Rows}][std::size_t{panel_width<T>}];
  integer_microkernel<T, Rows>(a, whole_groups(p.depth),
                               p.panels + column / panel_width<T> * p.panel_stride, sums);
  const Index columns = part_of_register(p.columns - column, panel_width<T>);
  for (int i = 0; i < Rows; ++i) {
    T* c = p.c + (row + i) * p.c_stride + column;
    T result[panel_width<T>];
    for (Index j = 0; j < panel_width<T>; ++j) result[j] = static_cast<T>(sums[i][j]);
    const auto a_scale = S::set(p.a_scales[row + i]);
    for (Index j = 0; j < columns; j += S::width) {
      const Index part = part_of_register(columns - j, S::width);
      const auto b_scale = load_partial<T>(p.b_scales + column + j, part);
      const auto bias =
          p.bias == nullptr ? S::set(T(0)) : load_partial<T>(p.bias + column + j, part);
      store_partial<T>(c + j, S::fma(S::multiply(S::load(result + j), b_scale), a_scale, bias),
                       part);
    }
  }
}

/// As many rows as fit into the registers, beside a factor, its magnitude and what the products need.
inline constexpr int quantized_rows = EIGENFORMER_TARGET_REGISTERS >= 32 ? 12 : 4;

template <class T>
using QuantizedRowsFunction = void (*)(const QuantizedProduct<T>&, Index, Index);

template <class T, int... Rows>
constexpr auto quantized_rows_functions(std::integer_sequence<int, Rows...>) {
  struct Functions {
    QuantizedRowsFunction<T> of_rows[sizeof...(Rows)];
  };
  return Functions{{quantized_microkernel<T, Rows + 1>...}};
}

/// The product, one panel after the other, rows shared out evenly.
template <class T>
void macrokernel_int8(const QuantizedProduct<T>& p) {
  static constexpr auto functions =
      quantized_rows_functions<T>(std::make_integer_sequence<int, quantized_rows>());
  const Index tiles = (p.rows + quantized_rows - 1) / quantized_rows;
  for (Index column = 0; column < p.columns; column += panel_width<T>) {
    for (Index tile = 0, row = 0; tile < tiles; ++tile) {
      const Index end = p.rows * (tile + 1) / tiles;
      functions.of_rows[end - row - 1](p, row, column);
      row = end;
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
