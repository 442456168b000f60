// SPDX-License-Identifier: MIT
// Feed-forward blocks of oneDNN's inner products: weights in the layout that it asks for, bias,
// activation and gating on the result. The argument is the number of threads, which OMP_NUM_THREADS
// says too.

#include <dnnl.hpp>
#include <memory>

#include "bench/compare/worker.hpp"

namespace {

using compare::Json;
using compare::Prepared;
using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;
using Index = memory::dim;

memory::desc matrix(Index rows, Index columns) {
  return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}

std::span<float> elements(const memory& m) {
  return {static_cast<float*>(m.get_data_handle()), m.get_desc().get_size() / sizeof(float)};
}

/// Primitives in their order, with their operands.
struct Network {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::pair<dnnl::primitive, Arguments>> steps;
  memory result;

  memory tensor(Index rows, Index columns) const { return {matrix(rows, columns), engine}; }

  /// Adds y = activation(x W^T + b), times `factor` if there is one.
  void linear(const std::string& name, const memory& x, const memory& y, bool biased,
              dnnl::algorithm activation = dnnl::algorithm::undef, const memory* factor = nullptr) {
    const Index in = x.get_desc().dims()[1], out = y.get_desc().dims()[1];
    memory weight = tensor(out, in);
    memory bias({{out}, memory::data_type::f32, memory::format_tag::a}, engine);
    compare::fill(name + ".weight", elements(weight), in);
    compare::fill(name + ".bias", elements(bias), 0);

    dnnl::post_ops then;
    if (activation != dnnl::algorithm::undef) then.append_eltwise(1, activation, 1, 0);
    if (factor != nullptr) then.append_binary(dnnl::algorithm::binary_mul, factor->get_desc());
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(then);
    const memory::desc any({out, in}, memory::data_type::f32, memory::format_tag::any);
    const dnnl::inner_product_forward::primitive_desc chosen(
        {dnnl::prop_kind::forward_inference, x.get_desc(), any,
         biased ? bias.get_desc() : memory::desc(), y.get_desc()},
        attributes, engine);
    memory packed(chosen.weights_desc(), engine);
    dnnl::reorder(weight, packed).execute(stream, weight, packed);
    stream.wait();

    Arguments arguments = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, y}};
    if (biased) arguments[DNNL_ARG_BIAS] = bias;
    if (factor != nullptr) {
      const int place = activation == dnnl::algorithm::undef ? 0 : 1;
      arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(place) | DNNL_ARG_SRC_1] = *factor;
    }
    steps.emplace_back(dnnl::inner_product_forward(chosen), arguments);
  }
};

Prepared prepare(const Json& c) {
  const std::string block = c["block"];
  const Index hidden = c["hidden_size"], intermediate = c["intermediate_size"];
  const auto network = std::make_shared<Network>();
  const Index rows = c["batch"].get<Index>() * c["tokens"].get<Index>();
  memory x = network->tensor(rows, hidden), y = network->tensor(rows, hidden);
  const memory h = network->tensor(rows, intermediate), up = network->tensor(rows, intermediate);
  compare::fill("x", elements(x), 1);
  for (int i = 0; i < c["layers"].get<int>(); ++i) {
    const std::string name = "layers." + std::to_string(i) + ".";
    if (block == "feed_forward") {
      network->linear(name + "linear_1", x, h, true, dnnl::algorithm::eltwise_gelu_erf);
      network->linear(name + "linear_2", h, y, true);
    } else if (block == "gated_feed_forward") {
      network->linear(name + "up", x, up, false);
      network->linear(name + "gate", x, h, false, dnnl::algorithm::eltwise_swish, &up);
      network->linear(name + "down", h, y, false);
    } else {
      throw compare::Unsupported("products only");
    }
    if (i == 0) x = network->tensor(rows, hidden);  // the input stays as it is
    std::swap(x, y);
  }
  network->result = x;
  return {[network] {
            for (const auto& [step, arguments] : network->steps) {
              step.execute(network->stream, arguments);
            }
            network->stream.wait();
          },
          [network] { return std::span<const float>(elements(network->result)); }};
}

}  // namespace

int main() {
  const auto* version = dnnl::version();
  compare::serve("oneDNN",
                 std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                     std::to_string(version->patch),
                 prepare);
}
