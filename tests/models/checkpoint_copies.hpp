// SPDX-License-Identifier: MIT
#pragma once

// The checked-in checkpoints, and copies of them that can be damaged.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "eigenformer/models/pretrained.hpp"
#include "tests/io/file_builder.hpp"

namespace test {

inline const std::filesystem::path golden_folder =
    std::filesystem::path(EIGENFORMER_TESTS) / "golden";
inline const std::filesystem::path checkpoints = golden_folder / "checkpoints";

// A copy of a checkpoint that can be damaged.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    std::filesystem::copy(checkpoints / name, folder_.path(),
                          std::filesystem::copy_options::recursive);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

  void set(const std::string& key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(read_file(folder_ / "config.json"));
    json[key] = value;
    write(json);
  }
  void remove(const std::string& key) {
    auto json = nlohmann::json::parse(read_file(folder_ / "config.json"));
    json.erase(key);
    write(json);
  }

  /// All tensors, in single precision.
  std::map<std::string, ef::Tensor<float, 1>> numbers() const {
    std::map<std::string, ef::Tensor<float, 1>> all;
    ef::SafetensorsReader reader(folder_ / "model.safetensors");
    for (const std::string& name : reader.names()) {
      if (reader.entry(name).type != ef::DataType::f32) continue;
      ef::Tensor<float, 1> flat({reader.entry(name).size});
      reader.read_elements(name, flat.data());
      all.emplace(name, std::move(flat));
    }
    return all;
  }

 private:
  void write(const nlohmann::json& json) { write_file(folder_ / "config.json", json.dump()); }

  TemporaryFolder folder_;
};

// Damaged in config.json or in the header of the tensors: each loads or is refused with the name of the file.
template <class Load>
void expect_survives(const std::string& name, Load&& load) {
  const std::string config = read_file(checkpoints / name / "config.json"),
                    tensors = read_file(checkpoints / name / "model.safetensors");
  std::mt19937 random(1);
  int loaded = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string files[] = {config, tensors};
    std::string& file = files[round % 2];
    const std::size_t at = random() % std::min<std::size_t>(file.size(), 3000);
    file[at] = random() % 3 == 0 ? static_cast<char>(random()) : "0123456789"[random() % 10];
    try {
      ef::PretrainedFiles damaged(files[0], as_bytes(files[1]), "memory");
      load(damaged);
      ++loaded;
    } catch (const std::runtime_error& error) {
      ASSERT_EQ(std::string_view(error.what()).substr(0, 6), "memory");
      ++refused;
    }
  }
  EXPECT_GT(loaded, 50);
  EXPECT_GT(refused, 300);
}

}  // namespace test
