// SPDX-License-Identifier: MIT
// BERT's WordPiece tokenizer: text -> token ids, the ids of transformers' BertTokenizer.
//
//   1. Special tokens ("[MASK]") that stand in the text are cut out first, wherever they stand.
//   2. Normalise the text between them: drop U+0000, U+FFFD and the categories Cc, Cf, Co; turn
//      every white space into ' '; put spaces around Chinese characters; decompose (NFD) and drop
//      the accents (category Mn); lower-case.
//   3. Cut into words at spaces; every punctuation character is a word of its own.
//   4. Cut every word into pieces, from the left, always taking the longest piece in the
//      vocabulary; pieces inside a word are spelled with "##" in front. A word that can't be cut
//      so, or of more than 100 characters, is one [UNK].
//
// Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018, and the
// behaviour of transformers 5.24 with tokenizers 0.23. Categories, decomposition and lower case
// come from utf8proc. That tokenizers release knows the categories of Unicode 8 only: it takes the
// accents and punctuation marks of later versions for letters, utf8proc doesn't.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace examples {

// The fields of tokenizer_config.json that change ids.
struct WordPieceConfig {
  bool do_lower_case = true;
  std::optional<bool> strip_accents;  // as do_lower_case when not given
  bool tokenize_chinese_chars = true;
};

class WordPiece {
 public:
  using Vocabulary = std::unordered_map<std::string, std::int32_t>;

  // Throws std::invalid_argument if [CLS], [SEP] or [UNK] is not in the vocabulary.
  explicit WordPiece(Vocabulary vocabulary, WordPieceConfig config = {});

  // Reads vocab.txt (one token a line, its id is the line's number from 0) or, if there is none,
  // the vocabulary in tokenizer.json; options from tokenizer_config.json, else tokenizer.json.
  // Throws std::runtime_error, with the path, if a file is missing or not understood.
  static WordPiece from_directory(const std::filesystem::path& directory);

  // [CLS], the first maximum_length - 2 ids of the text, [SEP]. The text is UTF-8; bytes that are
  // not are skipped, as if decoded by Python with errors="replace" (U+FFFD is dropped in step 2).
  // Throws std::invalid_argument if maximum_length < 2.
  std::vector<std::int32_t> encode(std::string_view text, std::size_t maximum_length = 512) const;

  // Steps 2 and 3: the normalised words of a text, in UTF-8. Knows no special tokens.
  std::vector<std::string> split_into_words(std::string_view text) const;

 private:
  void append_pieces(const std::string& word, std::vector<std::int32_t>& ids) const;

  struct SpecialToken {
    std::string text;
    std::int32_t id;
  };

  Vocabulary vocabulary_;
  WordPieceConfig config_;
  std::vector<SpecialToken> special_tokens_;
  std::int32_t classification_id_ = 0;
  std::int32_t separator_id_ = 0;
  std::int32_t unknown_id_ = 0;
};

}  // namespace examples
