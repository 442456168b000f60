// SPDX-License-Identifier: MIT
#pragma once

// ModuleLaws: what holds for every module, in float and in double. The laws are in module_laws.cpp
// and compiled once; they see a module through AnyModule, which module_cases.hpp makes from a few
// lines for each module.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/base/workspace.hpp"
#include "tests/nn/module_inputs.hpp"

namespace laws {

/// What y may do to the inputs.
enum class Overlap {
  refused,
  in_place,  // y may be x itself; any other overlap is refused
  harmless,  // the input has been read before y is written
};

/// How a module differs from the usual.
struct Traits {
  Overlap overlap = Overlap::refused;
  bool pads = true;            // its input has a sequence that can be padded
  bool splits_work = true;     // over threads, for the large input
  bool needs_a_token = false;  // an empty sequence is refused
  std::string unread = "-";    // how the names of parameters begin that the call doesn't read
};

/// Names and shapes, in order: {"weight", "(5, 7)"}.
using Parameters = std::vector<std::pair<std::string, std::string>>;

/// A result, its numbers as double.
struct Output {
  std::vector<Index> shape;
  std::vector<double> values;
};

/// An input that must be refused, and what the text must name.
struct Wrong {
  Input input;
  std::vector<std::string> texts;
};

/// One call with inputs and result in the module's own number type; `run` allocates nothing by
/// itself.
class AnyCall {
 public:
  virtual ~AnyCall() = default;
  virtual void run(ef::Workspace& workspace) = 0;
  virtual Output output() const = 0;
  virtual bool inputs_unchanged() const = 0;
};

/// Where y is: in memory that shares nothing with the input, or `shift` elements behind the begin of one part of the input.
struct Placement {
  int part = -1;
  Index shift = 0;
};

class AnyModule {
 public:
  virtual ~AnyModule() = default;
  virtual std::unique_ptr<AnyModule> copy() const = 0;
  virtual std::unique_ptr<AnyModule> moved() = 0;
  virtual void assign(const AnyModule& other) = 0;
  virtual std::unique_ptr<AnyModule> zeros_like() const = 0;
  virtual void check() const = 0;  // check_module
  virtual std::unique_ptr<AnyModule> cast_to_double_and_back() const = 0;

  virtual Parameters parameters() const = 0;
  virtual Index count_parameters() const = 0;
  virtual std::vector<std::vector<double>> values() const = 0;
  virtual std::vector<std::vector<double>> values_as_double() const = 0;  // of cast<double>
  virtual std::vector<const void*> addresses() const = 0;
  virtual bool parameters_equal(const AnyModule& other) const = 0;
  virtual void randomize(std::uint64_t seed) = 0;
  /// Adds 1 to the last element of one of the parameters.
  virtual void change(std::size_t parameter) = 0;
  virtual void resize(std::size_t parameter, Index more) = 0;  // by rows of zeros
  virtual void init(std::uint64_t seed) = 0;

  /// y is filled with -777. `shape` replaces the right shape of y.
  virtual std::unique_ptr<AnyCall> prepare(const Input& input, const Placement& placement = {},
                                           const std::vector<Index>& shape = {}) const = 0;
  /// The call that allocates its result.
  virtual Output convenient(const Input& input) const = 0;
};

/// A module to be tested, in one number type.
struct ModuleCase {
  std::string name;
  Traits traits;
  Parameters parameters;
  std::function<std::unique_ptr<AnyModule>()> make;
  std::function<std::unique_ptr<AnyModule>()> make_in_float, make_in_double;
  std::function<Input(Index batch, Index tokens, std::uint64_t seed)> input;
  std::function<Input()> large_input;
  std::vector<Wrong> wrong_inputs;
  std::function<std::vector<Index>(const Input&)> output_shape;
};

inline std::ostream& operator<<(std::ostream& out, const ModuleCase& c) { return out << c.name; }

class ModuleLaws : public ::testing::TestWithParam<ModuleCase> {
 protected:
  std::unique_ptr<AnyModule> random_module() const {
    auto module = GetParam().make();
    module->randomize(1);
    return module;
  }
};

}  // namespace laws
