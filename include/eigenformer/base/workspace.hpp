// SPDX-License-Identifier: MIT
#pragma once

// Scratch memory and threads for one caller.
//
//   ef::Workspace workspace;            // serial
//   ef::Workspace workspace(pool);      // borrows an executor, which must outlive it
//   layer.forward(x, mask, y, workspace);
//
// A last-in-first-out arena: the first call finds out how much is needed, every later call of the
// same size allocates nothing. Not thread-safe: each concurrent caller has a workspace of its own.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "eigenformer/base/executor.hpp"
#include "eigenformer/base/floating_point_mode.hpp"
#include "eigenformer/base/tensor.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A stack of scratch bytes. What doesn't fit into the main block goes to additional blocks; as soon as
/// the arena is empty again, the main block grows to the largest use seen, so it suffices after one
/// round.
class Arena {
 public:
  static constexpr std::size_t alignment = memory_alignment;

  Arena() = default;
  Arena(Arena&& other) noexcept { swap(other); }
  Arena& operator=(Arena&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Arena() { release_blocks(); }

  /// Bytes held, and the largest number ever in use at once.
  std::size_t capacity() const { return capacity_; }
  std::size_t peak() const { return peak_; }
  std::size_t used() const { return used_; }

  /// Uninitialised memory, aligned to 64 bytes, until `release` to the mark taken before.
  void* allocate(std::size_t bytes) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    const std::size_t begin = used_;
    if (begin + bytes > capacity_) {
      overflow_.reserve(overflow_.size() + 1);
      overflow_.push_back({internal::allocate_block(bytes), bytes, begin});
      used_ += bytes;
      peak_ = (std::max)(peak_, used_);
      return overflow_.back().data;
    }
    used_ += bytes;
    peak_ = (std::max)(peak_, used_);
    return static_cast<std::byte*>(main_) + begin;
  }

  /// Sets the size that the main block grows to: at least what is in use.
  void set_peak(std::size_t bytes) { peak_ = (std::max)(used_, bytes); }

  std::size_t mark() const { return used_; }

  /// Gives back everything allocated since `mark`.
  void release(std::size_t mark) {
    EIGENFORMER_ASSERT(mark <= used_);
    used_ = mark;
    while (!overflow_.empty() && overflow_.back().begin >= mark) {
      internal::free_block(overflow_.back().data, overflow_.back().bytes);
      overflow_.pop_back();
    }
    if (used_ == 0 && peak_ > capacity_) reserve(peak_);
  }

  /// Makes the main block at least this large; only while nothing is in use. Keeps the old block if
  /// memory runs out.
  void reserve(std::size_t bytes) noexcept {
    if (bytes <= capacity_ || used_ != 0) return;
    void* grown = internal::try_to_allocate_block(bytes);
    if (grown == nullptr) return;
    internal::free_block(main_, capacity_);
    main_ = grown;
    capacity_ = bytes;
  }

  void swap(Arena& other) noexcept {
    std::swap(main_, other.main_);
    std::swap(capacity_, other.capacity_);
    std::swap(used_, other.used_);
    std::swap(peak_, other.peak_);
    overflow_.swap(other.overflow_);
  }

 private:
  struct Block {
    void* data;
    std::size_t bytes, begin;
  };

  void release_blocks() {
    for (const Block& block : overflow_) internal::free_block(block.data, block.bytes);
    internal::free_block(main_, capacity_);
  }

  void* main_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::vector<Block> overflow_;
};

/// Memory from an arena that is given back at the end of the C++ scope.
class Scratch {
 public:
  explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { arena_.release(mark_); }

  /// An uninitialised tensor.
  template <class T, int Rank>
  TensorView<T, Rank> tensor(const Shape<Rank>& shape) {
    static_assert(std::is_trivially_copyable_v<T>);
    require_valid(shape, sizeof(T));
    return TensorView<T, Rank>(array<T>(shape.size()), shape);
  }

  /// `count` uninitialised elements.
  template <class T>
  T* array(Index count) {
    return static_cast<T*>(arena_.allocate(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  Arena& arena_;
  std::size_t mark_;
};

class Workspace {
 public:
  /// Serial: everything runs on the calling thread.
  Workspace() : arenas_(1) {}

  /// Borrows an executor.
  template <Executor E>
  explicit Workspace(E& executor) : executor_(executor) {
    require(executor_.concurrency() >= 1,
            "Workspace: the executor's concurrency must be >= 1; got ", executor_.concurrency());
    arenas_.resize(static_cast<std::size_t>(executor_.concurrency()));
  }

  Index concurrency() const { return static_cast<Index>(arenas_.size()); }

  /// The calling thread's arena, for `Scratch`.
  Arena& arena() { return arenas_.front(); }
  operator Arena&() { return arena(); }

  /// Bytes held by all arenas together.
  std::size_t capacity() const {
    std::size_t sum = 0;
    for (const Arena& arena : arenas_) sum += arena.capacity();
    return sum;
  }

  /// As `parallel_for` if the tasks together have at least `smallest` units of work, else in order on
  /// the calling thread: small work isn't worth waking threads.
  template <class F>
  void run_tasks(Index n, Index work, Index smallest, F&& f) {
    if (work >= smallest) return parallel_for(n, f);
    for (Index task = 0; task < n; ++task) f(task, arenas_.front());
  }

  /// Calls f(task, arena) for each task in [0, n); tasks that run at the same time get different
  /// arenas. Tasks must write disjoint memory; then the result doesn't depend on the executor. They
  /// run in the caller's floating-point mode. If a task throws, the exception is rethrown; which of the
  /// other tasks have run is not said.
  template <class F>
  void parallel_for(Index n, F&& f) {
    const Index lanes = (std::min)(n, concurrency());
    if (lanes <= 1) {
      for (Index task = 0; task < n; ++task) f(task, arenas_.front());
      return;
    }
    const std::size_t caller_peak = arenas_.front().peak();
    arenas_.front().set_peak(arenas_.front().used());
    std::atomic<Index> next{0};
    const FloatingPointMode mode;
    executor_.parallel_for(lanes, [&](Index lane) {
      const FloatingPointMode::Guard guard(mode);
      for (Index task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        f(task, arenas_[static_cast<std::size_t>(lane)]);
      }
    });
    grow_arenas(caller_peak);
    require(next.load() >= n, "Workspace: the executor's parallel_for has not run all tasks");
  }

 private:
  // Which lane runs which task differs from call to call, so every arena gets room for the largest task
  // that any of them has seen. The caller's arena, lane 0, needs it besides what the caller holds.
  void grow_arenas(std::size_t caller_peak) {
    Arena& caller = arenas_.front();
    largest_task_ = (std::max)(largest_task_, caller.peak() - caller.used());
    for (std::size_t lane = 1; lane < arenas_.size(); ++lane) {
      largest_task_ = (std::max)(largest_task_, arenas_[lane].peak());
    }
    highest_base_ = (std::max)(highest_base_, caller.used());
    caller.set_peak((std::max)(caller_peak, highest_base_ + largest_task_));
    caller.reserve(caller.peak());  // at once if nobody holds anything, else at the last release
    for (std::size_t lane = 1; lane < arenas_.size(); ++lane) arenas_[lane].reserve(largest_task_);
  }

  ExecutorReference executor_;
  std::vector<Arena> arenas_;
  std::size_t largest_task_ = 0;
  std::size_t highest_base_ = 0;  // what the caller held under a task
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
