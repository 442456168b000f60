// SPDX-License-Identifier: MIT
#pragma once

// A model whose logits are any function of the tokens that a row has read: what texts are generated
// from it can be found without a model.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "eigenformer/base/random.hpp"
#include "eigenformer/kernels/mask.hpp"

namespace reference {

namespace ef = eigenformer;
using ef::Index;
using Tokens = std::vector<std::int32_t>;
using LogitsAfter = std::function<std::vector<double>(const Tokens&)>;

/// Normal numbers that every token read has a part in.
inline LogitsAfter random_script(Index vocab_size, std::uint64_t seed, double scale = 2) {
  return [=](const Tokens& tokens) {
    ef::Key key(seed);
    for (const std::int32_t token : tokens) key = key.fold_in(static_cast<std::uint64_t>(token));
    std::vector<double> logits;
    for (Index j = 0; j < vocab_size; ++j)
      logits.push_back(scale * key.normal(static_cast<std::uint64_t>(j)));
    return logits;
  };
}

/// Rows that have read nothing; a row that isn't fed gets NaN for logits.
template <class T>
class ScriptedModel {
 public:
  ScriptedModel(Index rows, LogitsAfter script, std::int32_t pad_id = 0)
      : script_(std::move(script)), pad_id_(pad_id), read_(static_cast<std::size_t>(rows)) {}

  void step(ef::TensorView<const std::int32_t, 2> ids, const ef::IntegerSequence& token_counts,
            ef::TensorView<T, 2> logits) {
    ++steps_;
    ASSERT_EQ(ids.dim(0), rows());
    ASSERT_EQ(token_counts.size(), rows());
    ASSERT_EQ(logits.dim(0), rows());
    for (Index row = 0; row < rows(); ++row) {
      ASSERT_GE(token_counts[row], 0);
      ASSERT_LE(token_counts[row], ids.dim(1));
      Tokens& tokens = read_[static_cast<std::size_t>(row)];
      for (Index t = 0; t < ids.dim(1); ++t) {
        if (t < token_counts[row]) {
          tokens.push_back(ids(row, t));
        } else {
          EXPECT_EQ(ids(row, t), pad_id_) << "row " << row << ", place " << t;
        }
      }
      fed_ += token_counts[row];
      std::fill_n(&logits(row, 0), logits.dim(1), std::numeric_limits<T>::quiet_NaN());
      if (token_counts[row] == 0) continue;
      const std::vector<double> values = script_(tokens);
      ASSERT_EQ(static_cast<Index>(values.size()), logits.dim(1));
      for (Index j = 0; j < logits.dim(1); ++j)
        logits(row, j) = static_cast<T>(values[static_cast<std::size_t>(j)]);
    }
  }

  void reorder(std::span<const Index> rows_from) {
    ASSERT_EQ(static_cast<Index>(rows_from.size()), rows());
    std::vector<Tokens> moved;
    for (const Index row : rows_from) moved.push_back(read_.at(static_cast<std::size_t>(row)));
    read_ = std::move(moved);
    reorders_.emplace_back(rows_from.begin(), rows_from.end());
  }

  Index rows() const { return static_cast<Index>(read_.size()); }
  const std::vector<Tokens>& read() const { return read_; }
  Index steps() const { return steps_; }

  /// Tokens fed to all rows together.
  Index fed() const { return fed_; }
  const std::vector<std::vector<Index>>& reorders() const { return reorders_; }

 private:
  LogitsAfter script_;
  std::int32_t pad_id_;
  std::vector<Tokens> read_;
  Index steps_ = 0, fed_ = 0;
  std::vector<std::vector<Index>> reorders_;
};

}  // namespace reference
