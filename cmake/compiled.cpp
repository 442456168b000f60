// SPDX-License-Identifier: MIT

// The vector code of the library, compiled once for a whole program: the target
// eigenformer::compiled. Its users define EIGENFORMER_COMPILED, this file doesn't.
#undef EIGENFORMER_COMPILED

#include "eigenformer/kernels/machine.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace kernels {

template const Machine<float>& machine<float>();
template const Machine<double>& machine<double>();
template const CompressedMachine<float>& compressed_machine<float>();

}  // namespace kernels
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
