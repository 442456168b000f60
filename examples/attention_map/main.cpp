// SPDX-License-Identifier: MIT

// Which tokens see which: the attention weights of one head of an encoder, as numbers and as a picture.
//
//   attention_map <directory> <layer> <head> <output> <token id>...
//   attention_map all-MiniLM-L6-v2 0 3 map 101 7592 2088 102
//
// writes map.csv (a row for each query, a column for each key) and map.svg.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "eigenformer/models/pretrained.hpp"

namespace {

using Weights = ef::Tensor<float, 2>;  // (T, T)

/// The weights of one head, seen by an observer on the way.
Weights attention_of(const ef::TransformerEncoder<float>& encoder, ef::Index layer, ef::Index head,
                     const std::vector<std::int32_t>& ids) {
  const auto tokens = static_cast<ef::Index>(ids.size());
  const auto heads = encoder.config.num_attention_heads.value();
  ef::require(layer >= 0 && layer < encoder.config.layers(), "there is no layer ", layer);
  ef::require(head >= 0 && head < heads, "there is no head ", head, " among ", heads);
  Weights seen;
  const ef::Observer<float> observer{
      .attention_weights = [&](const ef::LayerPlace& at, ef::TensorView<const float, 4> p) {
        if (at.layer == layer) seen = Weights(p[0][head]);
      }};
  ef::Tensor<float, 3> y({1, tokens, encoder.config.hidden_size});
  ef::Workspace workspace;
  encoder.forward(ef::Tensor<std::int32_t, 2>::from(ids, {1, tokens}), {}, {}, y, observer,
                  workspace);
  return seen;
}

void write_csv(const Weights& p, const std::string& path) {
  std::ofstream file(path);
  for (ef::Index t = 0; t < p.dim(0); ++t) {
    for (ef::Index j = 0; j < p.dim(1); ++j) file << (j > 0 ? "," : "") << p(t, j);
    file << '\n';
  }
}

/// A square for each pair, the darker the larger its weight.
void write_svg(const Weights& p, const std::string& path) {
  constexpr ef::Index side = 24;
  std::ofstream file(path);
  file << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << p.dim(1) * side << "\" height=\""
       << p.dim(0) * side << "\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  for (ef::Index t = 0; t < p.dim(0); ++t) {
    for (ef::Index j = 0; j < p.dim(1); ++j) {
      file << "<rect x=\"" << j * side << "\" y=\"" << t * side << "\" width=\"" << side
           << "\" height=\"" << side << "\" fill=\"#1f4e8c\" fill-opacity=\"" << p(t, j)
           << "\"><title>query " << t << ", key " << j << ": " << p(t, j) << "</title></rect>\n";
    }
  }
  file << "</svg>\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) {
    std::fprintf(stderr,
                 "usage: attention_map <directory> <layer> <head> <output> <token id>...\n");
    return 2;
  }
  try {
    std::vector<std::int32_t> ids;
    for (int i = 5; i < count; ++i) ids.push_back(std::atoi(arguments[i]));
    const auto encoder = ef::load_encoder<float>(arguments[1]);
    const Weights p = attention_of(encoder, std::atoi(arguments[2]), std::atoi(arguments[3]), ids);
    const std::string output = arguments[4];
    write_csv(p, output + ".csv");
    write_svg(p, output + ".svg");
    std::printf("%s.csv: %d x %d, %s.svg\n", output.c_str(), int(p.dim(0)), int(p.dim(1)),
                output.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
