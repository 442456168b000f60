// SPDX-License-Identifier: MIT
// check_module and its kin notice what is wrong with a module of one's own.

#include "eigenformer/nn/check_module.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/layer_norm.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/reference/error_text.hpp"

namespace check_module_test {

using namespace eigenformer;
using reference::error_text;

/// What is wrong with the module below.
enum class Mistake {
  none,
  unlisted_parameter,
  same_name_twice,
  forgotten_by_assignment,
  left_out_by_init,
  not_in_place,
  rows_see_each_other,
  other_sum,
  changes_its_input,
};

/// y = x * weight + bias, made with a mistake.
template <Mistake mistake>
struct Affine {
  using Scalar = float;
  template <class F>
  using WithFormat = Affine;

  LinearConfig config;
  Tensor<float, 1> weight, bias;

  static LinearConfig config_from(const TransformerConfig& c) { return {c.hidden_size, 1}; }
  explicit Affine(const LinearConfig& c)
      : config(c), weight({c.in_features}), bias({c.in_features}) {}
  Affine(const Affine&) = default;
  Affine& operator=(const Affine& other) {
    config = other.config;
    weight = other.weight;
    if (mistake != Mistake::forgotten_by_assignment) bias = other.bias;
    return *this;
  }

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
    if (mistake == Mistake::unlisted_parameter) return;
    f(mistake == Mistake::same_name_twice ? "weight" : "bias", layer.bias...);
  }

  void init_own(Key) {
    std::fill(weight.begin(), weight.end(), 2.0f);
    if (mistake != Mistake::left_out_by_init) std::fill(bias.begin(), bias.end(), 0.5f);
  }

  void forward(RowsView<const float> x, RowsView<float> y, Workspace&) const {
    const Index columns = config.in_features;
    for (Index i = 0; i < x.size(); ++i) {
      const Index neighbour = mistake == Mistake::rows_see_each_other ? i % columns : i;
      const float value = x.data()[i] + x.data()[neighbour];
      if (mistake == Mistake::not_in_place) y.data()[i] = 0;
      y.data()[i] =
          (mistake == Mistake::not_in_place ? x.data()[i] : value / 2) * weight(i % columns) +
          bias(i % columns);
    }
    if (mistake == Mistake::changes_its_input) const_cast<float&>(x.data()[0]) += 1;
  }

  void forward_sum(RowsView<const float> x, RowsView<float> y, Workspace& workspace) const {
    for (Index i = 0; i < x.size(); ++i) y.data()[i] += x.data()[i];
    if (mistake == Mistake::other_sum) y.data()[0] += 1;
    forward(y, y, workspace);
  }
};

const TransformerConfig config{.hidden_size = 11, .intermediate_size = 13};

template <Mistake mistake>
std::string norm_error() {
  return error_text([] { check_norm<Affine<mistake>>(config); });
}

TEST(CheckModule, AcceptsRightModules) {
  EXPECT_EQ(norm_error<Mistake::none>(), "");
  EXPECT_NO_THROW(check_norm<LayerNorm<float>>(config));
  EXPECT_NO_THROW(check_norm<RMSNorm<double>>(config));
  EXPECT_NO_THROW(check_feed_forward<GatedFeedForward<float>>(config));
}

TEST(CheckModule, AcceptsNormsOfEveryWidth) {
  for (Index hidden_size : {1, 2, 7, 8, 17, 511, 512, 513, 1031, 2053}) {
    SCOPED_TRACE(hidden_size);
    const TransformerConfig wide{.hidden_size = hidden_size};
    EXPECT_NO_THROW(check_norm<LayerNorm<float>>(wide));
    EXPECT_NO_THROW(check_norm<LayerNorm<double>>(wide));
    EXPECT_NO_THROW(check_norm<RMSNorm<float>>(wide));
    EXPECT_NO_THROW(check_norm<RMSNorm<double>>(wide));
  }
}

TEST(CheckModule, NoticesFieldsThatVisitDoesNotList) {
  EXPECT_EQ(norm_error<Mistake::unlisted_parameter>(),
            "check_module: the module has a field that `visit` doesn't list and that isn't in "
            "`config`");
}

TEST(CheckModule, NoticesANameThatStandsTwice) {
  EXPECT_EQ(norm_error<Mistake::same_name_twice>(),
            "check_module: two parameters are called weight");
}

TEST(CheckModule, NoticesParametersThatDoNotFollowFromTheConfiguration) {
  Affine<Mistake::none> module(LinearConfig{3, 3});
  module.weight = Tensor<float, 1>({4});
  EXPECT_EQ(
      error_text([&] { check_module(module); }),
      "check_module: the constructor makes other parameters from `config` than the module has");
}

TEST(CheckModule, NoticesAForgottenParameter) {
  EXPECT_EQ(norm_error<Mistake::forgotten_by_assignment>(),
            "check_module: assignment doesn't copy bias");
  EXPECT_EQ(norm_error<Mistake::left_out_by_init>(),
            "check_module: init doesn't set bias; `init_own` of its module must");
}

/// Looks at memory that is somewhere else.
struct Borrowing {
  struct Config {
    float* elements = nullptr;
  };
  Config config;
  TensorView<float, 1> weight{config.elements, {3}};

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
  }
};

TEST(CheckModule, NoticesCopiesThatShareMemory) {
  float elements[3];
  EXPECT_EQ(error_text([&] { check_module(Borrowing{{elements}}); }),
            "check_module: a copy shares weight with the original");
}

/// Remembers something beside its configuration and parameters.
struct Counting {
  LinearConfig config;
  Linear<float> linear{config};
  Index calls = 7;

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("linear", layer.linear...);
  }
};

TEST(CheckModule, NoticesHiddenState) {
  EXPECT_EQ(error_text([] { check_module(Counting{}); }),
            "check_module: the module has a field that `visit` doesn't list and that isn't in "
            "`config`");
}

TEST(CheckModule, NoticesANormThatDoesNotWorkInPlace) {
  EXPECT_EQ(norm_error<Mistake::not_in_place>(),
            "check_norm: forward in place, y being x, gives another result");
}

TEST(CheckModule, NoticesRowsThatSeeEachOther) {
  EXPECT_EQ(norm_error<Mistake::rows_see_each_other>(),
            "check_norm: forward gives a row by itself another result than the same row among "
            "others");
  EXPECT_EQ(error_text([] { check_feed_forward<Affine<Mistake::rows_see_each_other>>(config); }),
            "check_feed_forward: forward gives a row by itself another result than the same row "
            "among others");
}

TEST(CheckModule, NoticesAForwardSumThatDiffers) {
  EXPECT_EQ(norm_error<Mistake::other_sum>(),
            "check_norm: forward_sum gives another result than forward of the sum");
}

TEST(CheckModule, NoticesAChangedInput) {
  EXPECT_EQ(norm_error<Mistake::changes_its_input>(), "check_norm: forward changes x");
}

}  // namespace check_module_test
