// SPDX-License-Identifier: MIT
// What an observer sees: the layers' inputs and attention weights, with and without a cache, and no bit of
// the result changes.
#include <gtest/gtest.h>

#include <vector>

#include "eigenformer/models/transformer.hpp"
#include "eigenformer/models/vision_transformer.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/numbers.hpp"

namespace observer_test {

namespace ef = eigenformer;
using ef::Index;
using Ids = ef::Tensor<std::int32_t, 2>;
using Half = ef::LayerPlace::Half;
using Kind = ef::LayerPlace::Attention;

struct Seen {
  struct States {
    Half half;
    Index layer;
    ef::Tensor<float, 3> x;
  };
  struct Weights {
    Half half;
    Index layer;
    Kind kind;
    ef::Tensor<float, 4> p;
  };
  std::vector<States> states;
  std::vector<Weights> weights;

  ef::Observer<float> observer() {
    return {.hidden_states =
                [this](const ef::LayerPlace& at, ef::TensorView<const float, 3> x) {
                  states.push_back({at.half, at.layer, ef::Tensor<float, 3>(x)});
                },
            .attention_weights =
                [this](const ef::LayerPlace& at, ef::TensorView<const float, 4> p) {
                  weights.push_back({at.half, at.layer, at.attention, ef::Tensor<float, 4>(p)});
                }};
  }
};

ef::TransformerConfig small() {
  return {.vocab_size = 13,
          .hidden_size = 12,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .intermediate_size = 7,
          .max_position_embeddings = 40};
}

template <class M>
M random_module(const ef::TransformerConfig& config) {
  M module(config);
  reference::randomize(module, 1);
  return module;
}

Ids some_ids(Index batch, Index tokens) {
  Ids ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = static_cast<std::int32_t>(i * 5 % 13);
  return ids;
}

TEST(Observer, SeesEveryLayerOfAnEncoder) {
  auto config = small();
  config.final_norm = true;
  const auto encoder = random_module<ef::TransformerEncoder<float>>(config);
  const Ids ids = some_ids(2, 7);
  const ef::Tensor<float, 3> expected = encoder(ids, {.causal = true});
  Seen seen;
  const auto observer = seen.observer();
  ef::Tensor<float, 3> y(expected.shape());
  ef::Workspace workspace;
  encoder.forward(ids, {}, {.causal = true}, y, observer, workspace);
  EXPECT_EQ(y, expected);

  ASSERT_EQ(seen.states.size(), 4u);
  ASSERT_EQ(seen.weights.size(), 3u);
  EXPECT_EQ(seen.states[0].x, encoder.embeddings(ids));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& layer = encoder.layers[i];
    EXPECT_EQ(seen.states[i].layer, static_cast<Index>(i));
    EXPECT_EQ(seen.states[i].half, Half::encoder);
    EXPECT_EQ(seen.states[i + 1].x, layer(seen.states[i].x, {.causal = true}));
    EXPECT_EQ(seen.weights[i].kind, Kind::self);
    EXPECT_EQ(seen.weights[i].p, layer.attention.attention_weights(
                                     seen.states[i].x, seen.states[i].x, {.causal = true}));
  }
  EXPECT_EQ((*encoder.final_norm)(seen.states[3].x), expected);
}

TEST(Observer, SeesTheSameWithACache) {
  const auto decoder = random_module<ef::TransformerDecoder<float>>(small());
  const Ids ids = some_ids(2, 9);
  ef::Workspace workspace;
  Seen whole;
  ef::Tensor<float, 3> logits({2, 9, 13});
  decoder.forward(ids, {}, logits, whole.observer(), workspace);
  EXPECT_EQ(logits, decoder(ids));

  auto cache = decoder.make_cache(2, 9);
  Index begin = 0;
  for (Index tokens : {4, 1, 3, 1}) {
    Ids part({2, tokens});
    for (Index b = 0; b < 2; ++b)
      for (Index t = 0; t < tokens; ++t) part(b, t) = ids(b, begin + t);
    Seen seen;
    ef::Tensor<float, 3> next({2, tokens, 13});
    decoder.forward(part, cache, {}, next, seen.observer(), workspace);
    ASSERT_EQ(seen.weights.size(), 3u);
    ASSERT_EQ(seen.states.size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& p = seen.weights[i].p;
      ASSERT_EQ(p.shape(), (ef::Shape<4>{2, 4, tokens, begin + tokens}));
      EXPECT_EQ(seen.weights[i].half, Half::decoder);
      for (Index b = 0; b < 2; ++b)
        for (Index h = 0; h < 4; ++h)
          for (Index t = 0; t < tokens; ++t)
            for (Index j = 0; j < begin + tokens; ++j)
              ASSERT_EQ(p(b, h, t, j), whole.weights[i].p(b, h, begin + t, j));
      for (Index b = 0; b < 2; ++b)
        for (Index t = 0; t < tokens; ++t)
          for (Index c = 0; c < 12; ++c)
            ASSERT_EQ(seen.states[i].x(b, t, c), whole.states[i].x(b, begin + t, c));
    }
    begin += tokens;
  }
}

TEST(Observer, SeesBothHalvesOfATransformer) {
  const auto model = random_module<ef::Transformer<float>>(small());
  const Ids source = some_ids(2, 5), target = some_ids(2, 4);
  ef::Workspace workspace;
  Seen seen;
  ef::Tensor<float, 3> logits({2, 4, 13});
  const std::vector<int> lengths = {5, 3};
  model.forward(source, target, {.key_lengths = lengths}, {}, logits, seen.observer(), workspace);
  EXPECT_EQ(logits, model(source, target, {.key_lengths = lengths}));
  ASSERT_EQ(seen.states.size(), 8u);
  ASSERT_EQ(seen.weights.size(), 9u);
  int cross = 0;
  for (const auto& weights : seen.weights) {
    if (weights.kind == Kind::self) continue;
    ++cross;
    EXPECT_EQ(weights.half, Half::decoder);
    EXPECT_EQ(weights.p.shape(), (ef::Shape<4>{2, 4, 4, 5}));
    for (Index h = 0; h < 4; ++h)
      for (Index t = 0; t < 4; ++t)
        EXPECT_EQ(weights.p(1, h, t, 3) + weights.p(1, h, t, 4), 0) << "padding of the source";
  }
  EXPECT_EQ(cross, 3);

  auto cache = model.make_cache(2, 4);
  model.start(source, lengths, cache, workspace);
  Seen with_cache;
  ef::Tensor<float, 3> again(logits.shape());
  model.forward(target, cache, {}, again, with_cache.observer(), workspace);
  EXPECT_EQ(again, logits);
  ASSERT_EQ(with_cache.weights.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(with_cache.weights[i].p, seen.weights[3 + i].p);
}

TEST(Observer, CostsNothingWhenNothingIsAsked) {
  const auto encoder = random_module<ef::TransformerEncoder<float>>(small());
  const Ids ids = some_ids(2, 7);
  ef::Tensor<float, 3> y({2, 7, 12});
  ef::Workspace workspace;
  const ef::Observer<float> observer;
  encoder.forward(ids, {}, {}, y, workspace);
  const auto capacity = workspace.capacity();
  const long before = reference::allocations();
  encoder.forward(ids, {}, {}, y, observer, workspace);
  EXPECT_EQ(reference::allocations(), before);
  EXPECT_EQ(workspace.capacity(), capacity);
}

}  // namespace observer_test
