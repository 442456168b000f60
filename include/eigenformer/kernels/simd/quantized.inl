// SPDX-License-Identifier: MIT

// Rows brought to int8, and their products with weights in int8 panels (kernels/panels.hpp).

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

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

/// Brings x to q = round(x / scale), |q| <= 127, followed by zeros up to whole_groups(n), and
/// returns the scale. A row with NaN or infinity gets the scale NaN.
template <class T>
T quantize(const T* x, Index n, std::int8_t* q) {
  using S = Simd<T>;
  static_assert(std::is_same_v<T, float>);
  for (Index i = n; i < whole_groups(n); ++i) q[i] = 0;
  auto tops = S::set(0);
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    tops = maximum<T>(S::absolute(load_partial<T>(x + i, part)), tops);
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
    for (Index j = 0; j < part; ++j) q[i + j] = static_cast<std::int8_t>(bits[j] & 0xFFu);
  }
  if (!finite) std::memset(q, 0, static_cast<std::size_t>(n));
  return finite ? top / T(127) : std::numeric_limits<T>::quiet_NaN();
}

/// Products of int8 in registers of sums: one step adds four products to each lane.
/// |b| * (a with b's sign) is what the machines multiply: unsigned times signed.
#if EIGENFORMER_TARGET_HAS_VNNI
struct Integers {
  using Vector = __m512i;
  static constexpr Index width = 16;
  struct Factor {
    Vector magnitude;
    __mmask64 negative;
  };
  static Vector zero() { return _mm512_setzero_si512(); }
  static Factor load(const std::int8_t* from) {
    const Vector b = _mm512_loadu_si512(from);
    return {_mm512_abs_epi8(b), _mm512_movepi8_mask(b)};
  }
  static Vector add_products(Vector sum, const Factor& b, std::int32_t four) {
    const Vector a = _mm512_set1_epi32(four);
    return _mm512_dpbusd_epi32(sum, b.magnitude, _mm512_mask_sub_epi8(a, b.negative, zero(), a));
  }
  static void store(std::int32_t* to, Vector sum) { _mm512_storeu_si512(to, sum); }
};
#elif EIGENFORMER_TARGET_HAS_AVX2
struct Integers {
  using Vector = __m256i;
  static constexpr Index width = 8;
  struct Factor {
    Vector magnitude, b;
  };
  static Vector zero() { return _mm256_setzero_si256(); }
  static Factor load(const std::int8_t* from) {
    const Vector b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm256_abs_epi8(b), b};
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

/// Int32 sums (rows, panel_width) of one panel.
template <class T, int Rows>
void multiply_quantized_panel(const std::int8_t* const* a, Index depth, const std::int8_t* panel,
                              std::int32_t (*sums)[panel_width<T>]) {
#if EIGENFORMER_TARGET_HAS_VNNI || EIGENFORMER_TARGET_HAS_AVX2
  constexpr int registers = static_cast<int>(panel_width<T> / Integers::width);
  Integers::Vector sum[Rows][registers];
  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < registers; ++v) sum[i][v] = Integers::zero();
  }
  for (Index k = 0; k < depth; k += 4, panel += 4 * panel_width<T>) {
    prefetch(reinterpret_cast<const char*>(panel) + 16384);
    EIGENFORMER_UNROLL
    for (int v = 0; v < registers; ++v) {
      const auto b = Integers::load(panel + 4 * Integers::width * v);
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
    for (int v = 0; v < registers; ++v) Integers::store(sums[i] + Integers::width * v, sum[i][v]);
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
void multiply_quantized_rows(const QuantizedProduct<T>& p, Index row, Index column) {
  using S = Simd<T>;
  const std::int8_t* a[Rows];
  for (int i = 0; i < Rows; ++i) a[i] = p.a + (row + i) * p.a_stride;
  std::int32_t sums[Rows][panel_width<T>];
  multiply_quantized_panel<T, Rows>(a, whole_groups(p.depth),
                                    p.panels + column / panel_width<T> * p.panel_stride, sums);
  const Index columns = part_of_register(p.columns - column, panel_width<T>);
  for (int i = 0; i < Rows; ++i) {
    T* c = p.c + (row + i) * p.c_stride + column;
    T result[panel_width<T>];
    for (Index j = 0; j < panel_width<T>; ++j) result[j] = static_cast<T>(sums[i][j]);
    const auto a_scale = S::set(p.a_scales[row + i]);
    for (Index j = 0; j < columns; j += S::width) {
      const Index part = part_of_register(columns - j, S::width);
      const auto scale = S::multiply(load_partial<T>(p.b_scales + column + j, part), a_scale);
      const auto bias =
          p.bias == nullptr ? S::set(T(0)) : load_partial<T>(p.bias + column + j, part);
      store_partial<T>(c + j, S::fma(S::load(result + j), scale, bias), part);
    }
  }
}

/// The product, one panel after the other.
template <class T>
void multiply_quantized(const QuantizedProduct<T>& p) {
  // All the rows that the registers hold: sums, a factor and its magnitude, and what lies between.
  constexpr int most = EIGENFORMER_TARGET_REGISTERS >= 32 ? 12 : 4;
  for (Index column = 0; column < p.columns; column += panel_width<T>) {
    Index row = 0;
    for (; row + most <= p.rows; row += most) multiply_quantized_rows<T, most>(p, row, column);
    if (most > 6 && p.rows - row >= 6) {
      multiply_quantized_rows<T, 6>(p, row, column);
      row += 6;
    }
    if (p.rows - row >= 4) {
      multiply_quantized_rows<T, 4>(p, row, column);
      row += 4;
    }
    if (p.rows - row >= 2) {
      multiply_quantized_rows<T, 2>(p, row, column);
      row += 2;
    }
    if (row < p.rows) multiply_quantized_rows<T, 1>(p, row, column);
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
