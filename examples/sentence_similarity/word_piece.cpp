// SPDX-License-Identifier: MIT
#include "word_piece.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace examples {
namespace {

using CodePoint = utf8proc_int32_t;

// Calls f(code point) for every well-formed character; a byte that belongs to none is skipped.
template <class F>
void for_each_code_point(std::string_view text, F&& f) {
  auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    CodePoint code_point = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &code_point);
    if (length > 0) f(code_point);
    bytes += std::max<utf8proc_ssize_t>(length, 1);
    left -= std::max<utf8proc_ssize_t>(length, 1);
  }
}

void append(std::string& text, CodePoint code_point) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(code_point, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

// Unicode's White_Space without the control characters that step 2 drops.
bool is_white_space(CodePoint c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_dropped(CodePoint c) {
  if (c == 0 || c == 0xFFFD) return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(CodePoint c) {
  const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                     (c >= '{' && c <= '~');  // '$' and such are symbols to Unicode
  const utf8proc_category_t category = utf8proc_category(c);
  return ascii || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

// The ranges of tokenizers' BertNormalizer, whose 2B920 is 2B820 in the original BERT.
bool is_chinese_character(CodePoint c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

// Canonical decomposition without the characters of category Mn.
std::string without_accents(const std::string& text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::vector<CodePoint> decomposed;
  utf8proc_ssize_t length = utf8proc_decompose(bytes, size, nullptr, 0, UTF8PROC_DECOMPOSE);
  if (length > 0) {
    decomposed.resize(static_cast<std::size_t>(length));
    length = utf8proc_decompose(bytes, size, decomposed.data(), length, UTF8PROC_DECOMPOSE);
  }
  if (length < 0) throw std::runtime_error(std::string("utf8proc: ") + utf8proc_errmsg(length));

  std::string result;
  for (const CodePoint c : decomposed) {
    if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN) append(result, c);
  }
  return result;
}

std::string lower_case(const std::string& text) {
  std::string result;
  for_each_code_point(text, [&](CodePoint c) {
    if (c == 0x130) {
      result += "i\xCC\x87";  // the one lower case of two characters; utf8proc has only simple ones
    } else {
      append(result, utf8proc_tolower(c));
    }
  });
  return result;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": can't be read");
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

void read_option(const nlohmann::json& object, const char* name, auto& value) {
  if (const auto found = object.find(name); found != object.end() && found->is_boolean()) {
    value = found->get<bool>();
  }
}

WordPiece::Vocabulary read_vocabulary_lines(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": can't be read");
  WordPiece::Vocabulary vocabulary;
  std::int32_t id = 0;
  for (std::string line; std::getline(file, line); ++id) {
    if (line.ends_with('\r')) line.pop_back();
    vocabulary[line] = id;
  }
  return vocabulary;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceConfig config)
    : vocabulary_(std::move(vocabulary)), config_(config) {
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (const auto found = vocabulary_.find(text); found != vocabulary_.end()) {
      special_tokens_.push_back({found->first, found->second});
    }
  }
  const auto required = [&](const char* text) {
    const auto found = vocabulary_.find(text);
    if (found == vocabulary_.end()) {
      throw std::invalid_argument(std::string("WordPiece: the vocabulary must contain ") + text +
                                  "; its " + std::to_string(vocabulary_.size()) + " tokens don't");
    }
    return found->second;
  };
  classification_id_ = required("[CLS]");
  separator_id_ = required("[SEP]");
  unknown_id_ = required("[UNK]");
}

WordPiece WordPiece::from_directory(const std::filesystem::path& directory) {
  const auto vocabulary_path = directory / "vocab.txt";
  const auto tokenizer_path = directory / "tokenizer.json";
  const auto options_path = directory / "tokenizer_config.json";
  const bool has_vocabulary = std::filesystem::exists(vocabulary_path);
  const bool has_tokenizer = std::filesystem::exists(tokenizer_path);
  if (!has_vocabulary && !has_tokenizer) {
    throw std::runtime_error(directory.string() + ": has neither vocab.txt nor tokenizer.json");
  }

  Vocabulary vocabulary;
  WordPieceConfig config;
  if (has_tokenizer) {
    const nlohmann::json tokenizer = read_json(tokenizer_path);
    try {
      const nlohmann::json& model = tokenizer.at("model");
      if (const std::string type = model.value("type", "WordPiece"); type != "WordPiece") {
        throw std::runtime_error(tokenizer_path.string() + ": WordPiece is required; it has a " +
                                 type + " tokenizer");
      }
      if (!has_vocabulary) vocabulary = model.at("vocab").get<Vocabulary>();
      if (const auto normalizer = tokenizer.find("normalizer");
          normalizer != tokenizer.end() && normalizer->is_object()) {
        read_option(*normalizer, "lowercase", config.do_lower_case);
        read_option(*normalizer, "strip_accents", config.strip_accents);
        read_option(*normalizer, "handle_chinese_chars", config.tokenize_chinese_chars);
      }
    } catch (const nlohmann::json::exception& error) {
      throw std::runtime_error(tokenizer_path.string() + ": " + error.what());
    }
  }
  if (has_vocabulary) vocabulary = read_vocabulary_lines(vocabulary_path);
  if (std::filesystem::exists(options_path)) {
    const nlohmann::json options = read_json(options_path);
    read_option(options, "do_lower_case", config.do_lower_case);
    read_option(options, "strip_accents", config.strip_accents);
    read_option(options, "tokenize_chinese_chars", config.tokenize_chinese_chars);
  }
  try {
    return WordPiece(std::move(vocabulary), config);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error((has_vocabulary ? vocabulary_path : tokenizer_path).string() + ": " +
                             error.what());
  }
}

std::vector<std::int32_t> WordPiece::encode(std::string_view text,
                                            std::size_t maximum_length) const {
  if (maximum_length < 2) {
    throw std::invalid_argument("WordPiece::encode: maximum_length must be at least 2; it is " +
                                std::to_string(maximum_length));
  }
  std::vector<std::int32_t> ids = {classification_id_};
  const auto append_text = [&](std::string_view part) {
    for (const std::string& word : split_into_words(part)) append_pieces(word, ids);
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto special = std::find_if(
        special_tokens_.begin(), special_tokens_.end(),
        [&](const SpecialToken& token) { return text.substr(i).starts_with(token.text); });
    if (special == special_tokens_.end()) {
      ++i;
      continue;
    }
    append_text(text.substr(begin, i - begin));
    ids.push_back(special->id);
    i += special->text.size();
    begin = i;
  }
  append_text(text.substr(begin));
  if (ids.size() > maximum_length - 1) ids.resize(maximum_length - 1);
  ids.push_back(separator_id_);
  return ids;
}

std::vector<std::string> WordPiece::split_into_words(std::string_view text) const {
  std::string normalised;
  for_each_code_point(text, [&](CodePoint c) {
    if (is_white_space(c)) {
      normalised += ' ';
    } else if (config_.tokenize_chinese_chars && is_chinese_character(c)) {
      normalised += ' ';
      append(normalised, c);
      normalised += ' ';
    } else if (!is_dropped(c)) {
      append(normalised, c);
    }
  });
  if (config_.strip_accents.value_or(config_.do_lower_case)) {
    normalised = without_accents(normalised);
  }
  if (config_.do_lower_case) normalised = lower_case(normalised);

  std::vector<std::string> words;
  bool inside_word = false;
  for_each_code_point(normalised, [&](CodePoint c) {
    if (c == ' ') {
      inside_word = false;
      return;
    }
    const bool alone = is_punctuation(c);
    if (alone || !inside_word) words.emplace_back();
    append(words.back(), c);
    inside_word = !alone;
  });
  return words;
}

void WordPiece::append_pieces(const std::string& word, std::vector<std::int32_t>& ids) const {
  constexpr std::size_t maximum_characters = 100;
  // Byte offsets of the characters, and of the end.
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool continues_character = (static_cast<unsigned char>(word[i]) & 0xC0) == 0x80;
    if (!continues_character) offsets.push_back(i);
  }
  if (offsets.size() > maximum_characters) {
    ids.push_back(unknown_id_);
    return;
  }
  offsets.push_back(word.size());

  const std::size_t previous_size = ids.size();
  for (std::size_t begin = 0; begin + 1 < offsets.size();) {
    std::size_t end = offsets.size() - 1;
    for (; end > begin; --end) {
      std::string piece = begin == 0 ? "" : "##";
      piece.append(word, offsets[begin], offsets[end] - offsets[begin]);
      if (const auto found = vocabulary_.find(piece); found != vocabulary_.end()) {
        ids.push_back(found->second);
        break;
      }
    }
    if (end == begin) {  // no piece fits: the whole word is unknown
      ids.resize(previous_size);
      ids.push_back(unknown_id_);
      return;
    }
    begin = end;
  }
}

}  // namespace examples
