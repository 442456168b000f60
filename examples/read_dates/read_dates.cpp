// SPDX-License-Identifier: MIT
//
// Dates as people write them to dates as ISO 8601 has them, by a small transformer (encoder and
// decoder) that is part of the program.
#include <getopt.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "date_reader.hpp"
#include "embedded/read_dates_config.hpp"
#include "embedded/read_dates_model.hpp"

namespace {

constexpr const char* usage =
    R"(usage: read_dates [--at-least P] [--probability] [--model DIR] [EXPRESSION...]

Prints the date of each English expression as yyyy-mm-dd, one a line, or "?". Numbers alone are day,
month, year, unless the year comes first.

  EXPRESSION      without any, the lines of standard input
  --at-least P    "?" for answers less probable than P (default 0.9)
  --probability   after each answer its probability and the expression, between tabs
  --model DIR     config.json and model.safetensors to use instead of the built-in model
)";

struct Options {
  std::optional<std::filesystem::path> directory;
  double at_least = 0.9;
  bool probability = false;
};

examples::DateReader built_in_reader() {
  const auto config = embedded::read_dates_config();
  return examples::DateReader(
      ef::PretrainedFiles({reinterpret_cast<const char*>(config.data()), config.size()},
                          embedded::read_dates_model(), "built-in model"));
}

double parse_probability(const char* text) {
  double value = 0;
  const char* end = text + std::char_traits<char>::length(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || !(value >= 0 && value <= 1)) {
    throw std::invalid_argument("--at-least wants a number in [0, 1]; got " + std::string(text));
  }
  return value;
}

void print(const examples::DateReader& reader, const std::vector<std::string>& expressions,
           const Options& options, ef::Workspace& workspace) {
  const auto answers = reader.read(expressions, workspace);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& [text, probability] = answers[i];
    const bool good = probability >= options.at_least && examples::is_date(text);
    std::printf("%s", good ? text.c_str() : "?");
    if (options.probability) std::printf("\t%.4f\t%s", probability, expressions[i].c_str());
    std::printf("\n");
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("cannot write to standard output");
}

int run(int argument_count, char** arguments) {
  Options chosen;
  const option options[] = {{"help", no_argument, nullptr, 'h'},
                            {"at-least", required_argument, nullptr, 'a'},
                            {"probability", no_argument, nullptr, 'p'},
                            {"model", required_argument, nullptr, 'm'},
                            {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argument_count, arguments, "h", options, nullptr)) != -1;) {
    if (c == 'h') {
      std::printf("%s", usage);
      return 0;
    } else if (c == 'a') {
      chosen.at_least = parse_probability(optarg);
    } else if (c == 'p') {
      chosen.probability = true;
    } else if (c == 'm') {
      chosen.directory = optarg;
    } else {
      std::fprintf(stderr, "%s", usage);
      return 2;
    }
  }
  const examples::DateReader reader =
      chosen.directory ? examples::DateReader(ef::PretrainedFiles(*chosen.directory))
                       : built_in_reader();
  ef::Workspace workspace;
  std::vector<std::string> expressions(arguments + optind, arguments + argument_count);
  if (!expressions.empty()) {
    print(reader, expressions, chosen, workspace);
    return 0;
  }
  // Files go faster in batches; a person waits for each answer.
  const std::size_t batch = isatty(STDIN_FILENO) ? 1 : 64;
  for (std::string line; std::getline(std::cin, line);) {
    expressions.push_back(line);
    if (expressions.size() < batch) continue;
    print(reader, expressions, chosen, workspace);
    expressions.clear();
  }
  print(reader, expressions, chosen, workspace);
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    return run(argument_count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "read_dates: %s\n", error.what());
    return 1;
  }
}
