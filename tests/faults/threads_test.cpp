// SPDX-License-Identifier: MIT

// Faults that others had with threads, determinism, memory and speed.

#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "tests/spec/values.hpp"

namespace eigenformer {
namespace threads_test {

using values::random;
using values::randomize;

TransformerConfig encoder_config() {
  return {.vocab_size = 31,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 37,
          .max_position_embeddings = 128};
}

Tensor<std::int32_t, 2> some_ids(Index batch, Index tokens) {
  Tensor<std::int32_t, 2> ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i)
    ids.data()[i] = static_cast<std::int32_t>((i * 7 + tokens) % 31);
  return ids;
}

// One const model, eight threads, 200 calls each with lengths 1 to 64 in a mixed order;
// learned and sinusoidal positions, each thread with a workspace of its own, some with a pool of
// their own.
TEST(ThreadFaults, OneModelServesManyThreads) {
  for (PositionEmbedding kind : {PositionEmbedding::learned, PositionEmbedding::sinusoidal}) {
    TransformerConfig config = encoder_config();
    config.position_embedding = kind;
    config.hidden_size = 6;
    config.intermediate_size = 7;
    TransformerEncoder<float> made(config);
    randomize(made, 1);
    const TransformerEncoder<float>& model = made;

    std::vector<Tensor<float, 3>> expected(65);
    const auto run = [&](Index tokens, Workspace& workspace) {
      Tensor<float, 3> y({1, tokens, 6});
      model.forward(some_ids(1, tokens), {}, {.causal = tokens % 2 == 0}, y, workspace);
      return y;
    };
    Workspace serial;
    for (Index tokens = 1; tokens <= 64; ++tokens)
      expected[static_cast<std::size_t>(tokens)] = run(tokens, serial);

    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (Index thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        ThreadPool pool(thread % 4 == 3 ? 2 : 1);
        Workspace workspace(pool);
        for (Index call = 0; call < 200; ++call) {
          const Index tokens = 1 + (call * 37 + thread * 11) % 64;
          if (run(tokens, workspace) != expected[static_cast<std::size_t>(tokens)]) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

// Several callers may share one pool, each with its own workspace.
TEST(ThreadFaults, CallersMayShareAPool) {
  EncoderLayer<float> layer({.hidden_size = 48, .num_attention_heads = 3, .intermediate_size = 97});
  randomize(layer, 2);
  const auto x = random<float>(Shape<3>{2, 67, 48}, 3);
  const auto expected = layer(x);
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      Workspace workspace(pool);
      Tensor<float, 3> y(x.shape());
      for (int call = 0; call < 20; ++call) {
        layer.forward(x, {}, y, workspace);
        if (y != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

/// An executor that counts its calls and runs the tasks on threads, backwards or forwards.
struct CountingExecutor {
  Index threads = 1;
  bool backwards = false;
  Index calls = 0;

  Index concurrency() const { return threads; }
  void parallel_for(Index n, FunctionReference<void(Index)> f) {
    ++calls;
    for (Index i = 0; i < n; ++i) f(backwards ? n - 1 - i : i);
  }
};

// 1, 2, 3, 4 and 7 threads, five repeats each, and tasks in any order: the same bits
// everywhere.
template <class Run>
void expect_same_bits_on_any_number_of_threads(Run&& run) {
  Workspace serial;
  const auto expected = run(serial);
  bool ever_spread = false;
  for (Index threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    Workspace workspace(pool);
    for (int repeat = 0; repeat < 5; ++repeat)
      ASSERT_EQ(run(workspace), expected) << threads << " threads";
    for (bool backwards : {false, true}) {
      CountingExecutor executor{threads, backwards};
      Workspace ordered(executor);
      ASSERT_EQ(run(ordered), expected) << threads << " tasks at once";
      ever_spread = ever_spread || executor.calls > 0;
    }
  }
  EXPECT_TRUE(ever_spread) << "too little work to show anything";
}

TEST(ThreadFaults, NumberOfThreadsChangesNoBit) {
  TransformerEncoder<float> encoder(encoder_config());
  randomize(encoder, 4);
  for (Index batch : {1, 3}) {
    const std::vector<Index> lengths(static_cast<std::size_t>(batch), 41);
    const auto ids = some_ids(batch, 127);
    for (const Mask<float>& mask :
         {Mask<float>{}, Mask<float>{.causal = true}, Mask<float>{.key_lengths = lengths}}) {
      expect_same_bits_on_any_number_of_threads([&](Workspace& workspace) {
        Tensor<float, 3> y({batch, 127, 24});
        encoder.forward(ids, {}, mask, y, workspace);
        return y;
      });
    }
  }
}

// One row through wide maps is split over columns, many rows over rows; grouped heads over
// blocks of queries.
TEST(ThreadFaults, EveryWayOfSplittingTheWork) {
  Linear<float> wide({.in_features = 257, .out_features = 1031});
  randomize(wide, 5);
  for (Index count : {1, 2, 7, 61, 401}) {
    const auto x = random<float>(Shape<2>{count, 257}, 6);
    expect_same_bits_on_any_number_of_threads([&](Workspace& workspace) {
      Tensor<float, 2> y({count, 1031});
      wide.forward(x, y, workspace);
      return y;
    });
  }
  MultiHeadAttention<float> attention(
      {.hidden_size = 30, .num_attention_heads = 6, .num_key_value_heads = 2});
  randomize(attention, 7);
  const auto x = random<float>(Shape<3>{2, 263, 30}, 8);
  expect_same_bits_on_any_number_of_threads([&](Workspace& workspace) {
    Tensor<float, 3> y(x.shape());
    attention.forward(x, {.causal = true, .window = 50}, y, workspace);
    return y;
  });
  expect_same_bits_on_any_number_of_threads([&](Workspace& workspace) {
    Tensor<float, 3> y(x.shape());
    Tensor<float, 4> weights({2, 6, 263, 263});
    attention.forward(x, x, x, {.causal = true}, y, weights, workspace);
    return weights;
  });
  LayerNorm<float> norm({.hidden_size = 129});
  randomize(norm, 9);
  const auto rows = random<float>(Shape<2>{997, 129}, 10);
  expect_same_bits_on_any_number_of_threads([&](Workspace& workspace) {
    Tensor<float, 2> y(rows.shape());
    norm.forward(rows, y, workspace);
    return y;
  });
}

EncoderStack<float> small_stack() {
  EncoderStack<float> stack({.hidden_size = 64,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 4,
                             .intermediate_size = 256});
  randomize(stack, 11);
  return stack;
}

// One token of a small model never reaches the executor.
TEST(ThreadFaults, SmallWorkIsNotSpread) {
  const auto stack = small_stack();
  CountingExecutor executor{4};
  Workspace workspace(executor);
  const auto x = random<float>(Shape<3>{1, 1, 64}, 12);
  Tensor<float, 3> y(x.shape());
  stack.forward(x, {}, y, workspace);
  EXPECT_EQ(executor.calls, 0);
}

// 4096 causal tokens, 8 heads of 64: the scores alone would be 512 MiB. Scratch memory stays
// below 64 MiB and doesn't grow with the square of the length, and some rows equal dense attention
// in double.
TEST(ThreadFaults, MemoryGrowsLinearlyWithTheLength) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  MultiHeadAttention<float> attention({.hidden_size = 512, .num_attention_heads = 8});
  for (Linear<float>* map : {&attention.query, &attention.key, &attention.value, &attention.output})
    values::set_identity(*map);
  const auto capacity_for = [&](Index tokens) {
    Tensor<float, 3> x({1, tokens, 512}), y(x.shape());
    Workspace workspace;
    attention.forward(x, {.causal = true, .window = 3}, y,
                      workspace);  // the window keeps this quick, not small
    return workspace.capacity();
  };
  const std::size_t at_1024 = capacity_for(1024), at_2048 = capacity_for(2048);
  EXPECT_LE(at_2048, 2 * at_1024 + mebibyte);

  const Index tokens = 4096, heads = 8, size = 64;
  const auto random_heads = [&](std::uint64_t seed) {
    return random<float>(Shape<4>{1, heads, tokens, size}, seed);
  };
  const auto q = random_heads(14), k = random_heads(15), v = random_heads(16);
  Tensor<float, 4> y(q.shape());
  Workspace workspace;
  kernels::attend<float>(
      {.batch = 1,
       .queries = tokens,
       .keys = tokens,
       .heads = heads,
       .key_value_heads = heads,
       .head_size = size,
       .value_size = size,
       .q = kernels::Heads<const float>::head_major(q.data(), heads, tokens, size),
       .y = kernels::Heads<float>::head_major(y.data(), heads, tokens, size),
       .scale = 0.125f},
      {.k = kernels::Heads<const float>::head_major(k.data(), heads, tokens, size),
       .v = kernels::Heads<const float>::head_major(v.data(), heads, tokens, size)},
      {.causal = true}, workspace);
  EXPECT_LE(workspace.capacity(), 64 * mebibyte);
  for (Index h : {0, 5}) {
    for (Index t : {0, 1, 127, 128, 2047, 4095}) {
      Eigen::VectorXd weights(t + 1), result = Eigen::VectorXd::Zero(size);
      for (Index j = 0; j <= t; ++j) {
        double product = 0;
        for (Index d = 0; d < size; ++d)
          product += static_cast<double>(q(0, h, t, d)) * static_cast<double>(k(0, h, j, d));
        weights(j) = product / 8;
      }
      weights = (weights.array() - weights.maxCoeff()).exp().matrix().eval();
      weights /= weights.sum();
      for (Index j = 0; j <= t; ++j)
        for (Index d = 0; d < size; ++d)
          result(d) += weights(j) * static_cast<double>(v(0, h, j, d));
      for (Index d = 0; d < size; ++d) ASSERT_NEAR(y(0, h, t, d), result(d), 1e-5) << h << " " << t;
    }
  }
}

// The same for whole layers, up to what a workspace holds for one call: a fixed number of (T,
// C) arrays, no (T, T).
TEST(ThreadFaults, LayerNeedsAFixedNumberOfArraysOfTheInputsSize) {
  EncoderLayer<float> layer({.hidden_size = 16,
                             .num_attention_heads = 4,
                             .intermediate_size = 32,
                             .norm_placement = NormPlacement::pre});
  randomize(layer, 17);
  const auto capacity_for = [&](Index tokens) {
    const auto x = random<float>(Shape<3>{1, tokens, 16}, 18);
    Tensor<float, 3> y(x.shape());
    Workspace workspace;
    layer.forward(x, {.window = 17}, y, workspace);
    return workspace.capacity();
  };
  const std::size_t at_1024 = capacity_for(1024), at_4096 = capacity_for(4096);
  EXPECT_LE(at_4096, 4 * at_1024);
  EXPECT_LE(at_4096, std::size_t{4096} * 16 * sizeof(float) * 16);
}

// Sizes are computed in 64 bits: shapes of more than 2^31 elements keep their size.
TEST(ThreadFaults, SizesBeyond32Bits) {
  EXPECT_EQ((Shape<3>{70000, 70000, 3}.size()), Index{14700000000});
  const Linear<ShapeOnly> huge({.in_features = 70000, .out_features = 70001});
  EXPECT_EQ(count_parameters(huge), Index{70000} * 70001 + 70001);
  const TensorView<const float, 2> view(reinterpret_cast<const float*>(64), {70000, 70000});
  EXPECT_EQ(view[69999].data() - view.data(), Index{69999} * 70000);
}

}  // namespace threads_test
}  // namespace eigenformer
