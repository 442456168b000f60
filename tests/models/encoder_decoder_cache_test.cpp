// SPDX-License-Identifier: MIT
// Decoders with a memory and a cache: the memory's keys and values are computed once, and the bits
// are those of a call with everything.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "eigenformer/models/transformer.hpp"
#include "eigenformer/models/transformer_stack.hpp"
#include "eigenformer/nn/gated_feed_forward.hpp"
#include "eigenformer/nn/rms_norm.hpp"
#include "tests/models/decoding.hpp"
#include "tests/reference/allocations.hpp"
#include "tests/reference/error_text.hpp"

namespace encoder_decoder_cache_test {

using namespace decoding;

template <class T>
class EncoderDecoderCacheTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EncoderDecoderCacheTest, Scalars);

constexpr Index width = 29, memory_width = 17;

template <class F>
void expect_refused(F&& f, const std::vector<std::string>& texts) {
  try {
    f();
    ADD_FAILURE() << "nothing thrown; expected " << ::testing::PrintToString(texts);
  } catch (const std::invalid_argument& error) {
    for (const std::string& text : texts) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
          << "'" << error.what() << "' lacks '" << text << "'";
    }
  }
}

/// Layers alone, with the positions of a decoder.
template <class T>
ef::DecoderStack<T> make_stack(const ef::TransformerConfig& c) {
  return random_model<ef::DecoderStack<T>>(
      ef::TransformerConfig{.hidden_size = width,
                            .num_hidden_layers = 2,
                            .num_attention_heads = c.num_attention_heads,
                            .num_key_value_heads = c.num_key_value_heads,
                            .head_size = c.head_size,
                            .intermediate_size = c.intermediate_size,
                            .cross_attention = true,
                            .key_value_size = memory_width,
                            .norm_placement = c.norm_placement,
                            .final_norm = c.final_norm,
                            .attention_positions = c.attention_positions,
                            .sliding_window = c.sliding_window});
}

template <class T>
Tensor<T, 3> in_pieces(const ef::DecoderStack<T>& stack, const Tensor<T, 3>& x,
                       const std::vector<Piece>& list, ef::DecoderCache<T>& cache,
                       ef::Workspace& workspace) {
  return pieces::in_pieces<T>(
      x, width, Counts(cache.lengths().begin(), cache.lengths().end()), list,
      [&](const Piece& piece, const Tensor<T, 3>& part, Tensor<T, 3>& y) {
        stack.forward(part, piece.token_counts(), cache, {}, {}, y, workspace);
      });
}

TYPED_TEST(EncoderDecoderCacheTest, StacksWithMemoriesOfOtherLengths) {
  using T = TypeParam;
  ef::ThreadPool pool(7);
  const Index batch = 3, length = 149;
  const auto x = reference::random_tensor<T, 3>({batch, length, width}, 3, 2);
  const auto memory = reference::random_tensor<T, 3>({batch, 139, memory_width}, 4, 2);
  const std::vector<int> memory_lengths = {139, 5, 0};
  Tensor<T, 3> padded = memory;
  for (Index b = 0; b < batch; ++b) {
    for (Index j = memory_lengths[std::size_t(b)]; j < 139; ++j)
      padded(b, j, 3) = std::numeric_limits<T>::quiet_NaN();
  }
  const Counts none = {0, 0, 0}, all = {length, length, length}, ragged = {length, 130, 2};
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    for (Index groups : {6, 2}) {
      for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
        auto config = decoder.config;
        config.num_key_value_heads = groups;
        config.norm_placement = placement;
        config.sliding_window = groups == 2 ? 97 : 0;
        const auto stack = make_stack<T>(config);
        const Tensor<T, 3> whole = stack(x, memory, {}, {.key_lengths = memory_lengths});
        for (bool threads : {false, true}) {
          ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
          auto cache = stack.make_cache(batch, length);
          stack.remember(padded, memory_lengths, cache, workspace);
          const Tensor<T, 3> steps =
              in_pieces(stack, x, prompt_and_steps(batch, length), cache, workspace);
          ASSERT_TRUE(pieces::same_tokens(steps, whole, none, all)) << decoder.name;
          cache.forget_tokens();  // keeps the memory
          ASSERT_TRUE(cache.has_memory());
          ASSERT_EQ(lengths(cache), none);
          const Tensor<T, 3> y =
              in_pieces(stack, x, pieces::ragged_pieces(none, ragged, 61, 6), cache, workspace);
          ASSERT_TRUE(pieces::same_tokens(y, whole, none, ragged)) << decoder.name;
        }
      }
    }
  }
}

ef::TransformerConfig small_transformer() {
  return {.vocab_size = vocabulary,
          .hidden_size = width,
          .num_hidden_layers = 1,
          .num_decoder_layers = 2,
          .num_attention_heads = 6,
          .head_size = 10,
          .intermediate_size = 31,
          .max_position_embeddings = 400};
}

/// The whole transformer in pieces: other lengths of sources and targets in every row.
template <class Model>
void compare(const Model& model, const std::string& name) {
  using T = typename Model::Scalar;
  ef::ThreadPool pool(7);
  const Ids source = random_ids(3, 143, 8), target = random_ids(3, 149);
  const std::vector<int> source_lengths = {143, 1, 11};
  const Counts none = {0, 0, 0}, ragged = {149, 130, 2};
  const Tensor<T, 3> whole = model(source, target, {.key_lengths = source_lengths});
  for (bool threads : {false, true}) {
    ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
    auto cache = model.make_cache(3, 149);
    EXPECT_FALSE(cache.has_memory());
    for (int round = 0; round < 2; ++round) {  // starting anew forgets the targets
      model.start(source, source_lengths, cache, workspace);
      EXPECT_TRUE(cache.has_memory());
      EXPECT_EQ(lengths(cache), none);
      const auto list =
          round == 0 ? pieces::ragged_pieces(none, ragged, 61, 6) : prompt_and_steps(3, 149);
      const Tensor<T, 3> y = decoding::in_pieces(model, target, list, cache, workspace);
      ASSERT_TRUE(pieces::same_tokens(y, whole, none, lengths(cache))) << name;
    }
  }
}

TYPED_TEST(EncoderDecoderCacheTest, TransformersWithAllPositions) {
  using T = TypeParam;
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    auto config = small_transformer();
    config.position_embedding = decoder.config.position_embedding;
    config.position_offset = decoder.config.position_offset;
    config.attention_positions = decoder.config.attention_positions;
    compare(random_model<ef::Transformer<T>>(config), decoder.name);
    config.norm_placement = ef::NormPlacement::pre;
    config.num_key_value_heads = 2;
    config.final_norm = true;
    config.sliding_window = 97;
    config.share_embeddings = config.tie_word_embeddings = false;
    compare(random_model<ef::Transformer<T, ef::RMSNorm, ef::GatedFeedForward>>(config),
            decoder.name);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(EncoderDecoderCacheTest, ReorderingTakesTheMemoryAlong) {
  using T = TypeParam;
  const auto model = random_model<ef::Transformer<T>>(small_transformer());
  const Ids source = random_ids(3, 143, 8), target = random_ids(3, 40);
  const std::vector<int> source_lengths = {143, 130, 11};
  ef::Workspace workspace;
  auto cache = model.make_cache(3, 40);
  model.start(source, source_lengths, cache, workspace);
  decoding::in_pieces(model, target, {{{13, 5, 0}, 13}}, cache, workspace);
  Counts origin = {0, 1, 2};
  for (const std::vector<Index>& rows :
       std::vector<std::vector<Index>>{{1, 0, 2}, {0, 0, 2, 2, 1}, {4, 1}, {1}}) {
    cache.reorder(rows);
    Counts next;
    for (Index b : rows) next.push_back(origin[std::size_t(b)]);
    origin = next;
    const auto batch = static_cast<Index>(rows.size());
    Ids own_source({batch, 143}), own_target({batch, 40});
    std::vector<int> own_lengths;
    for (Index b = 0; b < batch; ++b) {
      const Index from = origin[std::size_t(b)];
      own_lengths.push_back(source_lengths[std::size_t(from)]);
      std::copy_n(&source(from, 0), 143, &own_source(b, 0));
      std::copy_n(&target(from, 0), 40, &own_target(b, 0));
    }
    const Tensor<T, 3> whole = model(own_source, own_target, {.key_lengths = own_lengths});
    const Counts begin = lengths(cache);
    Counts end = begin;
    for (Index& at : end) at += 4;
    const Tensor<T, 3> y = decoding::in_pieces(
        model, own_target, pieces::ragged_pieces(begin, end, 3, 6), cache, workspace);
    ASSERT_TRUE(pieces::same_tokens(y, whole, begin, end)) << batch;
  }
}

// Another memory, shorter or longer, takes the place of the old one.
TYPED_TEST(EncoderDecoderCacheTest, MemoriesAreReplaced) {
  using T = TypeParam;
  const auto stack = make_stack<T>(small_decoder());
  const auto x = reference::random_tensor<T, 3>({2, 5, width}, 3, 2);
  ef::Workspace workspace;
  auto cache = stack.make_cache(2, 5);
  for (Index size : {131, 7, 0, 150, 131}) {
    const auto memory =
        reference::random_tensor<T, 3>({2, size, memory_width}, std::uint64_t(size), 2);
    stack.remember(memory, {}, cache, workspace);
    for (Index b = 0; b < 2; ++b) cache.truncate(b, 0);
    const Tensor<T, 3> y = in_pieces(stack, x, pieces::equal_pieces(2, 0, 5, 2), cache, workspace);
    EXPECT_TRUE(reference::same_bits(y, stack(x, memory))) << size;
  }
}

// The mask of a memory in a cache is for the tokens that it holds.
TYPED_TEST(EncoderDecoderCacheTest, MasksOfTheMemory) {
  using T = TypeParam;
  const auto stack = make_stack<T>(small_decoder());
  const auto x = reference::random_tensor<T, 3>({2, 5, width}, 3, 2);
  const auto memory = reference::random_tensor<T, 3>({2, 137, memory_width}, 4, 2);
  Tensor<bool, 2> keep({2, 137});
  for (Index i = 0; i < keep.size(); ++i) keep.data()[i] = i % 3 != 1;
  const Tensor<T, 3> whole = stack(x, memory, {}, {.key_allowed = keep});
  ef::Workspace workspace;
  auto cache = stack.make_cache(2, 5);
  stack.remember(memory, {}, cache, workspace);
  Tensor<T, 3> y(x.shape());
  stack.forward(x, cache, {}, {.key_allowed = keep}, y, workspace);
  EXPECT_TRUE(reference::same_bits(y, whole));
  EXPECT_FALSE(reference::same_bits(y, stack(x, memory)));
}

TYPED_TEST(EncoderDecoderCacheTest, WrongCallsChangeNothing) {
  using T = TypeParam;
  const auto stack = make_stack<T>(small_decoder());
  const auto x = reference::random_tensor<T, 3>({2, 5, width}, 3, 2);
  const auto memory = reference::random_tensor<T, 3>({2, 7, memory_width}, 4, 2);
  const Tensor<T, 3> whole = stack(x, memory);
  ef::Workspace workspace;
  auto cache = stack.make_cache(2, 5);
  Tensor<T, 3> part({2, 2, width}), y({2, 2, width});
  std::fill(y.begin(), y.end(), T(-777));
  expect_refused([&] { stack.forward(part, cache, {}, {}, y, workspace); }, {"memory", "remember"});
  stack.remember(memory, {}, cache, workspace);
  in_pieces(stack, x, {{{3, 3}, 3}}, cache, workspace);
  const auto refused = [&](const auto& call, const std::vector<std::string>& texts) {
    expect_refused(call, texts);
    for (const T value : y) ASSERT_EQ(value, T(-777)) << texts.front();
    EXPECT_EQ(lengths(cache), Counts({3, 3}));
    EXPECT_TRUE(cache.has_memory());
    EXPECT_EQ(workspace.arena().used(), 0u);
  };
  const Tensor<bool, 2> keep({2, 6});
  const auto forward = [&](const ef::Mask<T>& mask, const ef::Mask<T>& memory_mask,
                           const std::optional<ef::IntegerSequence>& counts = {}) {
    return [&stack, &part, &cache, &y, &workspace, mask, memory_mask, counts] {
      stack.forward(part, counts, cache, mask, memory_mask, y, workspace);
    };
  };
  const std::vector<int> beyond = {3, 1};
  refused(forward({.key_allowed = keep}, {}), {"(2, 5)", "(2, 6)"});
  // Thrown when self-attention has appended its keys already.
  refused(forward({}, {.key_allowed = keep}), {"(2, 7)", "(2, 6)"});
  refused(forward({}, {}, beyond), {"[0, 2]", "3"});
  Tensor<T, 3> long_x({2, 3, width}), long_y({2, 3, width});
  refused([&] { stack.forward(long_x, cache, {}, {}, long_y, workspace); },
          {"holds 3", "at most 5", "3 more"});
  const Tensor<T, 3> z = in_pieces(stack, x, {{{2, 2}, 2}}, cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(z, whole, {3, 3}, {5, 5}));
}

TYPED_TEST(EncoderDecoderCacheTest, AMemoryThatIsRefusedLeavesTheOldOne) {
  using T = TypeParam;
  const auto stack = make_stack<T>(small_decoder());
  const auto x = reference::random_tensor<T, 3>({2, 5, width}, 3, 2);
  const auto memory = reference::random_tensor<T, 3>({2, 7, memory_width}, 4, 2);
  const Tensor<T, 3> whole = stack(x, memory);
  ef::Workspace workspace;
  auto cache = stack.make_cache(2, 5);
  stack.remember(memory, {}, cache, workspace);
  in_pieces(stack, x, {{{3, 3}, 3}}, cache, workspace);
  const std::vector<int> beyond = {7, 8}, three = {1, 1, 1};
  const Tensor<T, 3> wide({2, 7, memory_width + 1}), rows({3, 7, memory_width});
  expect_refused([&] { stack.remember(memory, beyond, cache, workspace); }, {"8", "7"});
  expect_refused([&] { stack.remember(memory, three, cache, workspace); }, {"3", "2"});
  expect_refused([&] { stack.remember(wide, {}, cache, workspace); }, {"(2, 7, 18)", "(2, 7, 17)"});
  expect_refused([&] { stack.remember(rows, {}, cache, workspace); }, {"3", "2"});
  ASSERT_TRUE(cache.has_memory());
  const Tensor<T, 3> z = in_pieces(stack, x, {{{2, 2}, 2}}, cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(z, whole, {3, 3}, {5, 5}));
}

// The cache of a decoder with fewer layers has no place for their memories.
TYPED_TEST(EncoderDecoderCacheTest, CachesOfOtherDecodersAreRefused) {
  using T = TypeParam;
  const auto stack = make_stack<T>(small_decoder());
  const Tensor<T, 3> memory({2, 7, memory_width});
  auto config = stack.config;
  config.num_hidden_layers = 1;
  ef::Workspace workspace;
  for (auto cache : {ef::DecoderStack<T>(config).make_cache(2, 5), ef::DecoderCache<T>()}) {
    EXPECT_ERROR(stack.remember(memory, {}, cache, workspace), std::invalid_argument,
                 "DecoderCache: the cache must be for 2 layers");
    EXPECT_FALSE(cache.has_memory());
  }
  config.cross_attention = false;
  const ef::DecoderStack<T> without(config);
  auto cache = without.make_cache(2, 5);
  expect_refused([&] { without.remember(memory, {}, cache, workspace); }, {"cross_attention"});
}

TYPED_TEST(EncoderDecoderCacheTest, AStartThatIsRefusedChangesNothing) {
  using T = TypeParam;
  const auto model = random_model<ef::Transformer<T>>(small_transformer());
  const Ids source = random_ids(2, 11, 8), target = random_ids(2, 9);
  const Tensor<T, 3> whole = model(source, target);
  ef::Workspace workspace;
  auto cache = model.make_cache(2, 9);
  model.start(source, {}, cache, workspace);
  decoding::in_pieces(model, target, {{{5, 3}, 5}}, cache, workspace);
  const std::vector<int> beyond = {11, 12};
  Ids wrong = source;
  wrong(1, 10) = vocabulary;
  expect_refused([&] { model.start(source, beyond, cache, workspace); }, {"[0, 11]", "12"});
  expect_refused([&] { model.start(wrong, {}, cache, workspace); }, {"id 13"});
  expect_refused([&] { model.start(random_ids(3, 11), {}, cache, workspace); }, {"3", "2"});
  EXPECT_EQ(lengths(cache), Counts({5, 3}));
  ASSERT_TRUE(cache.has_memory());
  const Tensor<T, 3> y = decoding::in_pieces(
      model, target, pieces::ragged_pieces({5, 3}, {9, 9}, 3, 6), cache, workspace);
  EXPECT_TRUE(pieces::same_tokens(y, whole, {5, 3}, {9, 9}));

  cache.clear();
  EXPECT_FALSE(cache.has_memory());
  Tensor<T, 3> logits({2, target.dim(1), vocabulary});
  expect_refused([&] { model.forward(target, cache, {}, logits, workspace); }, {"memory"});
}

TYPED_TEST(EncoderDecoderCacheTest, FurtherCallsAllocateNothing) {
  using T = TypeParam;
  ef::ThreadPool pool(2);
  const auto model = random_model<ef::Transformer<T>>(small_transformer());
  const Ids source = random_ids(2, 50, 8), prompt = random_ids(2, 30), one = random_ids(2, 1);
  for (bool threads : {false, true}) {
    ef::Workspace workspace = threads ? ef::Workspace(pool) : ef::Workspace();
    auto cache = model.make_cache(2, 150);
    Tensor<T, 3> logits({2, 30, vocabulary});
    Tensor<T, 2> last({2, vocabulary});
    model.start(source, {}, cache, workspace);
    model.forward(prompt, cache, {}, logits, workspace);
    model.forward_last(one, cache, {}, last, workspace);
    const long before = reference::allocations();
    Eigen::internal::set_is_malloc_allowed(false);
    for (int i = 0; i < 100; ++i) model.forward_last(one, cache, {}, last, workspace);
    model.start(source, {}, cache, workspace);
    model.forward(prompt, cache, {}, logits, workspace);
    Eigen::internal::set_is_malloc_allowed(true);
    EXPECT_EQ(reference::allocations(), before);
  }
}

}  // namespace encoder_decoder_cache_test
