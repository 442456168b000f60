// SPDX-License-Identifier: MIT
#include "eigenformer/base/thread_pool.hpp"

#include <gtest/gtest.h>
#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/reference/error_text.hpp"

namespace thread_pool_test {

namespace ef = eigenformer;
using ef::Index;

void expect_every_index_once(ef::ThreadPool& pool, Index n) {
  std::vector<std::atomic<int>> count(static_cast<std::size_t>(n));
  pool.parallel_for(n, [&](Index i) { ++count[static_cast<std::size_t>(i)]; });
  for (auto& c : count) ASSERT_EQ(c.load(), 1);
}

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (Index threads : {1, 2, 3, 7}) {
    ef::ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (Index n : {0, 1, 2, 5, 100, 1009}) expect_every_index_once(pool, n);
    for (int round = 0; round < 200; ++round) expect_every_index_once(pool, 8);
  }
}

TEST(ThreadPool, ReturnsWhenAllIsDoneAndVisible) {
  ef::ThreadPool pool(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> plain(50, 0);  // not atomic: parallel_for is the synchronisation
    pool.parallel_for(50, [&](Index i) { plain[static_cast<std::size_t>(i)] = round; });
    for (int value : plain) ASSERT_EQ(value, round);
  }
}

TEST(ThreadPool, OneThreadMeansTheCallersOwn) {
  ef::ThreadPool pool(1);
  const auto self = std::this_thread::get_id();
  std::vector<Index> order;
  pool.parallel_for(5, [&](Index i) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<Index>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, UsesItsThreads) {
  ef::ThreadPool pool(3);
  // Each task waits for the other two, which needs three threads.
  std::atomic<int> arrived{0};
  pool.parallel_for(3, [&](Index) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(ThreadPool, WaitsForTheSlowest) {
  ef::ThreadPool pool(3);
  const auto self = std::this_thread::get_id();
  std::atomic<int> arrived{0}, done{0};
  pool.parallel_for(3, [&](Index) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
    // The caller has nothing left to do long before the others.
    if (std::this_thread::get_id() != self) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ++done;
  });
  EXPECT_EQ(done.load(), 3);
}

TEST(ThreadPool, RefusesLessThanOneThread) {
  EXPECT_ERROR(ef::ThreadPool(0), std::invalid_argument,
               "ThreadPool: concurrency must be >= 1; got 0");
  EXPECT_ERROR(ef::ThreadPool(-2), std::invalid_argument,
               "ThreadPool: concurrency must be >= 1; got -2");
  EXPECT_GE(ef::ThreadPool().concurrency(), 1);
}

TEST(ThreadPool, RethrowsAfterTheOthersHaveFinished) {
  for (Index threads : {2, 3, 7}) {
    ef::ThreadPool pool(threads);
    for (Index bad : {0, 5, 39}) {
      std::atomic<int> finished{0};
      try {
        pool.parallel_for(40, [&](Index i) {
          if (i == bad) throw std::runtime_error("task " + std::to_string(i));
          ++finished;
        });
        ADD_FAILURE() << "nothing thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "task " + std::to_string(bad));
      }
      EXPECT_EQ(finished.load(), 39);
      expect_every_index_once(pool, 40);
    }
  }
}

TEST(ThreadPool, ManyExceptionsGiveOne) {
  ef::ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_ERROR(pool.parallel_for(20, [](Index) { throw std::runtime_error("each"); }),
                 std::runtime_error, "each");
  }
  expect_every_index_once(pool, 20);
}

TEST(ThreadPool, OneThreadThrowsToo) {
  ef::ThreadPool pool(1);
  EXPECT_ERROR(pool.parallel_for(3, [](Index) { throw std::runtime_error("first"); }),
               std::runtime_error, "first");
  expect_every_index_once(pool, 3);
}

TEST(ThreadPool, NestedCallsRunOnTheTasksOwnThread) {
  ef::ThreadPool pool(3);
  std::vector<std::atomic<int>> count(20 * 30);
  pool.parallel_for(20, [&](Index i) {
    const auto self = std::this_thread::get_id();
    pool.parallel_for(30, [&](Index k) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++count[static_cast<std::size_t>(i * 30 + k)];
    });
  });
  for (auto& c : count) EXPECT_EQ(c.load(), 1);
}

TEST(ThreadPool, ServesConcurrentCallers) {
  ef::ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<std::atomic<int>> count(4 * 50 * 17);
  for (std::size_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::size_t round = 0; round < 50; ++round) {
        pool.parallel_for(17, [&](Index i) {
          ++count[(caller * 50 + round) * 17 + static_cast<std::size_t>(i)];
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (auto& c : count) EXPECT_EQ(c.load(), 1);
}

TEST(ThreadPool, ComesAndGoes) {
  for (int round = 0; round < 50; ++round) {
    ef::ThreadPool pool(4);
    if (round % 2 == 0) expect_every_index_once(pool, 9);
  }
}

TEST(ExecutorReference, SerialByDefault) {
  const ef::ExecutorReference serial;
  EXPECT_EQ(serial.concurrency(), 1);
  std::vector<Index> order;
  serial.parallel_for(3, [&](Index i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<Index>{0, 1, 2}));
}

TEST(ExecutorReference, PassesCallsOn) {
  ef::ThreadPool pool(2);
  const ef::ExecutorReference reference(pool);
  EXPECT_EQ(reference.concurrency(), 2);
  std::atomic<Index> sum{0};
  reference.parallel_for(101, [&](Index i) { sum += i; });
  EXPECT_EQ(sum.load(), 5050);
}

TEST(ThreadPool, AllTasksRunThoughOneThrows) {
  for (Index concurrency : {1, 3}) {
    ef::ThreadPool pool(concurrency);
    std::atomic<int> ran{0};
    EXPECT_ERROR(pool.parallel_for(9,
                                   [&](Index i) {
                                     ++ran;
                                     if (i == 2) throw std::runtime_error("task");
                                   }),
                 std::runtime_error, "task");
    EXPECT_EQ(ran, 9);
    ran = 0;
    pool.parallel_for(2, [&](Index) {  // nested: on the calling thread
      EXPECT_ERROR(pool.parallel_for(5,
                                     [&](Index i) {
                                       ++ran;
                                       if (i == 0) throw std::runtime_error("nested");
                                     }),
                   std::runtime_error, "nested");
    });
    EXPECT_EQ(ran, 10);
  }
}

#if defined(__unix__)
TEST(ThreadPool, AChildProcessRunsOnItsOnlyThread) {
  auto pool = std::make_unique<ef::ThreadPool>(3);
  std::atomic<int> ran{0};
  pool->parallel_for(100, [&](Index) { ++ran; });
  ASSERT_EQ(ran, 100);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs is ended
    int in_child = 0;
    pool->parallel_for(7, [&](Index) { ++in_child; });
    pool.reset();
    _exit(in_child == 7 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ran = 0;
  pool->parallel_for(100, [&](Index) { ++ran; });
  EXPECT_EQ(ran, 100) << "the parent goes on";
}
#endif

}  // namespace thread_pool_test
