// SPDX-License-Identifier: MIT

// The vector code of the library, compiled once for a whole program: the target
// eigenformer::compiled. Its users define EIGENFORMER_COMPILED, this file doesn't.
#undef EIGENFORMER_COMPILED

#include "eigenformer/kernels/target.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template const Target<float>& target<float>();
template const Target<double>& target<double>();
template const CompressedTarget<float>& compressed_target<float>();

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
