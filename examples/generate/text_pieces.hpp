// SPDX-License-Identifier: MIT
#pragma once

// Text to token ids and back, by a SentencePiece model.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace examples {

class TextPieces {
 public:
  /// Throws std::runtime_error with the path for a file that is no SentencePiece model.
  explicit TextPieces(const std::filesystem::path& path);
  TextPieces(TextPieces&&) noexcept;
  ~TextPieces();

  /// The ids of a text after that of its beginning.
  std::vector<std::int32_t> ids_with_begin(const std::string& text) const;

  /// What token `id` adds to a text that ends with token `previous`: none for control tokens, and no
  /// space at the beginning of a text.
  std::string text_of(std::int32_t previous, std::int32_t id) const;

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace examples
