// SPDX-License-Identifier: MIT
#include "eigenformer/models/encoder_stack.hpp"
#include "tests/models/model_cases.hpp"

namespace laws {
namespace encoder_stack_laws_test {

template <class T>
struct PostNormStackCase : OnTokens<53, true> {
  using Module = ef::EncoderStack<T>;
  static Module make() {
    return Module({.hidden_size = 53,
                   .num_hidden_layers = 3,
                   .num_attention_heads = 5,
                   .head_size = 7,
                   .intermediate_size = 61,
                   .norm_placement = ef::NormPlacement::post});
  }
  static Parameters parameters() {
    Parameters list;
    add_layers(list, "layers", 3);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.mask());
  }
};

template <class T>
struct PreNormStackCase : PostNormStackCase<T> {
  using Module = ef::EncoderStack<T>;
  static Module make() {
    return Module({.hidden_size = 53,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 5,
                   .head_size = 7,
                   .intermediate_size = 61,
                   .norm_placement = ef::NormPlacement::pre,
                   .final_norm = true});
  }
  static Parameters parameters() {
    Parameters list;
    add_layers(list, "layers", 2);
    add_norm(list, "final_norm", 53);
    return list;
  }
};

LAWS_HOLD_FOR(PostNormStack, PostNormStackCase);
LAWS_HOLD_FOR(PreNormStack, PreNormStackCase);

}  // namespace encoder_stack_laws_test
}  // namespace laws
