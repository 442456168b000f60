// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/reference/allocations.hpp"
#include "tests/reference/sampling.hpp"

namespace sampling_test {

namespace ef = eigenformer;
using ef::Index;
using ef::SamplingConfig;
using Tokens = std::vector<std::int32_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T>
class Sampling : public ::testing::Test {
 protected:
  using Row = reference::Logits<T>;

  static ef::TensorView<T, 1> view(Row& x) {
    return {x.data(), ef::Shape<1>{static_cast<Index>(x.size())}};
  }

  /// Some are -infinity; with `steps`, multiples of 1/2, so that many are equal.
  static Row random_logits(Index size, std::uint64_t seed, bool steps = false) {
    Row x(static_cast<std::size_t>(size));
    const ef::Key key(seed);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double normal = 2 * key.normal(j);
      x[j] = static_cast<T>(steps ? std::round(2 * normal) / 2 : normal);
      if (j > 0 && key.fold_in(1).uniform(j) < 0.1) x[j] = reference::nothing<T>;
    }
    return x;
  }

  /// Calls f(logits) for rows of many sizes.
  template <class F>
  static void for_many_rows(F&& f) {
    for (Index size : {1, 2, 7, 101, 1009}) {
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        for (bool steps : {false, true}) {
          const auto message = ::testing::Message()
                               << size << " logits, seed " << seed << (steps ? ", in steps" : "");
          SCOPED_TRACE(message);
          f(random_logits(size, seed, steps));
        }
      }
    }
  }

  static Row kept(Row x, const std::vector<std::size_t>& ids) {
    Row y(x.size(), reference::nothing<T>);
    for (const std::size_t j : ids) y[j] = x[j];
    return y;
  }

  /// Logits whose softmax is p, which adds up to 1.
  static Row logits_of(const std::vector<double>& p) {
    Row x;
    for (const double value : p) x.push_back(static_cast<T>(std::log(value)));
    return x;
  }

  template <class F>
  static std::string error_of(F&& f) {
    try {
      f();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }

  ef::Arena scratch;
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Sampling, Scalars);

// ------------------------------------------------------------------ against plain loops

TYPED_TEST(Sampling, TopKAgreesWithPlainLoops) {
  this->for_many_rows([&](const auto& logits) {
    for (Index k : {0, 1, 2, 3, 5, 10, 50, 64, 500, 1009, 5000}) {
      auto x = logits, expected = logits;
      ef::keep_top_k(this->view(x), k, this->scratch);
      reference::top_k(expected, k);
      EXPECT_EQ(x, expected) << "k = " << k;
    }
  });
}

TYPED_TEST(Sampling, TopPAgreesWithPlainLoops) {
  this->for_many_rows([&](const auto& logits) {
    for (double p : {1e-9, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.9999, 1.0}) {
      auto x = logits, expected = logits;
      ef::keep_top_p(this->view(x), p, this->scratch);
      reference::top_p(expected, p);
      EXPECT_EQ(x, expected) << "p = " << p;
    }
  });
}

TYPED_TEST(Sampling, MinPAgreesWithPlainLoops) {
  this->for_many_rows([&](const auto& logits) {
    for (double p : {0.0, 1e-4, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0}) {
      auto x = logits, expected = logits;
      ef::keep_min_p(this->view(x), p, this->scratch);
      reference::min_p(expected, p);
      EXPECT_EQ(x, expected) << "p = " << p;
    }
  });
}

TYPED_TEST(Sampling, RepetitionPenaltyAgreesWithPlainLoops) {
  this->for_many_rows([&](const auto& logits) {
    Tokens tokens;
    for (std::uint64_t i = 0; i < 40; ++i)
      tokens.push_back(static_cast<std::int32_t>(ef::Key(5).bits(i) % (logits.size() + 2)));
    for (double penalty : {0.5, 1.0, 1.2, 3.0}) {
      auto x = logits, expected = logits;
      ef::apply_repetition_penalty(this->view(x), std::span<const std::int32_t>(tokens), penalty,
                                   this->scratch);
      reference::repetition_penalty(expected, tokens, penalty);
      EXPECT_EQ(x, expected) << "penalty = " << penalty;
    }
  });
}

TYPED_TEST(Sampling, DrawsAgreeWithPlainLoops) {
  this->for_many_rows([&](auto x) {
    for (std::uint64_t i = 0; i < 50; ++i) {
      const double uniform = ef::Key(11).uniform(i);
      EXPECT_EQ(ef::sample_token(this->view(x), uniform, this->scratch),
                reference::sample(x, uniform));
    }
  });
}

TYPED_TEST(Sampling, ChoicesAgreeWithPlainLoops) {
  const SamplingConfig configs[] = {
      {},
      {.repetition_penalty = 1.3},
      {.do_sample = true},
      {.temperature = 0.7, .top_k = 40, .do_sample = true},
      {.temperature = 1.5, .top_p = 0.9, .do_sample = true},
      {.min_p = 0.1, .repetition_penalty = 1.1, .do_sample = true},
      {.temperature = 0.8,
       .top_k = 30,
       .top_p = 0.8,
       .min_p = 0.05,
       .repetition_penalty = 1.2,
       .do_sample = true},
      {.temperature = 0, .top_k = 3, .repetition_penalty = 1.5, .do_sample = true},
      {.temperature = 0},  // greedy, as without sampling
  };
  const Tokens tokens{0, 3, 3, 1, 5, 100, 90, 90};
  this->for_many_rows([&](const auto& logits) {
    for (const SamplingConfig& config : configs) {
      for (std::uint64_t i = 0; i < 5; ++i) {
        auto x = logits, expected = logits;
        const double uniform = ef::Key(12).uniform(i);
        const std::int32_t chosen =
            ef::choose_token(this->view(x), std::span(tokens), config, uniform, this->scratch);
        EXPECT_EQ(chosen, reference::choose(expected, tokens, config, uniform));
        EXPECT_EQ(x, expected);
      }
    }
  });
}

// ------------------------------------------------------------------ known values

TYPED_TEST(Sampling, KnownSets) {
  const auto logits = this->logits_of({0.5, 0.4, 0.1});
  auto x = logits;
  ef::keep_top_k(this->view(x), 2, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {0, 1}));
  const std::pair<double, std::vector<std::size_t>> sets[] = {
      {1e-300, {0}},           {0.3, {0}},    {0.499, {0}}, {0.501, {0, 1}}, {0.9 - 1e-3, {0, 1}},
      {0.9 + 1e-3, {0, 1, 2}}, {1, {0, 1, 2}}};
  for (const auto& [top_p, ids] : sets) {
    x = logits;
    ef::keep_top_p(this->view(x), top_p, this->scratch);
    EXPECT_EQ(x, this->kept(logits, ids)) << top_p;
  }
  const std::pair<double, std::vector<std::size_t>> ratios[] = {
      {0, {0, 1, 2}}, {0.199, {0, 1, 2}}, {0.201, {0, 1}}, {0.799, {0, 1}}, {0.801, {0}}, {1, {0}}};
  for (const auto& [min_p, ids] : ratios) {
    x = logits;
    ef::keep_min_p(this->view(x), min_p, this->scratch);
    EXPECT_EQ(x, this->kept(logits, ids)) << min_p;
  }
}

// Of equal logits: the set reaches top_p, the ratio reaches min_p exactly.
TYPED_TEST(Sampling, LimitsAreReachedWithEquality) {
  const auto logits = this->logits_of({0.25, 0.25, 0.25, 0.25});
  auto x = logits;
  ef::keep_top_p(this->view(x), 0.5, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {0, 1}));
  x = logits;
  ef::keep_min_p(this->view(x), 1, this->scratch);
  EXPECT_EQ(x, logits);
  const auto tenths = this->logits_of(std::vector<double>(10, 0.1));
  x = tenths;
  ef::keep_top_p(this->view(x), 0.9, this->scratch);
  EXPECT_EQ(x, this->kept(tenths, {0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

// These sums and ratios miss their limits by less than the rounding of the logits.
TEST(SamplingInFloat, RoundedSumsAndRatiosReachTheirLimits) {
  const auto kept = [](const std::vector<double>& p, double top_p, double min_p) {
    std::vector<float> x;
    for (const double value : p) x.push_back(static_cast<float>(std::log(value)));
    const ef::TensorView<float, 1> logits(x.data(), {static_cast<Index>(x.size())});
    ef::Arena arena;
    ef::keep_top_p(logits, top_p, arena);
    ef::keep_min_p(logits, min_p, arena);
    return std::count_if(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
  };
  EXPECT_EQ(kept({0.4, 0.3, 0.2, 0.1}, 0.4, 0), 1);
  EXPECT_EQ(kept({0.4, 0.3, 0.2, 0.1}, 0.9, 0), 3);
  EXPECT_EQ(kept({0.4, 0.25, 0.2, 0.15}, 0.85, 0), 3);
  EXPECT_EQ(kept({0.4, 0.3, 0.2, 0.1}, 1, 0.5), 3);
  EXPECT_EQ(kept({0.4, 0.3, 0.2, 0.1}, 1, 0.25), 4);
  EXPECT_EQ(kept({0.6, 0.3, 0.1}, 1, 0.5), 2);
}

TYPED_TEST(Sampling, RepetitionPenaltyDividesOrMultipliesOnce) {
  using T = TypeParam;
  typename TestFixture::Row x{2, -2, 0, 4, -4};
  const Tokens tokens{3, 0, 3, 1, 3, 2, 5, 1000000};
  ef::apply_repetition_penalty(this->view(x), std::span(tokens), 2, this->scratch);
  EXPECT_EQ(x, (typename TestFixture::Row{1, -4, 0, 2, -4}));
  x = {reference::nothing<T>, 1};
  ef::apply_repetition_penalty(this->view(x), std::span(tokens), 2, this->scratch);
  EXPECT_EQ(x, (typename TestFixture::Row{reference::nothing<T>, T(0.5)}));
}

TYPED_TEST(Sampling, TemperatureDivides) {
  typename TestFixture::Row x{2, -3, 0};
  ef::apply_temperature(this->view(x), 0.5);
  EXPECT_EQ(x, (typename TestFixture::Row{4, -6, 0}));
  ef::apply_temperature(this->view(x), 4);
  EXPECT_EQ(x, (typename TestFixture::Row{1, -1.5, 0}));
}

// Each stage sees what the one before has left.
TYPED_TEST(Sampling, StagesRunInOrder) {
  const auto chosen_from = [&](const std::vector<double>& p, const SamplingConfig& config,
                               const Tokens& tokens = {}) {
    auto x = this->logits_of(p);
    ef::choose_token(this->view(x), std::span(tokens), config, 0, this->scratch);
    Tokens left;
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (x[j] > reference::nothing<TypeParam>) left.push_back(static_cast<std::int32_t>(j));
    }
    return left;
  };
  const std::vector<double> p{0.4, 0.3, 0.2, 0.1};
  // Of the two that top-k leaves one alone has 0.57; of all four it would take two to reach 0.5.
  EXPECT_EQ(chosen_from(p, {.top_k = 2, .top_p = 0.5, .do_sample = true}), (Tokens{0}));
  EXPECT_EQ(chosen_from(p, {.top_p = 0.5, .do_sample = true}), (Tokens{0, 1}));
  // At temperature 1/2 the first has 16/30 instead of 0.4.
  EXPECT_EQ(chosen_from(p, {.temperature = 0.5, .top_p = 0.5, .do_sample = true}), (Tokens{0}));
  // At temperature 2 the last has 0.5 of the first instead of 0.25.
  EXPECT_EQ(chosen_from(p, {.temperature = 2, .min_p = 0.49, .do_sample = true}),
            (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(chosen_from(p, {.min_p = 0.49, .do_sample = true}), (Tokens{0, 1, 2}));
  // The penalty takes the first from the two best.
  EXPECT_EQ(chosen_from(p, {.top_k = 2, .repetition_penalty = 3, .do_sample = true}, {0}),
            (Tokens{1, 2}));
}

// ------------------------------------------------------------------ edges

TYPED_TEST(Sampling, OneToken) {
  for (double value : {0.0, -1e30, 1e30}) {
    typename TestFixture::Row x{static_cast<TypeParam>(value)};
    const SamplingConfig config{.temperature = 1e-30,
                                .top_k = 7,
                                .top_p = 1e-9,
                                .min_p = 1,
                                .repetition_penalty = 1.1,
                                .do_sample = true};
    const Tokens tokens{0};
    for (double uniform : {0.0, 0.5, 1 - 0x1p-53}) {
      EXPECT_EQ(ef::choose_token(this->view(x), std::span(tokens), config, uniform, this->scratch),
                0);
      EXPECT_EQ(ef::greedy_token(this->view(x)), 0);
    }
  }
}

TYPED_TEST(Sampling, AllButOneImpossible) {
  using T = TypeParam;
  for (std::size_t only = 0; only < 5; ++only) {
    typename TestFixture::Row logits(5, reference::nothing<T>);
    logits[only] = -3;
    EXPECT_EQ(ef::greedy_token(this->view(logits)), static_cast<std::int32_t>(only));
    for (double uniform : {0.0, 0.5, 1 - 0x1p-53}) {
      EXPECT_EQ(ef::sample_token(this->view(logits), uniform, this->scratch),
                static_cast<std::int32_t>(only));
    }
    auto x = logits;
    ef::keep_top_k(this->view(x), 3, this->scratch);
    ef::keep_top_p(this->view(x), 0.999, this->scratch);
    ef::keep_min_p(this->view(x), 0.5, this->scratch);
    ef::apply_temperature(this->view(x), 1e-300);
    EXPECT_TRUE(std::isfinite(x[only]));
    EXPECT_EQ(x, this->kept(x, {only}));
  }
}

TYPED_TEST(Sampling, EqualLogits) {
  const typename TestFixture::Row logits(10, 3);
  EXPECT_EQ(ef::greedy_token(this->view(const_cast<typename TestFixture::Row&>(logits))), 0);
  auto x = logits;
  ef::keep_top_k(this->view(x), 4, this->scratch);  // all equal the fourth
  EXPECT_EQ(x, logits);
  ef::keep_min_p(this->view(x), 1, this->scratch);
  EXPECT_EQ(x, logits);
  ef::keep_top_p(this->view(x), 0.45, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {0, 1, 2, 3, 4}));
  ef::keep_top_p(this->view(x), 1e-300, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {0}));
}

TYPED_TEST(Sampling, TopKKeepsThoseThatEqualTheLast) {
  const typename TestFixture::Row logits{1, 5, 3, 3, 0, 3, 4};
  auto x = logits;
  ef::keep_top_k(this->view(x), 3, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {1, 2, 3, 5, 6}));
  x = logits;
  ef::keep_top_k(this->view(x), 2, this->scratch);
  EXPECT_EQ(x, this->kept(logits, {1, 6}));
}

TYPED_TEST(Sampling, GreedyTakesTheSmallestIdOfTheLargest) {
  typename TestFixture::Row x{-1, 7, -0.0, 7, 6, 7};
  EXPECT_EQ(ef::greedy_token(this->view(x)), 1);
  x = {-0.0, 0.0};
  EXPECT_EQ(ef::greedy_token(this->view(x)), 0);
  x = {-2, -1, -1};
  EXPECT_EQ(ef::greedy_token(this->view(x)), 1);
}

// Nothing overflows to NaN or to a tie, whatever is divided by whatever.
TYPED_TEST(Sampling, TinyTemperaturesTakeTheLargest) {
  const auto huge = static_cast<double>(std::numeric_limits<TypeParam>::max());
  for (double temperature : {1e-3, 1e-30, 1e-38, 1e-45, 1e-200, 1e-320}) {
    for (double scale : {1.0, 1e3, 1e30, huge}) {
      for (double shift : {-1.0, 0.0}) {  // all negative; both signs
        typename TestFixture::Row x;
        for (double value : {0.25, 0.5, 0.9, 0.75, 0.0})
          x.push_back(static_cast<TypeParam>(scale * (value + shift)));
        const SamplingConfig config{.temperature = temperature, .do_sample = true};
        EXPECT_EQ(ef::choose_token(this->view(x), {}, config, 0.99, this->scratch), 2)
            << temperature << ' ' << scale << ' ' << shift;
      }
    }
  }
}

TYPED_TEST(Sampling, TemperaturesLeaveInfinities) {
  constexpr auto none = reference::nothing<TypeParam>;
  for (double temperature : {1e-300, 0.5, 2.0}) {
    typename TestFixture::Row x{none, none};
    ef::apply_temperature(this->view(x), temperature);
    EXPECT_EQ(x, (typename TestFixture::Row{none, none}));
    x = {none, 0, -none};
    ef::apply_temperature(this->view(x), temperature);
    EXPECT_EQ(x, (typename TestFixture::Row{none, 0, -none}));
  }
}

TYPED_TEST(Sampling, LargeTemperaturesApproachTheUniformDistribution) {
  auto x = typename TestFixture::Row{5, -7, reference::nothing<TypeParam>, 100};
  const SamplingConfig config{.temperature = 1e30, .do_sample = true};
  ef::choose_token(this->view(x), {}, config, 0, this->scratch);
  for (const auto& [uniform, token] : {std::pair{0.33, 0}, {0.34, 1}, {0.66, 1}, {0.67, 3}})
    EXPECT_EQ(ef::sample_token(this->view(x), uniform, this->scratch), token) << uniform;
}

TYPED_TEST(Sampling, DrawsInvertTheCumulativeDistribution) {
  typename TestFixture::Row x{
      reference::nothing<TypeParam>, 0, reference::nothing<TypeParam>, 0, 0, 0,
      reference::nothing<TypeParam>};
  const std::pair<double, int> samples[] = {
      {0, 1},   {0.25 - 0x1p-53, 1}, {0.25, 3}, {0.49, 3},
      {0.5, 4}, {0.75, 5},           {0.99, 5}, {1 - 0x1p-53, 5}};
  for (const auto& [uniform, token] : samples)
    EXPECT_EQ(ef::sample_token(this->view(x), uniform, this->scratch), token) << uniform;
}

TYPED_TEST(Sampling, TheLastDrawIsPossibleForEverySum) {
  for (Index size = 1; size < 400; ++size) {
    auto x = this->random_logits(size, static_cast<std::uint64_t>(size));
    x.push_back(reference::nothing<TypeParam>);
    const std::int32_t token = ef::sample_token(this->view(x), 1 - 0x1p-53, this->scratch);
    ASSERT_LT(token, size);
    EXPECT_TRUE(std::isfinite(x[static_cast<std::size_t>(token)]));
  }
}

// ------------------------------------------------------------------ errors

TYPED_TEST(Sampling, NothingCanBeChosenFromBadLogits) {
  using Logits = typename TestFixture::Row;
  using Use = void (*)(ef::TensorView<TypeParam, 1>, ef::Arena&);
  const std::pair<const char*, Use> uses[] = {
      {"greedy_token", [](auto x, ef::Arena&) { ef::greedy_token(x); }},
      {"sample_token", [](auto x, ef::Arena& arena) { ef::sample_token(x, 0.5, arena); }},
      {"keep_top_k", [](auto x, ef::Arena& arena) { ef::keep_top_k(x, 3, arena); }},
      {"keep_top_k, all", [](auto x, ef::Arena& arena) { ef::keep_top_k(x, 0, arena); }},
      {"keep_top_p", [](auto x, ef::Arena& arena) { ef::keep_top_p(x, 0.5, arena); }},
      {"keep_top_p, all", [](auto x, ef::Arena& arena) { ef::keep_top_p(x, 1, arena); }},
      {"keep_min_p", [](auto x, ef::Arena& arena) { ef::keep_min_p(x, 0.5, arena); }},
      {"choose_token, greedy",
       [](auto x, ef::Arena& arena) { ef::choose_token(x, {}, {}, 0.5, arena); }},
      {"choose_token, sampled",
       [](auto x, ef::Arena& arena) {
         ef::choose_token(x, {}, {.temperature = 1e-40, .top_k = 5, .do_sample = true}, 0.5, arena);
       }},
  };
  for (const auto& [name, use] : uses) {
    for (std::size_t size : {1u, 9u, 100u}) {
      const auto error = [&, use = use](Logits x) {
        return this->error_of([&] { use(this->view(x), this->scratch); });
      };
      Logits x(size, 1);
      EXPECT_EQ(error(x), "no error") << name;
      x[size / 2] = static_cast<TypeParam>(not_a_number);
      const std::string place =
          " for token " + std::to_string(size / 2) + " of " + std::to_string(size);
      EXPECT_NE(error(x).find("nan" + place), std::string::npos) << name << ": " << error(x);
      x[size / 2] = static_cast<TypeParam>(infinity);
      EXPECT_NE(error(x).find("inf" + place), std::string::npos) << name << ": " << error(x);
      EXPECT_NE(error(x), "no error") << name;
      EXPECT_NE(error(Logits(size, reference::nothing<TypeParam>))
                    .find("all " + std::to_string(size) + " logits are -infinity"),
                std::string::npos)
          << name;
    }
    Logits none;
    EXPECT_NE(this->error_of([&, use = use] { use(this->view(none), this->scratch); })
                  .find("at least one logit"),
              std::string::npos)
        << name;
  }
}

TYPED_TEST(Sampling, BadArguments) {
  typename TestFixture::Row x(5, 1);
  const auto logits = this->view(x);
  const Tokens tokens{1, -2};
  const auto penalize = [&](double penalty) {
    ef::apply_repetition_penalty(logits, std::span(tokens), penalty, this->scratch);
  };
  EXPECT_NE(this->error_of([&] { penalize(2); }).find(">= 0; got -2"), std::string::npos);
  EXPECT_EQ(x, (typename TestFixture::Row(5, 1))) << "an error must change nothing";
  EXPECT_NE(this->error_of([&] { penalize(0); }).find("got 0"), std::string::npos);
  EXPECT_NE(this->error_of([&] { ef::apply_temperature(logits, 0); }).find("got 0"),
            std::string::npos);
  EXPECT_NE(this->error_of([&] { ef::keep_top_k(logits, -1, this->scratch); }).find("got -1"),
            std::string::npos);
  EXPECT_NE(this->error_of([&] { ef::keep_top_p(logits, 0, this->scratch); }).find("got 0"),
            std::string::npos);
  EXPECT_NE(this->error_of([&] { ef::keep_min_p(logits, 1.5, this->scratch); }).find("got 1.5"),
            std::string::npos);
  for (double uniform : {-0.1, 1.0, not_a_number}) {
    EXPECT_NE(
        this->error_of([&] { ef::sample_token(logits, uniform, this->scratch); }).find("in [0, 1)"),
        std::string::npos);
  }
}

TEST(SamplingConfig, ChecksItsNumbers) {
  EXPECT_NO_THROW(SamplingConfig{}.checked());
  EXPECT_NO_THROW((SamplingConfig{0, 0, 1, 1, 0.1, true}.checked()));
  const std::pair<SamplingConfig, const char*> bad[] = {
      {{.temperature = -0.5}, "temperature must be in [0, 1e30]; got -0.5"},
      {{.temperature = infinity}, "temperature must be in [0, 1e30]; got inf"},
      {{.temperature = not_a_number}, "temperature must be in [0, 1e30]; got nan"},
      {{.top_k = -3}, "top_k must be >= 0 (0: all); got -3"},
      {{.top_p = 0}, "top_p must be in (0, 1]; got 0"},
      {{.top_p = 1.25}, "top_p must be in (0, 1]; got 1.25"},
      {{.top_p = not_a_number}, "top_p must be in (0, 1]; got nan"},
      {{.min_p = -0.25}, "min_p must be in [0, 1]; got -0.25"},
      {{.min_p = 2}, "min_p must be in [0, 1]; got 2"},
      {{.temperature = 3},
       "temperature, top_k, top_p and min_p need do_sample = true; got 3, 0, 1 and 0"},
      {{.repetition_penalty = 0}, "repetition_penalty must be in [1e-30, 1e30]; got 0"},
      {{.repetition_penalty = -1}, "repetition_penalty must be in [1e-30, 1e30]; got -1"},
      {{.repetition_penalty = infinity}, "repetition_penalty must be in [1e-30, 1e30]; got inf"},
  };
  for (const auto& [config, text] : bad) {
    try {
      config.checked();
      ADD_FAILURE() << "no error: " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), std::string("SamplingConfig: ") + text);
    }
  }
}

// ------------------------------------------------------------------ frequencies

// Pearson's statistic of n samples is within six deviations of its mean, the number of classes less
// one; and nothing is sampled that isn't left.
template <class T>
void expect_frequencies(std::vector<T> logits, const SamplingConfig& config, ef::Key key) {
  constexpr std::uint64_t samples = 100000;
  const auto size = static_cast<Index>(logits.size());
  std::vector<T> left = logits;
  reference::choose(left, {}, config, 0);
  const auto p = reference::probabilities(left);
  std::vector<double> counts(logits.size(), 0);
  ef::Arena arena;
  for (std::uint64_t i = 0; i < samples; ++i) {
    std::vector<T> x = logits;
    const std::int32_t token =
        ef::choose_token(ef::TensorView<T, 1>(x.data(), {size}), {}, config, key.uniform(i), arena);
    counts[static_cast<std::size_t>(token)] += 1;
  }
  double statistic = 0, classes = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    const auto expected = static_cast<double>(p[j] * samples);
    if (p[j] == 0) {
      EXPECT_EQ(counts[j], 0);
      continue;
    }
    ASSERT_GT(expected, 20) << "too few samples for the statistic";
    statistic += (counts[j] - expected) * (counts[j] - expected) / expected;
    classes += 1;
  }
  const double mean = classes - 1;
  EXPECT_LT(statistic, mean + 6 * std::sqrt(2 * mean));
  EXPECT_GT(statistic, mean - 6 * std::sqrt(2 * mean));
}

TYPED_TEST(Sampling, DrawsHaveTheFrequenciesOfTheSoftmax) {
  using T = TypeParam;
  std::vector<T> logits;
  for (std::uint64_t j = 0; j < 61; ++j) logits.push_back(static_cast<T>(ef::Key(3).normal(j)));
  logits[7] = reference::nothing<T>;
  expect_frequencies(logits, {.do_sample = true}, ef::Key(1));
  expect_frequencies(logits, {.temperature = 2.5, .do_sample = true}, ef::Key(2));
  expect_frequencies(logits, {.top_k = 20, .do_sample = true}, ef::Key(3));
  expect_frequencies(logits, {.top_p = 0.7, .do_sample = true}, ef::Key(4));
  expect_frequencies(logits, {.min_p = 0.2, .do_sample = true}, ef::Key(5));
}

// ------------------------------------------------------------------ memory

TYPED_TEST(Sampling, TheSecondCallAllocatesNothing) {
  ef::Workspace workspace;
  const auto logits = this->random_logits(50021, 1);
  auto x = logits;
  const Tokens tokens(1000, 17);
  const SamplingConfig config{.temperature = 0.9,
                              .top_k = 40000,
                              .top_p = 0.95,
                              .min_p = 0.001,
                              .repetition_penalty = 1.1,
                              .do_sample = true};
  std::int32_t first = 0;
  for (int call = 0; call < 3; ++call) {
    std::copy(logits.begin(), logits.end(), x.begin());
    const long before = reference::allocations();
    const std::int32_t token =
        ef::choose_token(this->view(x), std::span(tokens), config, 0.5, workspace);
    const long made = reference::allocations() - before;
    if (call == 0) {
      EXPECT_GT(made, 0);
      first = token;
    } else {
      EXPECT_EQ(made, 0);
      EXPECT_EQ(token, first);
    }
  }
}

}  // namespace sampling_test
