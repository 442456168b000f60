// cmake/embed.cmake: the bytes in the program are those of the file.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "embedded/license.hpp"

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Embed, BytesAreThoseOfTheFile) {
  const auto bytes = embedded::license();
  const std::string expected = content_of(EIGENFORMER_TESTS "/../LICENSE");
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
}

TEST(Embed, BytesAreAligned) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(embedded::license().data()) % 64, 0U);
}

}  // namespace
