// SPDX-License-Identifier: MIT
#pragma once

// Random access to the bytes of a file, or of memory that the program already has (an embedded
// checkpoint). Only the bytes that are requested are read.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/base/error.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// A name or value from a file, fit for an error text: control characters as \x0a, and no more than
/// `longest` bytes of it.
inline std::string printable(std::string_view text, std::size_t longest = 200) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      result += c;
    }
  }
  if (text.size() > longest) {
    result += "... (" + std::to_string(text.size()) + " bytes)";
  }
  return result;
}

/// Lines of an error text, whose names are printable: the first ten items, and how many more.
struct ErrorLines {
  std::string text = {};

  void add(std::string_view what, const std::vector<std::string>& items) {
    constexpr std::size_t shown = 10;
    for (std::size_t i = 0; i < items.size() && i < shown; ++i) {
      text += "\n  ";
      text += what;
      text += printable(items[i], 400);
    }
    if (items.size() > shown) {
      text += "\n  ";
      text += what;
      text += "... and " + std::to_string(items.size() - shown) + " more";
    }
  }
};

inline std::string to_string(const ErrorLines& lines) { return lines.text; }

namespace internal {

/// A part of an error text about a file.
struct FileTextPart {
  TextPart part;
  bool is_printable;

  template <class T>
  FileTextPart(const T& value) : part(value), is_printable(std::is_same_v<T, ErrorLines>) {}
};

[[noreturn]] inline void report_file(std::string_view name,
                                     std::initializer_list<FileTextPart> parts) {
  std::string text = printable(name, 4096) + ": ";
  for (const FileTextPart& part : parts) {
    text += part.is_printable ? part.part.text() : printable(part.part.text());
  }
  fail<std::runtime_error>(text);
}

}  // namespace internal

/// Throws std::runtime_error "name: text": a wrong file. What comes from the file is made printable.
template <class... Parts>
[[noreturn]] void fail_file(std::string_view name, const Parts&... parts) {
  internal::report_file(name, {internal::FileTextPart(parts)...});
}

/// Not for concurrent use.
class ByteSource {
 public:
  explicit ByteSource(const std::filesystem::path& path) : name_(path.string()) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) fail_file(name_, "no such file");
    if (!std::filesystem::is_regular_file(status)) fail_file(name_, "is not a file");
    file_.open(path, std::ios::binary);
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (!file_ || error) fail_file(name_, "cannot be opened");
    size_ = size;
  }

  /// `bytes` must stay where they are for as long as the source is used; `name` is for error texts.
  ByteSource(std::span<const std::byte> bytes, std::string name)
      : name_(std::move(name)), memory_(bytes.data()), size_(bytes.size()) {}

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }

  /// Copies bytes [offset, offset + count). Throws std::runtime_error if they aren't there.
  void read(std::uint64_t offset, void* to, std::size_t count) {
    if (count == 0) return;
    if (offset > size_ || count > size_ - offset) {
      fail_file(name_, count, " bytes at ", offset, " lie behind the end");
    }
    if (memory_ != nullptr) {
      std::memcpy(to, memory_ + offset, count);
      return;
    }
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
    if (!file_) fail_file(name_, "reading ", count, " bytes at ", offset, " failed");
  }

 private:
  std::string name_;
  std::ifstream file_;
  const std::byte* memory_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
