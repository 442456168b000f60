// SPDX-License-Identifier: MIT

// The table of one instruction set: see kernels/target.hpp.

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {
namespace EIGENFORMER_TARGET {

template <class T>
inline constexpr Target<T> target_functions{
    .add = add<T>,
    .multiply_elements = multiply_elements<T>,
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
    .activation_derivative = activation_derivative<T>,
    .soft_cap = soft_cap<T>,
    .additive_score = additive_score<T>,
    .exponentials = exponentials<T>,
    .softmax = softmax<T>,
    .softmax_step = softmax_step<T>,
    .layer_norm = layer_norm<T>,
    .rms_norm = rms_norm<T>,
    .rotate = rotate<T>,
    .pack_rows = pack_rows<T>,
    .single_row_macrokernel = single_row_macrokernel<T>,
    .macrokernel = macrokernel<T, T>,
    .tile_rows = tile_rows<T>,
    .tile_columns = panels_at_once<T>* panel_width<T>,
};

template <class T>
inline constexpr CompressedTarget<T> compressed_functions{
    .macrokernel_bfloat16 = macrokernel<T, BFloat16>,
    .macrokernel_int8_weights = macrokernel<T, std::int8_t>,
    .scale_columns = scale_columns<T>,
    .quantize = quantize<T>,
    .zero_point = Int8Sums<T>::zero_point,
    .macrokernel_int8 = macrokernel_int8<T>,
};

}  // namespace EIGENFORMER_TARGET
}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
