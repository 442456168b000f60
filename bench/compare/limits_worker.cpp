// SPDX-License-Identifier: MIT
// The machine's limits: rates of multiply-adds and of reading memory, with the machine's widest
// registers. The argument is the number of threads.

#include <memory>

#include "bench/compare/worker.hpp"
#include "eigenformer/eigenformer.hpp"

namespace {

using compare::Json;
using compare::Prepared;
using ef::Index;

#ifdef __AVX512F__
constexpr int register_bytes = 64;
#elif defined(__AVX__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif
using Vector __attribute__((vector_size(register_bytes), may_alias)) = float;
constexpr Index lanes = register_bytes / 4;

/// As many additions and multiplications as asked for, on registers alone.
Prepared multiply_add(double operations, ef::ThreadPool& pool) {
  constexpr int chains = 12;
  const auto sums = std::make_shared<std::vector<float>>(pool.concurrency());
  const double rounds =
      operations / (2.0 * chains * lanes * static_cast<double>(pool.concurrency()));
  return {[=, &pool] {
            pool.parallel_for(pool.concurrency(), [&](Index thread) {
              Vector sum[chains], factor = Vector{} + 0.999f, term = Vector{} + 0.5f;
              for (int i = 0; i < chains; ++i) sum[i] = Vector{} + static_cast<float>(i);
              for (Index round = 0; round < static_cast<Index>(rounds); ++round) {
                EIGENFORMER_UNROLL
                for (int i = 0; i < chains; ++i) sum[i] = sum[i] * factor + term;
              }
              for (int i = 1; i < chains; ++i) sum[0] += sum[i];
              (*sums)[static_cast<std::size_t>(thread)] = sum[0][0];
            });
          },
          [=] { return std::span<const float>(*sums); }};
}

/// As many bytes as asked for, read once by all threads together.
Prepared memory_read(double bytes, ef::ThreadPool& pool) {
  constexpr Index parts = 64, chains = 8;
  const Index size = static_cast<Index>(bytes / sizeof(float) / parts);
  // In huge pages, as weights are.
  const auto memory = std::make_shared<ef::Tensor<float, 1>>(ef::Shape<1>{parts * size});
  const auto sums = std::make_shared<std::vector<float>>(parts);
  return {[=, &pool] {
            pool.parallel_for(parts, [&](Index part) {
              const float* from = memory->data() + part * size;
              Vector sum[chains] = {};
              for (Index i = 0; i + chains * lanes <= size; i += chains * lanes) {
                EIGENFORMER_UNROLL
                for (Index j = 0; j < chains; ++j) {
                  Vector value;
                  __builtin_memcpy(&value, from + i + j * lanes, sizeof value);
                  sum[j] += value;
                }
              }
              for (Index j = 1; j < chains; ++j) sum[0] += sum[j];
              (*sums)[static_cast<std::size_t>(part)] = sum[0][0];
            });
          },
          [=] { return std::span<const float>(*sums); }};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: limits_worker THREADS\n", 1;
  ef::ThreadPool pool(std::stoi(arguments[1]));
  compare::serve("limits", COMPARE_VERSION, [&](const Json& c) {
    const std::string name = c["block"];
    if (name == "multiply_add") return multiply_add(c["operations"], pool);
    if (name == "memory_read") return memory_read(c["bytes"], pool);
    throw compare::Unsupported("there is no limit \"" + name + "\"");
  });
}
