// SPDX-License-Identifier: MIT

// The micro-kernel of the matrix product, a tile of as many rows by as many panels as the registers hold,
// each element accumulated over k in one chain, c = fma(a(m, k), b(n, k), c).
//
// Three quarters of the registers are accumulators: with 16 registers 6 rows by two registers of
// columns, with 32 registers 12 rows by two. Fewer rows take more columns side by side, since one
// chain of multiply-adds after the other would wait for each. Loops over the tile are unrolled by
// force: GCC 12 keeps the accumulators in memory otherwise.
//
// Weights often come from memory, and processors fetch only one page ahead by themselves. So each
// step also prefetches a line of what will be read next: T = 8 with AVX2 and weights from memory 37
// GFLOP/s without, 72 with it (T = 64: 79 and 101).

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// Rows of A, one step of k after the other. Two pointers and multiples of the stride that fit into
/// an instruction: with a pointer for each of 12 rows GCC keeps some in vector registers, and
/// bringing them back takes time from the multiply-adds (64 tokens with AVX-512: 136 GFLOP/s; like
/// this 158).
template <class T, int Rows>
class LeftRows {
  static_assert(Rows <= 12, "two pointers reach twelve rows");

 public:
  LeftRows(const T* a, Index stride)
      : first_(a),
        seventh_(Rows > 6 ? a + 6 * stride : a),
        stride_(stride),
        triple_(3 * stride),
        quintuple_(5 * stride) {}

  EIGENFORMER_ALWAYS_INLINE T at(int row, int step) const {
    const Index offsets[6] = {0, stride_, 2 * stride_, triple_, 4 * stride_, quintuple_};
    const T* from =
        row < 6 ? first_ : seventh_;  // by name: GCC 12 with UBSan takes wrong offsets else
    return from[offsets[row % 6] + step];
  }
  EIGENFORMER_ALWAYS_INLINE void advance(int steps) {
    first_ += steps;
    if (Rows > 6) seventh_ += steps;
  }

 private:
  const T *first_, *seventh_;
  Index stride_, triple_, quintuple_;
};

/// One tile: Rows rows of A by Panels whole panels. `bias` and `c` belong to its first element.
template <class T, class E, int Rows, int Panels>
void microkernel(const PanelProduct<T, E>& p, Index row, const E* panel, Prefetch next,
                 const T* bias, T* c, Index c_stride) {
  using S = Simd<T>;
  using Reader = PanelReader<T, E>;
  using Vector = typename S::Vector;
  constexpr Index width = S::width;
  constexpr int registers = panel_registers<T>, vectors = Panels * registers;

  Vector sum[std::size_t{Rows}][std::size_t{vectors}];
  if (p.start == Start::stored) {
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) {
      EIGENFORMER_UNROLL
      for (int v = 0; v < vectors; ++v) sum[i][v] = S::load(c + i * c_stride + v * width);
    }
  } else {
    EIGENFORMER_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const Vector first = p.start == Start::bias ? S::load(bias + v * width) : S::set(T(0));
      EIGENFORMER_UNROLL
      for (int i = 0; i < Rows; ++i) sum[i][v] = first;
    }
  }

  LeftRows<T, Rows> a(p.a + row * p.a_stride, p.a_stride);
  const Index panel_stride = p.panel_stride;
  const Index stride_in_bytes = panel_stride * static_cast<Index>(sizeof(E));
  const auto add_step = [&]<int Step>(std::integral_constant<int, Step>) EIGENFORMER_INLINE_LAMBDA {
    Vector b[std::size_t{Panels}][std::size_t{registers}];
    EIGENFORMER_UNROLL
    for (int q = 0; q < Panels; ++q) Reader::template read<Step>(panel + q * panel_stride, b[q]);
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) {
      const Vector left = S::set(a.at(i, Step));
      EIGENFORMER_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = S::fma(left, b[v / registers][v % registers], sum[i][v]);
    }
  };
  const auto add_group = [&]<int... Step>(std::integer_sequence<int, Step...>, Index count)
      EIGENFORMER_INLINE_LAMBDA {
    EIGENFORMER_UNROLL
    for (int q = 0; q < Panels; ++q) {
      EIGENFORMER_UNROLL
      for (Index line = 0; line < Reader::bytes; line += 64)
        prefetch(next.from + q * stride_in_bytes + line);
    }
    ((Step < count ? add_step(std::integral_constant<int, Step>()) : void()), ...);
    a.advance(Reader::steps);
    panel += Reader::steps * panel_width<T>;
    next.from += next.step;
  };
  constexpr auto steps = std::make_integer_sequence<int, Reader::steps>();
  Index k = 0;
  for (; k + Reader::steps <= p.depth; k += Reader::steps) add_group(steps, Reader::steps);
  if (Reader::steps > 1 && k < p.depth) add_group(steps, p.depth - k);

  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < vectors; ++v) S::store(c + i * c_stride + v * width, sum[i][v]);
  }
}

/// The same for one panel of which only the first `columns` columns exist: through memory of the
/// tile's size.
template <class T, class E, int Rows>
void edge_microkernel(const PanelProduct<T, E>& p, Index row, const E* panel, Prefetch next,
                      const T* bias, T* c, Index columns) {
  constexpr Index width = panel_width<T>;
  T starts[static_cast<std::size_t>(width)] = {};
  T results[static_cast<std::size_t>(Rows * width)] = {};
  if (p.start == Start::bias) std::copy_n(bias, columns, starts);
  if (p.start == Start::stored) {
    for (int i = 0; i < Rows; ++i) std::copy_n(c + i * p.c_stride, columns, results + i * width);
  }
  microkernel<T, E, Rows, 1>(p, row, panel, next, starts, results, width);
  for (int i = 0; i < Rows; ++i) std::copy_n(results + i * width, columns, c + i * p.c_stride);
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
