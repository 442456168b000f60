// SPDX-License-Identifier: MIT
#include "eigenformer/io/checkpoint.hpp"

#include "tests/io/file_builder.hpp"

namespace checkpoint_test {

using test::expect_error;
using test::TemporaryFolder;
using test::write_file;

// One byte under each of these names.
std::string file_with(const std::vector<std::string>& names) {
  std::string header = "{", data;
  for (const std::string& name : names) {
    const std::string begin = std::to_string(data.size()), end = std::to_string(data.size() + 1);
    header += (data.empty() ? "\"" : ",\"") + name +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + begin + "," + end + "]}";
    data += name.back();
  }
  return test::safetensors(header + "}", data);
}

int value(ef::Checkpoint& checkpoint, const std::string& name) {
  int number = 0;
  checkpoint.read_range(name, 0, 1, &number);
  return number;
}

TEST(Checkpoint, OneFileOrDirectoryOrMemory) {
  const TemporaryFolder folder;
  const std::string file = file_with({"a", "b"});
  write_file(folder / "model.safetensors", file);
  ef::Checkpoint of_file(folder / "model.safetensors"), of_directory(folder.path()),
      of_memory(ef::SafetensorsReader(test::as_bytes(file), "memory"));
  for (ef::Checkpoint* checkpoint : {&of_file, &of_directory, &of_memory}) {
    EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(value(*checkpoint, "b"), 'b');
    EXPECT_FALSE(checkpoint->contains("c"));
    expect_error([&] { checkpoint->entry("c"); }, {checkpoint->path(), "no tensor c"});
  }
}

TEST(Checkpoint, NothingThere) {
  const TemporaryFolder folder;
  expect_error([&] { ef::Checkpoint{folder.path()}; },
               {folder.path().string(), "model.safetensors"});
  expect_error([&] { ef::Checkpoint{folder / "x.safetensors"}; }, {"x.safetensors", "no such"});
}

class Shards : public ::testing::Test {
 protected:
  void write_index(const std::string& text) {
    write_file(folder / "model.safetensors.index.json", text);
  }
  void SetUp() override {
    write_file(folder / "model-1.safetensors", file_with({"a", "c"}));
    write_file(folder / "model-2.safetensors", file_with({"b"}));
  }

  TemporaryFolder folder;
};

TEST_F(Shards, AreOneCheckpoint) {
  write_index(R"({"metadata":{"total_size":3},"weight_map":{"a":"model-1.safetensors",)"
              R"("b":"model-2.safetensors","c":"model-1.safetensors"}})");
  ef::Checkpoint of_directory(folder.path()), of_index(folder / "model.safetensors.index.json");
  for (ef::Checkpoint* checkpoint : {&of_directory, &of_index}) {
    EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b", "c"}));
    for (const char* name : {"a", "b", "c"}) EXPECT_EQ(value(*checkpoint, name), name[0]);
  }
}

TEST_F(Shards, ThatDisagreeWithTheirIndex) {
  const auto expect_refused = [&](const std::string& map,
                                  std::initializer_list<std::string_view> parts) {
    write_index("{\"weight_map\":" + map + "}");
    expect_error([&] { ef::Checkpoint{folder.path()}; }, parts);
  };
  expect_refused(
      R"({"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-1.safetensors"})",
      {"index.json", "tensor b", "not in model-1.safetensors"});
  expect_refused(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})",
                 {"index.json", "tensor c", "not in weight_map"});
  expect_refused(R"({"a":"model-3.safetensors"})", {"model-3.safetensors", "no such file"});
  for (const char* path : {"\"../model-1.safetensors\"", "\"/tmp/x\"", "\"x/y\"", "1", "null"}) {
    expect_refused(std::string("{\"a\":") + path + "}", {"index.json", "tensor a", "beside it"});
  }
  expect_refused("[]", {"index.json", "no object weight_map"});
  write_index("{}");
  expect_error([&] { ef::Checkpoint{folder.path()}; }, {"no object weight_map"});
  write_index("[");
  expect_error([&] { ef::Checkpoint{folder.path()}; }, {"index.json", "not valid JSON"});
}

TEST_F(Shards, ThatHoldATensorTwice) {
  write_file(folder / "model-2.safetensors", file_with({"a", "b"}));
  write_index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors",)"
              R"("c":"model-1.safetensors"}})");
  expect_error([&] { ef::Checkpoint{folder.path()}; }, {"tensor a", "is also in"});
}

}  // namespace checkpoint_test
