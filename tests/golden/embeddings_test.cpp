// SPDX-License-Identifier: MIT
#include <vector>

#include "tests/golden/runners.hpp"

namespace embeddings_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

template <class T>
void run_embedding(golden::Case& test) {
  const auto embedding = test.module<ef::Embedding<T>>();
  test.expect("y", embedding(test.input<std::int32_t, 2>("ids")));
}

/// Rows of the position table: explicit positions are taken as they are.
Tensor<std::int32_t, 2> table_rows(golden::Case& test, const ef::Shape<2>& shape) {
  const auto rows = test.get<std::vector<std::vector<std::int32_t>>>("table_rows");
  Tensor<std::int32_t, 2> positions(shape);
  EXPECT_EQ(static_cast<Index>(rows.size()), shape[0]);
  for (Index b = 0; b < shape[0]; ++b) {
    const auto& row = rows.at(static_cast<std::size_t>(b));
    EXPECT_EQ(static_cast<Index>(row.size()), shape[1]);
    for (Index t = 0; t < shape[1]; ++t) positions(b, t) = row.at(static_cast<std::size_t>(t));
  }
  return positions;
}

template <class T>
void run_embeddings(golden::Case& test) {
  const auto embeddings = test.module<ef::Embeddings<T>>();
  const auto ids = test.input<std::int32_t, 2>("ids");
  golden::Along along(test);
  if (test.has("table_rows")) {
    along.positions = table_rows(test, ids.shape());
    const auto padding_id = static_cast<std::int32_t>(embeddings.config.padding_id.value());
    EXPECT_TRUE(ef::positions_after_padding(ids, padding_id) == *along.positions);
  }
  test.expect("y", embeddings(ids, along.inputs()));
}

template <class T>
void run_file() {
  golden::run_file("embeddings", 15,
                   {{"Embedding", run_embedding<T>}, {"Embeddings", run_embeddings<T>}});
}

TEST(GoldenEmbeddings, Float) { run_file<float>(); }
TEST(GoldenEmbeddings, Double) { run_file<double>(); }

}  // namespace embeddings_test
