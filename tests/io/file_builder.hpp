// SPDX-License-Identifier: MIT
#pragma once

// Files for tests, whole and broken ones, in a folder that vanishes with its object.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("eigenformer_") + info->test_suite_name() + "_" + info->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    // Tests run as processes of their own; the clock keeps two runs apart.
    name += "_" + std::to_string(
                      std::filesystem::file_time_type::clock::now().time_since_epoch().count());
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

/// A safetensors file with this header and data, whatever they say.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

/// A file with one tensor called x.
inline std::string one_tensor(const std::string& type, const std::string& shape,
                              const std::string& offsets, const std::string& data) {
  return safetensors(R"({"x":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
                         offsets + "}}",
                     data);
}

template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string text;
  for (T value : values) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    text.append(bytes, sizeof(T));
  }
  return text;
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Calls f, which must throw an `Exception` whose text holds all of `parts`.
template <class Exception = std::runtime_error, class F>
void expect_error(F&& f, std::initializer_list<std::string_view> parts) {
  try {
    f();
  } catch (const Exception& error) {
    for (std::string_view part : parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "wanted: " << part << "\ngot: " << error.what();
    }
    return;
  }
  FAIL() << "no error; wanted: " << (parts.size() == 0 ? "any" : *parts.begin());
}

}  // namespace test
