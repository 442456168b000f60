// SPDX-License-Identifier: MIT

// Faults that others had with learned and sinusoidal positions, and with padding on
// the left for every kind of positions. Rotary embeddings and ALiBi:
// attention_positions_test.cpp.

#include "tests/faults/any_decoder.hpp"
#include "tests/reference/error_text.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace positions_test {

using values::expect_values;
using values::largest_difference;
using values::randomize;

Tensor<double, 1> sinusoid(Index position, Index width, SinusoidalLayout layout) {
  const auto table = sinusoidal_positions<double>(1, width, layout, position);
  return values::reshaped(table, Shape<1>{width});
}

template <class F>
void expect_refused(F&& f, const std::vector<std::string>& words) {
  try {
    f();
    ADD_FAILURE() << "not refused; expected a message with " << words.front();
  } catch (const std::invalid_argument& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

// An odd width has one sine more than cosines.
TEST(PositionFaults, OddWidths) {
  const SinusoidalLayout interleaved = SinusoidalLayout::interleaved;
  expect_values(sinusoid(1, 5, interleaved), {.8414710, .5403023, .0251162, .9996845, .0006310},
                5e-8);
  expect_values(sinusoid(1, 3, interleaved), {.8414710, .5403023, .0021544}, 5e-8);
  expect_values(sinusoid(1, 1, interleaved), {.8414710}, 5e-8);
}

// Every width and layout, written into memory between two guards that must stay as they are.
TEST(PositionFaults, NothingIsWrittenOutsideTheRows) {
  for (SinusoidalLayout layout : {SinusoidalLayout::interleaved, SinusoidalLayout::concatenated,
                                  SinusoidalLayout::tensor2tensor}) {
    for (Index width = 1; width <= 19; ++width) {
      const Embeddings<float> embeddings({.vocab_size = 5,
                                          .hidden_size = width,
                                          .position_embedding = PositionEmbedding::sinusoidal,
                                          .sinusoidal_layout = layout,
                                          .embedding_norm = false});
      const auto table = sinusoidal_positions<float>(3, width, layout);
      std::vector<float> memory(static_cast<std::size_t>(3 * width) + 2, 999.0f);
      memory.front() = memory.back() = 12345.0f;
      const TensorView<float, 3> y(memory.data() + 1, {1, 3, width});
      Workspace workspace;
      embeddings.forward(Tensor<std::int32_t, 2>({1, 3}), {}, y, workspace);
      EXPECT_EQ(memory.front(), 12345.0f);
      EXPECT_EQ(memory.back(), 12345.0f);
      EXPECT_TRUE(std::equal(table.begin(), table.end(), y.begin()))
          << to_string(layout) << " width " << width;
    }
    EXPECT_EQ(sinusoidal_positions<float>(3, 0, layout).shape(), (Shape<2>{3, 0}));
    EXPECT_EQ(sinusoidal_positions<float>(0, 3, layout).shape(), (Shape<2>{0, 3}));
    EXPECT_ERROR(sinusoidal_positions<float>(-1, 3, layout), std::invalid_argument,
                 "sinusoidal_positions: count and width must be >= 0; got -1 and 3");
    EXPECT_ERROR(sinusoidal_positions<float>(3, -1, layout), std::invalid_argument,
                 "sinusoidal_positions: count and width must be >= 0; got 3 and -1");
  }
}

// Every layout and width against its formula: which column holds which wave.
TEST(PositionFaults, LayoutsAgainstTheirFormulas) {
  for (Index width = 1; width <= 19; ++width) {
    for (Index position : {0, 1, 2, 57, 10000}) {
      const double p = static_cast<double>(position), w = static_cast<double>(width);
      const auto interleaved = sinusoid(position, width, SinusoidalLayout::interleaved);
      const auto concatenated = sinusoid(position, width, SinusoidalLayout::concatenated);
      const auto tensor2tensor = sinusoid(position, width, SinusoidalLayout::tensor2tensor);
      for (Index c = 0; c < width; ++c) {
        const Index sines = (width + 1) / 2, half = width / 2;
        const double of_paper = p * std::pow(10000.0, -2.0 * static_cast<double>(c / 2) / w);
        EXPECT_NEAR(interleaved(c), c % 2 == 0 ? std::sin(of_paper) : std::cos(of_paper), 1e-11);
        const Index wave = c < sines ? c : c - sines;
        const double of_halves = p * std::pow(10000.0, -2.0 * static_cast<double>(wave) / w);
        EXPECT_NEAR(concatenated(c), c < sines ? std::sin(of_halves) : std::cos(of_halves), 1e-11);
        if (c >= 2 * half) {
          EXPECT_EQ(tensor2tensor(c), 0.0) << "padded with zero";
          continue;
        }
        const double steps =
            half > 1 ? static_cast<double>(half - 1) : 1.0;  // one wave: nothing to divide by
        const double angle = p * std::pow(10000.0, -static_cast<double>(c % half) / steps);
        EXPECT_NEAR(tensor2tensor(c), c < half ? std::sin(angle) : std::cos(angle), 1e-11);
      }
    }
  }
}

TEST(PositionFaults, PaperAndTensor2TensorLayouts) {
  expect_values(sinusoid(1, 4, SinusoidalLayout::interleaved),
                {.8414710, .5403023, .0099998, .9999500}, 5e-8);
  expect_values(sinusoid(1, 4, SinusoidalLayout::concatenated),
                {.8414710, .0099998, .5403023, .9999500}, 5e-8);
  expect_values(sinusoid(1, 4, SinusoidalLayout::tensor2tensor),
                {.8414710, .0001000, .5403023, 1.0000000}, 5e-8);
  expect_values(sinusoid(1, 2, SinusoidalLayout::tensor2tensor), {.8414710, .5403023}, 5e-8);
}

// In the module: the configured layout is the one that is added, odd widths too.
TEST(PositionFaults, EmbeddingsAddTheConfiguredLayout) {
  for (SinusoidalLayout layout : {SinusoidalLayout::interleaved, SinusoidalLayout::concatenated,
                                  SinusoidalLayout::tensor2tensor}) {
    for (Index width : {1, 2, 3, 7, 8, 13}) {
      Embeddings<double> embeddings({.vocab_size = 5,
                                     .hidden_size = width,
                                     .position_embedding = PositionEmbedding::sinusoidal,
                                     .sinusoidal_layout = layout,
                                     .embedding_norm = false});
      randomize(embeddings, 1);
      const Tensor<std::int32_t, 2> ids = values::tensor<std::int32_t>(Shape<2>{1, 3}, {4, 0, 4});
      const auto y = embeddings(ids, {.first_position = 11});
      for (Index t = 0; t < 3; ++t) {
        const auto wave = sinusoid(11 + t, width, layout);
        for (Index c = 0; c < width; ++c)
          EXPECT_NEAR(y(0, t, c), embeddings.token.weight(ids(0, t), c) + wave(c), 1e-14);
      }
    }
  }
}

// In decoders: every layout and width, odd ones too, added to the token vectors at once
// and one by one with a cache.
TEST(PositionFaults, DecodersAddTheConfiguredLayout) {
  for (SinusoidalLayout layout : {SinusoidalLayout::interleaved, SinusoidalLayout::concatenated,
                                  SinusoidalLayout::tensor2tensor}) {
    for (Index width : {1, 2, 3, 7, 8, 13}) {
      TransformerDecoder<double> decoder({.vocab_size = width,
                                          .hidden_size = width,
                                          .num_hidden_layers = 0,
                                          .position_embedding = PositionEmbedding::sinusoidal,
                                          .sinusoidal_layout = layout,
                                          .final_norm = false,
                                          .tie_word_embeddings = false});
      randomize(decoder, 3);
      decoder.head.weight.matrix().setIdentity();  // logits are what the layers would get
      const Tensor<std::int32_t, 2> ids({1, 5});
      const auto at_once = decoder(ids);
      auto cache = decoder.make_cache(1, 5);
      for (Index t = 0; t < 5; ++t) {
        const auto step = decoder(Tensor<std::int32_t, 2>({1, 1}), cache);
        const auto wave = sinusoid(t, width, layout);
        for (Index c = 0; c < width; ++c) {
          EXPECT_NEAR(at_once(0, t, c), decoder.embeddings.token.weight(0, c) + wave(c), 1e-14);
          EXPECT_EQ(step(0, 0, c), at_once(0, t, c)) << to_string(layout) << width << t;
        }
      }
    }
  }
}

// Positions start after the padding index, and padding itself gets that index.
TEST(PositionFaults, PositionsStartAfterThePaddingIndex) {
  EXPECT_EQ(
      positions_after_padding(values::tensor<std::int32_t>(Shape<2>{2, 3}, {4, 5, 6, 4, 3, 3}), 3),
      (values::tensor<std::int32_t>(Shape<2>{2, 3}, {4, 5, 6, 4, 3, 3})));
  EXPECT_EQ(
      positions_after_padding(values::tensor<std::int32_t>(Shape<2>{1, 5}, {0, 5, 6, 1, 1}), 1),
      (values::tensor<std::int32_t>(Shape<2>{1, 5}, {2, 3, 4, 1, 1})));
  EXPECT_EQ(
      positions_after_padding(values::tensor<std::int32_t>(Shape<2>{1, 5}, {1, 1, 7, 1, 8}), 1),
      (values::tensor<std::int32_t>(Shape<2>{1, 5}, {1, 1, 2, 1, 3})))
      << "padding on the left or between";
  EXPECT_EQ(positions_after_padding(Tensor<std::int32_t, 2>({2, 0}), 1),
            (Tensor<std::int32_t, 2>({2, 0})));
}

// A table of 514 rows holds 512 tokens when positions start at 2; by offset as by explicit
// positions.
TEST(PositionFaults, TableOf514RowsHolds512Tokens) {
  const auto embeddings_with_offset = [](Index offset) {
    Embeddings<float> embeddings({.vocab_size = 3,
                                  .hidden_size = 2,
                                  .max_position_embeddings = 514,
                                  .position_offset = offset,
                                  .embedding_norm = false,
                                  .padding_id = 1});
    for (Index i = 0; i < 514; ++i) embeddings.position->weight(i, 1) = static_cast<float>(i);
    return embeddings;
  };
  const auto by_positions = embeddings_with_offset(0), by_offset = embeddings_with_offset(2);
  Tensor<std::int32_t, 2> ids({1, 512}), too_many({1, 513});
  std::fill(ids.begin(), ids.end(), 2);
  std::fill(too_many.begin(), too_many.end(), 2);
  const auto y = by_offset(ids);
  EXPECT_EQ(y(0, 0, 1), 2.0f);
  EXPECT_EQ(y(0, 511, 1), 513.0f);
  EXPECT_EQ(by_positions(ids, {.positions = positions_after_padding(ids, 1)}), y);
  expect_refused([&] { by_offset(too_many); }, {"position 514", "= 514"});
  expect_refused(
      [&] { by_positions(too_many, {.positions = positions_after_padding(too_many, 1)}); },
      {"position 514", "= 514"});
}

// In decoders: a table of 6 rows with offset 2 (BART's) holds 4 tokens, at once, one by one,
// and in rows of different lengths.
TEST(PositionFaults, DecodersWithAnOffset) {
  TransformerDecoder<float> decoder({.vocab_size = 3,
                                     .hidden_size = 2,
                                     .num_hidden_layers = 0,
                                     .max_position_embeddings = 6,
                                     .position_offset = 2,
                                     .final_norm = false,
                                     .tie_word_embeddings = false});
  for (Index i = 0; i < 6; ++i) decoder.embeddings.position->weight(i, 0) = static_cast<float>(i);
  decoder.head.weight(0, 0) = 1;
  const auto tokens = [](Index batch, Index count) {
    return Tensor<std::int32_t, 2>({batch, count});
  };
  const auto y = decoder(tokens(1, 4));
  for (Index t = 0; t < 4; ++t) EXPECT_EQ(y(0, t, 0), static_cast<float>(t + 2));
  expect_refused([&] { decoder(tokens(1, 5)); }, {"position 6", "= 6"});

  auto cache = decoder.make_cache(2, 9);
  const std::vector<int> counts{1, 3};
  const auto first = decoder(tokens(2, 3), cache, {.token_counts = counts});
  EXPECT_EQ(first(0, 0, 0), 2.0f);
  for (Index t = 0; t < 3; ++t) EXPECT_EQ(first(1, t, 0), static_cast<float>(t + 2));
  const auto second = decoder(tokens(2, 1), cache);
  EXPECT_EQ(second(0, 0, 0), 3.0f);
  EXPECT_EQ(second(1, 0, 0), 5.0f);
  expect_refused([&] { decoder(tokens(2, 1), cache); }, {"position 6", "= 6"});
  const std::vector<int> only_the_first{2, 0};
  const auto third = decoder(tokens(2, 2), cache, {.token_counts = only_the_first});
  EXPECT_EQ(third(0, 1, 0), 5.0f);
  expect_refused([&] { decoder(tokens(2, 1), cache); }, {"position 6", "= 6"});
}

// The start counts, not the length of the call alone; and a refused call leaves its result as
// it was.
TEST(PositionFaults, PositionsOutsideALearnedTable) {
  Embeddings<float> embeddings(
      {.vocab_size = 3, .hidden_size = 2, .max_position_embeddings = 4, .embedding_norm = false});
  for (Index i = 0; i < 4; ++i) embeddings.position->weight(i, 0) = static_cast<float>(10 + i);
  const auto one = [](Index tokens) { return Tensor<std::int32_t, 2>({1, tokens}); };
  EXPECT_EQ(embeddings(one(4))(0, 3, 0), 13.0f);
  EXPECT_EQ(embeddings(one(1), {.first_position = 3})(0, 0, 0), 13.0f);
  expect_refused([&] { embeddings(one(5)); }, {"position 4", "= 4"});
  expect_refused([&] { embeddings(one(2), {.first_position = 3}); }, {"position 4", "= 4"});
  expect_refused([&] { embeddings(one(1), {.first_position = 4}); }, {"position 4", "= 4"});
  expect_refused([&] { embeddings(one(1), {.first_position = -1}); }, {"position -1", "= 4"});
  expect_refused([&] { embeddings(one(1), {.first_position = Index{1} << 40}); },
                 {"1099511627776"});

  for (std::int32_t bad : {-1, 4, std::numeric_limits<std::int32_t>::max(),
                           std::numeric_limits<std::int32_t>::min()}) {
    for (Index at = 0; at < 6; ++at) {
      Tensor<std::int32_t, 2> positions({2, 3});
      positions.data()[at] = bad;
      const Tensor<std::int32_t, 2> ids({2, 3});
      auto y = values::filled<float>(Shape<3>{2, 3, 2}, 5);
      const auto before = y;
      Workspace workspace;
      expect_refused([&] { embeddings.forward(ids, {.positions = positions}, y, workspace); },
                     {"position " + std::to_string(bad), "= 4"});
      EXPECT_EQ(y, before);
      EXPECT_EQ(workspace.arena().used(), 0u);
    }
  }
}

// In decoders and in both halves of an encoder-decoder.
TEST(PositionFaults, PositionsOutsideTheTableOfADecoder) {
  TransformerDecoder<float> decoder(
      {.vocab_size = 3, .hidden_size = 2, .intermediate_size = 3, .max_position_embeddings = 4});
  Transformer<float> model({.vocab_size = 3,
                            .hidden_size = 2,
                            .intermediate_size = 3,
                            .max_position_embeddings = 4,
                            .position_embedding = PositionEmbedding::learned});
  randomize(decoder, 4);
  randomize(model, 5);
  const auto one = [](Index tokens) { return Tensor<std::int32_t, 2>({1, tokens}); };
  EXPECT_NO_THROW(decoder(one(4)));
  EXPECT_NO_THROW(decoder(one(1), {.embedding = {.first_position = 3}}));
  EXPECT_NO_THROW(model(one(4), one(4)));
  expect_refused([&] { decoder(one(5)); }, {"position 4", "= 4"});
  expect_refused([&] { decoder(one(2), {.embedding = {.first_position = 3}}); },
                 {"position 4", "= 4"});
  expect_refused([&] { decoder(one(1), {.embedding = {.first_position = 4}}); },
                 {"position 4", "= 4"});
  expect_refused([&] { decoder(one(1), {.embedding = {.first_position = -1}}); },
                 {"position -1", "= 4"});
  expect_refused([&] { model(one(5), one(4)); }, {"position 4", "= 4"});
  expect_refused([&] { model(one(4), one(5)); }, {"position 4", "= 4"});
  auto cache = model.make_cache(1, 9);
  Workspace workspace;
  expect_refused([&] { model.start(one(5), {}, cache, workspace); }, {"position 4", "= 4"});
}

TEST(PositionFaults, SinusoidalDecodersHaveNoEnd) {
  const TransformerDecoder<float> decoder = [] {
    TransformerDecoder<float> made({.vocab_size = 7,
                                    .hidden_size = 6,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 3,
                                    .max_position_embeddings = 4,
                                    .position_embedding = PositionEmbedding::sinusoidal});
    randomize(made, 6);
    return made;
  }();
  Tensor<std::int32_t, 2> ids({1, 40});
  for (Index t = 0; t < 40; ++t) ids(0, t) = static_cast<std::int32_t>(t * t % 7);
  const auto expected = decoder(ids);
  auto cache = decoder.make_cache(1, 40);
  for (Index t = 0; t < 40; ++t) {
    const auto step = decoder(any_decoder::part_of(ids, t, t + 1), cache);
    EXPECT_TRUE(any_decoder::same_token(step, 0, 0, expected, 0, t)) << t;
  }
  EXPECT_TRUE(values::all_finite(decoder(ids, {.embedding = {.first_position = 10000}})));
}

TEST(PositionFaults, SinusoidsHaveNoEnd) {
  const Embeddings<double> embeddings({.vocab_size = 3,
                                       .hidden_size = 7,
                                       .max_position_embeddings = 4,
                                       .position_embedding = PositionEmbedding::sinusoidal,
                                       .embedding_norm = false});
  const auto y = embeddings(Tensor<std::int32_t, 2>({1, 1}), {.first_position = 10000});
  for (Index c = 0; c < 7; ++c) {
    const double angle = 10000.0 * std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 7);
    EXPECT_NEAR(y(0, 0, c), c % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-11);
  }
}

TEST(PositionFaults, PositionsCountKeptTokensOnly) {
  EXPECT_EQ(positions_of_kept(values::tensor<bool>(Shape<2>{2, 5}, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1})),
            (values::tensor<std::int32_t>(Shape<2>{2, 5}, {0, 0, 0, 1, 2, 0, 1, 2, 3, 4})));
}

// Padding on the left, by any amount, changes nothing for the tokens behind it.
TEST(PositionFaults, LeftPaddingShiftsNothing) {
  for (PositionEmbedding kind : {PositionEmbedding::learned, PositionEmbedding::sinusoidal}) {
    TransformerEncoder<float> encoder({.vocab_size = 11,
                                       .hidden_size = 6,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 3,
                                       .intermediate_size = 7,
                                       .max_position_embeddings = 12,
                                       .position_embedding = kind});
    randomize(encoder, 2, 1.0);
    for (Index tokens : {1, 3, 5}) {
      Tensor<std::int32_t, 2> alone({1, tokens});
      for (Index t = 0; t < tokens; ++t) alone(0, t) = static_cast<std::int32_t>(3 + 2 * t) % 11;
      const auto expected = encoder(alone);
      for (Index padding : {1, 2, 7}) {
        const Index total = padding + tokens;
        Tensor<std::int32_t, 2> ids({2, total});  // the second row has no padding
        Tensor<bool, 2> keep({2, total});
        for (Index t = 0; t < total; ++t) {
          ids(0, t) = t < padding ? 0 : alone(0, t - padding);
          ids(1, t) = static_cast<std::int32_t>(t % 7);
          keep(0, t) = t >= padding;
          keep(1, t) = true;
        }
        const auto y = encoder(ids, {.positions = positions_of_kept(keep)}, {.key_allowed = keep});
        double largest = 0;
        for (Index t = 0; t < tokens; ++t)
          for (Index c = 0; c < 6; ++c)
            largest = std::max(
                largest, static_cast<double>(std::abs(y(0, padding + t, c) - expected(0, t, c))));
        EXPECT_LT(largest, 1e-5) << to_string(kind) << ", padding " << padding;
        EXPECT_TRUE(values::all_finite(y));
        if (tokens > 1) {
          const auto shifted = encoder(ids, {.key_allowed = keep});
          double shift = 0;
          for (Index c = 0; c < 6; ++c)
            shift += static_cast<double>(std::abs(shifted(0, padding, c) - expected(0, 0, c)));
          EXPECT_GT(shift, 1e-2) << "positions counted from the padding on must make a difference";
        }
      }
    }
  }
}

// In decoders, for every kind of positions: at once, and with a cache in pieces that go on
// after the padding.
TEST(PositionFaults, LeftPaddingShiftsNothingInDecoders) {
  using namespace any_decoder;
  std::vector<Settings> kinds;
  for (const auto& named : any_decoder::kinds_of_positions()) {
    for (PositionEmbedding embedding :
         {PositionEmbedding::none, PositionEmbedding::learned, PositionEmbedding::sinusoidal})
      kinds.push_back(
          {.positions = named.second,
           .cross_attention = kinds.size() % 2 == 1,
           .norm_placement = kinds.size() % 3 == 0 ? NormPlacement::post : NormPlacement::pre,
           .num_key_value_heads = 2,
           .sliding_window = kinds.size() % 4 == 0 ? 4 : 0,
           .position_embedding = embedding});
  }
  const Index tokens = 6;
  const auto alone = random_ids(1, tokens, 7), other = random_ids(1, 20, 8);
  const auto source = random_ids(2, 3, 9);
  for (const Settings& settings : kinds) {
    for (const auto& decoder : decoders(settings)) {
      const auto expected = decoder->at_once(alone, row_of(source, 0));
      for (Index padding : {1, 2, 7}) {
        const Index total = padding + tokens;
        Tensor<std::int32_t, 2> ids({2, total});
        Tensor<bool, 2> keep({2, total});
        for (Index t = 0; t < total; ++t) {
          ids(0, t) = t < padding ? 0 : alone(0, t - padding);
          ids(1, t) = other(0, t);
          keep(0, t) = t >= padding;
          keep(1, t) = true;
        }
        const auto positions = positions_of_kept(keep);
        const auto y = decoder->at_once(
            ids, source, {.mask = {.key_allowed = keep}, .embedding = {.positions = positions}});
        EXPECT_TRUE(values::all_finite(y)) << decoder->name;
        for (Index t = 0; t < tokens; ++t)
          ASSERT_LT(difference(y, 0, padding + t, expected, 0, t), 1e-5)
              << decoder->name << ", padding " << padding << ", token " << t;

        // With a cache: the padding and three tokens, then one by one.
        const auto session = decoder->start(2, total, source);
        for (Index begin = 0, end = padding + 3; begin < total; begin = end, ++end) {
          Tensor<bool, 2> keep_so_far({2, end});
          for (Index b = 0; b < 2; ++b)
            for (Index j = 0; j < end; ++j) keep_so_far(b, j) = keep(b, j);
          const auto part = part_of(positions, begin, end);
          const auto z = session->append(
              part_of(ids, begin, end),
              {.mask = {.key_allowed = keep_so_far}, .embedding = {.positions = part}});
          for (Index b = 0; b < 2; ++b)
            for (Index t = begin; t < end; ++t)
              ASSERT_TRUE(same_token(z, b, t - begin, y, b, t)) << decoder->name << t;
        }
      }
    }
  }
}

// In encoders with positions inside attention.
TEST(PositionFaults, LeftPaddingShiftsNothingInEncodersWithRelativePositions) {
  for (const auto& [name, positions] : any_decoder::kinds_of_positions()) {
    TransformerEncoder<float> encoder({.vocab_size = 13,
                                       .hidden_size = 10,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 4,
                                       .head_size = 6,
                                       .intermediate_size = 7,
                                       .position_embedding = PositionEmbedding::none,
                                       .attention_positions = positions});
    randomize(encoder, 10, 1.0);
    const auto alone = any_decoder::random_ids(1, 5, 11);
    const auto expected = encoder(alone);
    for (Index padding : {1, 2, 7}) {
      Tensor<std::int32_t, 2> ids({1, padding + 5});
      Tensor<bool, 2> keep({1, padding + 5});
      for (Index t = 0; t < 5; ++t) {
        ids(0, padding + t) = alone(0, t);
        keep(0, padding + t) = true;
      }
      const auto y = encoder(ids, {.key_allowed = keep});
      for (Index t = 0; t < 5; ++t)
        EXPECT_LT(any_decoder::difference(y, 0, padding + t, expected, 0, t), 1e-5)
            << name << ", padding " << padding;
    }
  }
}

}  // namespace positions_test
}  // namespace eigenformer
