// SPDX-License-Identifier: MIT

// Faults that others had with causality and with caches of keys and values, through
// every kind of decoder (any_decoder.hpp).

#include <numeric>

#include "tests/faults/any_decoder.hpp"
#include "tests/reference/error_text.hpp"

namespace eigenformer {
namespace caches_test {

using namespace any_decoder;

using values::largest_difference;
using values::random;
using values::randomize;

/// One decoder for each kind of positions, with and without a memory, in either order of norms,
/// with grouped heads, windows, norms of queries and keys, and caps.
std::vector<std::pair<std::string, Settings>> kinds_of_decoders() {
  std::vector<std::pair<std::string, Settings>> kinds;
  for (const auto& [name, positions] : kinds_of_positions()) {
    const bool odd = kinds.size() % 4 == 2;
    Settings settings{
        .positions = positions,
        .norm_placement = odd ? NormPlacement::post : NormPlacement::pre,
        .num_key_value_heads = odd ? 1 : 4,
        .sliding_window = odd ? 0 : 5,
        .position_embedding = odd ? PositionEmbedding::learned : PositionEmbedding::sinusoidal};
    kinds.emplace_back(name, settings);
    settings.cross_attention = true;
    settings.norm_placement = odd ? NormPlacement::pre : NormPlacement::post;
    settings.num_key_value_heads = 2;
    settings.sliding_window = odd ? 4 : 0;
    settings.query_key_norm = true;
    settings.soft_cap = 1.5;
    kinds.emplace_back(name + ", memory", settings);
  }
  return kinds;
}

/// For each of them and each kind of decoder: f(decoder, description).
template <class F>
void for_each_decoder(F&& f) {
  for (const auto& [name, settings] : kinds_of_decoders())
    for (const auto& decoder : decoders(settings)) f(*decoder, decoder->name + ", " + name);
}

// ----------------------------------------------------------------- position 0 for every new token

/// Row t of keys rotated by position t, in double, written anew.
Tensor<double, 2> rotated(const Tensor<double, 2>& keys, RotaryLayout layout) {
  const Index size = keys.dim(1), half = size / 2;
  Tensor<double, 2> result(keys.shape());
  for (Index t = 0; t < keys.dim(0); ++t)
    for (Index i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
      const Index a = layout == RotaryLayout::halves ? i : 2 * i;
      const Index b = layout == RotaryLayout::halves ? half + i : 2 * i + 1;
      result(t, a) = keys(t, a) * std::cos(angle) - keys(t, b) * std::sin(angle);
      result(t, b) = keys(t, b) * std::cos(angle) + keys(t, a) * std::sin(angle);
    }
  return result;
}

// Three tokens at once, three alone: key t is R_t W_k x_t, value t is W_v x_t. What is kept are
// keys and values, not inputs: they have the width of the heads.
TEST(CacheFaults, CachedKeysStandAtTheirPositions) {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    MultiHeadAttention<double> attention(
        {.hidden_size = 7,
         .num_attention_heads = 4,
         .num_key_value_heads = 2,
         .head_size = 4,
         .attention_positions = {.kind = AttentionPosition::rotary, .rotary = {.layout = layout}}});
    randomize(attention, 1);
    const auto x = random<double>(Shape<3>{1, 6, 7}, 2);
    auto cache = attention.make_cache(1, 6);
    Workspace workspace;
    for (Index begin = 0, end = 3; begin < 6; begin = end, ++end) {
      Tensor<double, 3> part({1, end - begin, 7}), y(part.shape());
      std::copy_n(&x(0, begin, 0), part.size(), part.data());
      attention.forward(part, cache, {.causal = true}, y, workspace);
    }
    const Tensor<double, 3> keys = attention.key(x), v = attention.value(x);
    for (Index head = 0; head < 2; ++head) {
      Tensor<double, 2> own({6, 4});
      own.matrix() = keys.matrix().middleCols(head * 4, 4);
      const auto expected = rotated(own, layout);
      for (Index t = 0; t < 6; ++t) {
        const auto key = cache.key(0, head, t), value = cache.value(0, head, t);
        ASSERT_EQ(key.shape(), (Shape<1>{4}));
        for (Index d = 0; d < 4; ++d) {
          EXPECT_NEAR(key(d), expected(t, d), 1e-14) << head << t << d;
          EXPECT_EQ(value(d), v(0, t, head * 4 + d)) << "positions don't touch values";
        }
      }
    }
  }
}

// No other kind of positions touches what is kept; a norm of the keys is applied once.
TEST(CacheFaults, OnlyRotaryPositionsAreKeptInTheKeys) {
  for (const auto& [name, positions] : kinds_of_positions()) {
    if (positions.kind == AttentionPosition::rotary) continue;
    for (bool normalized : {false, true}) {
      MultiHeadAttention<float> attention({.hidden_size = 10,
                                           .num_attention_heads = 4,
                                           .num_key_value_heads = 2,
                                           .head_size = 6,
                                           .attention_positions = positions,
                                           .query_key_norm = normalized});
      randomize(attention, 3);
      const auto x = random<float>(Shape<3>{2, 5, 10}, 4);
      Tensor<float, 3> keys = attention.key(x), v = attention.value(x);
      if (normalized) {
        Workspace workspace;
        const TensorView<float, 2> heads = keys.view().reshaped(Shape<2>{2 * 5 * 2, 6});
        attention.key_norm->forward(heads, heads, workspace);
      }
      auto cache = attention.make_cache(2, 5);
      Workspace workspace;
      Tensor<float, 3> y(x.shape());
      attention.forward(x, cache, {.causal = true}, y, workspace);
      for (Index b = 0; b < 2; ++b)
        for (Index head = 0; head < 2; ++head)
          for (Index t = 0; t < 5; ++t)
            for (Index d = 0; d < 6; ++d) {
              ASSERT_EQ(cache.key(b, head, t)(d), keys(b, t, head * 6 + d)) << name;
              ASSERT_EQ(cache.value(b, head, t)(d), v(b, t, head * 6 + d)) << name;
            }
    }
  }
}

// Every decoder in pieces of any sizes gives the bits of one call with all tokens.
TEST(CacheFaults, PiecesOfAnySizes) {
  const Index tokens = 11;
  const auto ids = random_ids(2, tokens, 5), source = random_ids(2, 4, 6);
  const std::vector<std::vector<Index>> splits{{11},
                                               {3, 1, 1, 1, 1, 1, 1, 1, 1},
                                               {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                               {1, 10},
                                               {5, 0, 4, 2},
                                               {2, 7, 1, 1}};
  for_each_decoder([&](const AnyDecoder& decoder, const std::string& what) {
    const auto expected = decoder.at_once(ids, source);
    for (const auto& sizes : splits) {
      const auto session = decoder.start(2, tokens, source);
      Index begin = 0;
      for (Index size : sizes) {
        const auto y = session->append(part_of(ids, begin, begin + size));
        for (Index b = 0; b < 2; ++b)
          for (Index t = 0; t < size; ++t)
            ASSERT_TRUE(same_token(y, b, t, expected, b, begin + t)) << what << ": " << begin + t;
        begin += size;
      }
      ASSERT_EQ(begin, tokens);
      ASSERT_EQ(session->length(0), tokens);
    }
  });
}

// The order of earlier tokens counts for later ones, in pieces as well: positions aren't all alike.
TEST(CacheFaults, TheOrderOfTheTokensCounts) {
  const auto source = random_ids(1, 3, 44);
  for_each_decoder([&](const AnyDecoder& decoder, const std::string& what) {
    const bool knows_positions = what.find("none") == std::string::npos ||
                                 decoder.name == "decoder" || decoder.name == "encoder-decoder";
    std::vector<Tensor<float, 3>> last;
    for (const std::vector<double>& order : {std::vector<double>{1, 2, 3}, {2, 1, 3}}) {
      const auto session = decoder.start(1, 3, source);
      const auto ids = values::tensor<std::int32_t>(Shape<2>{1, 3}, order);
      session->append(part_of(ids, 0, 1));
      session->append(part_of(ids, 1, 2));
      last.push_back(session->append(part_of(ids, 2, 3)));
    }
    // A stack of layers that are causal knows an order without being told, a single attention
    // doesn't.
    if (knows_positions) {
      EXPECT_GT(difference(last[0], 0, 0, last[1], 0, 0), 1e-6) << what;
    } else if (decoder.name != "stack") {
      EXPECT_LT(difference(last[0], 0, 0, last[1], 0, 0), 1e-5) << what;
    }
  });
}

// Longer than one tile of keys: prefill and single tokens around its end.
TEST(CacheFaults, PiecesAcrossTilesOfKeys) {
  const Index tokens = 263;
  const auto ids = random_ids(1, tokens, 7), source = random_ids(1, 130, 8);
  for_each_decoder([&](const AnyDecoder& decoder, const std::string& what) {
    const auto expected = decoder.at_once(ids, source);
    const auto session = decoder.start(1, tokens, source);
    for (Index begin = 0, size = 125; begin < tokens;
         begin += size, size = begin < 132 ? 1 : std::min<Index>(121, tokens - begin)) {
      const auto y = session->append(part_of(ids, begin, begin + size));
      for (Index t = 0; t < size; ++t)
        ASSERT_TRUE(same_token(y, 0, t, expected, 0, begin + t)) << what << ": " << begin + t;
    }
  });
}

// A decoder without layers shows the positions themselves: the step after t tokens adds position t.
TEST(CacheFaults, PositionEmbeddingsCountTheCachedTokens) {
  for (PositionEmbedding kind : {PositionEmbedding::learned, PositionEmbedding::sinusoidal}) {
    for (Index offset : {0, 2}) {
      TransformerDecoder<double> decoder({.vocab_size = 3,
                                          .hidden_size = 5,
                                          .num_hidden_layers = 0,
                                          .max_position_embeddings = 9,
                                          .position_embedding = kind,
                                          .position_offset = offset,
                                          .final_norm = false});
      randomize(decoder, 9);
      auto cache = decoder.make_cache(1, 7);
      Workspace workspace;
      for (Index t = 0; t < 7; ++t) {
        Tensor<double, 3> hidden({1, 1, 5});
        decoder.hidden(values::tensor<std::int32_t>(Shape<2>{1, 1}, {1}), cache, {}, hidden,
                       workspace);
        for (Index c = 0; c < 5; ++c) {
          const double angle = static_cast<double>(t + offset) *
                               std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 5);
          const double position = kind == PositionEmbedding::learned
                                      ? decoder.embeddings.position->weight(t + offset, c)
                                      : (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
          EXPECT_NEAR(hidden(0, 0, c), decoder.embeddings.token.weight(1, c) + position, 1e-14)
              << to_string(kind) << t;
        }
      }
    }
  }
}

// The caller can't count wrong: with a cache, which knows the positions, other starts are refused.
TEST(CacheFaults, OtherStartsAreRefused) {
  for (bool cross_attention : {false, true}) {
    for (const auto& decoder : decoders({.cross_attention = cross_attention})) {
      const auto ids = random_ids(1, 3, 10), source = random_ids(1, 2, 11);
      const auto session = decoder->start(1, 6, source);
      session->append(ids);
      for (Index offset : {-1, 1, 3})
        EXPECT_ERROR(session->append(ids, {.mask = {.query_offset = offset}}),
                     std::invalid_argument,
                     "with a cache, which knows the positions, mask.query_offset must be 0")
            << decoder->name;
      if (decoder->name == "decoder" || decoder->name == "encoder-decoder") {
        EXPECT_ERROR(session->append(ids, {.embedding = {.first_position = 3}}),
                     std::invalid_argument,
                     "TransformerDecoder: with a cache, which knows the positions,")
            << decoder->name;
      }
      EXPECT_EQ(session->length(0), 3) << decoder->name;
    }
  }
}

// --------------------------------------------------------------- rows of a batch differ in length

/// Rows of different lengths, then steps with different counts: each row has the bits of a run of
/// its own, at once and with a cache of its own.
void expect_rows_as_if_alone(const AnyDecoder& decoder, const std::string& what,
                             const std::vector<std::vector<Index>>& counts_of_steps) {
  const auto batch = static_cast<Index>(counts_of_steps.front().size());
  std::vector<Index> totals(static_cast<std::size_t>(batch), 0);
  for (const auto& counts : counts_of_steps)
    for (std::size_t b = 0; b < counts.size(); ++b) totals[b] += counts[b];
  const Index longest = *std::max_element(totals.begin(), totals.end());
  const auto ids = random_ids(batch, longest, 12);
  const Index keys = 6;
  const auto source = random_ids(batch, keys, 13);
  std::vector<Index> source_lengths;
  for (Index b = 0; b < batch; ++b) source_lengths.push_back((b * 5 + 2) % (keys + 1));

  const auto session = decoder.start(batch, longest, source, source_lengths);
  std::vector<std::unique_ptr<Session>> alone;
  std::vector<Tensor<float, 3>> at_once;
  for (Index b = 0; b < batch; ++b) {
    const std::vector<Index> own{source_lengths[static_cast<std::size_t>(b)]};
    const auto own_source = part_of(row_of(source, b), 0, own[0]);
    alone.push_back(decoder.start(1, longest, own_source));
    at_once.push_back(decoder.at_once(row_of(ids, b), own_source));
  }
  std::vector<Index> lengths(static_cast<std::size_t>(batch), 0);
  for (const auto& counts : counts_of_steps) {
    const Index tokens = *std::max_element(counts.begin(), counts.end());
    Ids step({batch, tokens});
    for (Index b = 0; b < batch; ++b)
      for (Index t = 0; t < tokens; ++t) {
        const auto row = static_cast<std::size_t>(b);
        step(b, t) = t < counts[row] ? ids(b, lengths[row] + t) : nan_token;
      }
    const auto y = session->append(step, {.counts = counts});
    for (Index b = 0; b < batch; ++b) {
      const auto row = static_cast<std::size_t>(b);
      const auto own =
          alone[row]->append(part_of(row_of(ids, b), lengths[row], lengths[row] + counts[row]));
      for (Index t = 0; t < counts[row]; ++t) {
        ASSERT_TRUE(same_token(y, b, t, own, 0, t)) << what << ": row " << b << " token " << t;
        ASSERT_TRUE(same_token(y, b, t, at_once[row], 0, lengths[row] + t))
            << what << ": row " << b << " token " << lengths[row] + t;
      }
      lengths[row] += counts[row];
      ASSERT_EQ(session->length(b), lengths[row]) << what;
    }
  }
}

TEST(CacheFaults, TwoRowsOfOneAndThreeTokens) {
  for_each_decoder([](const AnyDecoder& decoder, const std::string& what) {
    expect_rows_as_if_alone(decoder, what, {{1, 3}, {1, 1}, {1, 1}});
  });
}

TEST(CacheFaults, RowsOfAnyLengths) {
  for_each_decoder([](const AnyDecoder& decoder, const std::string& what) {
    expect_rows_as_if_alone(decoder, what,
                            {{0, 5, 1, 7, 2}, {1, 1, 1, 1, 1}, {3, 0, 0, 2, 9}, {1, 1, 0, 1, 1}});
    expect_rows_as_if_alone(decoder, what, {{130, 2}, {1, 127}, {1, 1}});
  });
}

TEST(CacheFaults, CountsThatCannotBeAreRefused) {
  const std::vector<std::vector<Index>> wrong{{1}, {1, 1, 1}, {-1, 1}, {1, 4}};
  for (bool cross_attention : {false, true}) {
    for (const auto& decoder : decoders({.cross_attention = cross_attention})) {
      const auto session = decoder->start(2, 9, random_ids(2, 2, 14));
      const auto ids = random_ids(2, 3, 15);
      for (const auto& counts : wrong) {
        EXPECT_ERROR(session->append(ids, {.counts = counts}), std::invalid_argument,
                     "Cache: token counts must be")
            << decoder->name;
        EXPECT_EQ(session->length(0), 0);
        EXPECT_EQ(session->length(1), 0);
      }
    }
  }
}

// -------------------------------------------------------------------------------- a cache is full

template <class F>
void expect_refused(F&& f, const std::vector<std::string>& words, const std::string& who) {
  try {
    f();
    ADD_FAILURE() << who << ": not refused";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << who << ": " << text;
  }
}

/// "batch row b holds l of at most c tokens; n more don't fit"
std::vector<std::string> words_of(Index row, Index length, Index capacity, Index more) {
  return {"row " + std::to_string(row) + " ", "holds " + std::to_string(length) + " ",
          "at most " + std::to_string(capacity) + " ", std::to_string(more) + " more"};
}

TEST(CacheFaults, WhatDoesNotFitIsRefusedAndChangesNothing) {
  for_each_decoder([](const AnyDecoder& decoder, const std::string& what) {
    const auto ids = random_ids(2, 5, 16), source = random_ids(2, 3, 17);
    const auto expected = decoder.at_once(ids, source);

    const auto session = decoder.start(2, 4, source);
    expect_refused([&] { session->append(ids); }, words_of(0, 0, 4, 5), what);
    EXPECT_EQ(session->length(0), 0);
    const auto y = session->append(part_of(ids, 0, 3));
    expect_refused([&] { session->append(part_of(ids, 3, 5)); }, words_of(0, 3, 4, 2), what);
    const std::vector<Index> second_row_only{0, 2};
    expect_refused([&] { session->append(part_of(ids, 3, 5), {.counts = second_row_only}); },
                   words_of(1, 3, 4, 2), what);
    EXPECT_EQ(session->length(0), 3);
    EXPECT_EQ(session->length(1), 3);
    const auto z = session->append(part_of(ids, 3, 4));  // as if nothing had happened
    expect_refused([&] { session->append(part_of(ids, 4, 5)); }, words_of(0, 4, 4, 1), what);
    EXPECT_EQ(session->length(0), 4);
    for (Index b = 0; b < 2; ++b) {
      for (Index t = 0; t < 3; ++t) EXPECT_TRUE(same_token(y, b, t, expected, b, t)) << what;
      EXPECT_TRUE(same_token(z, b, 0, expected, b, 3)) << what;
    }
    session->append(Ids({2, 0}));  // nothing more always fits
    session->truncate(1, 3);
    expect_refused([&] { session->append(part_of(ids, 4, 5)); }, words_of(0, 4, 4, 1), what);
    EXPECT_EQ(session->length(0), 4);
    EXPECT_EQ(session->length(1), 3);

    const auto none = decoder.start(2, 0, source);
    expect_refused([&] { none->append(part_of(ids, 0, 1)); }, words_of(0, 0, 0, 1), what);
    none->append(Ids({2, 0}));
    EXPECT_EQ(none->length(0), 0);
  });
}

TEST(CacheFaults, KeysAndValuesStayAsTheyWere) {
  MultiHeadAttention<float> attention(
      {.hidden_size = 6, .num_attention_heads = 3, .key_value_size = 5});
  randomize(attention, 18);
  const auto memory = random<float>(Shape<3>{2, 4, 5}, 19),
             more = random<float>(Shape<3>{2, 1, 5}, 20);
  auto cache = attention.make_cache(2, 4);
  Workspace workspace;
  attention.append(memory, memory, {}, cache, workspace);
  const auto before = cache;
  const std::vector<Index> one{0, 1};
  expect_refused([&] { attention.append(more, more, {}, cache, workspace); }, words_of(0, 4, 4, 1),
                 "attention");
  expect_refused([&] { attention.append(more, more, one, cache, workspace); }, words_of(1, 4, 4, 1),
                 "attention");
  EXPECT_ERROR(cache.key(0, 0, 4), std::invalid_argument, "there is no token 4");
  EXPECT_ERROR(cache.key(0, 3, 0), std::invalid_argument,
               "KeyValueCache: there is no head 3 among 3");
  EXPECT_ERROR(cache.key(2, 0, 0), std::invalid_argument,
               "KeyValueCache: there is no batch row 2 among 2");
  EXPECT_ERROR(cache.truncate(0, 5), std::invalid_argument,
               "KeyValueCache: batch row 0 holds 4 tokens and can't be");
  EXPECT_ERROR(cache.truncate(0, -1), std::invalid_argument,
               "KeyValueCache: batch row 0 holds 4 tokens and can't be");
  EXPECT_ERROR(cache.reorder(std::vector<Index>{0, 2}), std::invalid_argument,
               "KeyValueCache: there is no batch row 2 among 2");
  for (Index b = 0; b < 2; ++b) {
    ASSERT_EQ(cache.length(b), 4);
    for (Index head = 0; head < 3; ++head)
      for (Index t = 0; t < 4; ++t) {
        EXPECT_EQ(cache.key(b, head, t), before.key(b, head, t));
        EXPECT_EQ(cache.value(b, head, t), before.value(b, head, t));
      }
  }
}

TEST(CacheFaults, SizesThatCannotBeAreRefused) {
  const TransformerDecoder<float> decoder(
      {.vocab_size = 3, .hidden_size = 4, .num_attention_heads = 2, .intermediate_size = 3});
  expect_refused([&] { decoder.make_cache(1, -1); }, {"-1"}, "capacity");
  expect_refused([&] { decoder.make_cache(-2, 1); }, {"-2"}, "batch");
  expect_refused([&] { decoder.make_cache(1, Index{1} << 40); }, {"1099511627776"}, "capacity");
  EXPECT_ERROR(decoder.make_cache(Index{1} << 31, Index{1} << 31), std::invalid_argument,
               "Tensor: too many elements to address; got (2147483648,");
  EXPECT_EQ(decoder.make_cache(0, 5).batch(), 0);
}

// A memory that doesn't fit the model or the cache's batch is refused, and what the cache held of
// tokens and of the old memory stays.
TEST(CacheFaults, RefusedMemoriesChangeNothing) {
  const TransformerConfig config{.vocab_size = 5,
                                 .hidden_size = 6,
                                 .num_hidden_layers = 2,
                                 .num_attention_heads = 3,
                                 .intermediate_size = 4,
                                 .cross_attention = true,
                                 .key_value_size = 7,
                                 .max_position_embeddings = 9};
  TransformerDecoder<float> decoder(config);
  randomize(decoder, 21);
  const auto memory = random<float>(Shape<3>{2, 3, 7}, 22);
  const auto ids = values::tensor<std::int32_t>(Shape<2>{2, 4}, {0, 1, 2, 3, 4, 0, 1, 2});
  const auto expected = decoder(ids, {.memory = memory});
  Workspace workspace;
  auto cache = decoder.make_cache(2, 4);
  decoder.remember(memory, {}, cache, workspace);
  decoder(part_of(ids, 0, 3), cache);
  const std::vector<int> three{1, 1, 1}, too_long{4, 1}, negative{1, -1};
  const auto refused = [&](const Tensor<float, 3>& wrong,
                           const std::optional<IntegerSequence>& lengths) {
    EXPECT_ERROR(decoder.remember(wrong, lengths, cache, workspace), std::invalid_argument,
                 "DecoderCache:");
    auto copy = cache;
    ASSERT_TRUE(copy.has_memory());
    const auto next = decoder(part_of(ids, 3, 4), copy);
    for (Index b = 0; b < 2; ++b) EXPECT_TRUE(same_token(next, b, 0, expected, b, 3));
  };
  refused(random<float>(Shape<3>{2, 3, 6}, 23), {});
  refused(random<float>(Shape<3>{3, 3, 7}, 24), {});
  refused(random<float>(Shape<3>{2, 5, 6}, 25), {});
  refused(memory, three);
  refused(memory, too_long);
  refused(memory, negative);
}

TEST(CacheFaults, RefusedSourcesChangeNothing) {
  Transformer<float> model({.vocab_size = 5,
                            .hidden_size = 6,
                            .num_attention_heads = 3,
                            .intermediate_size = 4,
                            .max_position_embeddings = 9});
  randomize(model, 26);
  const auto source = values::tensor<std::int32_t>(Shape<2>{2, 3}, {0, 1, 2, 3, 4, 0});
  const auto ids = values::tensor<std::int32_t>(Shape<2>{2, 4}, {0, 1, 2, 3, 4, 0, 1, 2});
  const auto expected = model(source, ids);
  Workspace workspace;
  auto cache = model.make_cache(2, 4);
  model.start(source, {}, cache, workspace);
  Tensor<float, 3> logits({2, 3, 5});
  model.forward(part_of(ids, 0, 3), cache, {}, logits, workspace);
  const std::vector<int> three{1, 1, 1}, too_long{4, 1};
  const auto refused = [&](const Ids& wrong, const std::optional<IntegerSequence>& lengths,
                           const char* text) {
    EXPECT_ERROR(model.start(wrong, lengths, cache, workspace), std::invalid_argument, text);
    auto copy = cache;
    ASSERT_TRUE(copy.has_memory());
    ASSERT_EQ(copy.length(0), 3);
    Tensor<float, 3> next({2, 1, 5});
    model.forward(part_of(ids, 3, 4), copy, {}, next, workspace);
    for (Index b = 0; b < 2; ++b) EXPECT_TRUE(same_token(next, b, 0, expected, b, 3));
  };
  refused(values::tensor<std::int32_t>(Shape<2>{2, 1}, {0, 5}), {}, "id 5 at index 1 is outside");
  refused(values::tensor<std::int32_t>(Shape<2>{1, 1}, {0}), {}, "memory: shape must be (2, 1, 6)");
  refused(source, three, "one length for each of 2 batch rows");
  refused(source, too_long, "key_lengths must be in [0, 3]; got 4");
}

// Caches of another model, batch or without a memory are refused with the numbers.
TEST(CacheFaults, CachesOfOthersAreRefused) {
  const auto decoder_of = [](Index layers, bool cross_attention) {
    TransformerDecoder<float> decoder({.vocab_size = 5,
                                       .hidden_size = 6,
                                       .num_hidden_layers = layers,
                                       .num_attention_heads = 3,
                                       .intermediate_size = 4,
                                       .cross_attention = cross_attention});
    randomize(decoder, 27);
    return decoder;
  };
  const auto decoder = decoder_of(2, false), shallow = decoder_of(1, false),
             attending = decoder_of(2, true);
  const Ids ids({2, 3});
  auto of_shallow = shallow.make_cache(2, 4), of_three_rows = decoder.make_cache(3, 4),
       without_memory = attending.make_cache(2, 4);
  expect_refused([&] { decoder(ids, of_shallow); }, {"2 layers", "got 1"}, "layers");
  expect_refused([&] { decoder(ids, of_three_rows); }, {"2 batch rows", "and 3"}, "batch");
  expect_refused([&] { attending(ids, without_memory); }, {"memory"}, "memory");
  expect_refused([&] { attending(ids); }, {"memory"}, "memory");
  expect_refused(
      [&] {
        decoder(ids, {.memory = Tensor<float, 3>({2, 3, 6})});
      },
      {"memory"}, "memory");

  MultiHeadAttention<float> attention({.hidden_size = 6, .num_attention_heads = 3}),
      other({.hidden_size = 6, .num_attention_heads = 2});
  auto cache = other.make_cache(2, 4);
  Workspace workspace;
  Tensor<float, 3> y({2, 3, 6});
  expect_refused(
      [&] {
        attention.forward(random<float>(Shape<3>{2, 3, 6}, 28), cache, {.causal = true}, y,
                          workspace);
      },
      {"(2, 3, 2)", "(2, 2, 3)"}, "heads");
  EXPECT_EQ(cache.length(0), 0);
}

// A learned table that is shorter than the cache: the error names position and table, and nothing
// is added.
TEST(CacheFaults, PositionTableIsFullBeforeTheCache) {
  const Settings settings{.max_position_embeddings = 4};
  for (bool cross_attention : {false, true}) {
    Settings own(settings);
    own.cross_attention = cross_attention;
    for (const auto& decoder : decoders(own)) {
      if (decoder->name != "decoder" && decoder->name != "encoder-decoder") continue;
      const auto ids = random_ids(1, 5, 29), source = random_ids(1, 2, 30);
      const auto expected = decoder->at_once(part_of(ids, 0, 4), source);
      const auto session = decoder->start(1, 9, source);
      expect_refused([&] { session->append(ids); }, {"position 4", "= 4"}, decoder->name);
      session->append(part_of(ids, 0, 3));
      expect_refused([&] { session->append(part_of(ids, 3, 5)); }, {"position 4", "= 4"},
                     decoder->name);
      EXPECT_EQ(session->length(0), 3);
      const auto y = session->append(part_of(ids, 3, 4));
      EXPECT_TRUE(same_token(y, 0, 0, expected, 0, 3)) << decoder->name;
      expect_refused([&] { session->append(part_of(ids, 4, 5)); }, {"position 4", "= 4"},
                     decoder->name);
      EXPECT_EQ(session->length(0), 4);
    }
  }
}

// Slots that were never written, or written and given up, may hold NaN.
TEST(CacheFaults, StaleSlotsMayHoldNan) {
  for_each_decoder([](const AnyDecoder& decoder, const std::string& what) {
    const auto ids = random_ids(2, 9, 31), source = random_ids(2, 3, 32);
    const auto expected = decoder.at_once(ids, source);
    Ids bad({2, 9});
    std::fill(bad.begin(), bad.end(), nan_token);
    const auto session = decoder.start(2, 9, source);
    session->append(bad);
    session->clear();
    const auto y = session->append(part_of(ids, 0, 4));
    session->append(part_of(bad, 0, 5));
    session->truncate(0, 4);
    session->truncate(1, 4);
    const auto z = session->append(part_of(ids, 4, 9));
    for (Index b = 0; b < 2; ++b)
      for (Index t = 0; t < 9; ++t)
        ASSERT_TRUE(t < 4 ? same_token(y, b, t, expected, b, t)
                          : same_token(z, b, t - 4, expected, b, t))
            << what << t;
  });
}

TEST(CacheFaults, SlotsThatWereNeverWrittenMayHoldNan) {
  MultiHeadAttention<float> attention(
      {.hidden_size = 6, .num_attention_heads = 4, .num_key_value_heads = 2, .head_size = 3});
  randomize(attention, 33);
  const auto x = random<float>(Shape<3>{2, 5, 6}, 34);
  auto cache = attention.make_cache(2, 131);
  const auto panels = cache.panels();
  std::fill_n(panels.keys, panels.key_elements(), std::nanf(""));
  std::fill_n(panels.values, panels.value_elements(), std::nanf(""));
  Tensor<float, 3> y(x.shape());
  Workspace workspace;
  attention.forward(x, cache, {.causal = true}, y, workspace);
  EXPECT_EQ(y, attention(x, {.causal = true}));
}

// Rows in another order, some twice, some not at all: each goes on as the one that it came from.
TEST(CacheFaults, ReorderedRowsGoOnAsTheOnesTheyCameFrom) {
  for_each_decoder([](const AnyDecoder& decoder, const std::string& what) {
    const auto ids = random_ids(3, 7, 35), source = random_ids(3, 4, 36);
    const std::vector<Index> counts{2, 5, 4}, source_lengths{4, 1, 3};
    for (const std::vector<Index>& order :
         {std::vector<Index>{1, 0, 2}, {2, 0, 1}, {0, 0, 0}, {2, 2, 1}, {0, 1, 2}}) {
      const auto session = decoder.start(3, 7, source, source_lengths);
      session->append(part_of(ids, 0, 5), {.counts = counts});
      session->reorder(order);
      Ids next({3, 2});
      for (Index b = 0; b < 3; ++b)
        for (Index t = 0; t < 2; ++t) {
          const Index from = order[static_cast<std::size_t>(b)];
          next(b, t) = ids(from, counts[static_cast<std::size_t>(from)] + t);
        }
      const auto y = session->append(next);
      for (Index b = 0; b < 3; ++b) {
        const Index from = order[static_cast<std::size_t>(b)];
        const Index length = counts[static_cast<std::size_t>(from)];
        const auto own = decoder.at_once(
            row_of(ids, from),
            part_of(row_of(source, from), 0, source_lengths[static_cast<std::size_t>(from)]));
        ASSERT_EQ(session->length(b), length + 2) << what;
        for (Index t = 0; t < 2; ++t)
          ASSERT_TRUE(same_token(y, b, t, own, 0, length + t)) << what << b << t;
      }
    }
  });
}

// ------------------------------------------------------------------------------ seeing the future

// Changing the tokens after t changes no bit of the results up to t, whatever else is masked; and
// does change all those after it if nothing is.
TEST(CacheFaults, LaterTokensChangeNothing) {
  const Index tokens = 7;
  const auto ids = random_ids(2, tokens, 37), source = random_ids(2, 4, 38);
  Tensor<bool, 2> keep({2, tokens}), pairs({tokens, tokens});
  for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i % 5 != 3;
  for (Index i = 0; i < pairs.size(); ++i) pairs.data()[i] = true;  // "everything is visible"
  const std::vector<Index> lengths{tokens, 5}, source_lengths{4, 2};
  const auto bias = random<float>(Shape<2>{tokens, tokens}, 39);
  const std::vector<Call> calls{{},
                                {.mask = {.key_lengths = lengths}},
                                {.mask = {.key_allowed = keep}},
                                {.mask = {.allowed = pairs}},
                                {.mask = {.bias = bias}},
                                {.mask = {.causal = false}},
                                {.mask = {.window = 3}},
                                {.memory_mask = {.key_lengths = source_lengths}}};
  for_each_decoder([&](const AnyDecoder& decoder, const std::string& what) {
    const bool attends = what.find("memory") != std::string::npos;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      if (call.memory_mask.key_lengths && !attends) continue;
      const auto before = decoder.at_once(ids, source, call);
      const auto before_cached = decoder.start(2, tokens, source)->append(ids, call);
      for (Index t = 0; t + 1 < tokens; ++t) {
        Ids changed(ids);
        for (Index b = 0; b < 2; ++b)
          for (Index u = t + 1; u < tokens; ++u) changed(b, u) = (ids(b, u) + 5) % nan_token;
        const auto after = decoder.at_once(changed, source, call);
        const auto after_cached = decoder.start(2, tokens, source)->append(changed, call);
        for (Index b = 0; b < 2; ++b)
          for (Index u = 0; u < tokens; ++u) {
            const bool same = same_token(before, b, u, after, b, u),
                       same_cached = same_token(before_cached, b, u, after_cached, b, u);
            if (u <= t || i == 0) {
              ASSERT_EQ(same, u <= t) << what << b << t << u;
              ASSERT_EQ(same_cached, u <= t) << what << b << t << u;
            }
          }
      }
    }
  });
}

// The first token changes the last result: a causal decoder isn't a blind one.
TEST(CacheFaults, EarlierTokensAreSeen) {
  const auto ids = random_ids(1, 4, 40), source = random_ids(1, 3, 41);
  Ids changed(ids);
  changed(0, 0) = (ids(0, 0) + 5) % nan_token;
  for_each_decoder([&](const AnyDecoder& decoder, const std::string& what) {
    EXPECT_GT(
        difference(decoder.at_once(ids, source), 0, 3, decoder.at_once(changed, source), 0, 3),
        1e-5)
        << what;
  });
}

// Other norms and networks, in both orders.
TEST(CacheFaults, WithRootMeanSquareNormsAndGatedNetworks) {
  for (bool cross_attention : {false, true}) {
    for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
      std::vector<std::unique_ptr<AnyDecoder>> all;
      any_decoder::internal::add<RMSNorm, GatedFeedForward>(
          all, {.cross_attention = cross_attention, .norm_placement = placement});
      for (const auto& decoder : all) {
        const auto ids = random_ids(1, 6, 42), source = random_ids(1, 3, 43);
        const auto before = decoder->at_once(ids, source);
        for (Index t = 0; t + 1 < 6; ++t) {
          Ids changed(ids);
          for (Index u = t + 1; u < 6; ++u) changed(0, u) = (ids(0, u) + 5) % nan_token;
          const auto after = decoder->at_once(changed, source);
          for (Index u = 0; u < 6; ++u)
            ASSERT_EQ(same_token(before, 0, u, after, 0, u), u <= t) << decoder->name << t << u;
        }
      }
    }
  }
}

}  // namespace caches_test
}  // namespace eigenformer
