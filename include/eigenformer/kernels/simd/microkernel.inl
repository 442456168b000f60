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

/// Registers of a panel's row.
template <class T>
inline constexpr int panel_registers = static_cast<int>(panel_width<T> / Simd<T>::width);

inline constexpr int tile_accumulators = EIGENFORMER_TARGET_REGISTERS * 3 / 4;

template <class T>
inline constexpr int tile_rows = tile_accumulators /
                                 (panel_registers<T> > 2 ? panel_registers<T> : 2);

/// Panels side by side in a tile of `rows` rows: 4, 2 or 1.
template <class T>
constexpr int tile_panels(int rows) {
  const int fit = tile_accumulators / (rows * panel_registers<T>);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

template <class T>
inline constexpr int panels_at_once = tile_panels<T>(tile_rows<T>);

/// How panels of E are read into registers of T. A group of `steps` steps of k takes `bytes`;
/// read<step>(group, b) gives the numbers of one step, a panel's row.
template <class T, class E>
struct PanelReader {
  static constexpr int steps = 1;
  static constexpr Index bytes = panel_width<T> * static_cast<Index>(sizeof(T));

  template <int Step>
  static void read(const T* group, typename Simd<T>::Vector (&b)[panel_registers<T>]) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < panel_registers<T>; ++v) b[v] = Simd<T>::load(group + v * Simd<T>::width);
  }
};

template <class T>
struct PanelReader<T, BFloat16> {
  using S = Simd<T>;
  static constexpr int steps = 1;
  static constexpr Index bytes = 2 * panel_width<T>;

  template <int Step>
  static void read(const BFloat16* group, typename S::Vector (&b)[panel_registers<T>]) {
    constexpr int half = panel_registers<T> / 2;
    if constexpr (half == 0) {
      b[0] = S::load_halves(group);
    } else {
      EIGENFORMER_UNROLL
      for (int v = 0; v < half; ++v) {
        const auto lanes = S::load_lanes(group + 2 * v * S::width);
        b[v] = S::lower_halves(lanes);
        b[v + half] = S::upper_halves(lanes);
      }
    }
  }
};

template <class T>
struct PanelReader<T, std::int8_t> {
  using S = Simd<T>;
  static constexpr int steps = 4;
  static constexpr Index bytes = 4 * panel_width<T>;

  template <int Step>
  static void read(const std::int8_t* group, typename S::Vector (&b)[panel_registers<T>]) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < panel_registers<T>; ++v)
      b[v] = S::template bytes<Step>(S::load_lanes(group + 4 * v * S::width));
  }
};

/// Memory to prefetch: a line, `step` bytes further with each read.
struct Prefetch {
  const char* from;
  Index step;
};

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

/// Rows `row` ... `row + Rows - 1` of `columns` columns, which fill Panels panels; one panel may be
/// filled in part. `common` says what to prefetch; if it is null, each panel prefetches what it reads next:
/// its numbers `prefetch_distance` further on, then those of the panel of the next tile.
template <class T, class E, int Rows, int Panels>
void microkernel_with_prefetch(const PanelProduct<T, E>& p, Index row, Index column, Index columns,
                               const Prefetch* common) {
  using Reader = PanelReader<T, E>;
  const E* panel = p.panels + column / panel_width<T> * p.panel_stride;
  const T* bias = p.bias + (p.start == Start::bias ? column : 0);
  T* c = p.c + row * p.c_stride + column;
  const auto multiply = [&](const PanelProduct<T, E>& steps, const E* from, Prefetch next) {
    if (Panels == 1 && columns < panel_width<T>) {
      edge_microkernel<T, E, Rows>(steps, row, from, next, bias, c, columns);
    } else {
      microkernel<T, E, Rows, Panels>(steps, row, from, next, bias, c, p.c_stride);
    }
  };
  if (common != nullptr) return multiply(p, panel, *common);

  constexpr Index steps_ahead = prefetch_distance / Reader::bytes * Reader::steps;
  const auto prefetch_from = [](const E* from) {
    return Prefetch{reinterpret_cast<const char*>(from), Reader::bytes};
  };
  const Index near_end =
      p.depth > steps_ahead ? (p.depth - steps_ahead) / Reader::steps * Reader::steps : 0;
  PanelProduct<T, E> part = p;
  if (near_end > 0) {
    part.depth = near_end;
    multiply(part, panel, prefetch_from(panel + steps_ahead * panel_width<T>));
    part.start = Start::stored;
  }
  part.a += near_end;
  part.depth = p.depth - near_end;
  multiply(part, panel + near_end * panel_width<T>, prefetch_from(panel + Panels * p.panel_stride));
}

/// Rows `row` ... `row + Rows - 1` of the product, several panels.
template <class T, class E, int Rows>
void microkernels_of_rows(const PanelProduct<T, E>& p, Index row, Index column, Index column_end,
                          const Prefetch* common) {
  constexpr int panels = tile_panels<T>(Rows);
  constexpr Index group = panels * panel_width<T>;
  while (column < column_end) {
    const Index rest = column_end - column;
    if (panels > 1 && rest >= group) {
      microkernel_with_prefetch<T, E, Rows, panels>(p, row, column, group, common);
      column += group;
    } else {
      const Index columns = rest < panel_width<T> ? rest : panel_width<T>;
      microkernel_with_prefetch<T, E, Rows, 1>(p, row, column, columns, common);
      column += columns;
    }
  }
}

template <class T, class E>
using TilesFunction = void (*)(const PanelProduct<T, E>&, Index, Index, Index, const Prefetch*);

template <class T, class E, int... Rows>
constexpr auto tiles_functions(std::integer_sequence<int, Rows...>) {
  struct Functions {
    TilesFunction<T, E> of_rows[sizeof...(Rows)];
  };
  return Functions{{microkernels_of_rows<T, E, Rows + 1>...}};
}

/// The product. More rows than a tile's are shared out evenly among tiles, 8 as 4 + 4, and use the
/// same few panels one after the other.
template <class T, class E>
void macrokernel(const PanelProduct<T, E>& p) {
  static constexpr auto functions =
      tiles_functions<T, E>(std::make_integer_sequence<int, tile_rows<T>>());
  if (p.rows <= tile_rows<T>) {
    if (p.rows > 0) functions.of_rows[p.rows - 1](p, 0, 0, p.columns, nullptr);
    return;
  }
  static_assert(panels_at_once<T> * panel_width<T> <= widest_tile<T>);
  using Reader = PanelReader<T, E>;
  const Index tiles = (p.rows + tile_rows<T> - 1) / tile_rows<T>;
  const Index share = (Reader::bytes + tiles - 1) / tiles;  // bytes a read
  constexpr Index step = panels_at_once<T> * panel_width<T>;
  for (Index column = 0; column < p.columns; column += step) {
    const Index next = column + step;
    const E* following =
        p.prefetched != nullptr ? p.prefetched : p.panels + next / panel_width<T> * p.panel_stride;
    const char* prefetched = reinterpret_cast<const char*>(following);
    Index row = 0;
    for (Index tile = 0; tile < tiles; ++tile) {
      const Index end = p.rows * (tile + 1) / tiles;
      const Prefetch part{prefetched, share};
      functions.of_rows[end - row - 1](p, row, column, next < p.columns ? next : p.columns, &part);
      prefetched += share * ((p.depth + Reader::steps - 1) / Reader::steps);
      row = end;
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
