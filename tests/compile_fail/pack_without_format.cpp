// SPDX-License-Identifier: MIT
// expected: a module that is cast or packed needs `template <class F> using WithFormat`, itself in another
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"

template <class Format>
struct Twice {
  using Scalar = ef::ScalarOf<Format>;
#ifndef MUST_NOT_COMPILE
  template <class F>
  using WithFormat = Twice<F>;
#endif
  ef::LinearConfig config;
  ef::Linear<Format> first, second;

  explicit Twice(const ef::LinearConfig& c) : config(c), first(c), second(c) {}

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("first", layer.first...);
    f("second", layer.second...);
  }
};

void pack(const Twice<float>& module) { ef::pack(module); }
