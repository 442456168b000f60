// SPDX-License-Identifier: MIT
#pragma once

// Key maps: under which names, and in which layout, another library stores the parameters of a
// module. A map is a table; a new family of checkpoints is new rows.
//
//   {.stored = "encoder.layer.{}.attention.self.query.*", .own = "layers.{}.attention.query.*"}
//
// In a pattern `{}` stands for a number and a final `*` for the rest of the name, the same on both
// sides. In `stored`, `#` counts tensors that together make one parameter: "heads.#.query.*" joins
// heads.0, heads.1, ... along their first axis. The layout is what the row says, never guessed from
// a shape. Of several rows for one parameter the first whose tensors are there is used.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Shapes that a stored tensor may have besides the parameter's own.
enum class StoredShape {
  exact,
  leading_ones,    // (1, 1, 5) for (5)
  folded_trailing  // (7, 2, 3, 5) for (7, 30)
};

struct KeyRow {
  std::string stored;
  std::string own;
  /// A matrix stored as (in, out).
  bool transpose = false;
  /// The parameter is part `part` of `parts` equal ones along its first axis: the query of a fused
  /// query-key-value matrix is part 0 of 3.
  Index part = 0;
  Index parts = 1;
  StoredShape shape = StoredShape::exact;
  /// A checkpoint without it leaves the parameter as it is.
  bool optional = false;
  /// Whether the checkpoint's prefix comes before `stored`.
  bool prefixed = true;
};

/// Another spelling of the end of a stored name.
struct KeyAlias {
  std::string usual;  // "LayerNorm.weight"
  std::string alias;  // "LayerNorm.gamma"
};

/// A second copy of a parameter, as of an output projection that is tied to the embeddings. It may
/// be missing; alone it is read as the parameter; if both are stored they must be equal.
struct TiedCopy {
  std::string stored;  // without prefix
  std::string own;
  bool required = false;
};

struct KeyMap {
  /// The one under which most names are found is used; the first of them if none is.
  std::vector<std::string> prefixes = {""};
  /// None: the names are the module's own.
  std::vector<KeyRow> rows = {};
  std::vector<KeyAlias> aliases = {};
  std::vector<TiedCopy> tied = {};
  /// Patterns of stored names, with or without prefix, which may be there without belonging to a
  /// parameter of the module: buffers, heads that the module doesn't have.
  std::vector<std::string> ignored = {};
};

/// `map` for a part of a larger module: what comes before the names of its rows, with the dot.
inline KeyMap nested(KeyMap map, const std::string& before_stored, const std::string& before_own) {
  for (KeyRow& row : map.rows) {
    row.stored = before_stored + row.stored;
    row.own = before_own + row.own;
  }
  for (TiedCopy& copy : map.tied) copy.own = before_own + copy.own;
  return map;
}

/// `map` with more rows and more names to ignore.
inline KeyMap extended(KeyMap map, const std::vector<KeyRow>& rows,
                       const std::vector<std::string>& ignored = {}) {
  map.rows.insert(map.rows.end(), rows.begin(), rows.end());
  map.ignored.insert(map.ignored.end(), ignored.begin(), ignored.end());
  return map;
}

namespace internal {

/// What the wildcards of `pattern` stand for in `name`, in order; nothing if it doesn't match.
inline std::optional<std::vector<std::string>> match_key(std::string_view pattern,
                                                         std::string_view name) {
  std::vector<std::string> found;
  while (!pattern.empty()) {
    if (pattern == "*") {
      if (name.empty()) return std::nullopt;
      found.emplace_back(name);
      return found;
    }
    if (pattern.starts_with("{}")) {
      const std::size_t digits = (std::min)(name.find_first_not_of("0123456789"), name.size());
      if (digits == 0) return std::nullopt;
      found.emplace_back(name.substr(0, digits));
      pattern.remove_prefix(2);
      name.remove_prefix(digits);
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      pattern.remove_prefix(1);
      name.remove_prefix(1);
    }
  }
  if (!name.empty()) return std::nullopt;
  return found;
}

/// The pattern with its wildcards replaced.
inline std::string fill_key(std::string_view pattern, const std::vector<std::string>& found) {
  std::string name;
  std::size_t next = 0;
  while (!pattern.empty()) {
    const bool is_number = pattern.starts_with("{}");
    if (is_number || pattern == "*") {
      require(next < found.size(), "KeyMap: ", pattern,
              " of a row's stored name has no counterpart in its own name");
      name += found[next++];
    } else {
      name += pattern.front();
    }
    pattern.remove_prefix(is_number ? 2 : 1);
  }
  return name;
}

/// The shape in which a parameter of shape `own` is stored, but for `row.shape`.
inline std::vector<Index> stored_shape(std::vector<Index> own, const KeyRow& row) {
  require(row.parts >= 1 && row.part >= 0 && row.part < row.parts, "KeyMap: part ", row.part,
          " of ", row.parts, " in the row of ", row.own);
  own[0] *= row.parts;
  if (row.transpose) {
    require(own.size() == 2, "KeyMap: the row of ", row.own, " transposes what is no matrix");
    std::swap(own[0], own[1]);
  }
  return own;
}

/// Whether a tensor of shape `actual` may stand for one of shape `wanted`.
inline bool shape_fits(const std::vector<Index>& actual, const std::vector<Index>& wanted,
                       StoredShape freedom) {
  if (actual == wanted) return true;
  if (actual.size() < wanted.size()) return false;
  const auto more = static_cast<std::ptrdiff_t>(actual.size() - wanted.size());
  if (freedom == StoredShape::leading_ones) {
    return std::all_of(actual.begin(), actual.begin() + more, [](Index n) { return n == 1; }) &&
           std::equal(wanted.begin(), wanted.end(), actual.begin() + more);
  }
  if (freedom == StoredShape::folded_trailing) {
    Index last = 1;
    for (std::size_t axis = wanted.size() - 1; axis < actual.size(); ++axis) last *= actual[axis];
    return std::equal(wanted.begin(), wanted.end() - 1, actual.begin()) && last == wanted.back();
  }
  return false;
}

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
