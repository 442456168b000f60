// SPDX-License-Identifier: MIT
#include "piece_tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace examples {

namespace {

constexpr std::int32_t start_id = 1, first_byte_id = 2, first_piece_id = 258;

/// The code point as the vocabulary has it; '_' for what separates words.
utf8proc_int32_t normalised(utf8proc_int32_t c) {
  constexpr utf8proc_int32_t no_break_space = 0xA0, right_quote = 0x2019, dotted_capital_i = 0x130;
  if (c == right_quote) return '\'';
  if (c == no_break_space) return '_';
  if (c == dotted_capital_i) return 'i';
  const utf8proc_int32_t lower = utf8proc_tolower(c);
  return lower >= 128 || (lower >= 'a' && lower <= 'z') || lower == '\'' ? lower : '_';
}

std::string normalise(std::string_view text) {
  const auto* next = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  std::string result = "_";
  while (left > 0) {
    utf8proc_int32_t c = 0;
    utf8proc_ssize_t size = utf8proc_iterate(next, left, &c);
    if (size <= 0) {  // no UTF-8: as a space
      size = 1;
      c = ' ';
    }
    next += size;
    left -= size;
    c = normalised(c);
    if (c == '_') {
      if (result.back() != '_') result += '_';
    } else {
      utf8proc_uint8_t bytes[4];
      const utf8proc_ssize_t count = utf8proc_encode_char(c, bytes);
      result.append(bytes, bytes + count);
    }
  }
  if (result.back() != '_') result += '_';
  return result;
}

}  // namespace

PieceTokenizer::PieceTokenizer(std::string_view vocabulary, std::size_t longest)
    : longest_(longest) {
  std::fill(std::begin(longest_piece_), std::end(longest_piece_), 1);
  for (int byte = 0; byte < 256; ++byte) {
    ids_.emplace(std::string(1, static_cast<char>(byte)), first_byte_id + byte);
  }
  for (std::int32_t id = first_piece_id; !vocabulary.empty(); ++id) {
    const std::string piece(vocabulary.substr(0, vocabulary.find('\n')));
    vocabulary.remove_prefix(std::min(vocabulary.size(), piece.size() + 1));
    if (piece.empty()) continue;
    ids_[piece] = id;
    std::size_t& known = longest_piece_[static_cast<unsigned char>(piece.front())];
    known = std::max(known, piece.size());
  }
}

std::vector<std::int32_t> PieceTokenizer::encode(std::string_view text) const {
  const std::string bytes = normalise(text);
  std::vector<std::int32_t> ids = {start_id};
  for (std::size_t at = 0; at < bytes.size() && ids.size() < longest_;) {
    std::size_t size =
        std::min(longest_piece_[static_cast<unsigned char>(bytes[at])], bytes.size() - at);
    auto place = ids_.find(bytes.substr(at, size));
    while (place == ids_.end()) place = ids_.find(bytes.substr(at, --size));
    ids.push_back(place->second);
    at += size;
  }
  return ids;
}

}  // namespace examples
