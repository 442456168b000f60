// SPDX-License-Identifier: MIT

// The size of a tile of the matrix product, and how its panels are read into registers.

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

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
