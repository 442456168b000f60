// SPDX-License-Identifier: MIT
#pragma once

// T5's table of relative position biases: one number for each bucket of offsets and each head,
// added to the scores before the softmax. One table serves all layers of a stack.
//
//   weight: (num_buckets, H)   spread: (H, 2 max_distance + 1), for Mask::offset_bias
//
// Formula and source: kernels/relative_bias.hpp.

#include <optional>
#include <string_view>

#include "eigenformer/base/strong_copies.hpp"
#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/nn/attention_positions.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

struct RelativeBiasConfig {
  Index num_attention_heads = 1;
  Index relative_attention_num_buckets = 32;
  Index relative_attention_max_distance = 128;
  bool bidirectional = true;  // false: keys later than the query share bucket 0

  friend bool operator==(const RelativeBiasConfig&, const RelativeBiasConfig&) = default;

  template <class F, class... Config>
  static void visit(F&& f, Config&... c) {
    f("num_attention_heads", c.num_attention_heads...);
    f("relative_attention_num_buckets", c.relative_attention_num_buckets...);
    f("relative_attention_max_distance", c.relative_attention_max_distance...);
    f("bidirectional", c.bidirectional...);
  }

  static RelativeBiasConfig from(const AttentionPositions& positions, Index num_attention_heads,
                                 bool bidirectional) {
    return {.num_attention_heads = num_attention_heads,
            .relative_attention_num_buckets = positions.relative_attention_num_buckets,
            .relative_attention_max_distance = positions.relative_attention_max_distance,
            .bidirectional = bidirectional};
  }
};

template <class Format>
struct RelativeBias {
  using Scalar = ScalarOf<Format>;
  template <class F>
  using WithFormat = RelativeBias<F>;

  RelativeBiasConfig config;
  Parameter<Format, 2> weight;  // (num_buckets, H)

  explicit RelativeBias(const RelativeBiasConfig& config_)
      : config(checked(config_)),
        weight({config.relative_attention_num_buckets, config.num_attention_heads}) {}
  EIGENFORMER_STRONG_COPIES(RelativeBias)

  template <class F, class... Layer>
  static void visit(F&& f, Layer&... layer) {
    f("weight", layer.weight...);
  }

  /// Normal with deviation 0.02.
  void init_own(Key key) { fill_normal(weight, key); }

  /// Throws if the mask has biases by offset already, which a table of `table` would replace.
  static void require_place(std::string_view who, const std::optional<RelativeBias>& table,
                            const Mask<Scalar>& mask) {
    require(!table || !mask.offset_bias, who,
            ": mask.offset_bias is given, but relative_bias has its place");
  }

  /// `mask` with the biases, which are in `scratch`.
  Mask<Scalar> add_to(Mask<Scalar> mask, Scratch& scratch) const {
    require_shape("RelativeBias: weight", weight.shape(),
                  {config.relative_attention_num_buckets, config.num_attention_heads});
    const auto bias = scratch.tensor<Scalar, 2>(
        {config.num_attention_heads, 2 * config.relative_attention_max_distance + 1});
    kernels::spread_relative_bias<Scalar>(buckets(), weight, bias);
    mask.offset_bias = bias;
    return mask;
  }

 private:
  kernels::RelativeBuckets buckets() const {
    return {config.relative_attention_num_buckets, config.relative_attention_max_distance,
            config.bidirectional};
  }

  static const RelativeBiasConfig& checked(const RelativeBiasConfig& c) {
    constexpr Index most = Index{1} << 20;
    const Index one_way = c.relative_attention_num_buckets / (c.bidirectional ? 2 : 1);
    require(c.num_attention_heads > 0, "RelativeBias: num_attention_heads must be > 0; got ",
            c.num_attention_heads);
    require(one_way >= 2 && c.relative_attention_num_buckets <= most &&
                (!c.bidirectional || c.relative_attention_num_buckets % 2 == 0),
            "RelativeBias: relative_attention_num_buckets must be at least 2 for each direction, "
            "and even for two directions; got ",
            c.relative_attention_num_buckets);
    require(c.relative_attention_max_distance > one_way / 2 &&
                c.relative_attention_max_distance <= most,
            "RelativeBias: relative_attention_max_distance must be in (", one_way / 2, ", ", most,
            "]; got ", c.relative_attention_max_distance);
    return c;
  }
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
