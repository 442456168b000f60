// SPDX-License-Identifier: MIT
#include "eigenformer/io/json.hpp"

#include "tests/io/file_builder.hpp"

namespace {

using test::expect_error;

TEST(Json, Values) {
  const auto json =
      ef::parse_json(R"({"a":[1,-2,0.5,true,null,"\u00e9"],"b":{"c":[[],{}]}} )", "file");
  EXPECT_EQ(json["a"][0].get<int>(), 1);
  EXPECT_EQ(json["a"][1].get<int>(), -2);
  EXPECT_EQ(json["a"][2].get<double>(), 0.5);
  EXPECT_EQ(json["a"][5].get<std::string>(), "é");
  EXPECT_EQ(json["b"]["c"].size(), 2u);
  EXPECT_EQ(json, nlohmann::json::parse(json.dump()));
}

TEST(Json, KeysOccurOnce) {
  expect_error([] { ef::parse_json(R"({"a":1,"b":2,"a":1})", "file.json"); },
               {"file.json: not valid JSON", "\"a\" occurs twice"});
  expect_error([] { ef::parse_json(R"({"x":{"a":1,"\u0061":1}})", "f"); }, {"occurs twice"});
  EXPECT_EQ(ef::parse_json(R"([{"a":1},{"a":2}])", "f").size(), 2u);
}

TEST(Json, NestingIsLimited) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ef::parse_json(nested(ef::json_depth_limit), "f").is_array());
  expect_error([&] { ef::parse_json(nested(ef::json_depth_limit + 1), "f"); }, {"nested deeper"});
  expect_error([&] { ef::parse_json(nested(100'000), "f"); }, {"nested deeper"});
}

TEST(Json, WhatIsNoJson) {
  for (const char* text : {"", " ", "{", "{\"a\"}", "{\"a\":}", "[1,]", "{} x", "nul", "'a'",
                           "[NaN]", "{\"a\":1}{}", "\"\x80\"", "[1e999]", "// x\n1"}) {
    expect_error([&] { ef::parse_json(text, "the file"); }, {"the file: not valid JSON"});
  }
  expect_error([] { ef::parse_json(std::string_view("{}\0", 3), "f"); }, {"zero byte"});
}

}  // namespace
