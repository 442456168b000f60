// SPDX-License-Identifier: MIT
#pragma once

// Finds the stored tensors of a module's parameters by a key map, and everything that is wrong with
// them, before anything is read.

#include <set>

#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/io/key_map.hpp"
#include "eigenformer/io/wanted_parameters.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// What did not fit between a module and a checkpoint.
struct LoadReport {
  std::vector<std::string> missing;     // parameters that the checkpoint doesn't have
  std::vector<std::string> unexpected;  // tensors that no parameter wants
  std::vector<std::string> ignored;     // tensors that the key map leaves out
};

namespace internal {

/// Where one parameter comes from.
struct ParameterSource {
  KeyRow row;
  std::vector<std::string>
      stored;  // one name, or several that are joined; none: the parameter keeps its values
  std::vector<std::string> copies;  // must be equal to the parameter
};

class KeyLookup {
 public:
  KeyLookup(const std::vector<WantedParameter>& wanted, const Checkpoint& checkpoint,
            const KeyMap& map)
      : checkpoint_(checkpoint), map_(map) {
    choose_prefix(wanted);
    for (const WantedParameter& parameter : wanted) add(parameter);
    for (const std::string& name : checkpoint.names()) {
      if (used_.contains(name)) continue;
      (is_ignored(name) ? report_.ignored : report_.unexpected).push_back(name);
    }
  }

  const LoadReport& report() const { return report_; }
  const ParameterSource& source_of(const std::string& own) const { return sources_.at(own); }

  /// Throws std::runtime_error with everything that is wrong at once: tensors of a wrong shape or
  /// type always, missing and unexpected ones if `strict`.
  void require_fit(bool strict) const {
    ErrorLines lines;
    if (strict) {
      lines.add("missing: ", missing_lines_);
      lines.add("unexpected: ", report_.unexpected);
    }
    lines.add("", misfits_);
    if (!lines.text.empty()) fail_file(checkpoint_.path(), "does not fit the module", lines);
  }

 private:
  struct Found {
    const KeyRow* row;
    std::string stored;  // without prefix
  };

  std::vector<Found> find_rows(const std::string& own) const {
    if (map_.rows.empty()) return {{&same_name_, own}};
    std::vector<Found> found;
    for (const KeyRow& row : map_.rows) {
      if (const auto wildcards = match_key(row.own, own)) {
        found.push_back({&row, fill_key(row.stored, *wildcards)});
      }
    }
    return found;
  }

  /// The spelling of a name under which the checkpoint has it.
  std::optional<std::string> find_spelling(const std::string& name) const {
    if (checkpoint_.contains(name)) return name;
    for (const auto& [usual, alias] : map_.aliases) {
      if (!name.ends_with(usual)) continue;
      const std::string other = name.substr(0, name.size() - usual.size()) + alias;
      if (checkpoint_.contains(other)) return other;
    }
    return std::nullopt;
  }

  /// The stored tensors for a name, which may count with `#`.
  std::vector<std::string> find_stored(const std::string& name) const {
    std::vector<std::string> names;
    const std::size_t counter = name.find('#');
    if (counter == std::string::npos) {
      if (auto spelling = find_spelling(name)) names.push_back(*std::move(spelling));
      return names;
    }
    while (auto spelling =
               find_spelling(std::string(name).replace(counter, 1, std::to_string(names.size())))) {
      names.push_back(*std::move(spelling));
    }
    return names;
  }

  void choose_prefix(const std::vector<WantedParameter>& wanted) {
    std::ptrdiff_t most = -1;
    for (const std::string& prefix : map_.prefixes) {
      const auto count = std::count_if(wanted.begin(), wanted.end(), [&](const auto& parameter) {
        const auto rows = find_rows(parameter.own);
        return std::any_of(rows.begin(), rows.end(), [&](const Found& found) {
          return found.row->prefixed && !find_stored(prefix + found.stored).empty();
        });
      });
      if (count > most) {
        most = count;
        prefix_ = prefix;
      }
    }
  }

  void add(const WantedParameter& parameter) {
    const std::string& own = parameter.own;
    ParameterSource& source = sources_[own];
    std::string name;  // in the first row, for error texts
    for (const auto& [row, stored] : find_rows(own)) {
      const std::string full = (row->prefixed ? prefix_ : "") + stored;
      source.row = *row;
      source.stored = find_stored(full);
      if (name.empty()) name = full;
      if (!source.stored.empty()) break;
    }
    for (const TiedCopy& copy : map_.tied) {
      const auto wildcards = match_key(copy.own, own);
      if (!wildcards) continue;
      const std::string copy_name = fill_key(copy.stored, *wildcards);
      if (checkpoint_.contains(copy_name)) {
        source.copies.push_back(copy_name);
      } else if (copy.required) {
        report_.missing.push_back(own);
        missing_lines_.push_back(copy_name + " (a copy of " + own + ")");
      }
    }
    if (source.stored.empty() && !source.copies.empty()) {
      source.row = KeyRow{.stored = source.copies.front(), .own = own};
      source.stored = {source.copies.front()};
      source.copies.erase(source.copies.begin());
    }
    if (source.stored.empty() && !source.row.optional) {
      report_.missing.push_back(own);
      missing_lines_.push_back(name.empty()  ? own + " (the key map has no row for it)"
                               : name == own ? own
                                             : name + " (" + own + ")");
    }
    require_tensors(parameter, source);
  }

  /// Notes what is wrong with the tensors of one parameter.
  void require_tensors(const WantedParameter& parameter, const ParameterSource& source) {
    const auto& [own, shape, converts] = parameter;
    if (source.stored.empty()) return;
    const std::vector<Index> wanted = stored_shape(shape, source.row);
    const std::string layout = source.row.transpose ? ", stored transposed" : "";
    if (source.row.stored.find('#') == std::string::npos) {
      const std::vector<Index>& actual = checkpoint_.entry(source.stored.front()).shape;
      if (!shape_fits(actual, wanted, source.row.shape)) {
        misfits_.push_back("shape: " + source.stored.front() + " has " + shape_text(actual) + "; " +
                           shape_text(wanted) + " is wanted for " + own + layout);
      }
    } else {
      Index left = wanted[0];  // of the first axis
      bool fits = true;
      for (const std::string& name : source.stored) {
        std::vector<Index> piece = checkpoint_.entry(name).shape;
        if (piece.empty() || piece[0] > left) {
          fits = false;
          break;
        }
        left -= std::exchange(piece[0], wanted[0]);
        fits = fits && piece == wanted;
      }
      if (!fits || left != 0) {
        const std::string& first = source.stored.front();
        misfits_.push_back("shape: " + first + " " + shape_text(checkpoint_.entry(first).shape) +
                           " and " + std::to_string(source.stored.size() - 1) +
                           " more do not join to " + shape_text(wanted) + " for " + own);
      }
    }
    for (const std::string& name : source.copies) {
      const std::vector<Index>& actual = checkpoint_.entry(name).shape;
      if (actual != shape) {
        misfits_.push_back("shape: " + name + " has " + shape_text(actual) + "; " +
                           shape_text(shape) + " is wanted for a copy of " + own);
      }
    }
    for (const auto* names : {&source.stored, &source.copies}) {
      for (const std::string& name : *names) {
        used_.insert(name);
        const DataType type = checkpoint_.entry(name).type;
        if (!converts(type)) {
          misfits_.push_back("dtype: " + name + " is " + to_string(type) +
                             ", which does not convert to the type of " + own);
        }
      }
    }
  }

  bool is_ignored(const std::string& name) const {
    return std::any_of(map_.ignored.begin(), map_.ignored.end(), [&](const std::string& pattern) {
      return match_key(pattern, name) ||
             (name.starts_with(prefix_) && match_key(pattern, name.substr(prefix_.size())));
    });
  }

  const Checkpoint& checkpoint_;
  const KeyMap& map_;
  const KeyRow same_name_{.stored = "*", .own = "*"};
  std::string prefix_;
  std::map<std::string, ParameterSource> sources_;
  std::set<std::string> used_;
  std::vector<std::string> missing_lines_;
  std::vector<std::string> misfits_;
  LoadReport report_;
};

}  // namespace internal
}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
