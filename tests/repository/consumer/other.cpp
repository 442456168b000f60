// The second one.
#include <eigenformer/eigenformer.hpp>

double sum_of(const ef::Tensor<float, 3>& x) { return static_cast<double>(x.matrix().sum()); }
