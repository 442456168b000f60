// SPDX-License-Identifier: MIT
#include "eigenformer/io/config_file.hpp"

#include "tests/io/file_builder.hpp"

namespace config_file_test {

using test::expect_error;

const ef::ConfigFile& config() {
  static const ef::ConfigFile file(R"({"size":7,"eps":1e-12,"one":1,"flag":true,"name":"x",)"
                                   R"("nothing":null,"sizes":[11,17],"negative":-1,"half":0.5,)"
                                   R"("large":2147483648,"list":["x"],)"
                                   R"("labels":{"1":"b","0":"a"},"gap":{"0":"a","2":"b"}})",
                                   "some/config.json");
  return file;
}

TEST(ConfigFile, ValuesByType) {
  EXPECT_EQ(config().get<ef::Index>("size"), 7);
  EXPECT_EQ(config().get<double>("eps"), 1e-12);
  EXPECT_EQ(config().get<double>("one"), 1.0);
  EXPECT_TRUE(config().get<bool>("flag"));
  EXPECT_EQ(config().get<std::string>("name"), "x");
  EXPECT_EQ(config().get<ef::Index>("absent", 3), 3);
  EXPECT_EQ(config().get<ef::Index>("nothing", 3), 3);
  EXPECT_EQ(config().get<ef::Index>("size", 3), 7);
  EXPECT_TRUE(config().contains("size"));
  EXPECT_FALSE(config().contains("nothing"));
  EXPECT_EQ(config().integers("sizes"), (std::vector<ef::Index>{11, 17}));
  EXPECT_EQ(config().integers("size"), (std::vector<ef::Index>{7}));
  EXPECT_EQ(config().labels("labels"), (std::vector<std::string>{"a", "b"}));
}

TEST(ConfigFile, MissingAndWrongValuesNameFileAndKey) {
  for (const char* key : {"absent", "nothing"}) {
    expect_error([&] { config().get<ef::Index>(key); }, {"some/config.json: ", key, "missing"});
    expect_error([&] { config().integers(key); }, {"some/config.json: ", key, "missing"});
    expect_error([&] { config().labels(key); }, {"some/config.json: ", key, "missing"});
  }
  for (const char* key : {"eps", "flag", "name", "negative", "half", "large", "list"}) {
    expect_error([&] { config().get<ef::Index>(key); }, {"some/config.json: ", key, "an integer"});
    expect_error([&] { config().get<ef::Index>(key, 1); }, {key, "an integer"});
  }
  expect_error([] { config().get<double>("name"); }, {"name", "a number", "\"x\""});
  expect_error([] { config().get<bool>("one"); }, {"one", "true or false", "1"});
  expect_error([] { config().get<std::string>("size"); }, {"size", "a string", "7"});
  expect_error([] { config().integers("list"); }, {"list", "an integer"});
  expect_error([] { config().labels("size"); }, {"size", "an object"});
  expect_error([] { config().labels("gap"); }, {"gap", "2 labels", "none for 1"});
}

TEST(ConfigFile, WhatIsNoConfig) {
  const test::TemporaryFolder folder;
  expect_error([&] { ef::ConfigFile{folder / "config.json"}; }, {"config.json", "no such file"});
  test::write_file(folder / "config.json", "[1]");
  expect_error([&] { ef::ConfigFile{folder / "config.json"}; },
               {"config.json", "not a JSON object"});
  test::write_file(folder / "config.json", "{\"a\":1,\"a\":1}");
  expect_error([&] { ef::ConfigFile{folder / "config.json"}; }, {"config.json", "occurs twice"});
  test::write_file(folder / "config.json", "{\"a\":1}");
  EXPECT_EQ(ef::ConfigFile(folder / "config.json").get<ef::Index>("a"), 1);
}

}  // namespace config_file_test
