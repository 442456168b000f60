// SPDX-License-Identifier: MIT

// `Simd<T>` with AVX2 and FMA. packets.inl says what the members do.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using Vector = __m256;
  static constexpr Index width = 8;

  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Vector a) { _mm256_storeu_ps(to, a); }
  static Vector set(float a) { return _mm256_set1_ps(a); }

  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  static Vector absolute(Vector a) { return _mm256_andnot_ps(set(-0.0f), a); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

  static Vector less(Vector a, Vector b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Vector select(Vector mask, Vector yes, Vector no) {
    return _mm256_blendv_ps(no, yes, mask);
  }

  static Vector maximum(Vector a, Vector b) { return _mm256_max_ps(a, b); }

  static Vector power_of_two(Vector shifted, int extra) {
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32((127 + extra) << 23)));
  }

  static float sum(Vector a) {
    return fold(a, [](auto x, auto y) { return _mm_add_ps(x, y); });
  }
  static float largest(Vector a) {
    return fold(a, [](auto x, auto y) { return _mm_max_ps(x, y); });
  }

  /// 32-bit lanes of compressed numbers, widened.
  static __m256i load_lanes(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static Vector lower_halves(__m256i lanes) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(lanes, 16));
  }
  static Vector upper_halves(__m256i lanes) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(lanes, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
  }
  template <int Byte>
  static Vector bytes(__m256i lanes) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(lanes, 24 - 8 * Byte), 24));
  }

  static void transpose(Vector (&square)[width]) {
    Vector pairs[width], quads[width];
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(square[i], square[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(square[i], square[i + 1]);
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 4) {
      quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < 4; ++i) {
      square[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      square[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }

 private:
  template <class F>
  static float fold(Vector a, F&& f) {
    const auto four = f(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const auto two = f(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(f(two, _mm_shuffle_ps(two, two, 1)));
  }
};

template <>
struct Simd<double> {
  using Vector = __m256d;
  static constexpr Index width = 4;

  static Vector load(const double* from) { return _mm256_loadu_pd(from); }
  static void store(double* to, Vector a) { _mm256_storeu_pd(to, a); }
  static Vector set(double a) { return _mm256_set1_pd(a); }

  static Vector add(Vector a, Vector b) { return _mm256_add_pd(a, b); }
  static Vector subtract(Vector a, Vector b) { return _mm256_sub_pd(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mul_pd(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm256_div_pd(a, b); }
  static Vector absolute(Vector a) { return _mm256_andnot_pd(set(-0.0), a); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }

  static Vector less(Vector a, Vector b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static Vector select(Vector mask, Vector yes, Vector no) {
    return _mm256_blendv_pd(no, yes, mask);
  }

  static Vector maximum(Vector a, Vector b) { return _mm256_max_pd(a, b); }

  static Vector power_of_two(Vector shifted, int extra) {
    const __m256i n = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
    return _mm256_castsi256_pd(_mm256_add_epi64(n, _mm256_set1_epi64x((1023LL + extra) << 52)));
  }

  static double sum(Vector a) {
    return fold(a, [](auto x, auto y) { return _mm_add_pd(x, y); });
  }
  static double largest(Vector a) {
    return fold(a, [](auto x, auto y) { return _mm_max_pd(x, y); });
  }

  static void transpose(Vector (&square)[width]) {
    const Vector a = _mm256_unpacklo_pd(square[0], square[1]);
    const Vector b = _mm256_unpackhi_pd(square[0], square[1]);
    const Vector c = _mm256_unpacklo_pd(square[2], square[3]);
    const Vector d = _mm256_unpackhi_pd(square[2], square[3]);
    square[0] = _mm256_permute2f128_pd(a, c, 0x20);
    square[1] = _mm256_permute2f128_pd(b, d, 0x20);
    square[2] = _mm256_permute2f128_pd(a, c, 0x31);
    square[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }

 private:
  template <class F>
  static double fold(Vector a, F&& f) {
    const auto two = f(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(f(two, _mm_unpackhi_pd(two, two)));
  }
};

template <class T>
struct Int8Sums;

/// |b| * (a with b's sign): unsigned with signed numbers of 7 bits, whose 16-bit sums of pairs aren't
/// cut off.
template <>
struct Int8Sums<float> {
  using Vector = __m256i;
  static constexpr Index width = 8;
  static constexpr std::int8_t zero_point = 0;
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

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
