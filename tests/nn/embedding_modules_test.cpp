// SPDX-License-Identifier: MIT
// Embeddings, patches and heads against plain loops.
#include <gtest/gtest.h>

#include "eigenformer/nn/embeddings.hpp"
#include "eigenformer/nn/masked_language_model_head.hpp"
#include "eigenformer/nn/patch_embedding.hpp"
#include "eigenformer/nn/pooler.hpp"
#include "tests/nn/differential.hpp"
#include "tests/reference/activation.hpp"
#include "tests/reference/embeddings.hpp"
#include "tests/reference/error_text.hpp"

namespace embedding_modules_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::agrees;
using reference::random_module;
using reference::widen;
using Ids = Tensor<std::int32_t, 2>;

Ids random_ids(Index batch, Index tokens, std::int32_t count, std::uint64_t seed) {
  Ids ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(ef::Key(seed).bits(static_cast<std::uint64_t>(i)) %
                                              static_cast<std::uint32_t>(count));
  }
  return ids;
}

template <class F>
std::string text_of(F&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing thrown";
}

template <class T>
class EmbeddingModulesTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmbeddingModulesTest, Scalars);

TYPED_TEST(EmbeddingModulesTest, EveryKindOfEmbeddings) {
  using T = TypeParam;
  const Ids ids = random_ids(3, 7, 11, 1), types = random_ids(3, 7, 3, 2),
            positions = random_ids(3, 7, 17, 3);
  for (auto kind : {ef::PositionEmbedding::none, ef::PositionEmbedding::learned,
                    ef::PositionEmbedding::sinusoidal}) {
    for (auto layout : {ef::SinusoidalLayout::interleaved, ef::SinusoidalLayout::concatenated,
                        ef::SinusoidalLayout::tensor2tensor}) {
      for (int flags = 0; flags < 8; ++flags) {
        const bool typed = (flags & 1) != 0;
        const auto module = random_module<ef::Embeddings<T>>(
            ef::EmbeddingsConfig{.vocab_size = 11,
                                 .hidden_size = 13,
                                 .max_position_embeddings = 17,
                                 .type_vocab_size = typed ? 3 : 0,
                                 .position_embedding = kind,
                                 .sinusoidal_layout = layout,
                                 .position_offset = 2,
                                 .scale_embeddings = (flags & 2) != 0,
                                 .embedding_norm = (flags & 4) != 0,
                                 .layer_norm_eps = 1e-3});
        EXPECT_TRUE(agrees(module(ids), reference::embeddings(module, ids))) << flags;
        EXPECT_TRUE(agrees(module(ids, {.first_position = 5}),
                           reference::embeddings(module, ids, {}, {}, 5)));
        EXPECT_TRUE(agrees(module(ids, {.positions = positions}),
                           reference::embeddings(module, ids, {}, positions)));
        if (!typed) continue;
        EXPECT_TRUE(
            agrees(module(ids, {.token_types = types}), reference::embeddings(module, ids, types)));
      }
    }
  }
}

TEST(Embeddings, RefusesWhatIsOutsideItsTables) {
  const ef::Embeddings<float> module(
      {.vocab_size = 11, .hidden_size = 3, .max_position_embeddings = 4, .type_vocab_size = 2});
  const Ids ids({1, 3});
  EXPECT_EQ(text_of([&] { module(ids, {.first_position = 1}); }), "nothing thrown");
  const auto expect = [](const std::string& text, const std::string& first,
                         const std::string& second) {
    EXPECT_NE(text.find(first), std::string::npos) << text;
    EXPECT_NE(text.find(second), std::string::npos) << text;
  };
  expect(text_of([&] { module(ids, {.first_position = 2}); }), "position 4", "4 rows");
  expect(text_of([&] { module(Ids({1, 5})); }), "position 4", "4 rows");
  expect(text_of([&] { module(ids, {.first_position = -1}); }), "position -1", "4 rows");
  expect(text_of([&] { module(ids, {.first_position = Index{1} << 40}); }), "1099511627776", "");
  Ids types({1, 3}), positions({1, 3});
  types(0, 2) = 2;
  positions(0, 1) = 4;
  expect(text_of([&] { module(ids, {.token_types = types}); }), "id 2", "2 rows");
  expect(text_of([&] { module(ids, {.positions = positions}); }), "position 4", "4 rows");
  const Ids short_one({1, 2});
  expect(text_of([&] { module(ids, {.token_types = short_one}); }), "(1, 2)", "(1, 3)");
  expect(text_of([&] { module(ids, {.positions = short_one}); }), "(1, 2)", "(1, 3)");
  const ef::Embeddings<float> untyped({.vocab_size = 11, .hidden_size = 3});
  expect(text_of([&] { untyped(ids, {.token_types = ids}); }), "token_types", "0");
}

TEST(Embeddings, PositionsOfPaddedSequences) {
  Ids ids({2, 3});
  const std::int32_t values[] = {4, 5, 6, 4, 3, 3};
  std::copy(values, values + 6, ids.begin());
  const Ids after = ef::positions_after_padding(ids, 3);
  const std::int32_t expected[] = {4, 5, 6, 4, 3, 3};
  EXPECT_TRUE(std::equal(after.begin(), after.end(), expected));
  Ids one({1, 5});
  const std::int32_t roberta[] = {0, 5, 6, 1, 1}, roberta_positions[] = {2, 3, 4, 1, 1};
  std::copy(roberta, roberta + 5, one.begin());
  const Ids second = ef::positions_after_padding(one, 1);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), roberta_positions));

  Tensor<bool, 2> keep({2, 5});
  std::fill(keep.begin(), keep.end(), true);
  keep(0, 0) = keep(0, 1) = false;
  const Ids kept = ef::positions_of_kept(keep);
  for (Index t = 0; t < 5; ++t) {
    EXPECT_EQ(kept(0, t), std::max<Index>(0, t - 2));
    EXPECT_EQ(kept(1, t), t);
  }
}

TEST(Embedding, InitLeavesThePaddingRowAtZeroAndLookingItUpGivesWhatItHolds) {
  ef::Embedding<float> module({.num_embeddings = 3, .embedding_dim = 2, .padding_id = 1});
  ef::init(module, ef::Key{1});
  EXPECT_NE(module.weight(0, 0), 0);
  EXPECT_EQ(module.weight(1, 0), 0);
  EXPECT_EQ(module.weight(1, 1), 0);
  module.weight(1, 0) = 5;
  Ids ids({1, 2});
  ids(0, 0) = 1;
  EXPECT_EQ(module(ids)(0, 0, 0), 5);
  for (Index bad : {-1, 3}) {
    EXPECT_ERROR(ef::Embedding<float>({.num_embeddings = 3, .embedding_dim = 2, .padding_id = bad}),
                 std::invalid_argument, "Embedding: padding_id must be in [0, 3)");
  }
}

TYPED_TEST(EmbeddingModulesTest, Patches) {
  using T = TypeParam;
  for (const auto& [image, patch] :
       {std::pair<ef::ImageSize, ef::ImageSize>{{7, 11}, {2, 5}}, {12, 3}, {5, 5}, {{3, 4}, 1}}) {
    const auto module = random_module<ef::PatchEmbedding<T>>(ef::PatchEmbeddingConfig{
        .image_size = image, .patch_size = patch, .num_channels = 2, .hidden_size = 13});
    const auto images = reference::random_tensor<T, 4>({3, 2, image.height, image.width}, 5);
    EXPECT_TRUE(agrees(module(images), reference::patch_embedding(module, widen(images))));
  }
}

TEST(PatchEmbedding, RefusesSizesThatMakeNoSense) {
  for (const auto& [image, patch] :
       {std::pair<ef::ImageSize, ef::ImageSize>{4, 5}, {4, 0}, {{4, 8}, {2, -2}}, {{8, 4}, 5}}) {
    EXPECT_ERROR(
        ef::PatchEmbedding<float>({.image_size = image, .patch_size = patch, .hidden_size = 3}),
        std::invalid_argument, "PatchEmbedding: patch_size must be > 0 and at most image_size")
        << to_string(image) << " " << to_string(patch);
  }
}

TYPED_TEST(EmbeddingModulesTest, PoolerAndLanguageModelHead) {
  using T = TypeParam;
  const auto x = reference::random_tensor<T, 3>({3, 5, 13}, 5);
  const auto pooler = random_module<ef::Pooler<T>>(ef::PoolerConfig{.hidden_size = 13});
  Tensor<T, 2> first({3, 13});
  for (Index b = 0; b < 3; ++b) std::copy_n(&x(b, 0, 0), 13, &first(b, 0));
  EXPECT_TRUE(agrees(
      pooler(x),
      reference::activate(ef::Activation::tanh, reference::linear(widen(first), pooler.dense))));

  const auto head = random_module<ef::MaskedLanguageModelHead<T>>(
      ef::MaskedLanguageModelHeadConfig{.hidden_size = 13, .vocab_size = 7});
  const auto table = reference::random_tensor<T, 2>({7, 13}, 6);
  Tensor<T, 3> logits({3, 5, 7});
  ef::Workspace workspace;
  head.forward(x, table, logits, workspace);
  const auto hidden = reference::norm(
      reference::activate(ef::Activation::gelu, reference::linear(widen(x), head.transform)),
      head.norm);
  EXPECT_TRUE(agrees(logits, reference::linear(hidden, widen(table), widen(head.bias))));
  const Tensor<T, 2> wrong({13, 7});
  EXPECT_ERROR(head.forward(x, wrong, logits, workspace), std::invalid_argument,
               "MaskedLanguageModelHead: table: shape must be (7, 13); got (13,");
}

}  // namespace embedding_modules_test
