// SPDX-License-Identifier: MIT
#include "eigenformer/base/workspace.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/counting_new.hpp"
#include "tests/reference/error_text.hpp"

namespace workspace_test {

namespace ef = eigenformer;
using ef::Index;

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

TEST(Arena, MemoryIsAlignedAndDisjoint) {
  ef::Arena arena;
  for (int round = 0; round < 2; ++round) {  // overflow blocks, then the main block
    const std::size_t mark = arena.mark();
    std::vector<unsigned char*> parts;
    for (std::size_t bytes = 1; bytes < 300; bytes += 37) {
      parts.push_back(static_cast<unsigned char*>(arena.allocate(bytes)));
      EXPECT_TRUE(aligned(parts.back()));
      std::memset(parts.back(), static_cast<int>(parts.size()), bytes);
    }
    std::size_t bytes = 1;
    for (std::size_t i = 0; i < parts.size(); ++i, bytes += 37) {
      for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(parts[i][k], i + 1);
    }
    arena.release(mark);
    EXPECT_EQ(arena.used(), 0u);
  }
}

TEST(Arena, GrowsToThePeakOnceItIsEmpty) {
  ef::Arena arena;
  EXPECT_EQ(arena.capacity(), 0u);
  arena.allocate(1000);
  arena.allocate(1);
  EXPECT_GE(arena.used(), 1001u);
  EXPECT_EQ(arena.capacity(), 0u) << "not while something is in use";
  arena.release(0);
  EXPECT_EQ(arena.capacity(), arena.peak());
  EXPECT_GE(arena.capacity(), 1001u);
}

TEST(Arena, SecondRoundAllocatesNothing) {
  ef::Arena arena;
  const auto round = [&] {
    ef::Scratch outer(arena);
    outer.array<double>(100);
    {
      ef::Scratch inner(arena);
      inner.array<float>(1000);
      inner.tensor<float, 2>({13, 17});
    }
    outer.array<double>(50);
  };
  const long before_first = reference::allocations();
  round();
  const long after_first = reference::allocations();
  EXPECT_GT(after_first, before_first);
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(reference::allocations(), after_first);
}

TEST(Arena, ReusesWhatWasReleased) {
  ef::Arena arena;
  arena.reserve(1024);
  EXPECT_EQ(arena.capacity(), 1024u);
  void* first = arena.allocate(100);
  const std::size_t mark = arena.mark();
  void* second = arena.allocate(200);
  EXPECT_NE(first, second);
  arena.release(mark);
  EXPECT_EQ(arena.allocate(300), second) << "last in, first out";
}

TEST(Arena, OverflowKeepsWhatIsInTheMainBlock) {
  ef::Arena arena;
  arena.reserve(128);
  auto* inside = static_cast<unsigned char*>(arena.allocate(64));
  std::memset(inside, 7, 64);
  const std::size_t mark = arena.mark();
  auto* outside = static_cast<unsigned char*>(arena.allocate(4096));
  std::memset(outside, 8, 4096);
  EXPECT_EQ(arena.capacity(), 128u);
  arena.release(mark);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(inside[i], 7);
  auto* again = static_cast<unsigned char*>(arena.allocate(64));
  std::memset(again, 9, 64);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(inside[i], 7);
}

TEST(Arena, GivesOverflowBlocksBackAsSoonAsTheyAreReleased) {
  ef::Arena arena;
  arena.reserve(64);
  arena.allocate(64);
  arena.allocate(1);  // the list of blocks is made
  arena.release(64);
  const long before = reference::live_allocations();
  const std::size_t mark = arena.mark();
  arena.allocate(1000);
  EXPECT_EQ(reference::live_allocations(), before + 1);
  arena.release(mark);
  EXPECT_EQ(reference::live_allocations(), before);
}

TEST(Arena, GivesEverythingBackAtItsEnd) {
  const long before = reference::live_allocations();
  {
    ef::Arena arena;
    arena.allocate(100);
    arena.allocate(1000);
  }
  EXPECT_EQ(reference::live_allocations(), before);
}

TEST(Arena, MovesKeepTheMemory) {
  ef::Arena arena;
  arena.reserve(256);
  ef::Arena other(std::move(arena));
  EXPECT_EQ(other.capacity(), 256u);
  EXPECT_EQ(arena.capacity(), 0u);
  arena = std::move(other);
  EXPECT_EQ(arena.capacity(), 256u);
}

TEST(Scratch, GivesBackWhenAnExceptionPasses) {
  ef::Arena arena;
  arena.reserve(1 << 16);
  const auto risky = [&] {
    ef::Scratch outer(arena);
    outer.array<float>(100);
    ef::Scratch inner(arena);
    inner.array<float>(1000);
    throw std::runtime_error("on purpose");
  };
  EXPECT_ERROR(risky(), std::runtime_error, "on purpose");
  EXPECT_EQ(arena.used(), 0u);
}

TEST(Scratch, RefusesImpossibleSizes) {
  ef::Arena arena;
  ef::Scratch scratch(arena);
  EXPECT_ERROR((scratch.tensor<float, 2>({-1, 3})), std::invalid_argument,
               "Tensor: extents must be >= 0; got (-1, 3)");
  EXPECT_ERROR((scratch.tensor<double, 2>({Index{1} << 40, Index{1} << 40})), std::invalid_argument,
               "Tensor: too many elements to address; got (1099511627776,");
  EXPECT_EQ((scratch.tensor<float, 2>({0, 3}).size()), 0);
}

TEST(Workspace, SerialRunsInOrderOnThisThread) {
  ef::Workspace workspace;
  EXPECT_EQ(workspace.concurrency(), 1);
  std::vector<Index> order;
  workspace.parallel_for(5, [&](Index task, ef::Arena& arena) {
    EXPECT_EQ(&arena, &workspace.arena());
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<Index>{0, 1, 2, 3, 4}));
}

/// Runs its lanes from the last to the first on the calling thread: no order may be relied on.
struct Backwards {
  Index lanes;
  int calls = 0;
  Index concurrency() const { return lanes; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    ++calls;
    for (Index i = n; i-- > 0;) f(i);
  }
};
static_assert(ef::Executor<Backwards>);
static_assert(ef::Executor<ef::ThreadPool>);
static_assert(!ef::Executor<int>);

struct NoConcurrency {
  void parallel_for(Index, ef::FunctionReference<void(Index)>);
};
static_assert(!ef::Executor<NoConcurrency>);

TEST(Workspace, TakesAnyExecutor) {
  Backwards executor{3};
  ef::Workspace workspace(executor);
  EXPECT_EQ(workspace.concurrency(), 3);
  std::vector<int> count(10, 0);
  workspace.parallel_for(10,
                         [&](Index task, ef::Arena&) { ++count[static_cast<std::size_t>(task)]; });
  EXPECT_EQ(executor.calls, 1);
  EXPECT_EQ(count, std::vector<int>(10, 1));
  workspace.parallel_for(0, [&](Index, ef::Arena&) { ADD_FAILURE(); });
}

TEST(Workspace, RefusesAnExecutorWithoutThreads) {
  Backwards executor{0};
  EXPECT_ERROR(ef::Workspace{executor}, std::invalid_argument,
               "Workspace: the executor's concurrency must be >= 1; got 0");
}

/// Says that it is done without having begun.
struct Idle {
  Index concurrency() const { return 3; }
  template <class F>
  void parallel_for(Index, F&&) {}
};

TEST(Workspace, NoticesAnExecutorThatLeavesTasksOut) {
  Idle executor;
  ef::Workspace workspace(executor);
  EXPECT_ERROR(workspace.parallel_for(20, [](Index, ef::Arena&) {}), std::invalid_argument,
               "Workspace: the executor's parallel_for has not run all tasks");
}

TEST(Workspace, TasksAtTheSameTimeHaveDifferentArenas) {
  ef::ThreadPool pool(4);
  ef::Workspace workspace(pool);
  std::vector<int> wrong(200, 0);
  workspace.parallel_for(200, [&](Index task, ef::Arena& arena) {
    ef::Scratch scratch(arena);
    Index* numbers = scratch.array<Index>(1000);
    std::fill_n(numbers, 1000, task);
    std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) wrong[static_cast<std::size_t>(task)] += numbers[i] != task;
  });
  EXPECT_EQ(wrong, std::vector<int>(200, 0));
}

/// Lets another lane begin in each call; the one that begins takes all the tasks.
struct Rotating {
  Index lanes, first = -1;
  Index concurrency() const { return lanes; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    ++first;
    for (Index i = 0; i < n; ++i) f((first + i) % n);
  }
};

TEST(Workspace, SecondCallAllocatesNothingWhicheverLaneRunsWhat) {
  Rotating executor{3};
  ef::Workspace workspace(executor);
  const auto call = [&] {
    ef::Scratch scratch(workspace);
    scratch.array<float>(100);
    workspace.parallel_for(20, [&](Index task, ef::Arena& arena) {
      ef::Scratch own(arena);
      own.array<double>(task == 7 ? 10000 : 10);
    });
  };
  call();
  const long before = reference::allocations();
  for (int i = 0; i < 5; ++i) call();
  EXPECT_EQ(reference::allocations(), before);
}

TEST(Workspace, SecondCallWithThreadsAllocatesNothing) {
  ef::ThreadPool pool(3);
  ef::Workspace workspace(pool);
  const auto call = [&] {
    workspace.parallel_for(20, [&](Index task, ef::Arena& arena) {
      ef::Scratch scratch(arena);
      scratch.array<double>(task == 7 ? 10000 : 10);
      std::this_thread::yield();
    });
  };
  call();
  const long before = reference::allocations();
  for (int i = 0; i < 50; ++i) call();
  EXPECT_EQ(reference::allocations(), before);
}

TEST(Workspace, AnExceptionInATaskLeavesItUsable) {
  ef::ThreadPool pool(3);
  ef::Workspace workspace(pool);
  const auto call = [&](Index bad) {
    workspace.parallel_for(30, [&](Index task, ef::Arena& arena) {
      ef::Scratch scratch(arena);
      scratch.array<double>(100);
      if (task == bad) throw std::runtime_error("on purpose");
    });
  };
  EXPECT_ERROR(call(11), std::runtime_error, "on purpose");
  EXPECT_EQ(workspace.arena().used(), 0u);
  EXPECT_NO_THROW(call(-1));
}

#if defined(__SSE__)
// Flush-to-zero, switched on after the pool was made, holds for all tasks; it is as before for the workers.
TEST(Workspace, TasksRunInTheCallersFloatingPointMode) {
  ef::ThreadPool pool(3);
  ef::Workspace workspace(pool);
  const unsigned before = _mm_getcsr();
  const auto subnormals = [&] {
    std::atomic<int> count{0};
    workspace.parallel_for(96, [&](Index, ef::Arena&) {
      volatile float tiny = 1e-38f;
      for (int i = 0; i < 2000; ++i) tiny = 1e-38f;  // long enough for every thread to take some
      const volatile float product = tiny * 0.01f;
      count += product != 0;
    });
    return count.load();
  };
  EXPECT_EQ(subnormals(), 96);
  _mm_setcsr(before | 0x8040);
  const int flushed = subnormals();
  _mm_setcsr(before);
  EXPECT_EQ(flushed, 0);
  EXPECT_EQ(subnormals(), 96);
}
#endif

TEST(Workspace, SmallWorkStaysOnTheCallingThread) {
  ef::ThreadPool pool(3);
  ef::Workspace workspace(pool);
  const auto caller = std::this_thread::get_id();
  int order = 0;
  workspace.run_tasks(50, 99, 100, [&](Index task, ef::Arena&) {
    EXPECT_EQ(task, order++);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(order, 50);
  std::atomic<int> ran{0};
  workspace.run_tasks(50, 100, 100, [&](Index, ef::Arena&) { ++ran; });
  EXPECT_EQ(ran, 50);
}

}  // namespace workspace_test
