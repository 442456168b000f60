// SPDX-License-Identifier: MIT
//
// How alike are sentences? A sentence's vector is the mean of BERT's output over the sentence's
// tokens, scaled to length 1; the similarity of two sentences is their vectors' scalar product.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <eigenformer/eigenformer.hpp>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "word_piece.hpp"

namespace {

constexpr const char* usage = R"(usage: sentence_similarity [--vectors] DIR [SENTENCE...]

Prints how alike the sentences are, from -1 to 1, in the eyes of a sentence model of BERT's kind,
such as all-MiniLM-L6-v2.

  DIR        the model's directory: config.json, model.safetensors, and vocab.txt or tokenizer.json
  SENTENCE   two or more make sense; "-" stands for the lines of standard input; without any, the
             program takes its own
  --vectors  print each sentence's vector, one line a sentence, instead of the table
)";

// One ragged batch (B, T): the ids of every sentence from the left, and zeros that no one sees.
// Returns (B, C), rows of length 1.
ef::Tensor<float, 2> sentence_vectors(const ef::TransformerEncoder<float>& encoder,
                                      const examples::WordPiece& tokenizer,
                                      const std::vector<std::string>& sentences,
                                      std::size_t maximum_length) {
  std::vector<std::vector<std::int32_t>> rows;
  std::vector<ef::Index> lengths;
  for (const std::string& sentence : sentences) {
    rows.push_back(tokenizer.encode(sentence, maximum_length));
    lengths.push_back(static_cast<ef::Index>(rows.back().size()));
  }
  ef::Tensor<std::int32_t, 2> ids({std::ssize(rows), std::ranges::max(lengths)});
  for (ef::Index b = 0; b < ids.dim(0); ++b)
    std::ranges::copy(rows[b], ids.data() + b * ids.dim(1));

  const ef::Tensor<float, 3> hidden = encoder(ids, {.key_lengths = lengths});
  ef::Tensor<float, 2> vectors = ef::mean_pooling(hidden, lengths);
  ef::normalize_rows(vectors);
  return vectors;
}

}  // namespace
