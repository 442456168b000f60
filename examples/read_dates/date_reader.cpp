// SPDX-License-Identifier: MIT
#include "date_reader.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>

#include "eigenformer/models/generation.hpp"

namespace examples {
namespace {

constexpr std::int32_t first_letter = 4;  // id of the alphabet's first character
constexpr ef::Index longest_answer = 11;  // yyyy-mm-dd and the end

/// The one of several values whose name is the field's.
template <class Value>
Value one_of(const ef::ConfigFile& file, const std::string& field,
             std::initializer_list<Value> values) {
  const auto name = file.get<std::string>(field);
  for (const Value value : values) {
    if (to_string(value) == name) return value;
  }
  file.fail(field, " is ", name, ", which is not known");
}

std::int32_t id_from(const ef::ConfigFile& file, const std::string& field) {
  return static_cast<std::int32_t>(file.get<ef::Index>(field));
}

double largest_probability(ef::TensorView<const float, 1> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return 1 / sum;
}

}  // namespace

ef::TransformerConfig date_model_config(const ef::ConfigFile& file) {
  return {
      .vocab_size = file.get<ef::Index>("vocab_size"),
      .hidden_size = file.get<ef::Index>("hidden_size"),
      .num_hidden_layers = file.get<ef::Index>("num_hidden_layers"),
      .num_decoder_layers = file.get<ef::Index>("num_decoder_layers"),
      .num_attention_heads = file.get<ef::Index>("num_attention_heads"),
      .intermediate_size = file.get<ef::Index>("intermediate_size"),
      .activation = one_of(file, "activation", {ef::Activation::gelu, ef::Activation::relu}),
      .max_position_embeddings = file.get<ef::Index>("max_position_embeddings"),
      .position_embedding =
          one_of(file, "position_embedding",
                 {ef::PositionEmbedding::sinusoidal, ef::PositionEmbedding::learned}),
      .sinusoidal_layout =
          one_of(file, "sinusoidal_layout",
                 {ef::SinusoidalLayout::interleaved, ef::SinusoidalLayout::concatenated}),
      .scale_embeddings = file.get<bool>("scale_embeddings"),
      .embedding_norm = file.get<bool>("embedding_norm"),
      .norm_placement =
          one_of(file, "norm_placement", {ef::NormPlacement::pre, ef::NormPlacement::post}),
      .final_norm = file.get<bool>("final_norm"),
      .layer_norm_eps = file.get<double>("layer_norm_eps"),
      .padding_id = file.get<ef::Index>("padding_id"),
      .share_embeddings = file.get<bool>("share_embeddings"),
      .tie_word_embeddings = file.get<bool>("tie_word_embeddings"),
  };
}

DateReader::DateReader(ef::PretrainedFiles&& files)
    : model_(date_model_config(files.config)),
      alphabet_(files.config.get<std::string>("alphabet")),
      padding_id_(id_from(files.config, "padding_id")),
      start_id_(id_from(files.config, "start_id")),
      end_id_(id_from(files.config, "end_id")) {
  if (model_.vocab_size() != first_letter + std::ssize(alphabet_)) {
    files.config.fail("vocab_size must be ", first_letter, " more than the ", alphabet_.size(),
                      " characters of alphabet; got ", model_.vocab_size());
  }
  ef::load(model_, files.checkpoint);
  id_of_byte_.fill(id_from(files.config, "unknown_id"));
  for (std::size_t i = 0; i < alphabet_.size(); ++i) {
    const char c = alphabet_[i];
    const auto id = first_letter + static_cast<std::int32_t>(i);
    id_of_byte_[static_cast<unsigned char>(c)] = id;
    if (c >= 'a' && c <= 'z') id_of_byte_[static_cast<unsigned char>(c - 'a' + 'A')] = id;
  }
}

std::vector<std::int32_t> DateReader::encode(std::string_view expression) const {
  std::vector<std::int32_t> ids;
  for (const char c : expression) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0u) == 0x80u;  // a character that has its id already
    if (!continues) ids.push_back(id_of_byte_[byte]);
  }
  ids.push_back(end_id_);
  const auto longest = static_cast<std::size_t>(model_.encoder.config.max_position_embeddings);
  if (ids.size() > longest) ids.resize(longest);
  return ids;
}

std::vector<DateReader::Answer> DateReader::read(const std::vector<std::string>& expressions,
                                                 ef::Workspace& workspace) const {
  std::vector<std::vector<std::int32_t>> rows;
  std::vector<ef::Index> lengths;
  for (const std::string& expression : expressions) {
    rows.push_back(encode(expression));
    lengths.push_back(std::ssize(rows.back()));
  }
  if (rows.empty()) return {};

  const auto batch = static_cast<ef::Index>(rows.size());
  ef::Tensor<std::int32_t, 2> source({batch, *std::ranges::max_element(lengths)});
  std::ranges::fill(source, padding_id_);
  for (ef::Index b = 0; b < batch; ++b) {
    std::ranges::copy(rows[static_cast<std::size_t>(b)], &source(b, 0));
  }

  // The source is encoded once; then the decoder writes one character of every row at a time.
  auto cache = model_.make_cache(batch, longest_answer);
  model_.start(source, lengths, cache, workspace);
  std::vector<double> probabilities(rows.size(), 1.0);
  const auto step = [&](ef::TensorView<const std::int32_t, 2> ids,
                        const ef::IntegerSequence& counts, ef::TensorView<float, 2> logits) {
    model_.forward_last(ids, cache, {.token_counts = counts}, logits, workspace);
    for (ef::Index b = 0; b < batch; ++b) {
      if (counts[b] == 0) continue;  // has ended
      probabilities[static_cast<std::size_t>(b)] *= largest_probability(logits[b]);
    }
  };
  const ef::Generated generated = ef::generate_tokens<float>(
      step, model_.vocab_size(), ef::TokenRows(rows.size(), {start_id_}),
      {.max_new_tokens = longest_answer, .stop_ids = {end_id_}, .pad_id = padding_id_}, workspace);

  std::vector<Answer> answers;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    answers.push_back({text_of(generated.ids[b]), probabilities[b]});
  }
  return answers;
}

std::string DateReader::text_of(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id == end_id_) break;
    text += id < first_letter ? '?' : alphabet_[static_cast<std::size_t>(id - first_letter)];
  }
  return text;
}

bool is_date(std::string_view text) {
  constexpr std::string_view form = "0000-00-00";
  const auto fits = [](char c, char wanted) {
    return wanted == '0' ? c >= '0' && c <= '9' : c == wanted;
  };
  if (!std::ranges::equal(text, form, fits)) return false;
  const auto number = [&](std::size_t begin, std::size_t size) {
    int value = 0;
    for (const char c : text.substr(begin, size)) value = 10 * value + (c - '0');
    return value;
  };
  return (std::chrono::year(number(0, 4)) / number(5, 2) / number(8, 2)).ok();
}

}  // namespace examples
