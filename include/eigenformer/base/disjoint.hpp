// SPDX-License-Identifier: MIT
#pragma once

// One statement for the rule that results overlap neither inputs nor each other, which would overwrite
// values before they are read:
//
//   require_disjoint("MultiHeadAttention", {y, attention_weights}, {x, key_memory, value_memory});

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// The memory of a tensor or view, or of an optional one that isn't there.
class MemoryRange {
 public:
  template <class View>
  requires requires(const View& view) {
    view.data();
    view.size();
  }
  MemoryRange(const View& view) : begin_(view.data()), end_(view.data() + view.size()) {}

  template <class View>
  MemoryRange(const std::optional<View>& view) {
    if (view) *this = MemoryRange(*view);
  }

  bool overlaps(const MemoryRange& other) const {
    const std::less<const void*> before{};
    return before(begin_, end_) && before(other.begin_, other.end_) && before(begin_, other.end_) &&
           before(other.begin_, end_);
  }

 private:
  const void *begin_ = nullptr, *end_ = nullptr;
};

/// Throws std::invalid_argument if a result overlaps an input or another result.
inline void require_disjoint(std::string_view who, std::initializer_list<MemoryRange> results,
                             std::initializer_list<MemoryRange> inputs) {
  bool disjoint = true;
  for (const MemoryRange* result = results.begin(); result != results.end(); ++result) {
    for (const MemoryRange& input : inputs) disjoint = disjoint && !result->overlaps(input);
    for (const MemoryRange* other = results.begin(); other != result; ++other)
      disjoint = disjoint && !result->overlaps(*other);
  }
  require(disjoint, who, ": y and other results must not overlap an input or each other");
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
