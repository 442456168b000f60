// SPDX-License-Identifier: MIT
//
// English date expressions to dates as ISO 8601 has them, by an encoder-decoder transformer over
// characters: the encoder reads the expression, the decoder writes "yyyy-mm-dd". dates.py beside it
// has the same ids in Python.
//
//   0 padding, 1 start, 2 end, 3 any other character, 4 + i character i of the alphabet; ASCII
//   letters count as lower case, and a character of several UTF-8 bytes as one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/models/pretrained.hpp"

namespace examples {

/// The transformer that the fields of a config.json describe.
ef::TransformerConfig date_model_config(const ef::ConfigFile& file);

class DateReader {
 public:
  struct Answer {
    std::string text;    // "yyyy-mm-dd" if the model is any good
    double probability;  // of the whole text, among all texts
  };

  explicit DateReader(ef::PretrainedFiles&& files);

  /// Ids of an expression, its end included; what is over the model's length is cut off.
  std::vector<std::int32_t> encode(std::string_view expression) const;

  /// Reads expressions of any lengths as one batch; each answer is what it would be alone.
  std::vector<Answer> read(const std::vector<std::string>& expressions,
                           ef::Workspace& workspace) const;

 private:
  std::string text_of(const std::vector<std::int32_t>& ids) const;

  ef::Transformer<float> model_;
  std::string alphabet_;
  std::array<std::int32_t, 256> id_of_byte_;
  std::int32_t padding_id_, start_id_, end_id_;
};

/// Whether a text is a date of the calendar, written yyyy-mm-dd.
bool is_date(std::string_view text);

}  // namespace examples
