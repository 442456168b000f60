// SPDX-License-Identifier: MIT

// Rows brought to int8, and their products with weights in int8 panels (kernels/panels.hpp).

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// y = y * scales + bias; `bias` may be null.
inline void scale_columns(const float* scales, const float* bias, float* y, Index n) {
  using S = Simd<float>;
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    const auto b = bias == nullptr ? S::set(0) : load_partial<float>(bias + i, part);
    store_partial<float>(
        y + i, S::fma(load_partial<float>(y + i, part), load_partial<float>(scales + i, part), b),
        part);
  }
}

/// Brings x to q = round(x / scale), |q| <= 127, followed by zeros up to whole_groups(n), and
/// returns the scale. A row with NaN or infinity gets the scale NaN.
inline float quantize(const float* x, Index n, std::int8_t* q) {
  for (Index i = n; i < whole_groups(n); ++i) q[i] = 0;
  float top = 0;
  for (Index i = 0; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    top = magnitude > top ? magnitude : top;
  }
  const bool finite = all_finite(x, n);
  const float inverse = finite && top > 0 ? 127.0f / top : 0.0f;
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  if (inverse <= (std::numeric_limits<float>::max)()) {
    for (Index i = 0; i < n; ++i) {
      const float shifted = finite ? x[i] * inverse + 0x1.8p23f : 0.0f;
      std::uint32_t bits;
      std::memcpy(&bits, &shifted, sizeof bits);
      q[i] = static_cast<std::int8_t>(bits & 0xFFu);
    }
  } else {  // 127 / top overflows: the row is as good as zero
    for (Index i = 0; i < n; ++i) q[i] = 0;
  }
  return finite ? top / 127.0f : std::numeric_limits<float>::quiet_NaN();
}

/// Four products of each lane, summed: int32 sums (rows, panel_width) of one panel.
template <int Rows>
void multiply_quantized_panel(const std::int8_t* const* a, Index depth, const std::int8_t* panel,
                              std::int32_t (*sums)[panel_width<float>]) {
#if EIGENFORMER_TARGET_HAS_AVX2
  constexpr int registers = static_cast<int>(panel_width<float> / 8);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int first = 0; first < registers; first += 2) {
    __m256i sum[Rows][2];
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_si256();
    const std::int8_t* from = panel + 32 * first;
    for (Index k = 0; k < depth; k += 4, from += 4 * panel_width<float>) {
      prefetch(reinterpret_cast<const char*>(from) + 16384);
      EIGENFORMER_UNROLL
      for (int v = 0; v < 2; ++v) {
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * v));
        const __m256i magnitude = _mm256_abs_epi8(b);
        EIGENFORMER_UNROLL
        for (int i = 0; i < Rows; ++i) {
          std::int32_t four;
          std::memcpy(&four, a[i] + k, sizeof four);
          const __m256i pairs =
              _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(_mm256_set1_epi32(four), b));
          sum[i][v] = _mm256_add_epi32(sum[i][v], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) {
      EIGENFORMER_UNROLL
      for (int v = 0; v < 2; ++v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums[i] + 8 * (first + v)), sum[i][v]);
      }
    }
  }
#else
  for (int i = 0; i < Rows; ++i) {
    for (Index j = 0; j < panel_width<float>; ++j) sums[i][j] = 0;
    for (Index k = 0; k < depth; k += 4) {
      const std::int8_t* from = panel + k * panel_width<float>;
      for (Index j = 0; j < panel_width<float>; ++j) {
        for (Index step = 0; step < 4; ++step)
          sums[i][j] += std::int32_t{a[i][k + step]} * std::int32_t{from[4 * j + step]};
      }
    }
  }
#endif
}

template <int Rows>
void multiply_quantized_rows(const QuantizedProduct<float>& p, Index row, Index column) {
  using S = Simd<float>;
  const std::int8_t* a[Rows];
  for (int i = 0; i < Rows; ++i) a[i] = p.a + (row + i) * p.a_stride;
  std::int32_t sums[Rows][panel_width<float>];
  multiply_quantized_panel<Rows>(a, whole_groups(p.depth),
                                 p.panels + column / panel_width<float> * p.panel_stride, sums);
  const Index columns = part_of_register(p.columns - column, panel_width<float>);
  for (int i = 0; i < Rows; ++i) {
    float* c = p.c + (row + i) * p.c_stride + column;
    float result[panel_width<float>];
    for (Index j = 0; j < panel_width<float>; ++j) result[j] = static_cast<float>(sums[i][j]);
    const auto a_scale = S::set(p.a_scales[row + i]);
    for (Index j = 0; j < columns; j += S::width) {
      const Index part = part_of_register(columns - j, S::width);
      const auto scale = S::multiply(load_partial<float>(p.b_scales + column + j, part), a_scale);
      const auto bias =
          p.bias == nullptr ? S::set(0) : load_partial<float>(p.bias + column + j, part);
      store_partial<float>(c + j, S::fma(S::load(result + j), scale, bias), part);
    }
  }
}

/// The product, one panel after the other.
inline void multiply_quantized(const QuantizedProduct<float>& p) {
  for (Index column = 0; column < p.columns; column += panel_width<float>) {
    Index row = 0;
    for (; row + 4 <= p.rows; row += 4) multiply_quantized_rows<4>(p, row, column);
    if (p.rows - row >= 2) {
      multiply_quantized_rows<2>(p, row, column);
      row += 2;
    }
    if (row < p.rows) multiply_quantized_rows<1>(p, row, column);
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
