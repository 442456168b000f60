// SPDX-License-Identifier: MIT
#include "eigenformer/nn/feed_forward.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace feed_forward_laws_test {

template <class T, class M>
struct AnyFeedForwardCase : OnTokens<53> {
  using Module = M;
  static void call(const M& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const M& module, const Owned<T>& in) { return module(in.x); }
};

template <class T>
struct FeedForwardCase : AnyFeedForwardCase<T, ef::FeedForward<T>> {
  static ef::FeedForward<T> make() {
    return ef::FeedForward<T>({.hidden_size = 53, .intermediate_size = 61});
  }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "linear_1", 61, 53);
    add_linear(list, "linear_2", 53, 61);
    return list;
  }
};

template <class T>
struct GatedFeedForwardCase : AnyFeedForwardCase<T, ef::GatedFeedForward<T>> {
  static ef::GatedFeedForward<T> make() {
    return ef::GatedFeedForward<T>({.hidden_size = 53,
                                    .intermediate_size = 61,
                                    .activation = ef::Activation::silu,
                                    .bias = false});
  }
  static Parameters parameters() {
    Parameters list;
    add_linear(list, "gate", 61, 53, false);
    add_linear(list, "up", 61, 53, false);
    add_linear(list, "down", 53, 61, false);
    return list;
  }
};

LAWS_HOLD_FOR(FeedForward, FeedForwardCase);
LAWS_HOLD_FOR(GatedFeedForward, GatedFeedForwardCase);

}  // namespace feed_forward_laws_test
}  // namespace laws
