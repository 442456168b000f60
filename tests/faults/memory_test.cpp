// SPDX-License-Identifier: MIT

// Faults that others had with memory in C++ and Eigen: under-aligned storage, aliasing,
// checks that exist only in Debug and memory that is read before it is written. Also compiled
// for AVX2 with assertions, and with NDEBUG.

#include <array>
#include <memory>
#include <optional>

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace memory_test {

using values::largest_difference;
using values::random;
using values::randomize;

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0; }

template <class M>
void expect_aligned_parameters(const M& module) {
  for_each_parameter(module, [](const std::string& name, const auto& parameter) {
    EXPECT_TRUE(is_aligned(parameter.data())) << name;
  });
}

// -------------------------------------------------------------------------------------- alignment

/// A place that shifts what it holds by 8 bytes from every larger alignment.
template <class T>
struct Packed {
  double in_front;
  T value;
};

/// In containers, on the stack, on the heap, behind pointers: copies are equal, deep and aligned.
template <class T, class Use>
void expect_usable_everywhere(const T& original, Use&& use) {
  const auto expected = use(original);
  const auto check = [&](const T& copy) { EXPECT_EQ(use(copy), expected); };
  std::vector<T> vector;
  for (int i = 0; i < 5; ++i) vector.push_back(original);
  for (const T& copy : vector) check(copy);
  vector.erase(vector.begin());
  check(vector[2]);
  check(*std::optional<T>(original));
  check(*std::make_shared<T>(original));
  check(*std::make_unique<T>(original));
  const std::array<T, 3> array{original, original, original};
  check(array[1]);
  check(Packed<T>{1.0, original}.value);
  const std::unique_ptr<T> heap(new T(original));
  check(*heap);
  T moved(std::move(vector[1]));
  check(moved);
  vector[0] = std::move(moved);
  check(vector[0]);
  vector[1] = original;
  check(vector[1]);
}

TEST(MemoryFaults, EveryTypeInEveryPlace) {
  const auto x = random<float>(Shape<3>{2, 5, 6}, 1);
  const auto ids = values::tensor<std::int32_t>(Shape<2>{1, 3}, {1, 0, 6});
  expect_usable_everywhere(x, [](const Tensor<float, 3>& t) {
    EXPECT_TRUE(is_aligned(t.data()));
    return t;
  });
  expect_usable_everywhere(ids, [](const Tensor<std::int32_t, 2>& t) { return t; });
  const auto on_x = [&](const auto& module) {
    expect_aligned_parameters(module);
    return module(x);
  };
  const auto on_ids = [&](const auto& module) {
    expect_aligned_parameters(module);
    return module(ids);
  };
  const auto usable = [&](auto module, const auto& use) {
    randomize(module, 2);
    expect_usable_everywhere(module, use);
  };
  usable(Linear<float>({.in_features = 6, .out_features = 7}), on_x);
  usable(LayerNorm<float>({.hidden_size = 6}), on_x);
  usable(RMSNorm<float>({.hidden_size = 6}), on_x);
  usable(GELU<float>(), on_x);
  usable(FeedForward<float>({.hidden_size = 6, .intermediate_size = 7}), on_x);
  usable(GatedFeedForward<float>({.hidden_size = 6, .intermediate_size = 7}), on_x);
  usable(MultiHeadAttention<float>({.hidden_size = 6, .num_attention_heads = 3}), on_x);
  usable(EncoderLayer<float>({.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 7}),
         on_x);
  usable(EncoderStack<float>({.hidden_size = 6,
                              .num_hidden_layers = 2,
                              .num_attention_heads = 3,
                              .intermediate_size = 7}),
         on_x);
  usable(Pooler<float>({.hidden_size = 6}), on_x);
  usable(Embedding<float>({.num_embeddings = 7, .embedding_dim = 5}), on_ids);
  const TransformerConfig config{.vocab_size = 7,
                                 .hidden_size = 6,
                                 .num_attention_heads = 3,
                                 .intermediate_size = 7,
                                 .type_vocab_size = 2,
                                 .final_norm = true};
  usable(TransformerEncoder<float>(config), on_ids);
  usable(MaskedLanguageModel<float>(config), on_ids);
  usable(SequenceClassifier<float>(config), on_ids);
  usable(VisionTransformer<float>({.image_size = 4,
                                   .patch_size = 2,
                                   .num_channels = 1,
                                   .hidden_size = 6,
                                   .num_hidden_layers = 1,
                                   .num_attention_heads = 3,
                                   .intermediate_size = 7,
                                   .num_labels = 3}),
         [&](const VisionTransformer<float>& module) {
           return module(random<float>(Shape<4>{2, 1, 4, 4}, 3));
         });
}

TEST(MemoryFaults, WorkspacesAndPoolsInEveryPlace) {
  const Linear<float> linear({.in_features = 6, .out_features = 6});
  const auto x = random<float>(Shape<2>{3, 6}, 4);
  Tensor<float, 2> y(x.shape());
  const auto use = [&](Workspace& workspace) {
    linear.forward(x, y, workspace);
    Scratch scratch(workspace);
    for (Index bytes : {1, 3, 64, 65}) EXPECT_TRUE(is_aligned(scratch.array<char>(bytes)));
  };
  const auto shared_pool = std::make_shared<ThreadPool>(2);
  std::vector<Workspace> workspaces(3);
  workspaces.emplace_back(*shared_pool);
  for (Workspace& workspace : workspaces) use(workspace);
  std::optional<Workspace> optional;
  optional.emplace(*shared_pool);
  use(*optional);
  Workspace moved(std::move(workspaces[3]));
  use(moved);
  use(*std::make_shared<Workspace>());
}

// Views of foreign memory that starts 4 bytes behind every alignment: the same bits as from aligned
// tensors.
TEST(MemoryFaults, ViewsOfUnalignedMemory) {
  EncoderLayer<float, RMSNorm, GatedFeedForward> layer({.hidden_size = 24,
                                                        .num_attention_heads = 3,
                                                        .num_key_value_heads = 1,
                                                        .intermediate_size = 17});
  EncoderLayer<float> other({.hidden_size = 24,
                             .num_attention_heads = 3,
                             .intermediate_size = 17,
                             .norm_placement = NormPlacement::pre});
  randomize(layer, 5);
  randomize(other, 6);
  const auto x = random<float>(Shape<3>{2, 7, 24}, 7);
  const auto bias = random<float>(Shape<2>{7, 7}, 8);
  for (Index shift = 0; shift < 17; ++shift) {
    const auto place = [&](std::vector<float>& memory, Index count) {
      memory.assign(static_cast<std::size_t>(count + 40), std::nanf(""));
      float* aligned = memory.data();
      while (!is_aligned(aligned)) ++aligned;
      return aligned + shift;
    };
    std::vector<float> from, to, scores;
    const TensorView<float, 3> x_view(place(from, x.size()), x.shape()),
        y_view(place(to, x.size()), x.shape());
    const TensorView<float, 2> bias_view(place(scores, bias.size()), bias.shape());
    std::copy(x.begin(), x.end(), x_view.begin());
    std::copy(bias.begin(), bias.end(), bias_view.begin());
    Workspace workspace;
    layer.forward(x_view, {.bias = bias_view}, y_view, workspace);
    EXPECT_EQ((Tensor<float, 3>(TensorView<const float, 3>(y_view))), layer(x, {.bias = bias}))
        << shift;
    other.forward(x_view, {.causal = true}, y_view, workspace);
    EXPECT_EQ((Tensor<float, 3>(TensorView<const float, 3>(y_view))), other(x, {.causal = true}))
        << shift;
    EXPECT_TRUE(std::isnan(y_view.data()[x.size()])) << "one element behind the result";
  }
}

// --------------------------------------------------------------------------------------- aliasing

/// `run(x, y, workspace)` for every overlap of x and y in one block of memory: as if on copies, or
/// refused and nothing touched.
template <int RankX, int RankY, class Run>
void expect_no_silent_overlap(const std::string& name, const Shape<RankX>& x_shape,
                              const Shape<RankY>& y_shape, Run&& run) {
  const Index n = x_shape.size(), m = y_shape.size();
  const auto x = random<float>(x_shape, 9);
  Tensor<float, RankY> expected(y_shape);
  Workspace workspace;
  run(TensorView<const float, RankX>(x), expected.view(), workspace);
  Index worked = 0;
  for (Index distance = -m; distance <= n; ++distance) {
    if (std::abs(distance) > 3 && distance % 7 != 0 && distance != -m && distance != n) continue;
    std::vector<float> memory(static_cast<std::size_t>(n + 2 * m), 7.0f);
    const TensorView<float, RankX> x_view(memory.data() + m, x_shape);
    const TensorView<float, RankY> y_view(memory.data() + m + distance, y_shape);
    std::copy(x.begin(), x.end(), x_view.begin());
    const auto before = memory;
    try {
      run(TensorView<const float, RankX>(x_view), y_view, workspace);
      ++worked;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), y_view.begin()))
          << name << " at distance " << distance;
    } catch (const std::invalid_argument&) {
      ASSERT_EQ(memory, before) << name << " at distance " << distance;
    }
  }
  EXPECT_GE(worked, 2) << name << ": neighbours without overlap must work";
}

TEST(MemoryFaults, OverlapsWorkAsOnACopyOrAreRefused) {
  const Shape<2> square{5, 6};
  const Shape<3> tokens{2, 3, 6};
  const auto rowwise = [&](const std::string& name, const auto& module, Index outputs) {
    expect_no_silent_overlap(name, square, Shape<2>{5, outputs},
                             [&](auto x, auto y, Workspace& w) { module.forward(x, y, w); });
  };
  const auto ready = [](auto module) {
    randomize(module, 10);
    return module;
  };
  rowwise("Linear", ready(Linear<float>({.in_features = 6, .out_features = 6})), 6);
  rowwise("Linear, narrower", ready(Linear<float>({.in_features = 6, .out_features = 2})), 2);
  rowwise("LayerNorm", ready(LayerNorm<float>({.hidden_size = 6})), 6);
  rowwise("RMSNorm", ready(RMSNorm<float>({.hidden_size = 6})), 6);
  rowwise("GELU", GELU<float>(), 6);
  rowwise("FeedForward", ready(FeedForward<float>({.hidden_size = 6, .intermediate_size = 7})), 6);
  rowwise("GatedFeedForward",
          ready(GatedFeedForward<float>({.hidden_size = 6, .intermediate_size = 7})), 6);

  const auto attention =
      ready(MultiHeadAttention<float>({.hidden_size = 6, .num_attention_heads = 3}));
  expect_no_silent_overlap("MultiHeadAttention", tokens, tokens,
                           [&](auto x, auto y, Workspace& w) { attention.forward(x, {}, y, w); });
  const auto queries = random<float>(tokens, 11);
  expect_no_silent_overlap(
      "MultiHeadAttention, memory", Shape<3>{2, 5, 6}, tokens,
      [&](auto m, auto y, Workspace& w) { attention.forward(queries, m, m, {}, y, w); });
  for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    const auto layer = ready(EncoderLayer<float>({.hidden_size = 6,
                                                  .num_attention_heads = 3,
                                                  .intermediate_size = 7,
                                                  .norm_placement = placement}));
    expect_no_silent_overlap("EncoderLayer", tokens, tokens,
                             [&](auto x, auto y, Workspace& w) { layer.forward(x, {}, y, w); });
  }
  const auto stack = ready(EncoderStack<float>({.hidden_size = 6,
                                                .num_hidden_layers = 2,
                                                .num_attention_heads = 3,
                                                .intermediate_size = 7}));
  expect_no_silent_overlap("EncoderStack", tokens, tokens,
                           [&](auto x, auto y, Workspace& w) { stack.forward(x, {}, y, w); });

  const auto pooler = ready(Pooler<float>({.hidden_size = 6}));
  expect_no_silent_overlap("Pooler", tokens, Shape<2>{2, 6},
                           [&](auto x, auto y, Workspace& w) { pooler.forward(x, y, w); });
  const auto patches = ready(PatchEmbedding<float>(
      {.image_size = 4, .patch_size = 2, .num_channels = 1, .hidden_size = 5}));
  expect_no_silent_overlap("PatchEmbedding", Shape<4>{2, 1, 4, 4}, Shape<3>{2, 4, 5},
                           [&](auto x, auto y, Workspace& w) { patches.forward(x, y, w); });
  const auto vision = ready(VisionTransformer<float>({.image_size = 4,
                                                      .patch_size = 2,
                                                      .num_channels = 1,
                                                      .hidden_size = 6,
                                                      .num_hidden_layers = 1,
                                                      .num_attention_heads = 3,
                                                      .intermediate_size = 7,
                                                      .num_labels = 3}));
  expect_no_silent_overlap("VisionTransformer", Shape<4>{2, 1, 4, 4}, Shape<2>{2, 3},
                           [&](auto x, auto y, Workspace& w) { vision.forward(x, y, w); });
  const auto head = ready(MaskedLanguageModelHead<float>({.hidden_size = 6, .vocab_size = 7}));
  const auto table = random<float>(Shape<2>{7, 6}, 12);
  expect_no_silent_overlap("MaskedLanguageModelHead", tokens, Shape<3>{2, 3, 7},
                           [&](auto x, auto y, Workspace& w) { head.forward(x, table, y, w); });
}

// Assigning a result to its own argument, a tensor to itself, and reordering through copies.
TEST(MemoryFaults, AssignmentToTheArgument) {
  EncoderLayer<float> layer({.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 7});
  randomize(layer, 13);
  auto x = random<float>(Shape<3>{2, 3, 6}, 14);
  const auto y = layer(x), z = values::sum(x, layer(x));
  auto a = x, b = x;
  a = layer(a);
  EXPECT_EQ(a, y);
  b.vector() += layer(b).vector();
  EXPECT_EQ(b, z);

  const auto copy = x;
  Tensor<float, 3>& same = x;
  x = same;
  EXPECT_EQ(x, copy);
  x = std::move(same);
  EXPECT_EQ(x, copy);
  const auto layer_copy = layer;
  auto& same_layer = layer;
  layer = same_layer;
  EXPECT_TRUE(parameters_equal(layer, layer_copy));

  auto scores = random<float>(Shape<2>{3, 5}, 15);
  const auto expected = softmax(scores);
  scores = softmax(scores);
  EXPECT_EQ(scores, expected);
}

// ------------------------------------------------ checks in every build, no unwritten memory read

template <class F>
void expect_message(F&& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "not refused; expected a message with " << parts.front();
  } catch (const std::invalid_argument& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(MemoryFaults, WrongShapesAreRefusedWithBothShapes) {
  const Linear<float> linear({.in_features = 4, .out_features = 3});
  expect_message([&] { linear(Tensor<float, 2>({2, 5})); }, {"(2, 4)", "(2, 5)"});
  expect_message([&] { linear(Tensor<float, 3>({2, 7, 5})); }, {"(2, 7, 4)", "(2, 7, 5)"});
  expect_message([&] { linear(Tensor<float, 1>({3})); }, {"(4)", "(3)"});
  Workspace workspace;
  Tensor<float, 2> x({2, 4}), wrong({3, 3}), transposed({3, 2});
  expect_message([&] { linear.forward(x, wrong, workspace); }, {"(2, 3)", "(3, 3)"});
  expect_message([&] { linear.forward(x, transposed, workspace); }, {"(2, 3)", "(3, 2)"});

  const Tensor<float, 4> q({1, 2, 5, 7}), k({1, 2, 3, 7}), v({1, 2, 4, 7});
  expect_message([&] { scaled_dot_product_attention(q, k, v); }, {"(1, 2, 3, 7)", "(1, 2, 4, 7)"});
  expect_message(
      [&] {
        scaled_dot_product_attention(q, Tensor<float, 4>({1, 2, 3, 5}), k);
      },
      {"(1, 2, 3, 7)", "(1, 2, 3, 5)"});
  expect_message(
      [&] {
        scaled_dot_product_attention(q, Tensor<float, 4>({2, 2, 3, 7}), k);
      },
      {"(1, 2, 3, 7)", "(2, 2, 3, 7)"});
  const MultiHeadAttention<float> attention({.hidden_size = 6, .num_attention_heads = 2});
  const Tensor<float, 3> a({2, 5, 6}), keys({2, 3, 6}), values_4({2, 4, 6});
  expect_message([&] { attention(a, keys, values_4); }, {"(2, 3, 6)", "(2, 4, 6)"});
  expect_message([&] { attention(Tensor<float, 3>({2, 5, 7})); }, {"(2, 5, 6)", "(2, 5, 7)"});
  expect_message([&] { attention(a, Tensor<float, 3>({3, 3, 6})); }, {"(2, 3, 6)", "(3, 3, 6)"});

  const LayerNorm<float> layer_norm({.hidden_size = 4});
  const RMSNorm<float> rms_norm({.hidden_size = 4});
  expect_message([&] { layer_norm(Tensor<float, 2>({2, 5})); }, {"(2, 4)", "(2, 5)"});
  expect_message([&] { rms_norm(Tensor<float, 2>({2, 5})); }, {"(2, 4)", "(2, 5)"});
  const EncoderLayer<float> layer(
      {.hidden_size = 6, .num_attention_heads = 2, .intermediate_size = 3});
  expect_message([&] { layer(Tensor<float, 3>({2, 5, 4})); }, {"(2, 5, 6)", "(2, 5, 4)"});
  const PatchEmbedding<float> patches(
      {.image_size = {4, 6}, .patch_size = 2, .num_channels = 3, .hidden_size = 5});
  expect_message(
      [&] {
        patches(Tensor<float, 4>({2, 3, 6, 4}));
      },
      {"(2, 3, 4, 6)", "(2, 3, 6, 4)"});
  Tensor<float, 3> y({2, 5, 6}), y_short({2, 4, 6});
  expect_message([&] { layer.forward(a, {}, y_short, workspace); }, {"(2, 5, 6)", "(2, 4, 6)"});
  Tensor<float, 4> weights({2, 2, 5, 4});
  expect_message([&] { layer.attention.forward(a, a, a, {}, y, weights, workspace); },
                 {"(2, 2, 5, 5)", "(2, 2, 5, 4)"});
  const Embeddings<float> embeddings({.vocab_size = 3, .hidden_size = 2, .type_vocab_size = 2});
  const Tensor<std::int32_t, 2> ids({2, 3}), short_ids({2, 2});
  expect_message([&] { embeddings(ids, {.token_types = short_ids}); }, {"(2, 3)", "(2, 2)"});
  expect_message([&] { embeddings(ids, {.positions = short_ids}); }, {"(2, 3)", "(2, 2)"});
}

TEST(MemoryFaults, ImpossibleSizesAreRefused) {
  expect_message([] { Tensor<float, 2>({2, -3}); }, {"(2, -3)"});
  expect_message([] { Tensor<float, 3>({Index{1} << 32, Index{1} << 32, 2}); }, {"4294967296"});
  expect_message([] { TensorView<const float, 2>(nullptr, {2, 3}); }, {"(2, 3)"});
  EXPECT_EQ((Tensor<float, 3>({Index{1} << 40, 0, 5}).size()), 0);
  RowMajorMatrix<float> matrix(4, 6);
  auto block = matrix.leftCols(5);
  expect_message([&] { TensorView<float, 2>{block}; }, {"contiguous"});
}

// New tensors are zero, also where memory was used before.
TEST(MemoryFaults, NewTensorsAreZero) {
  for (int repeat = 0; repeat < 7; ++repeat) {
    for (Index n : {1, 31, 1009}) {
      Tensor<float, 2> dirty({n, 3});
      EXPECT_EQ(dirty.vector().cwiseAbs().maxCoeff(), 0.0f);
      std::fill(dirty.begin(), dirty.end(), std::nanf(""));
    }
  }
  const EncoderLayer<float> layer(
      {.hidden_size = 6, .num_attention_heads = 3, .intermediate_size = 7});
  EXPECT_TRUE(values::all_finite(layer(Tensor<float, 3>({1, 5, 6}))));
}

/// Fills the scratch memory with NaN.
void poison(Workspace& workspace) {
  workspace.parallel_for(4 * workspace.concurrency(), [](Index, Arena& arena) {
    Scratch scratch(arena);
    const Index count = static_cast<Index>(arena.capacity() / sizeof(float));
    std::fill_n(scratch.array<float>(count), count, std::nanf(""));
  });
}

/// The same bits whatever the scratch memory and the result held before.
template <int Rank, class Run>
void expect_nothing_read_before_written(const Shape<Rank>& shape, Run&& run) {
  Tensor<float, Rank> expected(shape);
  Workspace fresh;
  run(expected.view(), fresh);
  ThreadPool pool(3);
  Workspace serial, threads(pool);
  for (Workspace* workspace : {&serial, &threads}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto y = values::filled<float>(shape, std::nan(""));
      run(y.view(), *workspace);
      EXPECT_EQ(y, expected);
      poison(*workspace);
    }
  }
}

TEST(MemoryFaults, ScratchMemoryAndResultsMayHoldAnything) {
  for (Index tokens : {1, 5, 131}) {
    const auto x = random<float>(Shape<3>{2, tokens, 24}, 16);
    const std::vector<Index> lengths{tokens, tokens / 2};
    const Mask<float> mask{.causal = true, .key_lengths = lengths};
    for (NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
      EncoderLayer<float> layer({.hidden_size = 24,
                                 .num_attention_heads = 3,
                                 .intermediate_size = 37,
                                 .norm_placement = placement});
      randomize(layer, 17);
      expect_nothing_read_before_written(
          x.shape(), [&](auto y, Workspace& w) { layer.forward(x, mask, y, w); });
      expect_nothing_read_before_written(Shape<4>{2, 3, tokens, tokens},
                                         [&](auto weights, Workspace& w) {
                                           Tensor<float, 3> y(x.shape());
                                           layer.attention.forward(x, x, x, mask, y, weights, w);
                                         });
    }
    GatedFeedForward<float> gated({.hidden_size = 24, .intermediate_size = 37});
    randomize(gated, 18);
    expect_nothing_read_before_written(x.shape(),
                                       [&](auto y, Workspace& w) { gated.forward(x, y, w); });
  }
  MaskedLanguageModel<float> model({.vocab_size = 41,
                                    .hidden_size = 6,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 3,
                                    .intermediate_size = 7,
                                    .type_vocab_size = 2});
  randomize(model, 19);
  Tensor<std::int32_t, 2> ids({2, 29});
  for (Index i = 0; i < ids.size(); ++i) ids.data()[i] = static_cast<std::int32_t>(i % 41);
  expect_nothing_read_before_written(
      Shape<3>{2, 29, 41}, [&](auto y, Workspace& w) { model.forward(ids, {}, {}, y, w); });
  VisionTransformer<float> vision({.image_size = 7,
                                   .patch_size = 2,
                                   .num_channels = 3,
                                   .hidden_size = 6,
                                   .num_hidden_layers = 2,
                                   .num_attention_heads = 3,
                                   .intermediate_size = 7,
                                   .num_labels = 5});
  randomize(vision, 20);
  const auto images = random<float>(Shape<4>{2, 3, 7, 7}, 21);
  expect_nothing_read_before_written(Shape<2>{2, 5},
                                     [&](auto y, Workspace& w) { vision.forward(images, y, w); });
}

}  // namespace memory_test
}  // namespace eigenformer
