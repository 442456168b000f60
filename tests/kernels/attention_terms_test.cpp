// SPDX-License-Identifier: MIT
// Attention with positions in its scores, a soft cap, and batch rows that stand at places of their
// own: against plain loops, over masks, grouped heads and key tiles.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/kernels/attention_cases.hpp"

namespace attention_terms_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using reference::AttentionSize;
using reference::Real;
using reference::widen;

/// What is asked for besides the mask; tables are random.
struct Terms {
  const char* name;
  double soft_cap = 0;
  bool alibi = false;
  Index reach = 0;  // of relative keys; 0: none
  bool with_keys = false;
  Index bias_reach = -1;      // of mask.offset_bias; -1: none
  bool bias_per_head = true;  // or one for all
  std::vector<Index> query_offsets = {}, key_counts = {};
};

std::vector<Terms> all_terms() {
  return {{.name = "soft cap", .soft_cap = 1.7},
          {.name = "alibi", .alibi = true},
          {.name = "relative keys beyond the table", .reach = 3},
          {.name = "relative keys, a wide table", .reach = 401},
          {.name = "relative keys times keys, beyond the table", .reach = 3, .with_keys = true},
          {.name = "relative keys times keys", .reach = 401, .with_keys = true},
          {.name = "bias by offset", .bias_reach = 5},
          {.name = "bias by offset, of all heads", .bias_reach = 29, .bias_per_head = false},
          {.name = "a bias for every offset", .bias_reach = 0},
          {.name = "rows at places of their own", .query_offsets = {4, 0, 11}},
          {.name = "rows with keys of their own", .key_counts = {13, 0, 2}},
          {.name = "all of it",
           .soft_cap = 1.7,
           .alibi = true,
           .reach = 7,
           .with_keys = true,
           .bias_reach = 11,
           .query_offsets = {4, 0, 11},
           .key_counts = {13, 1, 17}}};
}

template <class T>
struct Result {
  Tensor<T, 4> y, weights;
};

/// One case: inputs, tables, what the library and the plain loops make of them.
template <class T>
class Attending {
 public:
  Attending(const AttentionSize& s, const Terms& terms, const reference::MaskKind& kind)
      : s_(s),
        terms_(terms),
        in_(s),
        mask_(kind, s, 11),
        relative_(reference::random_tensor<T, 2>({2 * terms.reach + 1, s.head_size}, 21)),
        offset_bias_(reference::random_tensor<T, 2>(
            {terms.bias_per_head ? s.heads : 1, 2 * std::max<Index>(terms.bias_reach, 0) + 1}, 22,
            3)) {
    for (const Real slope : reference::alibi_slopes(s.heads))
      slopes_.push_back(static_cast<T>(slope));
  }

  reference::AttentionInputs<T>& inputs() { return in_; }

  Result<T> run(ef::Workspace& workspace) const {
    using ef::kernels::Heads;
    Result<T> result{Tensor<T, 4>({s_.batch, s_.heads, s_.queries, s_.value_size}),
                     Tensor<T, 4>(s_.scores())};
    ef::kernels::Attention<T> a{
        .batch = s_.batch,
        .queries = s_.queries,
        .keys = s_.keys,
        .heads = s_.heads,
        .key_value_heads = s_.key_value_heads,
        .head_size = s_.head_size,
        .value_size = s_.value_size,
        .q = Heads<const T>::head_major(in_.q.data(), s_.heads, s_.queries, s_.head_size),
        .y = Heads<T>::head_major(result.y.data(), s_.heads, s_.queries, s_.value_size),
        .scale = scale,
        .attention_weights = result.weights.data()};
    a.soft_cap = static_cast<T>(terms_.soft_cap);
    if (terms_.alibi) a.alibi_slopes = slopes_.data();
    if (terms_.reach > 0) a.relative_keys = {relative_.data(), terms_.reach, terms_.with_keys};
    if (!terms_.query_offsets.empty()) a.query_offsets = terms_.query_offsets.data();
    if (!terms_.key_counts.empty()) a.key_counts = terms_.key_counts.data();
    ef::Mask<T> mask = mask_.mask();
    if (terms_.bias_reach >= 0) mask.offset_bias = offset_bias_;
    ef::kernels::require_valid_mask("test", mask, s_.scores());
    ef::kernels::attend<T>(
        a,
        {.k = Heads<const T>::head_major(in_.k.data(), s_.key_value_heads, s_.keys, s_.head_size),
         .v = Heads<const T>::head_major(in_.v.data(), s_.key_value_heads, s_.keys, s_.value_size)},
        mask, workspace);
    return result;
  }

  reference::Attended expected() const {
    reference::Visibility seen = mask_.plain();
    seen.query_offsets = terms_.query_offsets;
    seen.key_counts = terms_.key_counts;
    reference::ScoreTerms plain{.soft_cap = Real(static_cast<T>(terms_.soft_cap)),
                                .with_keys = terms_.with_keys};
    if (terms_.alibi) plain.alibi_slopes.assign(slopes_.begin(), slopes_.end());
    if (terms_.reach > 0) plain.relative_keys = widen(relative_);
    if (terms_.bias_reach >= 0) plain.offset_bias = widen(offset_bias_);
    return reference::attention(widen(in_.q), widen(in_.k), widen(in_.v), seen, Real(scale), plain);
  }

  /// How far weights may be off: the roundings of a score come in through itself and the sum.
  Real tolerance() const {
    const Real epsilon = std::numeric_limits<T>::epsilon(), d = Real(s_.head_size);
    const Real products = (terms_.reach > 0 ? 8 : 4) * d * Real(scale);
    const Real furthest = Real(s_.keys + s_.queries + 30);
    const Real largest = products + 6 + (terms_.alibi ? furthest : 0);
    return 2 * epsilon * ((3 * d + 5) * products + 6 * largest) + epsilon * (20 + Real(s_.keys));
  }

 private:
  static constexpr T scale = T(0.25);

  AttentionSize s_;
  Terms terms_;
  reference::AttentionInputs<T> in_;
  reference::RandomMask<T> mask_;
  Tensor<T, 2> relative_, offset_bias_;
  std::vector<T> slopes_;
};

template <class T>
void compare(const AttentionSize& s, const Terms& terms, const reference::MaskKind& kind) {
  const Attending<T> attending(s, terms, kind);
  const reference::Attended expected = attending.expected();
  ef::Workspace workspace;
  const Result<T> actual = attending.run(workspace);
  ASSERT_TRUE(reference::near(actual.y, expected.y, attending.tolerance()))
      << terms.name << ", mask: " << kind.name;
  ASSERT_TRUE(reference::near(actual.weights, expected.weights, attending.tolerance()))
      << terms.name << ", mask: " << kind.name;
  for (Index i = 0; i < actual.weights.size(); ++i) {
    if (expected.weights.data()[i] == 0) {
      ASSERT_EQ(actual.weights.data()[i], 0) << terms.name << ", mask: " << kind.name;
    }
  }
}

template <class T>
class AttentionTermsTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTermsTest, Scalars);

TYPED_TEST(AttentionTermsTest, EveryTermWithEveryMask) {
  for (const Terms& terms : all_terms()) {
    for (const auto& kind : reference::mask_kinds) {
      compare<TypeParam>({3, 6, 2, 13, 17, 5, 7}, terms, kind);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(AttentionTermsTest, AcrossKeyTilesAndQueryBlocks) {
  for (Terms terms : all_terms()) {
    for (Index& offset : terms.query_offsets) offset *= 13;
    for (Index& count : terms.key_counts) count *= 17;
    compare<TypeParam>({3, 3, 1, 53, 307, 3, 2}, terms, {.name = "none"});
    compare<TypeParam>(
        {3, 3, 3, 101, 307, 3, 2}, terms,
        {.name = "causal window", .causal = true, .query_offset = 150, .window = 97});
    if (this->HasFatalFailure()) return;
  }
}

// More grouped heads than a block of queries has rows.
TYPED_TEST(AttentionTermsTest, ManyGroupedHeads) {
  for (Terms terms : all_terms()) {
    if (!terms.query_offsets.empty()) terms.query_offsets.resize(1);
    if (!terms.key_counts.empty()) terms.key_counts.resize(1);
    compare<TypeParam>({1, 101, 1, 3, 17, 3, 2}, terms, {.name = "causal", .causal = true});
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AttentionTermsTest, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  for (Terms terms : all_terms()) {
    for (Index& count : terms.key_counts) count *= 17;
    const Attending<T> attending({3, 6, 2, 101, 307, 7, 5}, terms,
                                 {.name = "causal", .causal = true, .query_offset = 200});
    ef::Workspace serial;
    const Result<T> alone = attending.run(serial);
    ef::ThreadPool pool(7);
    ef::Workspace workspace(pool);
    const Result<T> together = attending.run(workspace);
    EXPECT_TRUE(reference::same_bits(together.y, alone.y)) << terms.name;
    EXPECT_TRUE(reference::same_bits(together.weights, alone.weights)) << terms.name;
  }
}

// Keys that a row doesn't have may hold anything.
TYPED_TEST(AttentionTermsTest, KeysBehindTheCountNeverMatter) {
  using T = TypeParam;
  const T bad[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::max()};
  for (Terms terms : all_terms()) {
    terms.key_counts = {131, 0, 5};
    Attending<T> attending({3, 6, 2, 13, 307, 7, 5}, terms, {.name = "none"});
    ef::Workspace workspace;
    const Result<T> expected = attending.run(workspace);
    for (Index b = 0; b < 3; ++b) {
      for (Index j = terms.key_counts[static_cast<std::size_t>(b)]; j < 307; ++j) {
        for (Index g = 0; g < 2; ++g) {
          std::fill_n(&attending.inputs().k(b, g, j, 0), 7, bad[j % 3]);
          std::fill_n(&attending.inputs().v(b, g, j, 0), 5, bad[j % 3]);
        }
      }
    }
    const Result<T> spoilt = attending.run(workspace);
    EXPECT_TRUE(reference::same_bits(spoilt.y, expected.y)) << terms.name;
    EXPECT_TRUE(reference::same_bits(spoilt.weights, expected.weights)) << terms.name;
    for (Index h = 0; h < 6; ++h) {
      for (Index t = 0; t < 13; ++t) EXPECT_EQ(spoilt.y(1, h, t, 0), 0) << "no key: zero";
    }
  }
}

TEST(AttentionTerms, ARowAtItsPlaceIsARowWithAnOffset) {
  const AttentionSize s{3, 6, 2, 13, 307, 7, 5};
  for (const Terms& terms : all_terms()) {
    Terms apart = terms, together = terms;
    apart.query_offsets = {200, 17, 131};
    apart.key_counts = {213, 30, 144};
    ef::Workspace workspace;
    const Result<double> all =
        Attending<double>(s, apart, {.name = "causal", .causal = true}).run(workspace);
    for (Index b = 0; b < 3; ++b) {
      const auto row = static_cast<std::size_t>(b);
      together.query_offsets.clear();
      together.key_counts.assign(3, apart.key_counts[row]);
      const Result<double> one =
          Attending<double>(
              s, together,
              {.name = "causal", .causal = true, .query_offset = apart.query_offsets[row]})
              .run(workspace);
      EXPECT_TRUE(reference::same_bits(&all.y(b, 0, 0, 0), &one.y(b, 0, 0, 0), 6 * 13 * 5))
          << terms.name << ", row " << b;
    }
  }
}

TEST(AttentionTerms, RefusesABiasByOffsetThatDoesNotFit) {
  const AttentionSize s{2, 4, 2, 3, 5, 7, 11};
  const reference::AttentionInputs<float> in(s);
  for (const auto& shape :
       {ef::Shape<2>{3, 5}, ef::Shape<2>{4, 6}, ef::Shape<2>{0, 5}, ef::Shape<2>{1, 0}}) {
    const Tensor<float, 2> bias(shape);
    ef::Mask<float> mask;
    mask.offset_bias = bias;
    try {
      ef::scaled_dot_product_attention(in.q, in.k, in.v, mask);
      ADD_FAILURE() << "nothing thrown for " << to_string(shape);
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("(1 or 4, 2 R + 1)"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(to_string(shape)), std::string::npos);
    }
  }
}

// A cap evens out the weights of large scores as the formula says.
TEST(AttentionTerms, SoftCapOfLargeScores) {
  reference::AttentionInputs<double> in({1, 1, 1, 1, 2, 1, 1});
  in.q(0, 0, 0, 0) = 1;
  in.k(0, 0, 0, 0) = 400;
  in.k(0, 0, 1, 0) = 0;
  in.v(0, 0, 0, 0) = 1;
  in.v(0, 0, 1, 0) = 0;
  double y = 0;
  ef::kernels::Attention<double> a{
      .batch = 1,
      .queries = 1,
      .keys = 2,
      .heads = 1,
      .key_value_heads = 1,
      .head_size = 1,
      .value_size = 1,
      .q = ef::kernels::Heads<const double>::head_major(in.q.data(), 1, 1, 1),
      .y = ef::kernels::Heads<double>::head_major(&y, 1, 1, 1),
      .scale = 1};
  a.soft_cap = 3;
  ef::Workspace workspace;
  ef::kernels::attend<double>(
      a,
      {.k = ef::kernels::Heads<const double>::head_major(in.k.data(), 1, 2, 1),
       .v = ef::kernels::Heads<const double>::head_major(in.v.data(), 1, 2, 1)},
      {}, workspace);
  EXPECT_NEAR(y, 1 / (1 + std::exp(-3.0)), 1e-15);
}

}  // namespace attention_terms_test
