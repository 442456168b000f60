// SPDX-License-Identifier: MIT
#pragma once

// What workers written in C++ share: the protocol that worker.py describes, and the same numbers.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace compare {

using Json = nlohmann::json;

/// Runs one pass; gives its result.
struct Prepared {
  std::function<void()> pass;
  std::function<std::span<const float>()> result;
};

/// Thrown by a worker that has no such block.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The numbers of a parameter or input with rows of `columns` elements (0: a vector).
inline void fill(std::string_view name, std::span<float> values, std::int64_t columns) {
  std::uint32_t seed = 0x811C9DC5u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x01000193u;
  const float scale =
      columns == 0 ? 0.125f : static_cast<float>(std::sqrt(12 / static_cast<double>(columns)));
  const float shift = name.ends_with("norm.weight") ? 1.0f : 0.0f;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B9u + seed;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    x ^= x >> 16;
    values[i] = (static_cast<float>(x >> 8) * 0x1p-24f - 0.5f) * scale + shift;
  }
}

inline double seconds(const std::function<void()>& pass, int passes) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < passes; ++i) pass();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return time.count() / passes;
}

/// Passes that last 20 ms, by the time of the first one, which may have been slow.
inline int settle(const std::function<void()>& pass, double time) {
  constexpr double sample = 0.02;
  if (time < 10 * sample) time = seconds(pass, 1);
  if (time < sample) time = seconds(pass, std::max(2, static_cast<int>(sample / 2 / time) + 1));
  return std::max(1, static_cast<int>(std::ceil(sample / time)));
}

inline void serve(const std::string& engine, const std::string& version,
                  const std::function<Prepared(const Json&)>& prepare) {
  const auto answer = [](const Json& fields) { std::cout << fields.dump() << std::endl; };
  answer({{"engine", engine}, {"version", version}});
  Prepared prepared;
  int passes = 0;
  for (std::string line; std::getline(std::cin, line);) try {
      const Json request = Json::parse(line);
      if (!request.contains("case")) {
        if (passes > 1) prepared.pass();
        answer({{"seconds", seconds(prepared.pass, passes)}});
        continue;
      }
      prepared = {};  // frees the last one first
      prepared = prepare(request["case"]);
      const double first = seconds(prepared.pass, 1);
      const auto result = prepared.result();
      std::ofstream(request["output"].get<std::string>(), std::ios::binary)
          .write(reinterpret_cast<const char*>(result.data()),
                 static_cast<std::streamsize>(result.size_bytes()));
      passes = settle(prepared.pass, first);
      answer({{"passes", passes}});
    } catch (const Unsupported& reason) {
      answer({{"unsupported", reason.what()}});
    } catch (const std::exception& error) {
      answer({{"error", error.what()}});
    }
}

}  // namespace compare
