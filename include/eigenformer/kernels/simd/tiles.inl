// SPDX-License-Identifier: MIT

// The tile of the matrix product: as many rows by as many panels as the registers hold, each
// element accumulated over k in one chain, c = fma(a(m, k), b(n, k), c).
//
// Shapes for panels of two registers: with 16 registers 12 accumulators (6 rows by one panel), with
// 32 registers 24 (12 rows by one panel). Fewer rows take several panels side by side, since one
// chain of multiply-adds after the other would wait for each. Loops over the tile are unrolled by
// force: GCC 12 keeps the accumulators in memory otherwise.
//
// Weights often come from memory, and processors fetch only one page ahead by themselves. So each
// step also asks for a line of what will be read next: T = 8 with AVX2 and weights from memory 37
// GFLOP/s without, 72 with it (T = 64: 79 and 101).

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

/// Registers of a panel's row.
template <class T>
inline constexpr int panel_registers = static_cast<int>(panel_width<T> / Simd<T>::width);

template <class T>
inline constexpr int tile_rows = tile_accumulators / panel_registers<T>;

/// Panels side by side in a tile of `rows` rows: 4, 2 or 1.
template <class T>
constexpr int tile_panels(int rows) {
  const int fit = tile_accumulators / (rows * panel_registers<T>);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

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

template <>
struct PanelReader<float, BFloat16> {
  using S = Simd<float>;
  static constexpr int steps = 1;
  static constexpr Index bytes = 2 * panel_width<float>;

  template <int Step>
  static void read(const BFloat16* group, S::Vector (&b)[panel_registers<float>]) {
    constexpr int half = panel_registers<float> / 2;
    EIGENFORMER_UNROLL
    for (int v = 0; v < half; ++v) {
      const auto lanes = S::load_lanes(group + 2 * v * S::width);
      b[v] = S::lower_halves(lanes);
      b[v + half] = S::upper_halves(lanes);
    }
  }
};

template <>
struct PanelReader<float, std::int8_t> {
  using S = Simd<float>;
  static constexpr int steps = 4;
  static constexpr Index bytes = 4 * panel_width<float>;

  template <int Step>
  static void read(const std::int8_t* group, S::Vector (&b)[panel_registers<float>]) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < panel_registers<float>; ++v)
      b[v] = S::template bytes<Step>(S::load_lanes(group + 4 * v * S::width));
  }
};

/// Memory to be asked for: `step` bytes further with each read.
struct Ahead {
  const char* from;
  Index step;
};

/// One tile of p: `columns` of Panels panels from the given ones on.
template <class T, class E, int Rows, int Panels>
void multiply_tile(const PanelProduct<T, E>& p, Index row, Index column, Index columns,
                   Ahead ahead) {
  using S = Simd<T>;
  using Reader = PanelReader<T, E>;
  using Vector = typename S::Vector;
  constexpr Index width = S::width;
  constexpr int registers = panel_registers<T>, vectors = Panels * registers;

  const E* panel = p.panels + column / panel_width<T> * p.panel_stride;
  T* c = p.c + row * p.c_stride + column;
  const auto stored = [columns](int v) { return part_of_register(columns - v * width, width); };

  Vector sum[Rows][vectors];
  if (p.start == Start::stored) {
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) {
      EIGENFORMER_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = load_partial<T>(c + i * p.c_stride + v * width, stored(v));
    }
  } else {
    EIGENFORMER_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const Vector first = p.start == Start::bias
                               ? load_partial<T>(p.bias + column + v * width, stored(v))
                               : S::set(T(0));
      EIGENFORMER_UNROLL
      for (int i = 0; i < Rows; ++i) sum[i][v] = first;
    }
  }

  const T* a[Rows];
  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) a[i] = p.a + (row + i) * p.a_stride;
  const Index panel_stride = p.panel_stride;
  const Index stride_in_bytes = panel_stride * static_cast<Index>(sizeof(E));
  const auto add_step = [&]<int Step>(std::integral_constant<int, Step>, Index k) {
    Vector b[Panels][registers];
    EIGENFORMER_UNROLL
    for (int q = 0; q < Panels; ++q) Reader::template read<Step>(panel + q * panel_stride, b[q]);
    EIGENFORMER_UNROLL
    for (int i = 0; i < Rows; ++i) {
      const Vector left = S::set(a[i][k + Step]);
      EIGENFORMER_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = S::fma(left, b[v / registers][v % registers], sum[i][v]);
    }
  };
  const auto add_group = [&]<int... Step>(std::integer_sequence<int, Step...>, Index k,
                                          Index count) {
    EIGENFORMER_UNROLL
    for (int q = 0; q < Panels; ++q) {
      EIGENFORMER_UNROLL
      for (Index line = 0; line < Reader::bytes; line += 64)
        prefetch(ahead.from + q * stride_in_bytes + line);
    }
    ((Step < count ? add_step(std::integral_constant<int, Step>(), k) : void()), ...);
    panel += Reader::steps * panel_width<T>;
    ahead.from += ahead.step;
  };
  constexpr auto steps = std::make_integer_sequence<int, Reader::steps>();
  Index k = 0;
  for (; k + Reader::steps <= p.depth; k += Reader::steps) add_group(steps, k, Reader::steps);
  if (Reader::steps > 1 && k < p.depth) add_group(steps, k, p.depth - k);

  EIGENFORMER_UNROLL
  for (int i = 0; i < Rows; ++i) {
    EIGENFORMER_UNROLL
    for (int v = 0; v < vectors; ++v)
      store_partial<T>(c + i * p.c_stride + v * width, sum[i][v], stored(v));
  }
}

/// Rows `row` ... `row + Rows - 1` of the product, several panels. `asked` is what is asked for, or
/// null for what follows each panel.
template <class T, class E, int Rows>
void multiply_tiles(const PanelProduct<T, E>& p, Index row, Index column, Index column_end,
                    const Ahead* asked) {
  constexpr int panels = tile_panels<T>(Rows);
  constexpr Index group = panels * panel_width<T>, distance = 16384;
  while (column < column_end) {
    const E* panel = p.panels + column / panel_width<T> * p.panel_stride;
    const Ahead ahead = asked != nullptr ? *asked
                                         : Ahead{reinterpret_cast<const char*>(panel) + distance,
                                                 PanelReader<T, E>::bytes};
    const Index rest = column_end - column;
    if (panels > 1 && rest >= group) {
      multiply_tile<T, E, Rows, panels>(p, row, column, group, ahead);
      column += group;
    } else {
      const Index columns = rest < panel_width<T> ? rest : panel_width<T>;
      multiply_tile<T, E, Rows, 1>(p, row, column, columns, ahead);
      column += columns;
    }
  }
}

template <class T, class E>
using TilesFunction = void (*)(const PanelProduct<T, E>&, Index, Index, Index, const Ahead*);

template <class T, class E, int... Rows>
constexpr auto tiles_functions(std::integer_sequence<int, Rows...>) {
  struct Functions {
    TilesFunction<T, E> of_rows[sizeof...(Rows)];
  };
  return Functions{{multiply_tiles<T, E, Rows + 1>...}};
}

/// The product. More rows than a tile's are shared out evenly among tiles, 8 as 4 + 4, and use one
/// panel after the other.
template <class T, class E>
void multiply_panels(const PanelProduct<T, E>& p) {
  static constexpr auto functions =
      tiles_functions<T, E>(std::make_integer_sequence<int, tile_rows<T>>());
  if (p.rows <= tile_rows<T>) {
    if (p.rows > 0) functions.of_rows[p.rows - 1](p, 0, 0, p.columns, nullptr);
    return;
  }
  using Reader = PanelReader<T, E>;
  const Index tiles = (p.rows + tile_rows<T> - 1) / tile_rows<T>;
  const Index share = (Reader::bytes + tiles - 1) / tiles;  // bytes a read
  for (Index column = 0; column < p.columns; column += panel_width<T>) {
    const Index next = column + panel_width<T>;
    const E* following =
        p.ahead != nullptr ? p.ahead : p.panels + next / panel_width<T> * p.panel_stride;
    const char* ahead = reinterpret_cast<const char*>(following);
    Index row = 0;
    for (Index tile = 0; tile < tiles; ++tile) {
      const Index end = p.rows * (tile + 1) / tiles;
      const Ahead part{ahead, share};
      functions.of_rows[end - row - 1](p, row, column, next < p.columns ? next : p.columns, &part);
      ahead += share * ((p.depth + Reader::steps - 1) / Reader::steps);
      row = end;
    }
  }
}

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
