// SPDX-License-Identifier: MIT
//
// Which language is this? Each text goes through a small encoder of BERT's kind with a
// classification head; the model is part of the program.
#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "embedded/language_id_config.hpp"
#include "embedded/language_id_model.hpp"
#include "embedded/language_id_vocabulary.hpp"
#include "piece_tokenizer.hpp"

namespace {

constexpr const char* usage = R"(usage: language_id [--top N] [--model DIR] [TEXT...]

Names the language of each text, with probabilities.

  TEXT         without any, the lines of standard input
  --top N      how many languages to print for each text (default 3)
  --model DIR  config.json, model.safetensors and vocab.txt to use instead of the built-in model
)";

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
}

class LanguageIdentifier {
 public:
  /// The built-in model.
  LanguageIdentifier()
      : LanguageIdentifier(ef::PretrainedFiles(as_text(embedded::language_id_config()),
                                               embedded::language_id_model(), "built-in model"),
                           as_text(embedded::language_id_vocabulary())) {}

  explicit LanguageIdentifier(const std::filesystem::path& directory)
      : LanguageIdentifier(ef::PretrainedFiles(directory), directory) {}

  void print(const std::string& text, std::size_t top) {
    const std::vector<std::int32_t> ids = tokenizer_.encode(text);
    std::printf("%s\n", text.c_str());
    if (ids.size() <= 2) {  // the start and one space
      std::printf("  no letters to go by\n");
      return;
    }
    const auto length = static_cast<ef::Index>(ids.size());
    const ef::TensorView<const std::int32_t, 2> row(ids.data(), {1, length});
    ef::Tensor<float, 2> logits({1, static_cast<ef::Index>(codes_.size())});
    model_.forward(row, {}, {}, logits, workspace_);
    const ef::Tensor<float, 2> probabilities = ef::softmax(logits);

    std::vector<std::size_t> order(codes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto probability = [&](std::size_t i) { return probabilities(0, i); };
    std::ranges::stable_sort(order, std::greater<>(), probability);
    order.resize(std::min(top, order.size()));

    for (std::size_t i : order) {
      std::printf("  %5.1f %%  %s  %s\n", 100.0 * static_cast<double>(probability(i)),
                  codes_[i].c_str(), names_[i].c_str());
    }
  }

 private:
  LanguageIdentifier(ef::PretrainedFiles&& files, const std::filesystem::path& directory)
      : LanguageIdentifier(std::move(files), std::string_view(read_file(directory / "vocab.txt"))) {
  }

  LanguageIdentifier(ef::PretrainedFiles&& files, std::string_view vocabulary)
      : model_(ef::load_sequence_classifier<float>(files)),
        tokenizer_(vocabulary, static_cast<std::size_t>(model_.config.max_position_embeddings)),
        codes_(files.config.labels("id2label")) {
    const ef::ConfigFile names = files.config.section("language_names");
    for (const std::string& code : codes_) names_.push_back(names.get<std::string>(code, code));
  }

  ef::SequenceClassifier<float> model_;
  examples::PieceTokenizer tokenizer_;
  std::vector<std::string> codes_;
  std::vector<std::string> names_;
  ef::Workspace workspace_;
};

int run(int argument_count, char** arguments) {
  std::optional<std::filesystem::path> directory;
  std::size_t top = 3;
  const option options[] = {{"help", no_argument, nullptr, 'h'},
                            {"model", required_argument, nullptr, 'm'},
                            {"top", required_argument, nullptr, 't'},
                            {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argument_count, arguments, "h", options, nullptr)) != -1;) {
    if (c == 'h') {
      std::printf("%s", usage);
      return 0;
    } else if (c == 'm') {
      directory = optarg;
    } else if (c == 't') {
      const char* end = optarg + std::char_traits<char>::length(optarg);
      const auto [stop, error] = std::from_chars(optarg, end, top);
      if (error != std::errc() || stop != end || top == 0) {
        throw std::invalid_argument("--top wants a number >= 1; got " + std::string(optarg));
      }
    } else {
      std::fprintf(stderr, "%s", usage);
      return 2;
    }
  }
  LanguageIdentifier identifier = directory ? LanguageIdentifier(*directory) : LanguageIdentifier();
  for (int i = optind; i < argument_count; ++i) identifier.print(arguments[i], top);
  if (optind == argument_count) {
    for (std::string line; std::getline(std::cin, line);) identifier.print(line, top);
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("cannot write to standard output");
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    return run(argument_count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "language_id: %s\n", error.what());
    return 1;
  }
}
