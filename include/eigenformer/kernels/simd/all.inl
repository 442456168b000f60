// SPDX-License-Identifier: MIT

// Everything that is compiled once for each instruction set, after the definition of `Simd`; each
// file uses those before it.

// clang-format off
#include "eigenformer/kernels/simd/vectors.inl"
#include "eigenformer/kernels/simd/elementary.inl"
#include "eigenformer/kernels/simd/activation.inl"
#include "eigenformer/kernels/simd/rows.inl"
#include "eigenformer/kernels/simd/softmax.inl"
#include "eigenformer/kernels/simd/norms.inl"
#include "eigenformer/kernels/simd/rotary.inl"
#include "eigenformer/kernels/simd/packing.inl"
#include "eigenformer/kernels/simd/single_row.inl"
#include "eigenformer/kernels/simd/panel_reader.inl"
#include "eigenformer/kernels/simd/microkernel.inl"
#include "eigenformer/kernels/simd/macrokernel.inl"
#include "eigenformer/kernels/simd/quantized.inl"
#include "eigenformer/kernels/simd/target.inl"
// clang-format on
