// SPDX-License-Identifier: MIT

// `Simd<T>`: the registers of the instruction set for which this translation unit is compiled, over
// Eigen's packets, which cover every machine that Eigen knows, and over plain scalars (width 1)
// where a number type has no packets. avx2.inl and avx512.inl take their machines' float and double.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

template <class Vector>
struct IntegersOf {
  using Type = std::int32_t;
};
template <class Vector>
requires requires { typename Eigen::internal::unpacket_traits<Vector>::integer_packet; }
struct IntegersOf<Vector> {
  using Type = typename Eigen::internal::unpacket_traits<Vector>::integer_packet;
};

template <class T>
struct Simd {
  using Traits = Eigen::internal::packet_traits<T>;
  using Vector =
      std::conditional_t<static_cast<bool>(Traits::Vectorizable), typename Traits::type, T>;
  static constexpr Index width = native_width<T>;
  using Integers = typename IntegersOf<Vector>::Type;  // as many, of 32 bits; for float

  static Vector load(const T* from) { return Eigen::internal::ploadu<Vector>(from); }
  static void store(T* to, Vector a) { Eigen::internal::pstoreu(to, a); }
  static Vector set(T a) { return Eigen::internal::pset1<Vector>(a); }

  static Vector add(Vector a, Vector b) { return Eigen::internal::padd(a, b); }
  static Vector subtract(Vector a, Vector b) { return Eigen::internal::psub(a, b); }
  static Vector multiply(Vector a, Vector b) { return Eigen::internal::pmul(a, b); }
  static Vector divide(Vector a, Vector b) { return Eigen::internal::pdiv(a, b); }
  static Vector absolute(Vector a) { return Eigen::internal::pabs(a); }

  /// a * b + c, rounded once where the machine can.
  static Vector fma(Vector a, Vector b, Vector c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    // Eigen's scalar form is a * b + c, which the compiler would fuse in one kernel and not in
    // another.
    if constexpr (width == 1 && std::is_floating_point_v<T>) return std::fma(a, b, c);
#endif
    return Eigen::internal::pmadd(a, b, c);
  }

  /// A mask for `select`: a < b, false where either is NaN.
  static auto less(Vector a, Vector b) {
    if constexpr (width == 1) {
      return a < b;
    } else {
      return Eigen::internal::pcmp_lt(a, b);
    }
  }
  template <class Mask>
  static Vector select(Mask mask, Vector yes, Vector no) {
    if constexpr (width == 1) {
      return mask ? yes : no;
    } else {
      return Eigen::internal::pselect(mask, yes, no);
    }
  }

  /// a > b ? a : b, so the second wins where either is NaN.
  static Vector maximum(Vector a, Vector b) { return select(less(b, a), a, b); }

  /// All lanes in one number: halves are folded onto each other, with any version of Eigen. For
  /// `largest` no lane is NaN.
  static T sum(Vector a) {
    return fold(a, [](T x, T y) { return x + y; });
  }
  static T largest(Vector a) {
    return fold(a, [](T x, T y) { return x < y ? y : x; });
  }

  /// 2^(n + extra) for shifted = n + ExponentialConstants<T>::round, whose low bits are those of n:
  /// moved into the exponent's place. The result must be a normal number; NaN gives anything.
  static Vector power_of_two(Vector shifted, int extra) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
    if constexpr (std::is_same_v<T, float> && width > 1) {
      const Integers n = shift_left<23>(Eigen::internal::preinterpret<Integers>(shifted));
      return reinterpret(
          Eigen::internal::padd(n, Eigen::internal::pset1<Integers>((127 + extra) << 23)));
    } else {
      T lanes[std::size_t{width}];
      store(lanes, shifted);
      powers_of_two(lanes, extra);
      return load(lanes);
    }
  }

  /// 32-bit lanes of compressed numbers, widened; T is float.
  static Integers load_lanes(const void* from) {
    if constexpr (width == 1) {
      Integers lane;
      std::memcpy(&lane, from, sizeof lane);
      return lane;
    } else {
      return Eigen::internal::ploadu<Integers>(static_cast<const int*>(from));
    }
  }
  static Vector lower_halves(Integers lanes) { return reinterpret(shift_left<16>(lanes)); }
  static Vector upper_halves(Integers lanes) {
    constexpr int mask = static_cast<int>(0xFFFF0000u);
    if constexpr (width == 1) {
      return reinterpret(lanes & mask);
    } else {
      return reinterpret(Eigen::internal::pand(lanes, Eigen::internal::pset1<Integers>(mask)));
    }
  }
  template <int Byte>
  static Vector bytes(Integers lanes) {
    const Integers top = shift_left<24 - 8 * Byte>(lanes);
    if constexpr (width == 1) {
      return static_cast<Vector>(top >> 24);
    } else {
      return Eigen::internal::pcast<Integers, Vector>(
          Eigen::internal::parithmetic_shift_right<24>(top));
    }
  }

  /// Transposes a square of registers: row i, lane j to row j, lane i.
  static void transpose(Vector (&square)[std::size_t{width}]) {
    if constexpr (width > 1) {
      Eigen::internal::PacketBlock<Vector, static_cast<int>(width)> block;
      EIGENFORMER_UNROLL
      for (Index i = 0; i < width; ++i) block.packet[i] = square[i];
      Eigen::internal::ptranspose(block);
      EIGENFORMER_UNROLL
      for (Index i = 0; i < width; ++i) square[i] = block.packet[i];
    }
  }

 private:
  template <class F>
  static T fold(Vector a, F&& f) {
    T lanes[std::size_t{width}];
    store(lanes, a);
    EIGENFORMER_UNROLL
    for (Index half = width / 2; half > 0; half /= 2) {
      EIGENFORMER_UNROLL
      for (Index i = 0; i < half; ++i) lanes[i] = f(lanes[i], lanes[i + half]);
    }
    return lanes[0];
  }
  template <int Bits>
  static Integers shift_left(Integers a) {
    if constexpr (width == 1) {
      return static_cast<Integers>(static_cast<std::uint32_t>(a) << Bits);
    } else if constexpr (Bits == 0) {
      return a;
    } else {
      return Eigen::internal::plogical_shift_left<Bits>(a);
    }
  }
  static Vector reinterpret(Integers a) {
    if constexpr (width == 1) {
      Vector result;
      std::memcpy(&result, &a, sizeof result);
      return result;
    } else {
      return Eigen::internal::preinterpret<Vector>(a);
    }
  }

  // Lane by lane; compilers turn the loop into vector instructions.
  static void powers_of_two(T (&lanes)[std::size_t{width}], int extra) {
    constexpr bool is_float = std::is_same_v<T, float>;
    using Bits = std::conditional_t<is_float, std::uint32_t, std::uint64_t>;
    constexpr int place = is_float ? 23 : 52, bias = is_float ? 127 : 1023;
    for (T& lane : lanes) {
      Bits bits;
      std::memcpy(&bits, &lane, sizeof bits);
      bits = (bits << place) + (static_cast<Bits>(bias + extra) << place);
      std::memcpy(&lane, &bits, sizeof bits);
    }
  }
};

/// Products of int8 in registers of int32 sums. `add_products` adds four products to each lane: those
/// of the lane's four numbers of b with the four of a in `four`. `zero_point` is what a's numbers are
/// kept with, added: -128 where an instruction multiplies unsigned with signed numbers.
template <class T>
struct Int8Sums {
  struct Vector {
    std::int32_t lanes[std::size_t{panel_width<T>}];
  };
  static constexpr Index width = panel_width<T>;
  static constexpr std::int8_t zero_point = 0;

  static Vector zero() { return {}; }
  static Vector subtract(Vector a, const Vector& b) {
    for (Index j = 0; j < width; ++j) a.lanes[j] -= b.lanes[j];
    return a;
  }
  static const std::int8_t* load(const std::int8_t* from) { return from; }
  static Vector add_products(Vector sum, const std::int8_t* b, std::int32_t four) {
    std::int8_t a[4];
    std::memcpy(a, &four, sizeof four);
    for (Index j = 0; j < width; ++j) {
      for (Index step = 0; step < 4; ++step)
        sum.lanes[j] += std::int32_t{a[step]} * std::int32_t{b[4 * j + step]};
    }
    return sum;
  }
  static void store(std::int32_t* to, const Vector& sum) {
    std::memcpy(to, sum.lanes, sizeof sum.lanes);
  }
};

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
