// SPDX-License-Identifier: MIT
// A later token never changes what comes before it, in any decoder.
#include <gtest/gtest.h>

#include "eigenformer/models/transformer.hpp"
#include "tests/models/decoding.hpp"

namespace causality_test {

using namespace decoding;

template <class T>
class CausalityTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CausalityTest, Scalars);

/// `logits(ids)` for ids (2, T): changing tokens from t + 1 on leaves 0 ... t alone, and reaches
/// t + 1.
template <class Logits>
void expect_causal(const Ids& ids, const std::string& name, Logits&& logits) {
  const auto before = logits(ids);
  const Index length = ids.dim(1);
  for (Index t : {Index{0}, Index{3}, Index{126}, Index{127}, Index{128}, length - 2}) {
    Ids changed = ids;
    for (Index b = 0; b < 2; ++b) {
      for (Index i = t + 1; i < length; ++i) changed(b, i) = (ids(b, i) + 1) % vocabulary;
    }
    const auto after = logits(changed);
    ASSERT_TRUE(pieces::same_tokens(after, before, {0, 0}, {t + 1, t + 1})) << name << ", " << t;
    ASSERT_FALSE(pieces::same_tokens(after, before, {t + 1, t + 1}, {t + 2, t + 2}))
        << name << ", " << t;
  }
}

TYPED_TEST(CausalityTest, OfEveryDecoder) {
  using T = TypeParam;
  const Ids ids = random_ids(2, 139);
  const std::vector<int> lengths = {139, 131};
  const auto memory = reference::random_tensor<T, 3>({2, 7, 17}, 4, 2);
  for (const NamedDecoder& decoder : decoders_with_all_positions()) {
    for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
      for (bool with_memory : {false, true}) {
        auto config = decoder.config;
        config.norm_placement = placement;
        config.num_key_value_heads = with_memory ? 2 : 6;
        config.cross_attention = with_memory;
        config.key_value_size = 17;
        const auto model = random_model<ef::TransformerDecoder<T>>(config);
        typename ef::TransformerDecoder<T>::Inputs inputs;
        if (with_memory) inputs.memory = memory;
        expect_causal(ids, decoder.name, [&](const Ids& some) { return model(some, inputs); });
        inputs.mask.key_lengths = lengths;
        expect_causal(ids, decoder.name + " with padding",
                      [&](const Ids& some) { return model(some, inputs); });
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(CausalityTest, OfTransformers) {
  using T = TypeParam;
  const Ids ids = random_ids(2, 139), source = random_ids(2, 11, 8);
  for (ef::NormPlacement placement : {ef::NormPlacement::pre, ef::NormPlacement::post}) {
    const auto model =
        random_model<ef::Transformer<T>>(ef::TransformerConfig{.vocab_size = vocabulary,
                                                               .hidden_size = 29,
                                                               .num_attention_heads = 6,
                                                               .head_size = 10,
                                                               .intermediate_size = 31,
                                                               .norm_placement = placement});
    expect_causal(ids, to_string(placement), [&](const Ids& some) { return model(source, some); });
    // The source isn't causal: its last token reaches the first logits.
    Ids changed = source;
    changed(0, 10) = (source(0, 10) + 1) % vocabulary;
    EXPECT_FALSE(pieces::same_tokens(model(changed, ids), model(source, ids), {0, 0}, {1, 0}));
  }
}

}  // namespace causality_test
