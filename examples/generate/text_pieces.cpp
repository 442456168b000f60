// SPDX-License-Identifier: MIT
#include "text_pieces.hpp"

#include <sentencepiece_processor.h>

#include <stdexcept>
#include <string_view>

namespace examples {

TextPieces::TextPieces(const std::filesystem::path& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->Load(path.string());
  if (!status.ok()) throw std::runtime_error(path.string() + ": " + status.ToString());
}

TextPieces::TextPieces(TextPieces&&) noexcept = default;
TextPieces::~TextPieces() = default;

std::vector<std::int32_t> TextPieces::ids_with_begin(const std::string& text) const {
  std::vector<int> ids = processor_->EncodeAsIds(text);
  if (processor_->bos_id() >= 0) ids.insert(ids.begin(), processor_->bos_id());
  return {ids.begin(), ids.end()};
}

std::string TextPieces::text_of(std::int32_t previous, std::int32_t id) const {
  if (id < 0 || id >= processor_->GetPieceSize() || processor_->IsControl(id)) return {};
  if (processor_->IsByte(id)) {  // such as <0x0A>
    return {static_cast<char>(std::stoi(processor_->IdToPiece(id).substr(3, 2), nullptr, 16))};
  }
  const std::string piece = processor_->IdToPiece(id);
  constexpr std::string_view space = "\xE2\x96\x81";  // U+2581
  std::string text;
  for (std::size_t i = 0; i < piece.size();) {
    const bool is_space = std::string_view(piece).substr(i).starts_with(space);
    if (is_space && !(i == 0 && previous == processor_->bos_id())) text += ' ';
    if (!is_space) text += piece[i];
    i += is_space ? space.size() : 1;
  }
  return text;
}

}  // namespace examples
