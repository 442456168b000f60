// SPDX-License-Identifier: MIT

// The table of one instruction set: see kernels/machine.hpp.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

template <class T>
inline constexpr Machine<T> machine_of_target{
    .add = add<T>,
    .multiply = multiply<T>,
    .scale = scale<T>,
    .divide = divide<T>,
    .add_scaled = add_scaled<T>,
    .scale_unsigned_zero = scale_unsigned_zero<T>,
    .sum = sum<T>,
    .sum_of_squares = sum_of_squares<T>,
    .largest = largest<T>,
    .all_finite = all_finite<T>,
    .evaluate = evaluate<T>,
    .activate = activate<T>,
    .soft_cap = soft_cap<T>,
    .additive_score = additive_score<T>,
    .exponentials = exponentials<T>,
    .softmax = softmax<T>,
    .softmax_step = softmax_step<T>,
    .layer_norm = layer_norm<T>,
    .rms_norm = rms_norm<T>,
    .rotate = rotate<T>,
    .pack_rows = pack_rows<T>,
    .multiply_single_row = multiply_single_row<T>,
    .multiply_panels = multiply_panels<T, T>,
    .tile_rows = tile_rows<T>,
    .tile_columns = panels_at_once<T>* panel_width<T>,
};

template <class T>
inline constexpr CompressedMachine<T> compressed_machine_of_target{
    .multiply_bfloat16 = multiply_panels<T, BFloat16>,
    .multiply_int8_weights = multiply_panels<T, std::int8_t>,
    .scale_columns = scale_columns<T>,
    .quantize = quantize<T>,
    .quantized_zero = quantized_zero,
    .multiply_quantized = multiply_quantized<T>,
};

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
