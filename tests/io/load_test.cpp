// SPDX-License-Identifier: MIT
#include "eigenformer/io/load.hpp"

#include "tests/io/file_builder.hpp"
#include "tests/reference/error_text.hpp"

namespace load_test {

using std::string_literals::operator""s;
using test::expect_error;
using test::TemporaryFolder;

// weight (3, 2), bias (3) and the same in each of the inner modules.
template <class Format>
struct Leaf {
  template <class F>
  using WithFormat = Leaf<F>;
  int config = 0;
  ef::Parameter<Format, 2> weight;
  ef::Parameter<Format, 1> bias;

  explicit Leaf(int config_ = 0) : config(config_), weight({3, 2}), bias({3}) {}

  template <class F, class... L>
  static void visit(F&& f, L&... leaf) {
    f("weight", leaf.weight...);
    f("bias", leaf.bias...);
  }
};

template <class Format>
struct Tree {
  template <class F>
  using WithFormat = Tree<F>;
  int config = 0;
  std::vector<Leaf<Format>> layers;
  std::optional<Leaf<Format>> head;

  explicit Tree(int config_ = 0) : config(config_), layers(2) {}

  template <class F, class... T>
  static void visit(F&& f, T&... tree) {
    f("layers", tree.layers...);
    f("head", tree.head...);
  }
};

struct Table {
  int config = 0;
  ef::Tensor<float, 2> weight{{5003, 1}};

  template <class F, class... T>
  static void visit(F&& f, T&... table) {
    f("weight", table.weight...);
  }
};

template <class M>
M numbered(M module, double first = 1) {
  ef::for_each_parameter(module, [&](const std::string&, auto& parameter) {
    for (auto& x : parameter) x = static_cast<std::remove_reference_t<decltype(x)>>(first++);
  });
  return module;
}

Leaf<float> numbered_leaf(double first = 1) { return numbered(Leaf<float>{}, first); }
Tree<float> numbered_tree(double first = 1) { return numbered(Tree<float>{}, first); }

TEST(Save, RoundTripsInBothFormats) {
  const TemporaryFolder folder;
  Tree<double> tree;
  tree.head.emplace();
  tree = numbered(tree, 0.1);
  ef::save(tree, folder / "tree", {{"made by", "me"}});
  Tree<double> same;
  same.head.emplace();
  const ef::LoadReport report = ef::load(same, folder / "tree");
  EXPECT_TRUE(ef::parameters_equal(tree, same));
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() && report.ignored.empty());
  const ef::SafetensorsReader reader(folder / "tree");
  EXPECT_EQ(reader.metadata().at("made by"), "me");
  EXPECT_EQ(reader.entry("layers.1.weight").type, ef::DataType::f64);
  EXPECT_EQ(reader.names().size(), 6u);

  Tree<float> single;
  single.head.emplace();
  ef::load(single, folder / "tree");
  ef::for_each_parameter_in_step(
      [](const std::string& name, const auto& narrow, const auto& wide) {
        for (ef::Index i = 0; i < wide.size(); ++i) {
          EXPECT_EQ(narrow.data()[i], static_cast<float>(wide.data()[i])) << name;
        }
      },
      single, tree);
}

TEST(Load, FromMemoryAndInPlace) {
  const TemporaryFolder folder;
  const Leaf<float> leaf = numbered_leaf();
  ef::save(leaf, folder / "leaf");
  const std::string bytes = test::read_file(folder / "leaf");
  Leaf<float> same;
  ef::load(same, ef::SafetensorsReader(test::as_bytes(bytes), "memory"), {}, {.in_place = true});
  EXPECT_TRUE(ef::parameters_equal(leaf, same));
}

// Views of parameters stay valid.
TEST(Load, KeepsTheParametersWhereTheyAre) {
  const TemporaryFolder folder;
  ef::save(numbered_leaf(), folder / "leaf");
  Leaf<float> leaf;
  const float* before = leaf.weight.data();
  ef::load(leaf, folder / "leaf");
  EXPECT_EQ(leaf.weight.data(), before);
  EXPECT_EQ(before[5], 6);
}

TEST(Load, ListsTenOfManyAndTheirNumber) {
  const TemporaryFolder folder;
  const std::string unfit = "bad\nname\0"s + std::string(1'000'000, 'n');
  ef::write_safetensors(folder / "x", {{unfit, ef::Tensor<float, 1>({1})}});
  Tree<float> tree;
  tree.layers.resize(5000);
  const std::string text =
      reference::error_text<std::runtime_error>([&] { ef::load(tree, folder / "x"); });
  for (const char* part :
       {"missing: layers.0.weight", "missing: layers.4.bias", "missing: ... and 9990 more",
        "unexpected: bad\\x0aname\\x00nnn", "nnn... (1000009 bytes)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("layers.5."), std::string::npos);
  EXPECT_LT(text.size(), 1500u);
}

// Everything that is wrong is in one error, and the module stays as it was.
TEST(Load, ListsAllThatDoesNotFit) {
  const TemporaryFolder folder;
  const ef::Tensor<float, 2> weight({3, 2}), wide({3, 5}), transposed({2, 3});
  const ef::Tensor<float, 1> bias({3});
  const ef::Tensor<std::int64_t, 1> integers({3});
  ef::write_safetensors(folder / "x", {{"layers.0.weight", wide},
                                       {"layers.0.bias", integers},
                                       {"layers.1.weight", transposed},
                                       {"extra.1", bias},
                                       {"layers.2.weight", weight}});
  Tree<float> tree = numbered_tree();
  tree.head.emplace();
  const Tree<float> before = tree;
  const auto path = (folder / "x").string();
  expect_error(
      [&] { ef::load(tree, folder / "x"); },
      {path, "missing: layers.1.bias", "missing: head.weight", "missing: head.bias",
       "unexpected: extra.1", "unexpected: layers.2.weight",
       "shape: layers.0.weight has (3, 5); (3, 2) is wanted",
       "shape: layers.1.weight has (2, 3); (3, 2) is wanted", "dtype: layers.0.bias is I64"});
  EXPECT_TRUE(ef::parameters_equal(tree, before));
  // Not strict: shapes and types all the same.
  expect_error([&] { ef::load(tree, folder / "x", {}, {.strict = false}); },
               {"layers.0.weight has (3, 5)", "layers.0.bias is I64"});
  EXPECT_TRUE(ef::parameters_equal(tree, before));
}

// Nothing is broadcast, squeezed or converted from integers.
TEST(Load, ShapesAndTypesAreExact) {
  const TemporaryFolder folder;
  const Leaf<float> before = numbered_leaf();
  const auto expect_refused = [&](ef::NamedTensor bias,
                                  std::initializer_list<std::string_view> parts) {
    ef::write_safetensors(folder / "x", {{"weight", before.weight}, std::move(bias)});
    Leaf<float> leaf = numbered_leaf();
    expect_error([&] { ef::load(leaf, folder / "x"); }, parts);
    EXPECT_TRUE(ef::parameters_equal(leaf, before));
  };
  expect_refused({"bias", ef::Tensor<float, 2>({3, 3})}, {"bias has (3, 3); (3) is wanted"});
  expect_refused({"bias", ef::Tensor<float, 2>({1, 3})}, {"bias has (1, 3); (3) is wanted"});
  expect_refused({"bias", ef::Tensor<float, 2>({3, 1})}, {"bias has (3, 1); (3) is wanted"});
  expect_refused({"bias", ef::Tensor<float, 1>({1})}, {"bias has (1); (3) is wanted"});
  expect_refused({"bias", ef::Tensor<float, 1>({0})}, {"bias has (0); (3) is wanted"});
  expect_refused({"bias", ef::Tensor<bool, 1>({3})}, {"bias is BOOL"});
  expect_refused({"bias", ef::Tensor<std::int32_t, 1>({3})}, {"bias is I32"});
  expect_refused({"Bias", ef::Tensor<float, 1>({3})}, {"missing: bias", "unexpected: Bias"});
}

TEST(Load, LenientReportsAndKeeps) {
  const TemporaryFolder folder;
  const ef::Tensor<float, 1> bias({3});
  ef::write_safetensors(folder / "x", {{"bias", bias}, {"extra", bias}});
  Leaf<float> leaf = numbered_leaf();
  const ef::LoadReport report = ef::load(leaf, folder / "x", {}, {.strict = false});
  EXPECT_EQ(report.missing, std::vector<std::string>{"weight"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"extra"});
  EXPECT_EQ(leaf.weight(2, 1), 6);
  EXPECT_EQ(leaf.bias, bias);
}

// An error that shows only in the numbers, after other parameters were read.
TEST(Load, UnchangedIfNumbersAreWrong) {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  ef::Tensor<double, 1> bias({3});
  bias(1) = 1e300;
  ef::write_safetensors(path, {{"weight", ef::Tensor<double, 2>({3, 2})}, {"bias", bias}});
  Leaf<float> leaf = numbered_leaf();
  expect_error([&] { ef::load(leaf, path); }, {path.string(), "tensor bias", "element 1"});
  EXPECT_TRUE(ef::parameters_equal(leaf, numbered_leaf()));

  ef::save(Leaf<float>{}, path);
  ef::Checkpoint checkpoint(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  expect_error([&] { ef::load(leaf, checkpoint); }, {path.string(), "reading"});
  EXPECT_TRUE(ef::parameters_equal(leaf, numbered_leaf()));
}

// A layout that only the map knows: [[1, 2], [3, 4]] stored as (in, out).
TEST(Load, TransposesWhatTheRowSays) {
  const TemporaryFolder folder;
  ef::Tensor<float, 2> stored({2, 3});  // (in, out)
  for (ef::Index i = 0; i < 6; ++i) stored.data()[i] = static_cast<float>(i + 1);
  ef::write_safetensors(folder / "x", {{"w", stored}, {"b", ef::Tensor<float, 1>({3})}});
  const ef::KeyMap map{
      .rows = {{.stored = "w", .own = "weight", .transpose = true}, {"b", "bias"}}};
  Leaf<float> leaf;
  ef::load(leaf, folder / "x", map);
  EXPECT_EQ(leaf.weight(0, 1), 4);
  EXPECT_EQ(leaf.weight(2, 0), 3);
  expect_error(
      [&] {
        ef::load(leaf, folder / "x", {.rows = {{"w", "weight"}, {"b", "bias"}}});
      },
      {"w has (2, 3); (3, 2) is wanted for weight"});
  ef::write_safetensors(folder / "x", {{"w", leaf.weight}, {"b", leaf.bias}});
  expect_error([&] { ef::load(leaf, folder / "x", map); },
               {"w has (3, 2); (2, 3) is wanted for weight, stored transposed"});
}

// Query, key and value fused, once as rows and once as columns (GPT-2).
TEST(Load, TakesPartsOfFusedTensors) {
  const TemporaryFolder folder;
  ef::Tensor<float, 2> rows({6, 2}), columns({2, 6});
  ef::Tensor<float, 1> bias({6});
  for (ef::Index i = 0; i < 6; ++i) {
    bias(i) = static_cast<float>(100 + i);
    for (ef::Index j = 0; j < 2; ++j) rows(i, j) = columns(j, i) = static_cast<float>(10 * i + j);
  }
  ef::write_safetensors(folder / "rows", {{"w", rows}, {"b", bias}});
  ef::write_safetensors(folder / "columns", {{"w", columns}, {"b", bias}});
  for (const bool transpose : {false, true}) {
    ef::KeyMap map;
    for (ef::Index part = 0; part < 2; ++part) {
      const std::string layer = "layers." + std::to_string(part);
      map.rows.push_back({.stored = "w",
                          .own = layer + ".weight",
                          .transpose = transpose,
                          .part = part,
                          .parts = 2});
      map.rows.push_back({.stored = "b", .own = layer + ".bias", .part = part, .parts = 2});
    }
    Tree<float> tree;
    ef::load(tree, folder / (transpose ? "columns" : "rows"), map);
    for (ef::Index part = 0; part < 2; ++part) {
      const auto& leaf = tree.layers[static_cast<std::size_t>(part)];
      for (ef::Index i = 0; i < 3; ++i) {
        EXPECT_EQ(leaf.bias(i), static_cast<float>(100 + 3 * part + i));
        for (ef::Index j = 0; j < 2; ++j)
          EXPECT_EQ(leaf.weight(i, j), static_cast<float>(10 * (3 * part + i) + j));
      }
    }
    expect_error([&] { ef::load(tree, folder / (transpose ? "rows" : "columns"), map); },
                 {"shape: w has", "is wanted for layers.0.weight"});
  }
}

TEST(Load, JoinsTensorsThatAreCounted) {
  const TemporaryFolder folder;
  const ef::KeyMap map{.rows = {{"heads.#.w", "weight"}, {"heads.#.b", "bias"}}};
  ef::Tensor<float, 2> w0({2, 2}), w1({1, 2});
  ef::Tensor<float, 1> b0({1}), b1({2});
  w0(1, 1) = 4;
  w1(0, 0) = 5;
  b0(0) = 6;
  b1(1) = 7;
  const auto write = [&](std::vector<ef::NamedTensor> more) {
    more.insert(more.end(), {{"heads.0.w", w0}, {"heads.0.b", b0}, {"heads.1.b", b1}});
    ef::write_safetensors(folder / "x", more);
  };
  Leaf<float> leaf;
  write({{"heads.1.w", w1}});
  ef::load(leaf, folder / "x", map);
  EXPECT_EQ(leaf.weight(1, 1), 4);
  EXPECT_EQ(leaf.weight(2, 0), 5);
  EXPECT_EQ(leaf.bias(0), 6);
  EXPECT_EQ(leaf.bias(2), 7);

  const std::string_view wanted = "do not join to (3, 2) for weight";
  write({});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {"heads.0.w (2, 2) and 0 more", wanted});
  write({{"heads.1.w", w0}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {"and 1 more", wanted});
  write({{"heads.1.w", ef::Tensor<float, 2>({1, 3})}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {wanted});
  write({{"heads.1.w", ef::Tensor<float, 1>({2})}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {wanted});
  write({{"heads.1.w", ef::Tensor<float, 3>({1, 2, 1})}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {wanted});
  write({{"heads.2.w", w1}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {wanted, "unexpected: heads.2.w"});
  write({{"heads.1.w", w1}, {"heads.2.w", ef::Tensor<float, 2>({1, 2})}});
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {"and 2 more", wanted});
}

TEST(Load, PrefixesAliasesIgnoredNames) {
  const TemporaryFolder folder;
  const ef::KeyMap map{.prefixes = {"", "bert."},
                       .rows = {{"norm.*", "layers.0.*"},
                                {"other.*", "layers.1.*"},
                                {.stored = "cls.*", .own = "head.*", .prefixed = false}},
                       .aliases = {{"norm.weight", "norm.gamma"}, {"norm.bias", "norm.beta"}},
                       .ignored = {"position_ids", "block.{}.buffer"}};
  const Tree<float> numbers = numbered_tree();
  const auto& first = numbers.layers[0].weight;
  const auto& bias = numbers.layers[0].bias;
  const auto& second = numbers.layers[1];
  for (const std::string prefix : {"", "bert."}) {
    ef::write_safetensors(folder / "x", {{prefix + "norm.gamma", first},
                                         {prefix + "norm.beta", bias},
                                         {prefix + "other.weight", second.weight},
                                         {prefix + "other.bias", second.bias},
                                         {"position_ids", ef::Tensor<std::int64_t, 2>({1, 7})},
                                         {prefix + "block.3.buffer", bias}});
    Tree<float> tree;
    const ef::LoadReport report = ef::load(tree, folder / "x", map);
    EXPECT_TRUE(ef::parameters_equal(tree, numbers));
    EXPECT_EQ(report.ignored.size(), 2u);

    tree.head.emplace();
    expect_error([&] { ef::load(tree, folder / "x", map); }, {"missing: cls.weight (head.weight)"});
  }
  // Both spellings: one of them belongs to nothing. Two prefixes at once: the same.
  ef::write_safetensors(folder / "x", {{"norm.gamma", first},
                                       {"norm.weight", first},
                                       {"norm.bias", bias},
                                       {"other.weight", second.weight},
                                       {"bert.other.bias", second.bias}});
  Tree<float> tree;
  expect_error([&] { ef::load(tree, folder / "x", map); },
               {"unexpected: norm.gamma", "unexpected: bert.other.bias",
                "missing: other.bias (layers.1.bias)"});
  expect_error(
      [&] {
        ef::load(tree, folder / "x", {.rows = {{"norm.*", "layers.0.*"}}});
      },
      {"missing: layers.1.weight (the key map has no row for it)"});
}

TEST(Load, OptionalRowsAndAlternatives) {
  const TemporaryFolder folder;
  const Leaf<float> numbers = numbered_leaf();
  const ef::KeyMap map{.rows = {{"new", "weight"},
                                {"old", "weight"},
                                {.stored = "b", .own = "bias", .optional = true}}};
  for (const char* name : {"new", "old"}) {
    ef::write_safetensors(folder / "x", {{name, numbers.weight}});
    Leaf<float> leaf = numbered_leaf(50);
    const ef::LoadReport report = ef::load(leaf, folder / "x", map);
    EXPECT_EQ(leaf.weight, numbers.weight);
    EXPECT_EQ(leaf.bias(0), 56);
    EXPECT_TRUE(report.missing.empty());
  }
  ef::write_safetensors(folder / "x", {{"b", numbers.bias}});
  Leaf<float> leaf;
  expect_error([&] { ef::load(leaf, folder / "x", map); }, {"missing: new (weight)"});
}

// The output projection that is the embedding: one of the two, both equal, both different.
TEST(Load, TiedCopies) {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  const Leaf<float> numbers = numbered_leaf();
  ef::KeyMap map{.rows = {{"embedding", "weight"}, {"b", "bias"}}, .tied = {{"decoder", "weight"}}};
  ef::Tensor<float, 2> other = numbers.weight;
  other(1, 1) = 40;
  const auto load_with = [&](std::vector<ef::NamedTensor> tensors) {
    tensors.emplace_back("b", numbers.bias);
    ef::write_safetensors(path, tensors);
    Leaf<float> leaf = numbered_leaf(50);
    try {
      ef::load(leaf, path, map);
    } catch (...) {
      EXPECT_TRUE(ef::parameters_equal(leaf, numbered_leaf(50)));
      throw;
    }
    EXPECT_TRUE(ef::parameters_equal(leaf, numbers));
  };
  load_with({{"embedding", numbers.weight}});
  load_with({{"decoder", numbers.weight}});
  load_with({{"embedding", numbers.weight}, {"decoder", numbers.weight}});
  load_with({{"embedding", numbers.weight}, {"decoder", ef::cast<double>(numbers).weight}});
  expect_error(
      [&] {
        load_with({{"embedding", numbers.weight}, {"decoder", other}});
      },
      {path.string(), "tensor decoder", "differs from embedding at element 3", "40 and 4",
       "weight"});
  expect_error(
      [&] {
        load_with({{"embedding", numbers.weight}, {"decoder", ef::Tensor<float, 2>({2, 3})}});
      },
      {"decoder has (2, 3); (3, 2) is wanted for a copy of weight"});
  expect_error([&] { load_with({}); }, {"missing: embedding (weight)"});

  map.tied[0].required = true;
  load_with({{"embedding", numbers.weight}, {"decoder", numbers.weight}});
  expect_error(
      [&] {
        load_with({{"embedding", numbers.weight}});
      },
      {"missing: decoder (a copy of weight)"});
}

// More elements than one block of the comparison.
TEST(Load, LongTiedCopies) {
  const TemporaryFolder folder;
  Table table;
  ef::Tensor<float, 2> copy({5003, 1});
  copy(4999, 0) = 1;
  ef::write_safetensors(folder / "x", {{"weight", table.weight}, {"copy", copy}});
  expect_error(
      [&] {
        ef::load(table, folder / "x", {.rows = {{"*", "*"}}, .tied = {{"copy", "weight"}}});
      },
      {"element 4999"});
}

TEST(Load, ShapesAloneCanBeChecked) {
  const TemporaryFolder folder;
  ef::save(numbered_tree(), folder / "x");
  const ef::Checkpoint checkpoint(folder / "x");
  Tree<ef::ShapeOnly> tree;
  EXPECT_NO_THROW(ef::require_fit(tree, checkpoint));
  tree.head.emplace();
  expect_error([&] { ef::require_fit(tree, checkpoint); }, {"missing: head.weight"});
}

TEST(Load, MapsThatMakeNoSense) {
  const TemporaryFolder folder;
  ef::save(numbered_leaf(), folder / "x");
  Leaf<float> leaf;
  for (const ef::KeyRow& row :
       {ef::KeyRow{.stored = "weight", .own = "weight", .part = 2, .parts = 2},
        ef::KeyRow{.stored = "weight", .own = "weight", .part = -1, .parts = 2},
        ef::KeyRow{.stored = "weight", .own = "weight", .parts = 0},
        ef::KeyRow{.stored = "{}", .own = "weight"}}) {
    expect_error<std::invalid_argument>(
        [&] {
          ef::load(leaf, folder / "x", {.rows = {row, {"bias", "bias"}}});
        },
        {"KeyMap"});
  }
  expect_error<std::invalid_argument>(
      [&] {
        ef::load(
            leaf, folder / "x",
            {.rows = {{"weight", "weight"}, {.stored = "bias", .own = "bias", .transpose = true}}});
      },
      {"KeyMap", "no matrix"});
}

}  // namespace load_test
