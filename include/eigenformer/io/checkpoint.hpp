// SPDX-License-Identifier: MIT
#pragma once

// The tensors of a model, wherever they are: one safetensors file, a directory as Hugging Face's
// save_pretrained leaves it, several files joined by an index, or memory.
//
//   ef::Checkpoint("model.safetensors")
//   ef::Checkpoint("bert-base-uncased")
//   ef::Checkpoint(ef::SafetensorsReader(bytes, "embedded"))
//
// A directory holds model.safetensors, or model.safetensors.index.json: {"weight_map": {"tensor":
// "file", ...}}.

#include "eigenformer/io/safetensors_reader.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Not for concurrent use.
class Checkpoint {
 public:
  /// Throws std::runtime_error if there is no such checkpoint, or if one of its files is broken.
  explicit Checkpoint(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      const auto whole = path / "model.safetensors", index = path / "model.safetensors.index.json";
      if (std::filesystem::exists(whole, ignored)) {
        add(SafetensorsReader(whole));
      } else if (std::filesystem::exists(index, ignored)) {
        open_shards(index);
      } else {
        fail_file(path_, "holds neither model.safetensors nor model.safetensors.index.json");
      }
    } else if (path.extension() == ".json") {
      open_shards(path);
    } else {
      add(SafetensorsReader(path));
    }
  }

  Checkpoint(SafetensorsReader reader) : path_(reader.path()) { add(std::move(reader)); }

  const std::string& path() const { return path_; }

  /// Names of all tensors, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, file] : file_of_) names.push_back(name);
    return names;
  }

  bool contains(std::string_view name) const { return file_of_.find(name) != file_of_.end(); }

  const TensorEntry& entry(std::string_view name) const {
    return files_[index_of(name)].entry(name);
  }

  /// As SafetensorsReader::read_range.
  template <class T>
  void read_range(std::string_view name, Index first, Index count, T* to) {
    files_[index_of(name)].read_range(name, first, count, to);
  }

 private:
  std::size_t index_of(std::string_view name) const {
    const auto place = file_of_.find(name);
    if (place == file_of_.end()) fail_file(path_, "has no tensor ", name);
    return place->second;
  }

  void add(SafetensorsReader reader) {
    for (std::string& name : reader.names()) {
      const auto [place, is_new] = file_of_.emplace(std::move(name), files_.size());
      if (!is_new) {
        fail_file(reader.path(), "tensor ", place->first, ": is also in ",
                  files_[place->second].path());
      }
    }
    files_.push_back(std::move(reader));
  }

  void open_shards(const std::filesystem::path& index) {
    ByteSource source(index);
    const Json json = parse_json(read_text(source), source.name());
    const Json* map = json.is_object() ? json.find("weight_map") : nullptr;
    if (map == nullptr || !map->is_object()) fail_file(source.name(), "has no object weight_map");
    const Json::Object& weight_map = map->as_object();
    std::map<std::string, std::size_t> opened;
    for (const auto& [name, value] : weight_map) {
      // A name with a folder in it could point anywhere.
      if (!value.is_string() ||
          std::filesystem::path(value.as_string()).filename() != value.as_string()) {
        fail_file(source.name(), "tensor ", name, ": is not given the name of a file beside it");
      }
      const auto [place, is_new] = opened.emplace(value.as_string(), files_.size());
      if (is_new) add(SafetensorsReader(index.parent_path() / place->first));
      if (!files_[place->second].contains(name)) {
        fail_file(source.name(), "tensor ", name, ": is not in ", place->first);
      }
    }
    for (const auto& [name, place] : file_of_) {
      if (weight_map.find(name) == weight_map.end()) {
        fail_file(source.name(), "tensor ", name, ": is in ", files_[place].path(),
                  " but not in weight_map");
      }
    }
  }

  std::string path_;
  std::vector<SafetensorsReader> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
