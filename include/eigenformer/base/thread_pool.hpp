// SPDX-License-Identifier: MIT
#pragma once

// A small thread pool that its user owns.
//
//   ef::ThreadPool pool(4);            // three workers and the calling thread
//   ef::Workspace workspace(pool);
//
// Workers take task numbers from a shared counter. Between jobs that follow each other closely they
// wait busily, for `spin` at most, since waking a sleeping thread takes longer than many jobs; after
// that they sleep. All tasks run, also if one throws; then the first exception is rethrown. A call made
// while the pool is busy (from inside a task, or from another thread) runs serially on the calling
// thread, so nesting can neither deadlock nor start further threads. So does every call in a child
// process after fork(), where the workers don't exist.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "eigenformer/base/error.hpp"
#include "eigenformer/base/executor.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define EIGENFORMER_HAS_FORK 1
#else
#define EIGENFORMER_HAS_FORK 0
#endif

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

class ThreadPool {
 public:
  /// `concurrency` counts the calling thread: 1 starts no thread at all. The default is the number
  /// of hardware threads.
  explicit ThreadPool(Index concurrency = std::max<Index>(
                          1, static_cast<Index>(std::thread::hardware_concurrency())),
                      std::chrono::microseconds spin = std::chrono::microseconds(50))
      : spin_(spin) {
    require(concurrency >= 1, "ThreadPool: concurrency must be >= 1; got ", concurrency);
    workers_.reserve(static_cast<std::size_t>(concurrency - 1));
#if EIGENFORMER_EXCEPTIONS
    try {
      for (Index i = 1; i < concurrency; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
#else
    for (Index i = 1; i < concurrency; ++i) workers_.emplace_back([this] { work(); });
#endif
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  Index concurrency() const { return static_cast<Index>(workers_.size()) + 1; }

  /// Calls f(0) ... f(n - 1), spread over the threads; returns when all are done.
  void parallel_for(Index n, FunctionReference<void(Index)> f) {
    Job job{f, n};
    if (n <= 1 || workers_.empty() || is_forked() ||
        busy_.exchange(true, std::memory_order_acquire)) {
      run(job);
      rethrow(job);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      job_ = &job;
      ++generation_;
    }
    signals_->wake.notify_all();
    run(job);
    wait_busily([&] { return active_.load(std::memory_order_acquire) == 0; });
    {
      std::unique_lock<std::mutex> lock(signals_->mutex);
      job_ = nullptr;
      signals_->idle.wait(lock, [&] { return active_ == 0; });
    }
    busy_.store(false, std::memory_order_release);
    rethrow(job);
  }

 private:
  struct Job {
    FunctionReference<void(Index)> task;
    Index count;
    std::atomic<Index> next{0};
    std::mutex error_mutex{};
    std::exception_ptr error{};
  };

  static void run(Job& job) {
    for (Index i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) {
#if EIGENFORMER_EXCEPTIONS
      try {
        job.task(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(job.error_mutex);
        if (job.error == nullptr) job.error = std::current_exception();
      }
#else
      job.task(i);
#endif
    }
  }

  static void rethrow([[maybe_unused]] const Job& job) {
#if EIGENFORMER_EXCEPTIONS
    if (job.error != nullptr) std::rethrow_exception(job.error);
#endif
  }

  /// Whether this process is a child of the one that started the workers.
  bool is_forked() const {
#if EIGENFORMER_HAS_FORK
    return ::getpid() != process_;
#else
    return false;
#endif
  }

  /// Returns when `done()` or after `spin_`.
  template <class Done>
  void wait_busily(Done&& done) const {
    if (done() || spin_.count() <= 0) return;
    const auto end = std::chrono::steady_clock::now() + spin_;
    do {
      for (int i = 0; i < 32; ++i) {
        if (done()) return;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }

  /// Tells the processor that this thread waits.
  static void pause() {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  void work() {
    Index seen = 0;
    std::unique_lock<std::mutex> lock(signals_->mutex);
    for (;;) {
      lock.unlock();
      wait_busily([&] { return stopping_ || generation_ != seen; });
      lock.lock();
      signals_->wake.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      if (job_ == nullptr) continue;  // woken after the others had finished it
      Job& job = *job_;
      ++active_;
      lock.unlock();
      run(job);
      lock.lock();
      if (--active_ == 0) signals_->idle.notify_one();
    }
  }

  void stop() {
    if (is_forked()) {  // nothing to join, and nobody may wait for what the lost workers hold
      for (std::thread& worker : workers_) worker.detach();
      workers_.clear();
      static_cast<void>(signals_.release());
      return;
    }
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      stopping_ = true;
    }
    signals_->wake.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  const std::chrono::microseconds spin_;
#if EIGENFORMER_HAS_FORK
  const ::pid_t process_ = ::getpid();
#endif
  std::atomic<bool> busy_{false};  // a call is being spread
  struct Signals {
    std::mutex mutex;  // guards the members below; the atomic ones may be read without
    std::condition_variable wake, idle;
  };
  std::unique_ptr<Signals> signals_ = std::make_unique<Signals>();
  Job* job_ = nullptr;
  std::atomic<Index> generation_{0};
  std::atomic<Index> active_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
