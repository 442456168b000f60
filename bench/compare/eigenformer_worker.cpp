// SPDX-License-Identifier: MIT
// Our side of the comparison, compiled as users do, without flags for the machine. The argument is
// the number of threads.

#include <algorithm>
#include <memory>
#include <numeric>

#include "bench/compare/worker.hpp"
#include "eigenformer/eigenformer.hpp"

namespace {

using compare::Json;
using compare::Prepared;
using ef::Index;

// ------------------------------------------------------------------ formats of parameters

struct Plain {
  template <class M>
  static M of(M module) {
    return module;
  }
};
template <class Format>
struct Packed {
  template <class M>
  static auto of(const M& module) {
    return ef::pack<Format>(module);
  }
};

/// f(the format that the case names).
template <class F>
Prepared with_format(const std::string& name, F&& f) {
  if (name == "float") return f(Plain{});
  if (name == "packed") return f(Packed<ef::Packed<float>>{});
  if (name == "bfloat16") return f(Packed<ef::Packed<ef::bfloat16>>{});
  if (name == "int8") return f(Packed<ef::Packed<ef::int8>>{});
  throw compare::Unsupported("there is no format \"" + name + "\"");
}

// ------------------------------------------------------------------ parameters and inputs

template <int Rank>
std::span<float> elements(ef::Tensor<float, Rank>& tensor) {
  return {tensor.data(), static_cast<std::size_t>(tensor.size())};
}

template <class M>
M filled(M module, const std::string& prefix = "") {
  ef::for_each_parameter(module, [&](const std::string& name, auto& parameter) {
    constexpr int rank = std::remove_reference_t<decltype(parameter)>::rank;
    compare::fill(prefix + name, elements(parameter), rank == 2 ? parameter.dim(rank - 1) : 0);
  });
  return module;
}

ef::Tensor<std::int32_t, 2> token_ids(Index batch, Index tokens, Index vocab_size) {
  ef::Tensor<std::int32_t, 2> ids({batch, tokens});
  for (Index i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(997 * i % vocab_size);
  }
  return ids;
}

/// The numbers of a case, and what every pass needs: threads, scratch memory, a mask.
struct Call {
  Call(const Json& c, ef::ThreadPool& pool)
      : batch(c["batch"]),
        tokens(c["tokens"]),
        layers(c["layers"]),
        hidden_size(c["hidden_size"]),
        intermediate_size(c["intermediate_size"]),
        num_attention_heads(c["num_attention_heads"]),
        vocab_size(c["vocab_size"]),
        past(c["past"]),
        lengths(c["lengths"].get<std::vector<int>>()),
        workspace(pool) {
    mask.causal = c["causal"];
    if (!lengths.empty()) mask.sequence_lengths = lengths;
  }
  Call(const Call&) = delete;  // the mask views the lengths
  Call& operator=(const Call&) = delete;

  Index batch, tokens, layers, hidden_size, intermediate_size, num_attention_heads, vocab_size;
  Index past;
  std::vector<int> lengths;
  ef::Mask<float> mask;
  ef::Workspace workspace;
};

// ------------------------------------------------------------------ blocks

/// Layers with weights of their own, each on the result of the one before.
template <class Layer>
struct Chain {
  explicit Chain(std::unique_ptr<Call> call_)
      : call(std::move(call_)),
        x({call->batch, call->tokens, call->hidden_size}),
        even(x.shape()),
        odd(x.shape()) {
    compare::fill("x", elements(x), 1);
  }

  void pass() {
    const ef::Tensor<float, 3>* from = &x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      auto& to = i % 2 == 0 ? even : odd;
      if constexpr (requires { layers[i].forward(*from, to, call->workspace); }) {
        layers[i].forward(*from, to, call->workspace);
      } else {
        layers[i].forward(*from, call->mask, to, call->workspace);
      }
      from = &to;
    }
  }
  std::span<const float> result() { return elements(layers.size() % 2 == 1 ? even : odd); }

  std::unique_ptr<Call> call;
  std::vector<Layer> layers;
  ef::Tensor<float, 3> x, even, odd;
};

template <class Format>
using EncoderLayer = ef::EncoderLayer<Format>;  // with the norm and feed-forward of BERT

/// The tokens of a batch without padding, one sequence after the other; all of them without lengths.
ef::Tensor<std::int32_t, 2> real_tokens(const ef::Tensor<std::int32_t, 2>& padded,
                                        const std::vector<int>& lengths) {
  if (lengths.empty()) return padded;
  ef::Tensor<std::int32_t, 2> ids({1, std::accumulate(lengths.begin(), lengths.end(), Index{0})});
  std::int32_t* to = ids.data();
  for (Index b = 0; b < padded.dim(0); ++b)
    to = std::copy_n(&padded(b, 0), lengths[static_cast<std::size_t>(b)], to);
  return ids;
}

/// From ids to hidden states, those of real tokens if there are lengths.
template <class Model>
struct Encoder {
  Encoder(std::unique_ptr<Call> call_, Model model_)
      : call(std::move(call_)),
        model(std::move(model_)),
        ids(real_tokens(token_ids(call->batch, call->tokens, call->vocab_size), call->lengths)),
        y({ids.dim(0), ids.dim(1), call->hidden_size}) {}

  void pass() { model.forward(ids, {}, call->mask, y, call->workspace); }
  std::span<const float> result() { return elements(y); }

  std::unique_ptr<Call> call;
  Model model;
  ef::Tensor<std::int32_t, 2> ids;
  ef::Tensor<float, 3> y;
};

/// One token after those in the cache, to the scores of the next.
template <class Model>
struct Decoder {
  Decoder(std::unique_ptr<Call> call_, Model model_)
      : call(std::move(call_)),
        model(std::move(model_)),
        next(token_ids(1, 1, call->vocab_size)),
        logits({1, call->vocab_size}),
        cache(model.make_cache(1, call->past + 1)) {
    model.forward_last(token_ids(1, call->past, call->vocab_size), cache, {}, logits,
                       call->workspace);
  }

  void pass() {
    model.forward_last(next, cache, {}, logits, call->workspace);
    cache.truncate(0, call->past);
  }
  std::span<const float> result() { return elements(logits); }

  std::unique_ptr<Call> call;
  Model model;
  ef::Tensor<std::int32_t, 2> next;
  ef::Tensor<float, 2> logits;
  typename Model::Cache cache;
};

template <class State>
Prepared prepared(std::shared_ptr<State> state) {
  return {[state] { state->pass(); }, [state] { return state->result(); }};
}

template <template <class> class Layer, class Format, class Config>
Prepared chain(std::unique_ptr<Call> call, Format format, const Config& config) {
  using Formatted = decltype(format.of(Layer<float>(config)));
  const Index count = call->layers;
  const auto state = std::make_shared<Chain<Formatted>>(std::move(call));
  for (Index i = 0; i < count; ++i) {
    state->layers.push_back(
        format.of(filled(Layer<float>(config), "layers." + std::to_string(i) + ".")));
  }
  return prepared(state);
}

template <template <class> class State, class Format, class Model>
Prepared whole(std::unique_ptr<Call> call, Format format, Model plain) {
  auto model = format.of(filled(std::move(plain)));
  return prepared(std::make_shared<State<decltype(model)>>(std::move(call), std::move(model)));
}

// ------------------------------------------------------------------ cases

template <class Format>
Prepared block(const std::string& name, std::unique_ptr<Call> call, Format format) {
  const Call& c = *call;
  if (name == "feed_forward") {
    return chain<ef::FeedForward>(std::move(call), format,
                                  ef::FeedForwardConfig{.hidden_size = c.hidden_size,
                                                        .intermediate_size = c.intermediate_size});
  }
  if (name == "gated_feed_forward") {
    return chain<ef::GatedFeedForward>(
        std::move(call), format,
        ef::FeedForwardConfig{.hidden_size = c.hidden_size,
                              .intermediate_size = c.intermediate_size,
                              .activation = ef::Activation::silu,
                              .bias = false});
  }
  if (name == "attention") {
    return chain<ef::MultiHeadAttention>(
        std::move(call), format,
        ef::MultiHeadAttentionConfig{.hidden_size = c.hidden_size,
                                     .num_attention_heads = c.num_attention_heads});
  }
  if (name == "encoder_layer") {
    return chain<EncoderLayer>(std::move(call), format,
                               ef::TransformerConfig{.hidden_size = c.hidden_size,
                                                     .num_attention_heads = c.num_attention_heads,
                                                     .intermediate_size = c.intermediate_size});
  }
  if (name == "encoder") {
    return whole<Encoder>(
        std::move(call), format,
        ef::TransformerEncoder<float>({.vocab_size = c.vocab_size,
                                       .hidden_size = c.hidden_size,
                                       .num_hidden_layers = c.layers,
                                       .num_attention_heads = c.num_attention_heads,
                                       .intermediate_size = c.intermediate_size,
                                       .layer_norm_eps = 1e-5}));
  }
  if (name == "decoder") {
    return whole<Decoder>(
        std::move(call), format,
        ef::TransformerDecoder<float>({.vocab_size = c.vocab_size,
                                       .hidden_size = c.hidden_size,
                                       .num_hidden_layers = c.layers,
                                       .num_attention_heads = c.num_attention_heads,
                                       .intermediate_size = c.intermediate_size,
                                       .activation = ef::Activation::gelu_tanh}));
  }
  throw compare::Unsupported("there is no block \"" + name + "\"");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: eigenformer_worker THREADS\n", 1;
  ef::ThreadPool pool(std::stoi(arguments[1]));
  compare::serve("Eigenformer", COMPARE_VERSION, [&](const Json& c) {
    const std::string name = c["block"];
    auto call = std::make_unique<Call>(c, pool);
    return with_format(c["format"],
                       [&](auto format) { return block(name, std::move(call), format); });
  });
}
