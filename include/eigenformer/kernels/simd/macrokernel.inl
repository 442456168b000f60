// SPDX-License-Identifier: MIT

// The macro-kernel of the matrix product: a block of any size by tiles of the micro-kernel.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

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
