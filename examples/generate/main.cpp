// SPDX-License-Identifier: MIT
// Text from a decoder's checkpoint, printed as it is made.
//
//   generate DIRECTORY --prompt "Once upon a time"
//   generate DIRECTORY --ids 1 --sample --temperature 0.8 --top-p 0.9 --seed 7
//
// DIRECTORY holds config.json and safetensors files as transformers saves them (GPT-2, Llama, Mistral,
// Qwen2, Qwen3), or one file model.bin of llama2.c; and tokenizer.model, a SentencePiece model. Without a
// tokenizer, or with --ids, token ids are read and printed.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"
#include "text_pieces.hpp"

namespace {

namespace ef = eigenformer;

struct Options {
  std::filesystem::path directory;
  std::string prompt;
  std::vector<std::int32_t> ids;
  ef::GenerationConfig generation{.max_new_tokens = 200};
  std::uint64_t seed = 0;
  ef::Index threads = std::max(1u, std::thread::hardware_concurrency());
};

Options read_options(int argc, char** argv, CLI::App& app) {
  Options options;
  ef::GenerationConfig& c = options.generation;
  app.add_option("directory", options.directory, "where the checkpoint is")->required();
  app.add_option("--prompt", options.prompt, "text to go on from");
  app.add_option("--ids", options.ids, "token ids to go on from, instead of text");
  app.add_option("--max-new-tokens", c.max_new_tokens, "at most so many tokens");
  app.add_flag("--sample", c.do_sample, "sample tokens; otherwise the likeliest is taken");
  app.add_option("--temperature", c.temperature);
  app.add_option("--top-k", c.top_k, "only the k likeliest; 0: all");
  app.add_option("--top-p", c.top_p, "only the likeliest that together have this probability");
  app.add_option("--min-p", c.min_p, "only those with this part of the likeliest's probability");
  app.add_option("--repetition-penalty", c.repetition_penalty);
  app.add_option("--seed", options.seed, "the same seed samples the same text");
  app.add_option("--threads", options.threads);
  app.parse(argc, argv);
  c.key = ef::Key{options.seed};
  return options;
}

template <class Decoder>
void write_text(const Decoder& decoder, Options& options,
                const std::optional<examples::TextPieces>& pieces) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::int32_t> prompt = options.ids;
  const bool text = pieces && prompt.empty();
  if (text) prompt = pieces->ids_with_begin(options.prompt);
  if (prompt.empty()) throw std::invalid_argument("--ids is needed without a tokenizer.model");
  if (decoder.config.position_embedding == ef::PositionEmbedding::learned) {
    const auto longest =
        decoder.config.max_position_embeddings - static_cast<ef::Index>(prompt.size()) + 1;
    options.generation.max_new_tokens = std::min(options.generation.max_new_tokens, longest);
  }

  if (text) std::cout << options.prompt;
  ef::ThreadPool pool(options.threads);
  ef::Workspace workspace(pool);
  ef::Index count = 0;
  Clock::time_point first;
  const Clock::time_point begin = Clock::now();
  std::int32_t previous = prompt.back();
  ef::generate(decoder, {prompt}, options.generation, workspace, [&](ef::Index, std::int32_t id) {
    if (count++ == 0) first = Clock::now();
    if (text) {
      std::cout << pieces->text_of(previous, id) << std::flush;
    } else {
      std::cout << id << ' ' << std::flush;
    }
    previous = id;
  });
  const std::chrono::duration<double> reading = first - begin, writing = Clock::now() - first;
  std::cout << std::endl;
  std::fprintf(stderr, "%zu tokens read in %.1f ms, %td written", prompt.size(),
               1e3 * reading.count(), count);
  if (count > 1)
    std::fprintf(stderr, ", %.1f tokens/s", static_cast<double>(count - 1) / writing.count());
  std::fprintf(stderr, "\n");
}

/// The kind of decoder is in the files.
void write_text_of_any(Options& options, const std::optional<examples::TextPieces>& pieces) {
  if (const auto file = options.directory / "model.bin"; std::filesystem::exists(file)) {
    options.generation.stop_ids = {1, 2};  // llama2.c's texts end before the next one's begin
    return write_text(ef::load_llama2c_decoder<float>(file), options, pieces);
  }
  ef::PretrainedFiles files(options.directory);
  if (files.config.contains("eos_token_id")) {
    for (ef::Index id : files.config.integers("eos_token_id"))
      options.generation.stop_ids.push_back(static_cast<std::int32_t>(id));
  }
  if (files.config.get<std::string>("model_type") == "gpt2") {
    write_text(ef::load_decoder<float>(files), options, pieces);
  } else {
    write_text(ef::load_decoder<float, ef::RMSNorm, ef::GatedFeedForward>(files), options, pieces);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Text from a decoder's checkpoint.");
  try {
    Options options = read_options(argc, argv, app);
    std::optional<examples::TextPieces> pieces;
    if (std::filesystem::exists(options.directory / "tokenizer.model"))
      pieces.emplace(options.directory / "tokenizer.model");
    write_text_of_any(options, pieces);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "generate: %s\n", error.what());
    return 1;
  }
}
