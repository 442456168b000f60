// SPDX-License-Identifier: MIT
#pragma once

// Golden files (README.md beside this file): every case of a file is read, run and compared, and
// every tensor and every word of its description must have been used.
//
//   template <class T>
//   void run_linear(golden::Case& test) {
//     const auto linear = test.module<ef::Linear<T>>();
//     test.expect("y", linear(test.input<T, 3>("x")));
//   }
//   TEST(GoldenLinear, Float) { golden::run_file("linear", 3, {{"Linear", run_linear<float>}}); }
//
// What needs no template is defined in golden_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/io/safetensors_reader.hpp"
#include "eigenformer/nn/module.hpp"
#include "tests/golden/configurations.hpp"
#include "tests/golden/stored_mask.hpp"

namespace golden {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

/// Bound of |actual - expected|, relative to the largest element of the expected tensor.
template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;

inline double largest_magnitude(const double* values, Index count) {
  double largest = 0;
  for (Index i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

/// One case. What is asked for is struck from the list of what must be used.
class Case {
 public:
  Case(ef::SafetensorsReader& file, const std::string& name);

  const std::string& name() const { return name_; }

  /// What the case tests.
  std::string module_name() { return get<std::string>("module"); }

  /// A member of the description.
  bool has(const std::string& key) const;
  template <class Value>
  Value get(const std::string& key) {
    return take_key(key).get<Value>();
  }

  /// The configuration; every member must be one of its fields.
  template <class Config>
  Config config() {
    Config result;
    Fields fields(take_key("config"));
    read_fields(fields, result);
    fields.require_all_read();
    return result;
  }

  auto read_parameter() {
    return [this](const std::string& parameter, auto& to) {
      file_.read_into(take_tensor(parameters_of_ + "/parameter/" + parameter), to);
    };
  }

  /// A module with the configuration and exactly the parameters of the case.
  template <class M>
  M module() {
    M result(config<std::remove_cvref_t<decltype(std::declval<M>().config)>>());
    ef::for_each_parameter(result, read_parameter());
    return result;
  }

  bool has_input(const std::string& input) const {
    return file_.contains(inputs_of_ + "/input/" + input);
  }
  template <class T, int Rank>
  Tensor<T, Rank> input(const std::string& input) {
    return file_.read<T, Rank>(take_tensor(inputs_of_ + "/input/" + input));
  }

  /// Whether an input holds numbers that no float holds.
  bool needs_double(const std::string& input) const {
    return file_.entry(inputs_of_ + "/input/" + input).type == ef::DataType::f64;
  }

  /// For a case whose input the number type under test cannot hold: nothing of it is compared.
  void leave_out();

  /// `group`: "mask", "memory_mask" or "source_mask".
  bool has_mask(const std::string& field, const std::string& group = "mask") const {
    return file_.contains(mask_name(group, field));
  }
  template <class T>
  StoredMask<T> mask(const std::string& group = "mask") {
    StoredMask<T> result;
    if (has(group)) {
      Fields fields(take_key(group));
      fields("causal", result.causal);
      fields("query_offset", result.query_offset);
      fields("window", result.window);
      fields.require_all_read();
    }
    const auto take = [&](const char* field) { return take_tensor(mask_name(group, field)); };
    if (has_mask("key_lengths", group)) result.key_lengths = key_lengths(group);
    if (has_mask("key_allowed", group))
      result.key_allowed = file_.read<bool, 2>(take("key_allowed"));
    if (has_mask("allowed", group)) result.allowed = read_any_rank<bool>(file_, take("allowed"));
    if (has_mask("bias", group)) result.bias = read_any_rank<T>(file_, take("bias"));
    return result;
  }

  /// One for each batch row or each query.
  std::vector<std::int64_t> key_lengths(const std::string& group = "mask");
  Tensor<bool, 2> key_allowed();

  bool has_output(const std::string& output) const {
    return file_.contains(name_ + "/output/" + output);
  }
  template <int Rank>
  Tensor<double, Rank> output(const std::string& output) {
    return file_.read<double, Rank>(take_tensor(name_ + "/output/" + output));
  }

  /// Ids or flags, which the caller compares.
  template <class Element, int Rank>
  Tensor<Element, Rank> exact_output(const std::string& output) {
    compared_ = true;
    return file_.read<Element, Rank>(take_tensor(name_ + "/output/" + output));
  }

  /// Compares a result with the stored output: within the tolerance, and exactly zero where that is
  /// zero.
  template <class T, int Rank>
  void expect(const std::string& what, const Tensor<T, Rank>& actual) {
    const Tensor<double, Rank> expected = output<Rank>(what);
    const double largest = largest_magnitude(expected.data(), expected.size());
    expect_near(what, actual, expected,
                [&](Index i) { return expected.data()[i] == 0 ? 0 : largest; });
  }

  /// The same with a scale of its own for each element.
  template <class T, int Rank, class ScaleOf>
  void expect_near(const std::string& what, const Tensor<T, Rank>& actual,
                   const Tensor<double, Rank>& expected, ScaleOf&& scale_of) {
    ASSERT_EQ(ef::to_string(actual.shape()), ef::to_string(expected.shape())) << what;
    compared_ = compared_ || actual.size() > 0;
    Index wrong = 0;
    std::ostringstream first;
    first.precision(std::numeric_limits<double>::max_digits10);
    for (Index i = 0; i < actual.size(); ++i) {
      const double got = static_cast<double>(actual.data()[i]), wanted = expected.data()[i];
      const double difference = std::abs(got - wanted), scale = scale_of(i);
      if (difference > 0) largest_error_ = std::max(largest_error_, difference / scale);
      if (difference <= tolerance<T> * scale) continue;  // false for NaN
      if (wrong++ == 0) {
        first << "element " << i << ": " << got << ", expected " << wanted << ", scale " << scale;
      }
    }
    EXPECT_EQ(wrong, 0) << what << ' ' << ef::to_string(actual.shape()) << ": " << first.str();
  }

  /// The largest difference so far, relative to its scale.
  double largest_error() const { return largest_error_; }

  /// Fails if something of the case wasn't used, or nothing was compared.
  void expect_all_used() const;

 private:
  const nlohmann::json& take_key(const std::string& key);
  std::string take_tensor(const std::string& tensor);
  std::string mask_name(const std::string& group, const std::string& field) const {
    return name_ + "/" + group + "/" + field;
  }

  ef::SafetensorsReader& file_;
  std::string name_;
  std::string parameters_of_, inputs_of_;  // the cases that hold them; several may share them
  nlohmann::json description_;
  std::set<std::string> unused_keys_, unused_tensors_;
  double largest_error_ = 0;
  bool compared_ = false, left_out_ = false;
};

/// How to run a case, by what it tests.
using Runners = std::map<std::string, void (*)(Case&)>;

/// Runs every case of a file. Fails if one tests what no runner does, if a runner had no case, or
/// if the file doesn't hold as many cases as the test knows of.
void run_file(const std::string& name, std::size_t number_of_cases, const Runners& runners);

}  // namespace golden
