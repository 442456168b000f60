// SPDX-License-Identifier: MIT
#pragma once

// Files under another library's names, and modules whose parameters are all different.

#include <functional>
#include <memory>

#include "eigenformer/eigenformer.hpp"
#include "eigenformer/io/io.hpp"
#include "tests/io/file_builder.hpp"

namespace test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;

// Tensors under another library's names.
class ForeignFile {
 public:
  template <int Rank, int NewRank>
  void add(const std::string& name, const Tensor<float, Rank>& x, const ef::Shape<NewRank>& shape) {
    auto copy =
        std::make_shared<Tensor<float, NewRank>>(x.view().template reshaped<NewRank>(shape));
    tensors_.emplace_back(name, *copy);
    kept_.push_back(std::move(copy));
  }
  template <int Rank>
  void add(const std::string& name, const Tensor<float, Rank>& x) {
    add(name, x, x.shape());
  }
  void add(const std::string& name, const ef::Linear<float>& x) {
    add(name + ".weight", x.weight);
    if (x.config.bias) add(name + ".bias", x.bias);
  }
  void add(const std::string& name, const ef::LayerNorm<float>& x) {
    add(name + ".weight", x.weight);
    if (x.config.bias) add(name + ".bias", x.bias);
  }
  void add(const std::string& name, const ef::RMSNorm<float>& x) {
    add(name + ".weight", x.weight);
  }
  /// Rows of query, key and value on top of each other.
  void add_fused(const std::string& weight, const std::string& bias,
                 const ef::MultiHeadAttention<float>& x) {
    const Index rows = x.query.weight.dim(0), columns = x.query.weight.dim(1);
    Tensor<float, 2> weights({3 * rows, columns});
    Tensor<float, 1> biases({3 * rows});
    for (Index part = 0; part < 3; ++part) {
      const ef::Linear<float>& linear = part == 0 ? x.query : part == 1 ? x.key : x.value;
      weights.matrix().middleRows(part * rows, rows) = linear.weight.matrix();
      if (linear.config.bias) biases.vector().segment(part * rows, rows) = linear.bias.vector();
    }
    add(weight, weights);
    if (x.query.config.bias) add(bias, biases);
  }
  /// Rows [first, first + count) of a Linear.
  void add_rows(const std::string& name, const ef::Linear<float>& x, Index first, Index count) {
    Tensor<float, 2> weight({count, x.weight.dim(1)});
    weight.matrix() = x.weight.matrix().middleRows(first, count);
    Tensor<float, 1> bias({count});
    bias.vector() = x.bias.vector().segment(first, count);
    add(name + ".weight", weight);
    add(name + ".bias", bias);
  }

  /// Matrices as (in, out), several side by side; biases behind each other.
  void add_conv1d(const std::string& name,
                  const std::vector<std::reference_wrapper<const ef::Linear<float>>>& parts) {
    Index rows = 0;
    for (const ef::Linear<float>& part : parts) rows += part.weight.dim(0);
    Tensor<float, 2> weight({parts.front().get().weight.dim(1), rows});
    Tensor<float, 1> bias({rows});
    Index first = 0;
    for (const ef::Linear<float>& part : parts) {
      const Index count = part.weight.dim(0);
      weight.matrix().middleCols(first, count) = part.weight.matrix().transpose();
      bias.vector().segment(first, count) = part.bias.vector();
      first += count;
    }
    add(name + ".weight", weight);
    add(name + ".bias", bias);
  }
  void add_zeros(const std::string& name, Index size) { add(name, Tensor<float, 1>({size})); }

  /// Loads a copy of `module` from these tensors and expects the same numbers.
  template <class M>
  void expect_gives(const M& module, const ef::KeyMap& map) const {
    const TemporaryFolder folder;
    ef::write_safetensors(folder / "x", tensors_);
    M copy = ef::zeros_like(module);
    ef::load(copy, folder / "x", map);
    EXPECT_TRUE(ef::parameters_equal(copy, module));
  }

 private:
  std::vector<ef::NamedTensor> tensors_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Every parameter another number.
template <class M>
M numbered(M module) {
  float next = 1;
  ef::for_each_parameter(module, [&](const std::string&, auto& parameter) {
    for (auto& x : parameter) x = next++;
  });
  return module;
}

}  // namespace test
