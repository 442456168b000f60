// SPDX-License-Identifier: MIT
#include "tests/nn/module_laws.hpp"

#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/reference/numbers.hpp"

#if !defined(EIGEN_RUNTIME_NO_MALLOC)
#error "tests of modules are compiled with EIGEN_RUNTIME_NO_MALLOC: see tests/nn/CMakeLists.txt"
#endif

namespace laws {
namespace {

/// Runs tasks on the calling thread, from another lane on in each call, so that the order of tasks
/// and the lane that does most of the work change. Deterministic.
struct RotatingExecutor {
  Index lanes;
  Index calls = 0;
  Index concurrency() const { return lanes; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    ++calls;
    for (Index i = 0; i < n; ++i) f((calls + i) % n);
  }
};

Output run(const AnyModule& module, const Input& input, ef::Workspace& workspace) {
  const auto call = module.prepare(input);
  call->run(workspace);
  return call->output();
}

Output run(const AnyModule& module, const Input& input) {
  ef::Workspace workspace;
  return run(module, input, workspace);
}

::testing::AssertionResult same_bits(const Output& a, const Output& b) {
  if (a.shape != b.shape) {
    return ::testing::AssertionFailure()
           << ::testing::PrintToString(a.shape) << " and " << ::testing::PrintToString(b.shape);
  }
  return reference::same_bits(a.values.data(), b.values.data(),
                              static_cast<Index>(a.values.size()));
}

/// Row b of `a` has the bits of row c of `b`, up to the last token that counts.
::testing::AssertionResult same_row(const Input& input, const Output& a, Index row, const Output& b,
                                    Index other_row) {
  const Index size_a = static_cast<Index>(a.values.size()) / a.shape[0];
  const Index size_b = static_cast<Index>(b.values.size()) / b.shape[0];
  const Index tokens = a.shape.size() < 3 ? 1 : std::min(a.shape[1], input.valid_tokens(row));
  return reference::same_bits(a.values.data() + row * size_a, b.values.data() + other_row * size_b,
                              tokens * a.shape.back());
}

}  // namespace

TEST_P(ModuleLaws, NamesAndShapesAreExactlyThese) {
  const auto module = GetParam().make();
  const Parameters found = module->parameters();
  EXPECT_EQ(found, GetParam().parameters);
  std::set<std::string> names;
  for (const auto& [name, shape] : found) names.insert(name);
  EXPECT_EQ(names.size(), found.size()) << "names are unique";
  EXPECT_EQ(GetParam().make()->parameters(), found) << "and stable";
  std::size_t count = 0;
  for (const auto& values : module->values()) count += values.size();
  EXPECT_EQ(module->count_parameters(), static_cast<Index>(count));
}

TEST_P(ModuleLaws, PassesTheCheckForModules) { EXPECT_NO_THROW(random_module()->check()); }

TEST_P(ModuleLaws, CopiesAreDeepAndEqual) {
  const auto module = random_module();
  const Input input = GetParam().input(3, 5, 2);
  const Output before = run(*module, input);
  const auto copy = module->copy();
  EXPECT_TRUE(copy->parameters_equal(*module));
  EXPECT_EQ(copy->parameters(), module->parameters());
  EXPECT_TRUE(same_bits(run(*copy, input), before));
  const auto original = module->addresses(), copied = copy->addresses();
  for (std::size_t i = 0; i < original.size(); ++i) EXPECT_NE(original[i], copied[i]);

  copy->randomize(2);
  EXPECT_TRUE(same_bits(run(*module, input), before)) << "the copy's change reached the original";
  EXPECT_EQ(copy->parameters_equal(*module), original.empty());
  EXPECT_EQ(bool(same_bits(run(*copy, input), before)), original.empty());

  copy->assign(*module);
  EXPECT_TRUE(same_bits(run(*copy, input), before));
  EXPECT_TRUE(same_bits(run(*copy->moved(), input), before));
}

TEST_P(ModuleLaws, EveryParameterCountsWhenModulesAreCompared) {
  const auto module = random_module();
  for (std::size_t i = 0; i < module->parameters().size(); ++i) {
    const auto other = module->copy();
    other->change(i);
    EXPECT_FALSE(other->parameters_equal(*module)) << module->parameters()[i].first;
    EXPECT_FALSE(module->parameters_equal(*other)) << module->parameters()[i].first;
  }
}

TEST_P(ModuleLaws, ParametersOfAnotherSizeAreRefused) {
  const auto module = random_module();
  const Input input = GetParam().input(2, 3, 2);
  for (std::size_t i = 0; i < module->parameters().size(); ++i) {
    if (module->parameters()[i].first.starts_with(GetParam().traits.unread)) continue;
    for (Index more : {-1, 1}) {
      const auto other = module->copy();
      other->resize(i, more);
      EXPECT_NE(reference::error_text([&] { run(*other, input); }), "")
          << module->parameters()[i].first << ", " << more << " rows more";
    }
  }
}

TEST_P(ModuleLaws, ModulesThatWereMovedFromAreRefused) {
  const auto module = random_module();
  if (module->parameters().empty()) return;
  const auto moved = module->moved();
  const Input input = GetParam().input(2, 3, 2);
  EXPECT_NE(reference::error_text([&] { run(*module, input); }), "");
}

TEST_P(ModuleLaws, ZerosLikeHasTheShapesAndNothingElse) {
  const auto module = random_module(), original = module->copy();
  const auto zeros = module->zeros_like();
  EXPECT_EQ(zeros->parameters(), module->parameters());
  for (const auto& values : zeros->values()) {
    for (double value : values) ASSERT_EQ(value, 0);
  }
  EXPECT_TRUE(module->parameters_equal(*original));
}

TEST_P(ModuleLaws, CastsToDoubleAndBack) {
  const auto module = random_module();
  EXPECT_EQ(module->values_as_double(), module->values());
  const auto back = module->cast_to_double_and_back();
  EXPECT_TRUE(back->parameters_equal(*module));
  const Input input = GetParam().input(2, 3, 2);
  EXPECT_TRUE(same_bits(run(*back, input), run(*module, input)));
}

TEST_P(ModuleLaws, InitIsAFunctionOfKeyAndName) {
  const auto a = random_module(), b = GetParam().make(), other = GetParam().make();
  a->init(42);
  b->init(42);
  other->init(43);
  EXPECT_TRUE(a->parameters_equal(*b)) << "whatever they held before";

  // Numbers differ between keys and between parameters; constants (biases, norms) don't.
  const auto names = a->parameters();
  const auto values = a->values(), others = other->values();
  std::set<std::vector<double>> seen;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool constant = std::set<double>(values[i].begin(), values[i].end()).size() <= 1;
    EXPECT_EQ(values[i] == others[i], constant) << names[i].first;
    const bool is_matrix = names[i].second.find(',') != std::string::npos;
    EXPECT_NE(constant, is_matrix) << names[i].first;
    EXPECT_TRUE(constant || seen.insert(values[i]).second) << names[i].first;
  }

  // The same numbers in float and double, rounded.
  const auto narrow = GetParam().make_in_float(), wide = GetParam().make_in_double();
  narrow->init(42);
  wide->init(42);
  auto rounded = wide->values();
  for (auto& parameter : rounded) {
    for (double& value : parameter) value = static_cast<double>(static_cast<float>(value));
  }
  EXPECT_EQ(narrow->values(), rounded);
}

TEST_P(ModuleLaws, TheSameCallGivesTheSameBits) {
  const auto module = random_module();
  const Input input = GetParam().input(3, 5, 2);
  const Output first = run(*module, input);
  EXPECT_EQ(first.shape, GetParam().output_shape(input));
  for (double value : first.values) ASSERT_TRUE(std::isfinite(value) && value != -777);
  ef::Workspace workspace;
  run(*module, GetParam().input(2, 7, 3), workspace);  // leaves its scratch behind
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(run(*module, input, workspace), first));
  EXPECT_TRUE(same_bits(module->convenient(input), first));
}

TEST_P(ModuleLaws, ThreadsDoNotChangeBits) {
  const auto module = random_module();
  const Input input = GetParam().large_input();
  const Output alone = run(*module, input);
  for (Index threads : {1, 2, 7}) {
    ef::ThreadPool pool(threads);
    ef::Workspace workspace(pool);
    EXPECT_TRUE(same_bits(run(*module, input, workspace), alone)) << threads;
  }
  for (Index lanes : {2, 7}) {
    RotatingExecutor executor{lanes};
    ef::Workspace workspace(executor);
    EXPECT_TRUE(same_bits(run(*module, input, workspace), alone)) << lanes;
    EXPECT_EQ(executor.calls > 0, GetParam().traits.splits_work);
  }
}

TEST_P(ModuleLaws, ABatchRowAloneHasTheSameBits) {
  const auto module = random_module();
  for (Index tokens : {5, 19}) {
    const Input input = GetParam().input(3, tokens, 2);
    const Output y = run(*module, input);
    for (Index b = 0; b < 3; ++b) {
      EXPECT_TRUE(same_row(input, y, b, run(*module, input.row(b)), 0))
          << "row " << b << " of " << tokens;
    }
  }
}

TEST_P(ModuleLaws, PaddingChangesNoBit) {
  if (!GetParam().traits.pads) GTEST_SKIP() << "no sequence to pad";
  const auto module = random_module();
  for (Index tokens : {1, 5, 19}) {
    const Input input = GetParam().input(3, tokens, 2);
    const Output y = run(*module, input);
    for (Index extra : {1, 2, 13, 130}) {
      const Output more = run(*module, input.padded(extra));
      for (Index b = 0; b < 3; ++b) {
        EXPECT_TRUE(same_row(input, y, b, more, b)) << tokens << " + " << extra;
      }
    }
  }
}

TEST_P(ModuleLaws, BatchRowsDoNotSeeEachOther) {
  const auto module = random_module();
  const Input input = GetParam().input(3, 5, 2);
  const Output y = run(*module, input);
  for (Index spoilt = 0; spoilt < 3; ++spoilt) {
    Input changed = input;
    changed.spoil(spoilt);
    const Output z = run(*module, changed);
    for (Index b = 0; b < 3; ++b) {
      EXPECT_EQ(bool(same_row(input, y, b, z, b)), b != spoilt)
          << "row " << b << " and a change of row " << spoilt;
    }
  }
}

TEST_P(ModuleLaws, TheSecondCallAllocatesNothing) {
  const auto module = random_module();
  const auto expect_none = [&](const Input& input, ef::Workspace& workspace, const char* executor) {
    const auto call = module->prepare(input);
    call->run(workspace);
    const long before = reference::allocations();
    Eigen::internal::set_is_malloc_allowed(false);
    for (int i = 0; i < 5; ++i) call->run(workspace);
    Eigen::internal::set_is_malloc_allowed(true);
    EXPECT_EQ(reference::allocations() - before, 0) << executor;
  };
  const Input small = GetParam().input(3, 5, 2), large = GetParam().large_input();
  ef::Workspace serial;
  expect_none(small, serial, "serial");
  expect_none(large, serial, "serial");
  expect_none(small, serial, "serial");
  RotatingExecutor executor{3};
  ef::Workspace rotating(executor);
  expect_none(large, rotating, "in turn");
  ef::ThreadPool pool(2);
  ef::Workspace threaded(pool);
  expect_none(large, threaded, "threads");
}

TEST_P(ModuleLaws, ManyThreadsShareOneModule) {
  const auto module = random_module();
  std::vector<Input> inputs;
  std::vector<Output> expected;
  for (Index tokens = 1; tokens <= 61; tokens += 12) {
    inputs.push_back(GetParam().input(3, tokens, static_cast<std::uint64_t>(tokens)));
    expected.push_back(run(*module, inputs.back()));
  }
  // Everything is made before the threads begin, together; then they do nothing but calls.
  constexpr std::size_t count = 4, rounds = 60;
  std::atomic<std::size_t> ready{0};
  std::vector<int> wrong(count, 0);
  std::vector<std::thread> threads;
  for (std::size_t caller = 0; caller < count; ++caller) {
    threads.emplace_back([&, caller] {
      ef::Workspace workspace;
      std::vector<std::unique_ptr<AnyCall>> calls;
      for (const Input& input : inputs) calls.push_back(module->prepare(input));
      ++ready;
      while (ready.load() < count) std::this_thread::yield();
      for (std::size_t i = 0; i < rounds; ++i) {
        const std::size_t which = (i + caller) % calls.size();
        calls[which]->run(workspace);
        wrong[caller] += !same_bits(calls[which]->output(), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(count, 0));
}

TEST_P(ModuleLaws, WrongInputsAreRefusedAndNothingIsChanged) {
  const auto module = random_module();
  ef::Workspace workspace;
  const auto expect_refused = [&](const Input& input, const std::vector<Index>& shape,
                                  const std::vector<std::string>& texts) {
    const auto call = module->prepare(input, {}, shape);
    try {
      call->run(workspace);
      ADD_FAILURE() << "nothing thrown; expected " << ::testing::PrintToString(texts);
    } catch (const std::invalid_argument& error) {
      for (const std::string& text : texts) {
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
            << "'" << error.what() << "' lacks '" << text << "'";
      }
    }
    for (double value : call->output().values) ASSERT_EQ(value, -777) << "y was changed";
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  for (const Wrong& wrong : GetParam().wrong_inputs) expect_refused(wrong.input, {}, wrong.texts);

  const Input input = GetParam().input(2, 3, 2);
  const auto text = [](const std::vector<Index>& shape) {
    std::string joined;
    for (Index extent : shape) joined += (joined.empty() ? "(" : ", ") + std::to_string(extent);
    return joined + ")";
  };
  const std::vector<Index> right = GetParam().output_shape(input);
  for (std::size_t axis = 0; axis < right.size(); ++axis) {
    std::vector<Index> shape = right;
    shape[axis] += 2;
    expect_refused(input, shape, {text(right), text(shape)});
  }
  EXPECT_NO_THROW(run(*module, input, workspace)) << "and all is as before";
}

TEST_P(ModuleLaws, OverlapOfInputAndResult) {
  const auto module = random_module();
  const Input input = GetParam().input(3, 5, 2);
  const Output expected = run(*module, input);
  std::vector<Index> parts;  // sizes
  if (input.kind == Kind::images) parts = {input.images.size()};
  if (input.kind == Kind::tokens) parts = {input.x.size()};
  if (input.kind == Kind::two_sequences) parts = {input.x.size(), input.memory.size()};
  if (input.kind == Kind::ids_and_memory) parts = {0, input.memory.size()};
  const auto result = static_cast<Index>(expected.values.size());
  ef::Workspace workspace;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part] == 0) continue;
    for (Index shift : {Index{0}, Index{1}, parts[part] - 1, 1 - result}) {
      const auto call = module->prepare(input, {static_cast<int>(part), shift});
      const Overlap overlap = GetParam().traits.overlap;
      if (overlap == Overlap::harmless || (overlap == Overlap::in_place && shift == 0)) {
        call->run(workspace);
        EXPECT_TRUE(same_bits(call->output(), expected)) << shift;
      } else {
        EXPECT_ERROR(call->run(workspace), std::invalid_argument,
                     "y and other results must not overlap an input or each other")
            << "part " << part << " shifted by " << shift;
        EXPECT_TRUE(call->inputs_unchanged());
      }
    }
  }
}

TEST_P(ModuleLaws, EmptyInputs) {
  const auto module = random_module();
  const auto expect_shape = [&](Index batch, Index tokens) {
    const Input input = GetParam().input(batch, tokens, 2);
    const Output y = run(*module, input);
    EXPECT_EQ(y.shape, GetParam().output_shape(input));
    EXPECT_EQ(module->convenient(input).shape, y.shape);
    for (double value : y.values) EXPECT_TRUE(std::isfinite(value) && value != -777);
  };
  expect_shape(0, 5);
  expect_shape(0, 0);
  if (GetParam().traits.needs_a_token) {
    EXPECT_ERROR(run(*module, GetParam().input(2, 0, 2)), std::invalid_argument,
                 "first_tokens: x must hold at least one token; got (2, 0, 53)");
  } else {
    expect_shape(2, 0);
  }
}

}  // namespace laws
