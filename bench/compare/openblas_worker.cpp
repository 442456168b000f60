// SPDX-License-Identifier: MIT
// Feed-forward blocks as a careful user of BLAS writes them: its products, and one vectorised pass
// over each row for bias and activation. Threads are OpenMP's in both. The argument is the number
// of threads, which OMP_NUM_THREADS says too.

#include <cblas.h>

#include <Eigen/Core>
#include <memory>
#include <unsupported/Eigen/SpecialFunctions>

#include "bench/compare/worker.hpp"

namespace {

using compare::Json;
using compare::Prepared;
using Vector = std::vector<float>;
using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

struct Linear {
  Linear(const std::string& name, int in_, int out_, bool biased)
      : in(in_),
        out(out_),
        weight(static_cast<std::size_t>(in) * static_cast<std::size_t>(out)),
        bias(biased ? static_cast<std::size_t>(out) : 0) {
    compare::fill(name + ".weight", weight, in);
    compare::fill(name + ".bias", bias, 0);
  }

  /// y = x W^T
  void multiply(int rows, const float* x, float* y) const {
    if (rows == 1) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, out, in, 1, weight.data(), in, x, 1, 0, y, 1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, x, in, weight.data(),
                  in, 0, y, out);
    }
  }

  int in, out;
  Vector weight, bias;
};

/// f(row) for each, over the threads if it is worth it.
template <class F>
void for_rows(int rows, F&& f) {
#pragma omp parallel for if (rows > 8)
  for (int row = 0; row < rows; ++row) f(row);
}

struct FeedForward {
  FeedForward(const std::string& name, int hidden, int intermediate)
      : linear_1(name + "linear_1", hidden, intermediate, true),
        linear_2(name + "linear_2", intermediate, hidden, true) {}

  void forward(int rows, const float* x, float* h, float*, float* y) const {
    linear_1.multiply(rows, x, h);
    const ConstRow bias_1(linear_1.bias.data(), linear_1.out);
    for_rows(rows, [&](int row) {
      Row values(h + static_cast<std::ptrdiff_t>(row) * linear_1.out, linear_1.out);
      values += bias_1;
      values *= 0.5f + 0.5f * (values * 0.70710678f).erf();
    });
    linear_2.multiply(rows, h, y);
    const ConstRow bias_2(linear_2.bias.data(), linear_2.out);
    for_rows(rows, [&](int row) {
      Row(y + static_cast<std::ptrdiff_t>(row) * linear_2.out, linear_2.out) += bias_2;
    });
  }

  Linear linear_1, linear_2;
};

struct GatedFeedForward {
  GatedFeedForward(const std::string& name, int hidden, int intermediate)
      : gate(name + "gate", hidden, intermediate, false),
        up(name + "up", hidden, intermediate, false),
        down(name + "down", intermediate, hidden, false) {}

  void forward(int rows, const float* x, float* g, float* u, float* y) const {
    gate.multiply(rows, x, g);
    up.multiply(rows, x, u);
    for_rows(rows, [&](int row) {
      const auto begin = static_cast<std::ptrdiff_t>(row) * gate.out;
      Row gated(g + begin, gate.out);
      gated = gated / (1 + (-gated).exp()) * ConstRow(u + begin, gate.out);
    });
    down.multiply(rows, g, y);
  }

  Linear gate, up, down;
};

template <class Layer>
Prepared chain(const Json& c) {
  struct State {
    std::vector<Layer> layers;
    Vector x, even, odd, h, u;
  };
  const int rows = c["batch"].get<int>() * c["tokens"].get<int>();
  const int hidden = c["hidden_size"], intermediate = c["intermediate_size"];
  const auto state = std::make_shared<State>();
  for (int i = 0; i < c["layers"].get<int>(); ++i) {
    state->layers.emplace_back("layers." + std::to_string(i) + ".", hidden, intermediate);
  }
  const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden);
  state->x = state->even = state->odd = Vector(size);
  state->h = state->u =
      Vector(size / static_cast<std::size_t>(hidden) * static_cast<std::size_t>(intermediate));
  compare::fill("x", state->x, 1);
  return {[state, rows] {
            const float* from = state->x.data();
            for (std::size_t i = 0; i < state->layers.size(); ++i) {
              float* to = (i % 2 == 0 ? state->even : state->odd).data();
              state->layers[i].forward(rows, from, state->h.data(), state->u.data(), to);
              from = to;
            }
          },
          [state] {
            return std::span<const float>(state->layers.size() % 2 == 1 ? state->even : state->odd);
          }};
}

}  // namespace

int main() {
  std::string version = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  version = version.substr(9, version.find(' ', 9) - 9) + " (" + openblas_get_corename() + ")";
  compare::serve("OpenBLAS", version, [](const Json& c) {
    if (c["block"] == "feed_forward") return chain<FeedForward>(c);
    if (c["block"] == "gated_feed_forward") return chain<GatedFeedForward>(c);
    throw compare::Unsupported("products only");
  });
}
