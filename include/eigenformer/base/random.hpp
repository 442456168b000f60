// SPDX-License-Identifier: MIT
#pragma once

// Counter-based random numbers: a number is a pure function of a key and a position, so it doesn't
// depend on the order of calls, on threads or on any state.
//
//   ef::Key key{42};
//   key.fold_in(3)         // an independent key, for layer 3 say
//   key.uniform(i)         // number i of this key's stream, in [0, 1)
//   key.normal(i)          // standard normal
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011), as in Random123, cuRAND, TensorFlow and PyTorch on GPUs.

#include <array>
#include <cmath>
#include <cstdint>

#include "eigenformer/base/config.hpp"

EIGENFORMER_PRECISE_BEGIN
namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Ten rounds of Philox on a counter of four words under a key of two.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product_1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

class Key {
 public:
  constexpr explicit Key(std::uint64_t seed)
      : words_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  /// A key for part `data` of the work, independent of this one and of every other part's.
  constexpr Key fold_in(std::uint64_t data) const {
    const auto words = block(data, 1);
    return Key(std::uint64_t{words[1]} << 32 | words[0]);
  }

  /// Word `i` of the stream: 32 random bits.
  constexpr std::uint32_t bits(std::uint64_t i) const { return block(i / 4, 0)[i % 4]; }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform(std::uint64_t i) const {
    const auto words = block(i / 2, 2);
    const std::size_t first = 2 * static_cast<std::size_t>(i % 2);
    const std::uint64_t wide = std::uint64_t{words[first]} << 32 | words[first + 1];
    return static_cast<double>(wide >> 11) * 0x1p-53;
  }

  /// Standard normal (Box and Muller 1958); both numbers of a pair come from one block of bits.
  double normal(std::uint64_t i) const {
    const std::uint64_t pair = i / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform(pair)));
    const double angle = 6.283185307179586476925 * uniform(pair + 1);
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

  friend constexpr bool operator==(const Key&, const Key&) = default;

 private:
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t position,
                                               std::uint32_t purpose) const {
    return philox({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                   purpose, 0},
                  words_);
  }

  std::array<std::uint32_t, 2> words_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
EIGENFORMER_PRECISE_END
