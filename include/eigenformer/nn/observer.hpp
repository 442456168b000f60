// SPDX-License-Identifier: MIT
#pragma once

// Looking into a stack or model while it computes:
//
//   ef::Observer<float> observer{
//       .hidden_states = [&](const ef::LayerPlace& at, ef::TensorView<const float, 3> x) { ... },
//       .attention_weights = [&](const ef::LayerPlace& at, ef::TensorView<const float, 4> p) { ... }};
//   encoder.forward(ids, inputs, mask, y, observer, workspace);
//
//   hidden_states      x (B, T, hidden_size): for layer 0, 1, ... what goes into the layer, then with
//                      layer = L what comes out of the last one, before the final norm
//   attention_weights  p (B, H, T, S): the probabilities of layer `at.layer`; with a cache S is the
//                      longest row
//
// Both are optional; what isn't given costs nothing. The bits of y are the same with and without. The
// views are valid during the call, which is made on the caller's thread.

#include <functional>
#include <optional>

#include "eigenformer/base/workspace.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct LayerPlace {
  enum class Half { encoder, decoder };  // of the model
  enum class Attention { self, cross };

  Half half = Half::encoder;
  Index layer = 0;
  Attention attention = Attention::self;
};

template <class T>
struct Observer {
  std::function<void(const LayerPlace&, TensorView<const T, 3>)> hidden_states = {};
  std::function<void(const LayerPlace&, TensorView<const T, 4>)> attention_weights = {};
};

/// An observer, and the layer that it is told of.
template <class T>
class LayerObserver {
 public:
  LayerObserver(const Observer<T>& observer, const LayerPlace& place = {})
      : observer_(observer), place_(place) {}

  LayerObserver at(LayerPlace::Half half, Index layer) const { return {observer_, {half, layer}}; }
  LayerObserver in(LayerPlace::Half half) const { return at(half, place_.layer); }

  void see_hidden_states(TensorView<const T, 3> x) const {
    if (observer_.hidden_states) observer_.hidden_states(place_, x);
  }

  bool wants_attention_weights() const { return static_cast<bool>(observer_.attention_weights); }

  void see_attention_weights(LayerPlace::Attention attention, TensorView<const T, 4> p) const {
    LayerPlace place = place_;
    place.attention = attention;
    observer_.attention_weights(place, p);
  }

 private:
  const Observer<T>& observer_;
  LayerPlace place_;
};

/// Calls attend(place for attention weights of this shape), and shows them to the observer, if it
/// wants them; else attend(nothing).
template <class T, class Attend>
void observe_attention(const LayerObserver<T>& observer, LayerPlace::Attention attention,
                       const Shape<4>& scores, Workspace& workspace, Attend&& attend) {
  using Weights = std::optional<TensorView<T, 4>>;
  if (!observer.wants_attention_weights()) return attend(Weights());
  Scratch scratch(workspace);
  const Weights weights = scratch.tensor<T, 4>(scores);
  attend(weights);
  observer.see_attention_weights(attention, *weights);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
