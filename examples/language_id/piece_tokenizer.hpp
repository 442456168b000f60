// SPDX-License-Identifier: MIT
//
// Text to the ids that the language identifier reads; tokenizer.py beside it is the same in Python.
//
//   1. Normalise: lower case; ASCII characters that are neither letters nor apostrophes become
//      spaces; runs of spaces count as one, with one at each end. A space is written "_".
//   2. Split the UTF-8 bytes: at each place the longest piece of the vocabulary that matches. The
//      256 single bytes are pieces too, so nothing is unknown.
//   3. ids: 0 padding, 1 the start, 2 + b the byte b, 258 + n line n of the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace examples {

class PieceTokenizer {
 public:
  /// `vocabulary`: one piece a line. `longest`: most ids of a text; what is over is cut off.
  PieceTokenizer(std::string_view vocabulary, std::size_t longest);

  std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
  std::size_t longest_piece_[256];  // by first byte
  std::size_t longest_;
};

}  // namespace examples
