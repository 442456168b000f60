// SPDX-License-Identifier: MIT
// The laws for attention with every kind of positions, and with what else its configuration knows.
#include "eigenformer/nn/multi_head_attention.hpp"
#include "tests/nn/module_cases.hpp"

namespace laws {
namespace attention_positions_laws_test {

constexpr Index heads = 6, head_size = 10;

/// Self-attention under a mask of lengths. `More` adds to the configuration and the list of
/// parameters.
template <class T, class More>
struct ConfiguredCase : OnTokens<53, true> {
  using Module = ef::MultiHeadAttention<T>;
  static ef::MultiHeadAttentionConfig config() {
    ef::MultiHeadAttentionConfig c{
        .hidden_size = 53, .num_attention_heads = heads, .head_size = head_size};
    More::configure(c);
    return c;
  }
  static Module make() { return Module(config()); }
  static Parameters parameters() {
    const Index key_value = config().key_value_heads() * head_size;
    Parameters list;
    add_linear(list, "query", heads * head_size, 53);
    add_linear(list, "key", key_value, 53);
    add_linear(list, "value", key_value, 53);
    add_linear(list, "output", 53, heads * head_size);
    More::add(list);
    return list;
  }
  static void call(const Module& module, const Views<T>& in, ef::TensorView<T, 3> y,
                   ef::Workspace& workspace) {
    module.forward(in.x, in.mask, y, workspace);
  }
  static ef::Tensor<T, 3> convenient(const Module& module, const Owned<T>& in) {
    return module(in.x, in.mask());
  }
};

struct NoMoreParameters {
  static void add(Parameters&) {}
};

struct Rotary : NoMoreParameters {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.num_key_value_heads = 2;
    c.attention_positions = {.kind = ef::AttentionPosition::rotary,
                             .rotary = {.partial_rotary_factor = 0.6}};
  }
};

struct InterleavedYarn : NoMoreParameters {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.attention_positions = {.kind = ef::AttentionPosition::rotary,
                             .rotary = {.rope_theta = 137,
                                        .layout = ef::RotaryLayout::interleaved,
                                        .rope_scaling = {.type = ef::RotaryScalingType::yarn,
                                                         .factor = 3,
                                                         .original_max_position_embeddings = 43}}};
  }
};

struct Alibi : NoMoreParameters {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.num_key_value_heads = 3;
    c.attention_positions.kind = ef::AttentionPosition::alibi;
  }
};

struct RelativeBias {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.num_key_value_heads = 1;
    c.attention_positions = {.kind = ef::AttentionPosition::relative_bias,
                             .relative_attention_num_buckets = 14,
                             .relative_attention_max_distance = 29};
  }
  static void add(Parameters& list) { list.emplace_back("relative_bias.weight", "(14, 6)"); }
};

struct RelativeKey {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.num_key_value_heads = 2;
    c.attention_positions = {.kind = ef::AttentionPosition::relative_key,
                             .max_position_embeddings = 7};  // shorter than the sequences
  }
  static void add(Parameters& list) { list.emplace_back("distance_embedding.weight", "(13, 10)"); }
};

struct RelativeKeyQuery {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.attention_positions = {.kind = ef::AttentionPosition::relative_key_query,
                             .max_position_embeddings = 151};
  }
  static void add(Parameters& list) { list.emplace_back("distance_embedding.weight", "(301, 10)"); }
};

struct NormsAndCap {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.num_key_value_heads = 2;
    c.query_key_norm = true;
    c.attn_logit_softcapping = 0.9;
    c.attention_positions.kind = ef::AttentionPosition::rotary;
  }
  static void add(Parameters& list) {
    add_norm(list, "query_norm", head_size, false);
    add_norm(list, "key_norm", head_size, false);
  }
};

struct SlidingWindow : NoMoreParameters {
  static void configure(ef::MultiHeadAttentionConfig& c) {
    c.sliding_window = 5;
    c.attention_positions.kind = ef::AttentionPosition::rotary;
  }
};

template <class T>
using RotaryCase = ConfiguredCase<T, Rotary>;
template <class T>
using InterleavedYarnCase = ConfiguredCase<T, InterleavedYarn>;
template <class T>
using AlibiCase = ConfiguredCase<T, Alibi>;
template <class T>
using RelativeBiasCase = ConfiguredCase<T, RelativeBias>;
template <class T>
using RelativeKeyCase = ConfiguredCase<T, RelativeKey>;
template <class T>
using RelativeKeyQueryCase = ConfiguredCase<T, RelativeKeyQuery>;
template <class T>
using NormsAndCapCase = ConfiguredCase<T, NormsAndCap>;
template <class T>
using SlidingWindowCase = ConfiguredCase<T, SlidingWindow>;

LAWS_HOLD_FOR(RotaryAttention, RotaryCase);
LAWS_HOLD_FOR(InterleavedYarnAttention, InterleavedYarnCase);
LAWS_HOLD_FOR(AlibiAttention, AlibiCase);
LAWS_HOLD_FOR(RelativeBiasAttention, RelativeBiasCase);
LAWS_HOLD_FOR(RelativeKeyAttention, RelativeKeyCase);
LAWS_HOLD_FOR(RelativeKeyQueryAttention, RelativeKeyQueryCase);
LAWS_HOLD_FOR(NormedAndCappedAttention, NormsAndCapCase);
LAWS_HOLD_FOR(SlidingWindowAttention, SlidingWindowCase);

}  // namespace attention_positions_laws_test
}  // namespace laws
