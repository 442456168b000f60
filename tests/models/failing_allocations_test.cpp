// SPDX-License-Identifier: MIT
// Every allocation of a call fails in turn. Afterwards there is the old state or the new one, never
// something between; nothing is leaked, nothing terminates.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "eigenformer/io/load.hpp"
#include "eigenformer/models/generation.hpp"
#include "eigenformer/models/transformer.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/numbers.hpp"

namespace failing_allocations_test {

namespace ef = eigenformer;
using ef::Index;
using Ids = ef::Tensor<std::int32_t, 2>;
using Logits = ef::Tensor<float, 3>;

/// Calls run(), with the first, second, ... allocation failing, until none does. After each failure
/// check(threw) looks at the state: a call may do without the memory, as Workspace does when it grows.
/// `prepare` comes before each run. Returns how many failures there were.
template <class Prepare, class Run, class Check>
int with_failing_allocations(Prepare&& prepare, Run&& run, Check&& check) {
  for (int point = 0;; ++point) {
    prepare();
    const long live = reference::live_allocations();
    bool threw = false;
    reference::fail_allocation_after(point);
    try {
      run();
    } catch (const std::bad_alloc&) {
      threw = true;
    } catch (const std::runtime_error&) {  // a file that can't be read or written
      threw = true;
    }
    const bool failed = reference::allocation_has_failed();
    reference::fail_allocation_after(-1);
    if (!failed) {
      EXPECT_FALSE(threw);
      return point;
    }
    check(threw);
    if (threw) {
      EXPECT_LE(reference::live_allocations(), live + 40) << "at " << point;
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "at allocation " << point;
      return point;
    }
  }
}

ef::TransformerConfig small() {
  return {.vocab_size = 13,
          .hidden_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 7,
          .max_position_embeddings = 40};
}

template <class M>
M random_module(const ef::TransformerConfig& config, std::uint64_t seed) {
  M module(config);
  reference::randomize(module, seed);
  return module;
}

TEST(FailingAllocations, CopyAssignmentIsAllOrNothing) {
  ef::Linear<float> narrow({4, 4}), wide({64, 64});
  ef::init(narrow, ef::Key{1});
  ef::init(wide, ef::Key{2});
  auto target = narrow;
  EXPECT_GT(with_failing_allocations([&] { target = narrow; }, [&] { target = wide; },
                                     [&](bool) { EXPECT_TRUE(parameters_equal(target, narrow)); }),
            1);
  EXPECT_TRUE(parameters_equal(target, wide));

  const auto one = random_module<ef::TransformerDecoder<float>>(small(), 1);
  ef::TransformerConfig more = small();
  more.num_hidden_layers = 3;
  more.hidden_size = 15;
  const auto other = random_module<ef::TransformerDecoder<float>>(more, 2);
  auto model = one;
  EXPECT_GT(with_failing_allocations([&] { model = one; }, [&] { model = other; },
                                     [&](bool) {
                                       EXPECT_EQ(model.config, one.config);
                                       EXPECT_TRUE(parameters_equal(model, one));
                                     }),
            50);
  EXPECT_EQ(model.config, other.config);
  EXPECT_TRUE(parameters_equal(model, other));
}

TEST(FailingAllocations, LoadAndSave) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("eigenformer_failing_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / "model.safetensors";
  const auto stored = random_module<ef::TransformerEncoder<float>>(small(), 3);
  const auto old = random_module<ef::TransformerEncoder<float>>(small(), 4);
  ef::save(stored, path);
  auto model = old;
  EXPECT_GT(with_failing_allocations(
                [&] { model = old; }, [&] { ef::load(model, path); },
                [&](bool threw) { EXPECT_TRUE(parameters_equal(model, threw ? old : stored)); }),
            100);
  EXPECT_TRUE(parameters_equal(model, stored));

  const auto bytes = [&] {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = bytes();
  ef::save(old, folder / "other");
  EXPECT_GT(with_failing_allocations([&] { ef::save(stored, path); }, [&] { ef::save(old, path); },
                                     [&](bool threw) {
                                       if (threw) {
                                         EXPECT_EQ(bytes(), before);
                                       }
                                     }),
            100);
  EXPECT_NE(bytes(), before);
  std::filesystem::remove_all(folder);
}

Ids some_ids(Index batch, Index tokens) {
  Ids ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = static_cast<std::int32_t>(i * 5 % 13);
  return ids;
}

TEST(FailingAllocations, DecodersWithACache) {
  const auto decoder = random_module<ef::TransformerDecoder<float>>(small(), 5);
  const Ids prompt = some_ids(2, 5), next = some_ids(2, 3);
  auto start = decoder.make_cache(2, 30);
  decoder(prompt, start);
  auto cache = start;
  const Logits expected = decoder(next, cache);
  const auto prepare = [&] { cache = start; };
  // A call that threw left the cache as it was, any other has done its work.
  const auto failures_of = [&](const auto& run) {
    prepare();
    run();
    const Index batch = cache.batch(), length = cache.length(0);
    const int failures = with_failing_allocations(prepare, run, [&](bool threw) {
      if (!threw) {
        EXPECT_EQ(cache.batch(), batch);
        EXPECT_EQ(cache.length(0), length);
        return;
      }
      ASSERT_EQ(cache.length(0), 5);
      ASSERT_EQ(cache.length(1), 5);
      auto copy = cache;
      EXPECT_EQ(decoder(next, copy), expected);
    });
    EXPECT_EQ(cache.batch(), batch);
    EXPECT_EQ(cache.length(0), length);
    return failures;
  };
  EXPECT_GT(failures_of([&] {
              ef::Workspace workspace;
              Logits logits({2, 3, 13});
              decoder.forward(next, cache, {}, logits, workspace);
            }),
            5);
  EXPECT_EQ(cache.length(0), 8);
  const std::vector<Index> rows = {1, 0, 1};
  EXPECT_GT(failures_of([&] { cache.reorder(rows); }), 5);
  EXPECT_EQ(cache.batch(), 3);
  EXPECT_GT(failures_of([&] {
              ef::Workspace workspace;
              ef::generate(decoder, cache, {{1, 2}, {3}}, {.max_new_tokens = 4}, workspace);
            }),
            20);
}

TEST(FailingAllocations, TheSourceOfATransformer) {
  const auto model = random_module<ef::Transformer<float>>(small(), 6);
  const Ids source = some_ids(2, 7), other = some_ids(2, 11), target = some_ids(2, 2);
  ef::Workspace scratch;
  auto start = model.make_cache(2, 30);
  model.start(source, {}, start, scratch);
  Logits logits({2, 2, 13}), expected(logits.shape());
  model.forward(target, start, {}, logits, scratch);
  auto cache = start;
  model.forward(target, cache, {}, expected, scratch);
  EXPECT_GT(with_failing_allocations([&] { cache = start; },
                                     [&] {
                                       ef::Workspace workspace;
                                       model.start(other, {}, cache, workspace);
                                     },
                                     [&](bool threw) {
                                       ASSERT_TRUE(cache.has_memory());
                                       if (!threw) {
                                         EXPECT_EQ(cache.length(0), 0);
                                         return;
                                       }
                                       ASSERT_EQ(cache.length(0), 2);
                                       auto copy = cache;
                                       Logits found(logits.shape());
                                       model.forward(target, copy, {}, found, scratch);
                                       EXPECT_EQ(found, expected);
                                     }),
            10);
  EXPECT_EQ(cache.length(0), 0);
}

// A task that throws in the middle of a call, not only memory that runs out.
TEST(FailingTasks, LeaveTheCacheAsItWas) {
  struct FailingExecutor {
    int* until;
    Index concurrency() const { return 2; }
    void parallel_for(Index n, ef::FunctionReference<void(Index)> f) {
      if ((*until)-- == 0) throw std::runtime_error("task");
      for (Index i = 0; i < n; ++i) f(i);
    }
  };
  ef::TransformerConfig config = small();
  config.hidden_size = 120;
  config.intermediate_size = 480;
  const auto decoder = random_module<ef::TransformerDecoder<float>>(config, 7);
  const Ids prompt = some_ids(2, 5), next = some_ids(2, 8);
  auto start = decoder.make_cache(2, 30);
  decoder(prompt, start);
  auto copy = start;
  const Logits expected = decoder(next, copy);
  int points = 0;
  for (bool done = false; !done; ++points) {
    auto cache = start;
    int until = points;
    FailingExecutor executor{&until};
    ef::Workspace workspace(executor);
    Logits logits(expected.shape());
    try {
      decoder.forward(next, cache, {}, logits, workspace);
      done = true;
    } catch (const std::runtime_error&) {
      ASSERT_EQ(cache.length(1), 5) << points;
      EXPECT_EQ(decoder(next, cache), expected) << points;
    }
  }
  EXPECT_GT(points, 5);
}

}  // namespace failing_allocations_test
