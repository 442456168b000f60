// SPDX-License-Identifier: MIT
// How far packed formats (nn/packed.hpp) are from float, with a trained model.
//
//   format_accuracy encoder DIR FILE
//     DIR: a BERT with mean pooling, such as all-MiniLM-L6-v2; FILE: sentences, one a line.
//     cosine         of a sentence's vector and its vector in float: the lowest, the mean
//     similarity     of two sentences, the cosine of their vectors: its largest change
//     nearest kept   sentences whose most similar other sentence is still the same one
//     worse by       what has taken its place is at most so much less similar, in float
//
//   format_accuracy decoder DIR
//     DIR: a decoder of Llama's kind. Its float model samples the texts that all formats then read.
//     greedy         ids of the greedy text before the first that differs from golden.json's; if
//                    DIR holds none, from float's
//     nats           mean negative log-likelihood of the texts' tokens; perplexity: e^nats
//     likeliest kept places in the texts where the likeliest next token is still the same one

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "examples/sentence_similarity/word_piece.hpp"

namespace {

using ef::Index;
using Path = std::filesystem::path;

/// Calls measure.operator()<Format>(name) for float, then for the packed formats.
template <class Measure>
void for_each_format(Measure&& measure) {
  measure.template operator()<float>("float");
  measure.template operator()<ef::Packed<float>>("Packed<float>");
  measure.template operator()<ef::Packed<ef::bfloat16>>("Packed<bfloat16>");
  measure.template operator()<ef::Packed<ef::int8_weights>>("Packed<int8_weights>");
  measure.template operator()<ef::Packed<ef::int8>>("Packed<int8>");
}

/// What the parameters occupy, in MB.
template <class Model>
double megabytes(const Model& model) {
  std::size_t bytes = 0;
  ef::for_each_parameter(model, [&](const std::string&, const auto& parameter) {
    if constexpr (requires { parameter.bytes(); }) {
      bytes += parameter.bytes();
    } else {
      bytes += static_cast<std::size_t>(parameter.size()) * sizeof *parameter.data();
    }
  });
  return 1e-6 * static_cast<double>(bytes);
}

double percent(Index count, Index all) {
  return 100.0 * static_cast<double>(count) / static_cast<double>(all);
}

// ------------------------------------------------------------------ encoder

/// Token ids of the file's lines, cut off where examples/sentence_similarity does it.
ef::TokenRows read_sentences(const Path& directory, const Path& file) {
  const ef::ConfigFile config(directory / "config.json");
  auto longest = config.get<Index>("max_position_embeddings");
  if (const Path settings = directory / "sentence_bert_config.json";
      std::filesystem::exists(settings)) {
    longest = std::min(longest, ef::ConfigFile(settings).get<Index>("max_seq_length"));
  }
  const auto tokenizer = examples::WordPiece::from_directory(directory);
  std::ifstream lines(file);
  ef::TokenRows sentences;
  for (std::string line; std::getline(lines, line);)
    sentences.push_back(tokenizer.encode(line, static_cast<std::size_t>(longest)));
  if (sentences.size() < 2) throw std::runtime_error(file.string() + ": holds no two sentences");
  return sentences;
}

/// Row i is the vector of sentence i, of length 1.
template <class Encoder>
Eigen::MatrixXd vectors_of(const Encoder& encoder, const ef::TokenRows& sentences) {
  Eigen::MatrixXd vectors(std::ssize(sentences), encoder.config.hidden_size);
  for (Index i = 0; i < vectors.rows(); ++i) {
    const auto& tokens = sentences[static_cast<std::size_t>(i)];
    ef::Tensor<std::int32_t, 2> ids({1, std::ssize(tokens)});
    std::copy(tokens.begin(), tokens.end(), ids.begin());
    const std::vector<Index> length = {ids.size()};
    vectors.row(i) = ef::mean_pooling(encoder(ids), length).matrix().template cast<double>();
  }
  vectors.rowwise().normalize();
  return vectors;
}

/// Similarities of all pairs; that of a sentence with itself is taken out of the competition.
Eigen::MatrixXd similarities_of(const Eigen::MatrixXd& vectors) {
  Eigen::MatrixXd similarities = vectors * vectors.transpose();
  similarities.diagonal().setConstant(-2);
  return similarities;
}

void measure_encoder(const Path& directory, const Path& file) {
  const ef::TokenRows sentences = read_sentences(directory, file);
  std::size_t tokens = 0;
  for (const auto& sentence : sentences) tokens += sentence.size();
  std::printf("%zu sentences, %zu tokens\n\n", sentences.size(), tokens);
  std::printf("%-20s %6s  %8s %8s  %10s  %12s %8s\n", "", "MB", "cosine", "mean", "similarity",
              "nearest kept", "worse by");
  Eigen::MatrixXd plain, plain_similarities;
  for_each_format([&]<class Format>(const char* name) {
    const auto encoder = ef::load_encoder<Format>(directory);
    const Eigen::MatrixXd vectors = vectors_of(encoder, sentences);
    const Eigen::MatrixXd similarities = similarities_of(vectors);
    if (plain.size() == 0) {
      plain = vectors;
      plain_similarities = similarities;
    }
    const Eigen::VectorXd cosines = plain.cwiseProduct(vectors).rowwise().sum();
    Index kept = 0;
    double worse = 0;
    for (Index i = 0; i < vectors.rows(); ++i) {
      Index before = 0, now = 0;
      plain_similarities.row(i).maxCoeff(&before);
      similarities.row(i).maxCoeff(&now);
      kept += now == before;
      worse = std::max(worse, plain_similarities(i, before) - plain_similarities(i, now));
    }
    std::printf("%-20s %6.1f  %8.5f %8.5f  %10.5f  %10.1f %% %8.5f\n", name, megabytes(encoder),
                cosines.minCoeff(), cosines.mean(),
                (similarities - plain_similarities).cwiseAbs().maxCoeff(),
                percent(kept, vectors.rows()), worse);
  });
}

// ------------------------------------------------------------------ decoder

template <class Format>
auto load_llama(const Path& directory) {
  return ef::load_decoder<Format, ef::RMSNorm, ef::GatedFeedForward>(directory);
}

std::vector<std::int32_t> ids_from(const ef::ConfigFile& config, const std::string& key) {
  std::vector<std::int32_t> ids;
  for (const Index id : config.integers(key)) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

constexpr Index drawn_texts = 40, longest_text = 256;

/// Texts as the model samples them at temperature 1, from its own distribution.
template <class Decoder>
ef::TokenRows draw_texts(const Decoder& decoder, std::int32_t begin,
                         const std::vector<std::int32_t>& stop_ids) {
  ef::TokenRows texts(drawn_texts, {begin});
  const auto sampled = ef::generate(
      decoder, texts,
      {.max_new_tokens = longest_text, .stop_ids = stop_ids, .do_sample = true, .key = ef::Key{1}});
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i].insert(texts[i].end(), sampled.ids[i].begin(), sampled.ids[i].end());
  return texts;
}

/// The greedy text of so many tokens, the beginning included.
template <class Decoder>
std::vector<std::int32_t> greedy_text(const Decoder& decoder, std::int32_t begin, Index length) {
  std::vector<std::int32_t> text = {begin};
  const auto sampled = ef::generate(decoder, {text}, {.max_new_tokens = length - 1});
  text.insert(text.end(), sampled.ids[0].begin(), sampled.ids[0].end());
  return text;
}

struct Reading {
  double nats = 0;                      // the mean of -log p(next token) over all places
  std::vector<std::int32_t> likeliest;  // at each place
};

/// What the model thinks of each next token while it reads the texts.
template <class Decoder>
Reading read_texts(const Decoder& decoder, const ef::TokenRows& texts) {
  Reading reading;
  for (const auto& text : texts) {
    ef::Tensor<std::int32_t, 2> ids({1, std::ssize(text) - 1});
    std::copy(text.begin(), text.end() - 1, ids.begin());
    const ef::Tensor<float, 3> logits = decoder(ids);
    for (Index t = 0; t < ids.size(); ++t) {
      const Eigen::VectorXd scores =
          Eigen::Map<const Eigen::VectorXf>(&logits(0, t, 0), logits.dim(2)).cast<double>();
      Index likeliest = 0;
      const double top = scores.maxCoeff(&likeliest);
      const double log_of_sum = top + std::log((scores.array() - top).exp().sum());
      reading.nats += log_of_sum - scores(text[static_cast<std::size_t>(t + 1)]);
      reading.likeliest.push_back(static_cast<std::int32_t>(likeliest));
    }
  }
  reading.nats /= static_cast<double>(reading.likeliest.size());
  return reading;
}

/// At how many places the two, of one length, hold the same id.
Index count_same(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  Index count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i];
  return count;
}

void measure_decoder(const Path& directory) {
  const ef::ConfigFile config(directory / "config.json");
  const auto begin = static_cast<std::int32_t>(config.get<Index>("bos_token_id"));
  // A text ends with its end, or with the beginning of the next one.
  std::vector<std::int32_t> stop_ids = ids_from(config, "eos_token_id");
  stop_ids.push_back(begin);

  const auto plain = load_llama<float>(directory);
  const ef::TokenRows texts = draw_texts(plain, begin, stop_ids);
  const Reading plain_reading = read_texts(plain, texts);
  const Path golden_file = directory / "golden.json";
  const auto golden = std::filesystem::exists(golden_file)
                          ? ids_from(ef::ConfigFile(golden_file), "ids")
                          : greedy_text(plain, begin, longest_text);
  std::printf("%zu texts, %zu tokens\n\n", texts.size(), plain_reading.likeliest.size());
  std::printf("%-20s %6s  %10s  %7s %10s  %14s\n", "", "MB", "greedy", "nats", "perplexity",
              "likeliest kept");
  for_each_format([&]<class Format>(const char* name) {
    const auto decoder = load_llama<Format>(directory);
    const auto greedy = greedy_text(decoder, begin, std::ssize(golden));
    const auto differs = std::mismatch(greedy.begin(), greedy.end(), golden.begin()).first;
    const Reading reading = read_texts(decoder, texts);
    // The first token is given.
    std::printf("%-20s %6.2f  %3td of %3td  %7.4f %10.4f  %12.1f %%\n", name, megabytes(decoder),
                differs - greedy.begin() - 1, std::ssize(golden) - 1, reading.nats,
                std::exp(reading.nats),
                percent(count_same(reading.likeliest, plain_reading.likeliest),
                        std::ssize(reading.likeliest)));
  });
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + argument_count);
  try {
    if (words.size() == 3 && words[0] == "encoder") {
      measure_encoder(words[1], words[2]);
    } else if (words.size() == 2 && words[0] == "decoder") {
      measure_decoder(words[1]);
    } else {
      std::fprintf(stderr,
                   "usage: format_accuracy encoder DIR FILE\n"
                   "       format_accuracy decoder DIR\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "format_accuracy: %s\n", error.what());
    return 1;
  }
}
