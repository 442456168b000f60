// SPDX-License-Identifier: MIT
#pragma once

// Runs of modules that occur in more than one golden file.

#include "tests/golden/golden.hpp"

namespace golden {

/// y = module(x), row by row.
template <class M>
void run_rows(Case& test) {
  const M module = test.module<M>();
  test.expect("y", module(test.input<typename M::Scalar, 3>("x")));
}

/// y = module(x, mask): layers and stacks of them.
template <class M>
void run_masked(Case& test) {
  const M module = test.module<M>();
  const auto mask = test.mask<typename M::Scalar>();
  test.expect("y", module(test.input<typename M::Scalar, 3>("x"), mask.view()));
}

/// y = module(x, memory, mask, memory mask): decoder layers and stacks of them.
template <class M>
void run_with_memory(Case& test) {
  const M module = test.module<M>();
  using T = typename M::Scalar;
  const auto mask = test.mask<T>(), memory_mask = test.mask<T>("memory_mask");
  test.expect("y", module(test.input<T, 3>("x"), test.input<T, 3>("memory"), mask.view(),
                          memory_mask.view()));
}

/// Self-attention of x; or of query with memory, or with key and value of their own.
template <class T>
void run_multi_head_attention(Case& test) {
  const auto attention = test.module<ef::MultiHeadAttention<T>>();
  const auto mask = test.mask<T>();
  if (test.has_input("x")) {
    const auto x = test.input<T, 3>("x");
    if (!test.has_output("weights")) return test.expect("y", attention(x, mask.view()));
    Tensor<T, 3> y(x.shape());
    Tensor<T, 4> weights({x.dim(0), attention.config.num_attention_heads, x.dim(1), x.dim(1)});
    ef::Workspace workspace;
    attention.forward(x, x, x, mask.view(), y, weights, workspace);
    test.expect("y", y);
    test.expect("weights", weights);
    test.expect("weights", attention.attention_weights(x, x, mask.view()));
  } else if (test.has_input("memory")) {
    const auto query = test.input<T, 3>("query"), memory = test.input<T, 3>("memory");
    test.expect("y", attention(query, memory, mask.view()));
  } else {
    const auto query = test.input<T, 3>("query"), key = test.input<T, 3>("key");
    test.expect("y", attention(query, key, test.input<T, 3>("value"), mask.view()));
  }
}

/// What goes along with token ids, and its storage.
struct Along {
  std::optional<Tensor<std::int32_t, 2>> token_types, positions;
  Index first_position = 0;

  explicit Along(Case& test) {
    if (test.has_input("token_types")) token_types = test.input<std::int32_t, 2>("token_types");
    if (test.has_input("positions")) positions = test.input<std::int32_t, 2>("positions");
    if (test.has("first_position")) first_position = test.get<Index>("first_position");
  }

  ef::EmbeddingInputs inputs() const { return {token_types, positions, first_position}; }
};

/// Of encoders and their heads: output(module(ids, token types, mask)).
template <class M>
void run_on_ids(Case& test, const char* output) {
  const M module = test.module<M>();
  const auto mask = test.mask<typename M::Scalar>();
  const Along along(test);
  test.expect(output, module(test.input<std::int32_t, 2>("ids"), along.inputs(), mask.view()));
}

template <class T>
void run_transformer_encoder(Case& test) {
  run_on_ids<ef::TransformerEncoder<T>>(test, "y");
}

template <class T>
void run_vision_transformer(Case& test) {
  const auto model = test.module<ef::VisionTransformer<T>>();
  test.expect("logits", model(test.input<T, 4>("images")));
}

}  // namespace golden
