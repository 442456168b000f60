// SPDX-License-Identifier: MIT
#include "eigenformer/io/json.hpp"

#include "tests/io/file_builder.hpp"

namespace json_test {

using test::expect_error;

TEST(Json, Values) {
  const auto json =
      ef::parse_json(R"({"a":[1,-2,0.5,true,null,"\u00e9"],"b":{"c":[[],{}]}} )", "file");
  const ef::Json::Array& a = json.find("a")->as_array();
  EXPECT_EQ(a[0].as_unsigned(), 1u);
  EXPECT_EQ(a[1].as_double(), -2);
  EXPECT_EQ(a[2].as_double(), 0.5);
  EXPECT_TRUE(a[3].as_boolean() && a[4].is_null());
  EXPECT_EQ(a[5].as_string(), "é");
  EXPECT_EQ(json.find("b")->find("c")->as_array().size(), 2u);
  EXPECT_EQ(json.find("c"), nullptr);
  EXPECT_EQ(json.text(), R"({"a":[1,-2,0.5,true,null,"é"],"b":{"c":[[],{}]}})");
}

TEST(Json, KeysOccurOnce) {
  expect_error([] { ef::parse_json(R"({"a":1,"b":2,"a":1})", "file.json"); },
               {"file.json: not valid JSON", "\"a\" occurs twice"});
  expect_error([] { ef::parse_json(R"({"x":{"a":1,"\u0061":1}})", "f"); }, {"occurs twice"});
  EXPECT_EQ(ef::parse_json(R"([{"a":1},{"a":2}])", "f").as_array().size(), 2u);
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

}  // namespace json_test
