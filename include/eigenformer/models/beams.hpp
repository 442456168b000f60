// SPDX-License-Identifier: MIT
#pragma once

// What beam search (models/beam_search.hpp) keeps of each text.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "eigenformer/base/config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {
namespace internal {

/// The texts of all beams are one tree of tokens; a text is named by its last token's node.
struct BeamNode {
  std::int32_t id;
  Index previous;  // -1: the prompt
};

/// A text and one more token.
struct BeamCandidate {
  double score;  // log-probability
  std::size_t row;
  std::int32_t id;
};

struct Beam {
  double score = 0;  // while running the log-probability, then the score of the finished text
  Index node = -1;   // its last new token
};

/// Inserts into the `most` best, which are in descending order; an equal one goes behind.
template <class Item>
void insert_best(std::vector<Item>& best, std::size_t most, const Item& item) {
  if (best.size() == most) {
    if (!(item.score > best.back().score)) return;
    best.pop_back();
  }
  best.insert(std::upper_bound(best.begin(), best.end(), item,
                               [](const Item& a, const Item& b) { return a.score > b.score; }),
              item);
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
