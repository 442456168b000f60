// SPDX-License-Identifier: MIT

// Faults that others had with tables of embeddings, as far as looking up goes.

#include "tests/reference/error_text.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace embedding_test {

using values::expect_values;

// Looking up the padding row gives what it holds, with or without a padding index;
// initialising leaves only that row at zero.
TEST(EmbeddingFaults, PaddingRowIsLookedUpLikeAnyOther) {
  for (std::optional<Index> padding : {std::optional<Index>(0), std::optional<Index>()}) {
    Embedding<float> embedding({.num_embeddings = 3, .embedding_dim = 2, .padding_id = padding});
    values::set(embedding.weight, {5, 5, 1, 2, 3, 4});
    expect_values(embedding(values::tensor<std::int32_t>(Shape<2>{1, 3}, {0, 1, 0})),
                  {5, 5, 1, 2, 5, 5}, 0);
  }
}

TEST(EmbeddingFaults, InitialisingZeroesThePaddingRowAlone) {
  for (Index padding = -1; padding < 5; ++padding) {
    Embedding<float> embedding(
        {.num_embeddings = 5,
         .embedding_dim = 7,
         .padding_id = padding < 0 ? std::nullopt : std::optional<Index>(padding)});
    init(embedding, Key{1});
    for (Index row = 0; row < 5; ++row)
      EXPECT_EQ((embedding.weight.matrix().row(row).array() == 0.0f).all(), row == padding) << row;
    EXPECT_GT(embedding.weight.vector().cwiseAbs().maxCoeff(), 0.0f);
  }
}

// The padding index is one of the token table's rows in a whole model; it isn't taken for a
// position or a token type.
TEST(EmbeddingFaults, PaddingIndexOfAModelConcernsItsTokens) {
  TransformerEncoder<float> encoder({.vocab_size = 5,
                                     .hidden_size = 6,
                                     .num_hidden_layers = 0,
                                     .intermediate_size = 3,
                                     .max_position_embeddings = 4,
                                     .type_vocab_size = 3,
                                     .padding_id = 1});
  init(encoder, Key{2});
  const auto zero_rows = [](const Tensor<float, 2>& table) {
    Index count = 0;
    for (Index row = 0; row < table.dim(0); ++row)
      count += (table.matrix().row(row).array() == 0.0f).all();
    return count;
  };
  EXPECT_EQ(zero_rows(encoder.embeddings.token.weight), 1);
  EXPECT_EQ(zero_rows(encoder.embeddings.position->weight), 0);
  EXPECT_EQ(zero_rows(encoder.embeddings.token_type->weight), 0);
  EXPECT_ERROR(Embedding<float>({.num_embeddings = 3, .embedding_dim = 2, .padding_id = 3}),
               std::invalid_argument, "Embedding: padding_id must be in [0, 3); got 3");
  EXPECT_ERROR(Embedding<float>({.num_embeddings = 3, .embedding_dim = 2, .padding_id = -1}),
               std::invalid_argument, "Embedding: padding_id must be in [0, 3); got -1");
}

// Repeated ids, few and many, on one and on four threads.
TEST(EmbeddingFaults, RepeatedIds) {
  Embedding<float> embedding({.num_embeddings = 4, .embedding_dim = 1});
  values::set(embedding.weight, {10, 20, 30, 40});
  expect_values(embedding(values::tensor<std::int32_t>(Shape<2>{1, 3}, {1, 1, 2})), {20, 20, 30},
                0);

  Embedding<float> wide({.num_embeddings = 7, .embedding_dim = 67});
  values::randomize(wide, 3);
  Tensor<std::int32_t, 2> ids({3, 1009});  // enough elements to be spread over threads
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = i < 1500 ? 2 : static_cast<std::int32_t>(i % 7);
  ThreadPool pool(4);
  Workspace threads(pool);
  Tensor<float, 3> y({3, 1009, 67});
  wide.forward(ids, y, threads);
  EXPECT_EQ(y, wide(ids));
  for (Index i = 0; i < ids.size(); ++i)
    ASSERT_EQ(y.matrix().row(i), wide.weight.matrix().row(ids.data()[i]));
}

// An id outside the table is an error that names it and the table's size, and leaves the result as
// it was.
TEST(EmbeddingFaults, IdsOutsideTheTable) {
  const Embedding<float> embedding({.num_embeddings = 7, .embedding_dim = 3});
  for (std::int32_t bad : {7, -1, std::numeric_limits<std::int32_t>::max(),
                           std::numeric_limits<std::int32_t>::min()}) {
    for (Index at = 0; at < 6; ++at) {
      Tensor<std::int32_t, 2> ids({2, 3});
      ids.data()[at] = bad;
      auto y = values::filled<float>(Shape<3>{2, 3, 3}, 5);
      const auto before = y;
      Workspace workspace;
      try {
        embedding.forward(ids, y, workspace);
        ADD_FAILURE() << bad;
      } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos)
            << error.what();
        EXPECT_NE(std::string(error.what()).find("7 rows"), std::string::npos) << error.what();
      }
      EXPECT_EQ(y, before);
    }
  }
}

}  // namespace embedding_test
}  // namespace eigenformer
