// SPDX-License-Identifier: MIT

// `Simd<T>` with AVX-512. packets.inl says what the members do.
//
// Shuffles are written in their masked form with all lanes on, which compiles to the plain one: in
// GCC 12 the plain form warns about an uninitialised variable of its own.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using Vector = __m512;
  static constexpr Index width = 16;

  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector a) { _mm512_storeu_ps(to, a); }
  static Vector set(float a) { return _mm512_set1_ps(a); }

  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  static Vector absolute(Vector a) {
    return _mm512_castsi512_ps(
        _mm512_and_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(0x7FFFFFFF)));
  }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

  static __mmask16 less(Vector a, Vector b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Vector select(__mmask16 mask, Vector yes, Vector no) {
    return _mm512_mask_blend_ps(mask, no, yes);
  }

  static Vector maximum(Vector a, Vector b) { return _mm512_maskz_max_ps(all, a, b); }

  static Vector power_of_two(Vector shifted, int extra) {
    const __m512i n = _mm512_maskz_slli_epi32(all, _mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32((127 + extra) << 23)));
  }

  static float sum(Vector a) {
    return fold(
        a, [](auto x, auto y) { return _mm256_add_ps(x, y); },
        [](auto x, auto y) { return _mm_add_ps(x, y); });
  }
  static float largest(Vector a) {
    return fold(
        a, [](auto x, auto y) { return _mm256_max_ps(x, y); },
        [](auto x, auto y) { return _mm_max_ps(x, y); });
  }

  /// 32-bit lanes of compressed numbers, widened.
  static __m512i load_lanes(const void* from) { return _mm512_loadu_si512(from); }
  template <int Byte>
  static Vector bytes(__m512i lanes) {
    const __m512i top = _mm512_maskz_slli_epi32(all, lanes, 24 - 8 * Byte);
    return _mm512_maskz_cvtepi32_ps(all, _mm512_maskz_srai_epi32(all, top, 24));
  }
  /// The lower halves of eight lanes, then the upper halves.
  static Vector load_halves(const void* from) {
    const __m512i twice =
        _mm512_maskz_broadcast_i64x4(0xFF, _mm256_loadu_si256(static_cast<const __m256i*>(from)));
    const __m512i shifts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16);
    return _mm512_castsi512_ps(_mm512_and_epi32(_mm512_maskz_sllv_epi32(all, twice, shifts),
                                                _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
  }

  static void transpose(Vector (&square)[width]) {
    Vector pairs[width], quads[width], eights[width];
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 2) {
      pairs[i] = _mm512_maskz_unpacklo_ps(all, square[i], square[i + 1]);
      pairs[i + 1] = _mm512_maskz_unpackhi_ps(all, square[i], square[i + 1]);
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 4) {
      quads[i] = _mm512_maskz_shuffle_ps(all, pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm512_maskz_shuffle_ps(all, pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm512_maskz_shuffle_ps(all, pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm512_maskz_shuffle_ps(all, pairs[i + 1], pairs[i + 3], 0xee);
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 8) {
      EIGENFORMER_UNROLL
      for (Index j = 0; j < 4; ++j) {
        eights[i + j] = _mm512_maskz_shuffle_f32x4(all, quads[i + j], quads[i + j + 4], 0x88);
        eights[i + j + 4] = _mm512_maskz_shuffle_f32x4(all, quads[i + j], quads[i + j + 4], 0xdd);
      }
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < 8; ++i) {
      square[i] = _mm512_maskz_shuffle_f32x4(all, eights[i], eights[i + 8], 0x88);
      square[i + 8] = _mm512_maskz_shuffle_f32x4(all, eights[i], eights[i + 8], 0xdd);
    }
  }

 private:
  static constexpr __mmask16 all = 0xFFFF;

  template <class F8, class F4>
  static float fold(Vector a, F8&& f8, F4&& f4) {
    const __m512d halves = _mm512_castps_pd(a);
    const auto eight = f8(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xFF, halves, 0)),
                          _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xFF, halves, 1)));
    const auto four = f4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const auto two = f4(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(f4(two, _mm_shuffle_ps(two, two, 1)));
  }
};

template <>
struct Simd<double> {
  using Vector = __m512d;
  static constexpr Index width = 8;

  static Vector load(const double* from) { return _mm512_loadu_pd(from); }
  static void store(double* to, Vector a) { _mm512_storeu_pd(to, a); }
  static Vector set(double a) { return _mm512_set1_pd(a); }

  static Vector add(Vector a, Vector b) { return _mm512_add_pd(a, b); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_pd(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mul_pd(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm512_div_pd(a, b); }
  static Vector absolute(Vector a) {
    return _mm512_castsi512_pd(
        _mm512_and_epi64(_mm512_castpd_si512(a), _mm512_set1_epi64(0x7FFFFFFFFFFFFFFF)));
  }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_pd(a, b, c); }

  static __mmask8 less(Vector a, Vector b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Vector select(__mmask8 mask, Vector yes, Vector no) {
    return _mm512_mask_blend_pd(mask, no, yes);
  }

  static Vector maximum(Vector a, Vector b) { return _mm512_maskz_max_pd(all, a, b); }

  static Vector power_of_two(Vector shifted, int extra) {
    const __m512i n = _mm512_maskz_slli_epi64(all, _mm512_castpd_si512(shifted), 52);
    return _mm512_castsi512_pd(_mm512_add_epi64(n, _mm512_set1_epi64((1023LL + extra) << 52)));
  }

  static double sum(Vector a) {
    return fold(
        a, [](auto x, auto y) { return _mm256_add_pd(x, y); },
        [](auto x, auto y) { return _mm_add_pd(x, y); });
  }
  static double largest(Vector a) {
    return fold(
        a, [](auto x, auto y) { return _mm256_max_pd(x, y); },
        [](auto x, auto y) { return _mm_max_pd(x, y); });
  }

  static void transpose(Vector (&square)[width]) {
    Vector pairs[width], quads[width];
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 2) {
      pairs[i] = _mm512_maskz_unpacklo_pd(all, square[i], square[i + 1]);
      pairs[i + 1] = _mm512_maskz_unpackhi_pd(all, square[i], square[i + 1]);
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < width; i += 4) {
      EIGENFORMER_UNROLL
      for (Index j = 0; j < 2; ++j) {
        quads[i + j] = _mm512_maskz_shuffle_f64x2(all, pairs[i + j], pairs[i + j + 2], 0x88);
        quads[i + j + 2] = _mm512_maskz_shuffle_f64x2(all, pairs[i + j], pairs[i + j + 2], 0xdd);
      }
    }
    EIGENFORMER_UNROLL
    for (Index i = 0; i < 4; ++i) {
      square[i] = _mm512_maskz_shuffle_f64x2(all, quads[i], quads[i + 4], 0x88);
      square[i + 4] = _mm512_maskz_shuffle_f64x2(all, quads[i], quads[i + 4], 0xdd);
    }
  }

 private:
  static constexpr __mmask8 all = 0xFF;

  template <class F4, class F2>
  static double fold(Vector a, F4&& f4, F2&& f2) {
    const auto four =
        f4(_mm512_maskz_extractf64x4_pd(0xFF, a, 0), _mm512_maskz_extractf64x4_pd(0xFF, a, 1));
    const auto two = f2(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(f2(two, _mm_unpackhi_pd(two, two)));
  }
};

template <class T>
struct Int8Sums;

#if EIGENFORMER_TARGET_HAS_VNNI
/// Unsigned with signed numbers: a is kept as a + 128.
template <>
struct Int8Sums<float> {
  using Vector = __m512i;
  static constexpr Index width = 16;
  static constexpr std::int8_t zero_point = -128;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Vector load(const std::int8_t* from) { return _mm512_loadu_si512(from); }
  static Vector add_products(Vector sum, Vector b, std::int32_t four) {
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(four), b);
  }
  static void store(std::int32_t* to, Vector sum) { _mm512_storeu_si512(to, sum); }
};
#elif defined(__AVX512BW__)
/// |b| * (a with b's sign), as with AVX2.
template <>
struct Int8Sums<float> {
  using Vector = __m512i;
  static constexpr Index width = 16;
  static constexpr std::int8_t zero_point = 0;
  struct Factor {
    __mmask64 negative;
    Vector magnitude;
  };

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Factor load(const std::int8_t* from) {
    const Vector b = _mm512_loadu_si512(from);
    return {_mm512_movepi8_mask(b), _mm512_abs_epi8(b)};
  }
  static Vector add_products(Vector sum, const Factor& b, std::int32_t four) {
    const Vector a = _mm512_set1_epi32(four);
    const Vector with_sign = _mm512_mask_sub_epi8(a, b.negative, zero(), a);
    const Vector pairs = _mm512_maddubs_epi16(b.magnitude, with_sign);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static void store(std::int32_t* to, Vector sum) { _mm512_storeu_si512(to, sum); }
};
#endif

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
