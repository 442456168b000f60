// SPDX-License-Identifier: MIT
#pragma once

// Executors: how work reaches threads. The library starts no thread by itself and knows no global
// pool; it uses an executor that the caller owns. Anything with these two members is one:
//
//   Index concurrency() const;       // how many tasks can make progress at once, >= 1
//   void parallel_for(Index n, f);   // calls f(0) ... f(n - 1), any order; returns when done
//
// so OpenMP, TBB or a game's job system fit behind five lines. `f` may run on the calling thread.

#include <concepts>
#include <type_traits>
#include <utility>

#include "eigenformer/base/config.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A borrowed callable: two pointers, no allocation. The callable must outlive the call.
template <class Signature>
class FunctionReference;

template <class Result, class... Arguments>
class FunctionReference<Result(Arguments...)> {
 public:
  template <class Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionReference> &&
           std::is_invocable_r_v<Result, Callable&, Arguments...>)
      FunctionReference(Callable&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(&callable))),
        call_([](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

template <class E>
concept Executor = requires(E& executor, Index n, FunctionReference<void(Index)> f) {
  { std::as_const(executor).concurrency() } -> std::convertible_to<Index>;
  executor.parallel_for(n, f);
};

/// A borrowed executor of any type; default-constructed it runs everything in order on the calling
/// thread.
class ExecutorReference {
 public:
  ExecutorReference() = default;

  template <Executor E>
  requires(!std::same_as<std::remove_cv_t<E>, ExecutorReference>) explicit ExecutorReference(
      E& executor)
      : executor_(&executor),
        concurrency_([](void* object) {
          return static_cast<Index>(std::as_const(*static_cast<E*>(object)).concurrency());
        }),
        parallel_for_([](void* object, Index n, FunctionReference<void(Index)> f) {
          static_cast<E*>(object)->parallel_for(n, f);
        }) {}

  Index concurrency() const { return executor_ == nullptr ? 1 : concurrency_(executor_); }

  void parallel_for(Index n, FunctionReference<void(Index)> f) const {
    if (executor_ == nullptr) {
      for (Index i = 0; i < n; ++i) f(i);
    } else {
      parallel_for_(executor_, n, f);
    }
  }

 private:
  void* executor_ = nullptr;
  Index (*concurrency_)(void*) = nullptr;
  void (*parallel_for_)(void*, Index, FunctionReference<void(Index)>) = nullptr;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
