// SPDX-License-Identifier: MIT
// The laws for modules that treat every token alike: linear maps, norms, GELU.
#include "eigenformer/nn/gelu.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace rows_laws_test {

template <class T, class M, Index width>
struct RowsCase : OnTokens<width> {
  using Module = M;
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) { return module(in.x); }
};

template <class T>
struct LinearCase : RowsCase<T, ef::Linear<T>, 53> {
  static ef::Linear<T> make() { return ef::Linear<T>({.in_features = 53, .out_features = 29}); }
  static Parameters parameters() { return {{"weight", "(29, 53)"}, {"bias", "(29)"}}; }
  static ef::Shape<3> output_shape(const Input& in) { return {in.x.dim(0), in.x.dim(1), 29}; }
};

template <class T>
struct LinearWithoutBiasCase : LinearCase<T> {
  static ef::Linear<T> make() {
    return ef::Linear<T>({.in_features = 53, .out_features = 29, .bias = false});
  }
  static Parameters parameters() { return {{"weight", "(29, 53)"}}; }
};

template <class T>
struct LayerNormCase : RowsCase<T, ef::LayerNorm<T>, 53> {
  static Traits traits() { return {.overlap = Overlap::in_place}; }
  static ef::LayerNorm<T> make() { return ef::LayerNorm<T>({.hidden_size = 53}); }
  static Parameters parameters() { return {{"weight", "(53)"}, {"bias", "(53)"}}; }
};

template <class T>
struct LayerNormWithoutBiasCase : LayerNormCase<T> {
  static ef::LayerNorm<T> make() { return ef::LayerNorm<T>({.hidden_size = 53, .bias = false}); }
  static Parameters parameters() { return {{"weight", "(53)"}}; }
};

template <class T>
struct RMSNormCase : RowsCase<T, ef::RMSNorm<T>, 53> {
  static Traits traits() { return {.overlap = Overlap::in_place}; }
  static ef::RMSNorm<T> make() { return ef::RMSNorm<T>({.hidden_size = 53}); }
  static Parameters parameters() { return {{"weight", "(53)"}}; }
};

template <class T>
struct GELUCase : RowsCase<T, ef::GELU<T>, 53> {
  static Traits traits() { return {.overlap = Overlap::in_place}; }
  static ef::GELU<T> make() { return ef::GELU<T>(); }
  static Parameters parameters() { return {}; }
  static std::vector<Wrong> wrong_inputs() { return {}; }  // any width will do
};

LAWS_HOLD_FOR(Linear, LinearCase);
LAWS_HOLD_FOR(LinearWithoutBias, LinearWithoutBiasCase);
LAWS_HOLD_FOR(LayerNorm, LayerNormCase);
LAWS_HOLD_FOR(LayerNormWithoutBias, LayerNormWithoutBiasCase);
LAWS_HOLD_FOR(RMSNorm, RMSNormCase);
LAWS_HOLD_FOR(GELU, GELUCase);

}  // namespace rows_laws_test
}  // namespace laws
