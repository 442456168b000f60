// SPDX-License-Identifier: MIT

// Rows quantized to int8, and their products with weights in int8 panels (kernels/panels.hpp).

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

/// Quantizes x: zero_point + round(x / scale), within +-127 of it, followed by zero_point up to
/// whole_groups(n), and returns the scale. A row with NaN or infinity gets the scale NaN.
template <class T>
T quantize(const T* x, Index n, std::int8_t* q) {
  using S = Simd<T>;
  static_assert(std::is_same_v<T, float>);
  constexpr std::int8_t zero_point = Int8Sums<T>::zero_point;
  std::fill(q + n, q + whole_groups(n), zero_point);
  auto tops = S::set(0);
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    tops = S::maximum(S::absolute(load_partial<T>(x + i, part)), tops);
  }
  const T top = S::largest(tops);
  if (!all_finite(x, n)) {
    std::fill(q, q + n, zero_point);
    return std::numeric_limits<T>::quiet_NaN();
  }
  const Int8Factors<T> factors(top);
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  const auto enlarge = S::set(factors.enlarge), inverse = S::set(factors.inverse);
  const auto shift = S::set(0x1.8p23f);
  for (Index i = 0; i < n; i += S::width) {
    const Index part = part_of_register(n - i, S::width);
    T lanes[S::width];
    S::store(lanes, S::fma(S::multiply(load_partial<T>(x + i, part), enlarge), inverse, shift));
    std::uint32_t bits[S::width];
    std::memcpy(bits, lanes, sizeof bits);
    for (Index j = 0; j < part; ++j)
      q[i + j] =
          static_cast<std::int8_t>((bits[j] + static_cast<std::uint8_t>(zero_point)) & 0xFFu);
  }
  return top / T(127);
}

/// Int32 sums (rows, panel_width) of one panel. Where numbers are kept as q + 128, which the
/// instruction set multiplies unsigned, the sums of 128 b are subtracted at the end; they may wrap,
/// the difference is right.
template <class T, int Rows>
void integer_microkernel(const std::int8_t* const* a, Index depth, const std::int8_t* panel,
                         std::int32_t (*sums)[panel_width<T>]) {
  using Sums = Int8Sums<T>;
  static_assert(panel_width<T> % Sums::width == 0);
  constexpr int registers = static_cast<int>(panel_width<T> / Sums::width);
  const auto zero = Sums::zero();
  typename Sums::Vector sum[std::size_t{Rows}][std::size_t{registers}];
  typename Sums::Vector of_zeros[std::size_t{registers}];
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
      const auto b = Sums::load(panel + 4 * Sums::width * v);
      if constexpr (Sums::zero_point != 0) {
        of_zeros[v] = Sums::add_products(of_zeros[v], b, static_cast<int>(0x80808080u));
      }
      EIGENFORMER_UNROLL
      for (int i = 0; i < Rows; ++i) {
        std::int32_t four;
        std::memcpy(&four, a[i] + k, sizeof four);
        sum[i][v] = Sums::add_products(sum[i][v], b, four);
      }
    }
  }
  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < registers; ++v)
      Sums::store(sums[i] + Sums::width * v, Sums::subtract(sum[i][v], of_zeros[v]));
  }
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
