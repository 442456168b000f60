// SPDX-License-Identifier: MIT
#include "eigenformer/io/key_map.hpp"

#include <gtest/gtest.h>

#include "tests/reference/error_text.hpp"

namespace key_map_test {

using ef::internal::fill_key;
using ef::internal::match_key;
using ef::internal::shape_fits;
using Found = std::vector<std::string>;

TEST(KeyMap, PatternsMatchWholeNames) {
  EXPECT_EQ(match_key("a.b", "a.b"), Found{});
  EXPECT_EQ(match_key("layers.{}.x", "layers.12.x"), Found{"12"});
  EXPECT_EQ(match_key("{}.{}.*", "3.45.rest.of it"), (Found{"3", "45", "rest.of it"}));
  EXPECT_EQ(match_key("*", "anything"), Found{"anything"});
  for (const auto& [pattern, name] : {std::pair{"a.b", "a.bc"},
                                      {"a.b", "a."},
                                      {"a.b", ""},
                                      {"a.*", "a."},
                                      {"a.*", "b.c"},
                                      {"*", ""},
                                      {"layers.{}.x", "layers..x"},
                                      {"layers.{}.x", "layers.1x.x"},
                                      {"layers.{}.x", "layers.-1.x"},
                                      {"layers.{}", "layers.1.x"},
                                      {"", "a"}}) {
    EXPECT_FALSE(match_key(pattern, name)) << pattern << " " << name;
  }
}

TEST(KeyMap, WildcardsAreFilledIn) {
  EXPECT_EQ(fill_key("h.{}.attn.*", {"7", "bias"}), "h.7.attn.bias");
  EXPECT_EQ(fill_key("a.#.b", {}), "a.#.b");
  EXPECT_EQ(fill_key("plain", {"unused"}), "plain");
  EXPECT_ERROR(fill_key("{}.{}", {"7"}), std::invalid_argument,
               "KeyMap: {} of a row's stored name has no counterpart in its own");
}

TEST(KeyMap, StoredShapes) {
  using enum ef::StoredShape;
  for (const auto freedom : {exact, leading_ones, folded_trailing}) {
    EXPECT_TRUE(shape_fits({5, 7}, {5, 7}, freedom));
    EXPECT_FALSE(shape_fits({7, 5}, {5, 7}, freedom));
    EXPECT_FALSE(shape_fits({35}, {5, 7}, freedom));
    EXPECT_FALSE(shape_fits({}, {5}, freedom));
  }
  EXPECT_FALSE(shape_fits({1, 5, 7}, {5, 7}, exact));
  EXPECT_TRUE(shape_fits({1, 5, 7}, {5, 7}, leading_ones));
  EXPECT_TRUE(shape_fits({1, 1, 5}, {5}, leading_ones));
  EXPECT_FALSE(shape_fits({1, 7, 5}, {5, 7}, leading_ones));
  EXPECT_FALSE(shape_fits({2, 5, 7}, {5, 7}, leading_ones));
  EXPECT_FALSE(shape_fits({5, 7, 1}, {5, 7}, leading_ones));
  EXPECT_TRUE(shape_fits({7, 2, 3, 5}, {7, 30}, folded_trailing));
  EXPECT_FALSE(shape_fits({2, 7, 3, 5}, {7, 30}, folded_trailing));
  EXPECT_FALSE(shape_fits({7, 2, 3, 5}, {7, 31}, folded_trailing));
  EXPECT_FALSE(shape_fits({1, 7, 30}, {7, 30}, folded_trailing));
}

TEST(KeyMap, NestedAndExtended) {
  const ef::KeyMap layer{
      .rows = {{"q.*", "query.*"}}, .tied = {{"copy", "query.weight"}}, .ignored = {"a"}};
  const ef::KeyMap map =
      ef::extended(ef::nested(layer, "h.{}.", "layers.{}."), {{"wte.*", "token.*"}}, {"b"});
  ASSERT_EQ(map.rows.size(), 2u);
  EXPECT_EQ(map.rows[0].stored, "h.{}.q.*");
  EXPECT_EQ(map.rows[0].own, "layers.{}.query.*");
  EXPECT_EQ(map.rows[1].stored, "wte.*");
  EXPECT_EQ(map.tied[0].own, "layers.{}.query.weight");
  EXPECT_EQ(map.ignored, (std::vector<std::string>{"a", "b"}));
}

}  // namespace key_map_test
