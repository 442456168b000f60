// SPDX-License-Identifier: MIT
//
// How alike are sentences? A sentence's vector is the mean of the encoder's output over the
// sentence's tokens, scaled to length 1; the similarity of two sentences is the scalar product of
// their vectors, which is the cosine of the angle between them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "word_piece.hpp"

namespace {

constexpr const char* usage = R"(usage: sentence_similarity [--vectors] DIR [SENTENCE...]

Prints the similarity of each pair of sentences, from -1 to 1, as seen by a sentence encoder of
BERT's kind with mean pooling, such as all-MiniLM-L6-v2.

  DIR        the model: config.json, model.safetensors, and vocab.txt or tokenizer.json
  SENTENCE   "-" alone means the lines of standard input; without any there are examples
  --vectors  print the sentences' vectors, one line each, instead of their similarities
)";

const std::vector<std::string> example_sentences = {
    "A man is playing a guitar in the street.",
    "Someone makes music outdoors.",
    "Share prices fell sharply on Monday.",
    "The stock market dropped at the start of the week.",
    "Where is the nearest railway station, please?",
    "How do I get to the train?",
};

// A settings file of sentence-transformers; empty if the model comes without.
ef::ConfigFile read_settings(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? ef::ConfigFile(path) : ef::ConfigFile("{}", path.string());
}

// The longest input in tokens: what the settings say, but no more than there are positions.
ef::Index maximum_length(const std::filesystem::path& directory, ef::Index positions) {
  const auto settings = read_settings(directory / "sentence_bert_config.json");
  return std::min(positions, settings.get<ef::Index>("max_seq_length", positions));
}

void require_mean_pooling(const std::filesystem::path& directory) {
  const auto settings = read_settings(directory / "1_Pooling" / "config.json");
  if (!settings.get<bool>("pooling_mode_mean_tokens", true)) {
    settings.fail("the model wants another pooling than the mean over the tokens");
  }
}

// Row b is the vector of sentence b. The sentences go through the encoder together, one after the
// other in one row; sequence_lengths keeps them apart.
ef::Tensor<float, 2> sentence_vectors(const ef::TransformerEncoder<float>& encoder,
                                      const examples::WordPiece& tokenizer, ef::Index longest,
                                      const std::vector<std::string>& sentences) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> lengths;
  for (const std::string& sentence : sentences) {
    const auto own = tokenizer.encode(sentence, static_cast<std::size_t>(longest));
    tokens.insert(tokens.end(), own.begin(), own.end());
    lengths.push_back(std::ssize(own));
  }
  ef::Tensor<std::int32_t, 2> ids({1, std::ssize(tokens)});
  std::ranges::copy(tokens, ids.data());
  const auto hidden = encoder(ids, {.sequence_lengths = lengths});                // (1, T, C)
  ef::Tensor<float, 2> vectors = ef::mean_pooling_of_sequences(hidden, lengths);  // (B, C)
  ef::normalize_rows(vectors);
  return vectors;
}

void print_vectors(const ef::Tensor<float, 2>& vectors) {
  for (ef::Index b = 0; b < vectors.dim(0); ++b) {
    for (ef::Index c = 0; c < vectors.dim(1); ++c) {
      std::printf(c == 0 ? "%.9g" : " %.9g", static_cast<double>(vectors(b, c)));
    }
    std::printf("\n");
  }
}

void print_table(const std::vector<std::string>& sentences, const ef::Tensor<float, 2>& vectors) {
  const auto count = static_cast<int>(sentences.size());
  for (int i = 0; i < count; ++i) {
    std::printf("%4d  %s\n", i + 1, sentences[static_cast<std::size_t>(i)].c_str());
  }
  std::printf("\n    ");
  for (int j = 0; j < count; ++j) std::printf("%7d", j + 1);
  std::printf("\n");
  const Eigen::MatrixXf similarities = vectors.matrix() * vectors.matrix().transpose();
  for (int i = 0; i < count; ++i) {
    std::printf("%4d", i + 1);
    for (int j = 0; j < count; ++j) std::printf("%7.3f", static_cast<double>(similarities(i, j)));
    std::printf("\n");
  }
}

int run(std::vector<std::string> arguments) {
  bool as_vectors = false;
  for (; !arguments.empty() && arguments[0].starts_with("-"); arguments.erase(arguments.begin())) {
    if (arguments[0] == "--help" || arguments[0] == "-h") {
      std::cout << usage;
      return 0;
    }
    if (arguments[0] != "--vectors") {
      throw std::invalid_argument("unknown option " + arguments[0] + "; --help tells more");
    }
    as_vectors = true;
  }
  if (arguments.empty()) {
    std::cerr << usage;
    return 2;
  }
  const std::filesystem::path directory = arguments[0];
  std::vector<std::string> sentences(arguments.begin() + 1, arguments.end());
  if (sentences.empty()) sentences = example_sentences;
  if (sentences == std::vector<std::string>{"-"}) {
    sentences.clear();
    for (std::string line; std::getline(std::cin, line);) sentences.push_back(line);
  }
  if (sentences.empty()) throw std::invalid_argument("no sentence on standard input");
  if (!std::filesystem::is_directory(directory)) {
    throw std::runtime_error(directory.string() + ": there is no such directory");
  }

  require_mean_pooling(directory);
  const auto tokenizer = examples::WordPiece::from_directory(directory);
  const auto encoder = ef::load_encoder<float>(directory);
  const auto longest = maximum_length(directory, encoder.config.max_position_embeddings);
  const auto vectors = sentence_vectors(encoder, tokenizer, longest, sentences);
  if (as_vectors) {
    print_vectors(vectors);
  } else {
    print_table(sentences, vectors);
  }
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    return run({arguments + 1, arguments + argument_count});
  } catch (const std::exception& error) {
    std::cerr << "sentence_similarity: " << error.what() << '\n';
    return 1;
  }
}
