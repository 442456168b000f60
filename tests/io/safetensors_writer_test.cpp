// SPDX-License-Identifier: MIT
#include "eigenformer/io/safetensors_writer.hpp"

#include <csignal>

#ifdef __unix__
#include <sys/resource.h>
#endif

#include "eigenformer/io/safetensors_reader.hpp"
#include "tests/io/file_builder.hpp"

namespace safetensors_writer_test {

using test::expect_error;

template <class T>
class SafetensorsRoundTrip : public ::testing::Test {};

using Types =
    ::testing::Types<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                     std::int32_t, std::uint64_t, std::int64_t, float, double, long long>;
TYPED_TEST_SUITE(SafetensorsRoundTrip, Types);

TYPED_TEST(SafetensorsRoundTrip, KeepsEveryBit) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  ef::Tensor<T, 3> x({2, 3, 5});
  for (ef::Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(i % 2);
  x(0, 1, 2) = Limits::max();
  x(1, 0, 4) = Limits::lowest();
  if constexpr (Limits::has_infinity) {
    x(1, 2, 3) = Limits::infinity();
    x(0, 2, 1) = Limits::denorm_min();
    x(0, 0, 0) = -T(0);
  }
  const ef::Tensor<T, 2> empty({0, 7});
  const test::TemporaryFolder folder;
  ef::write_safetensors(folder / "x", {{"x", x}, {"empty", empty}, {"view", x.view()[1]}});
  ef::SafetensorsReader reader(folder / "x");
  EXPECT_EQ(reader.entry("x").type, ef::data_type_of<T>());
  const auto y = reader.read<T, 3>("x");
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(std::memcmp(y.data(), x.data(), static_cast<std::size_t>(x.size()) * sizeof(T)), 0);
  EXPECT_EQ((reader.read<T, 2>("empty").shape()), (ef::Shape<2>{0, 7}));
  EXPECT_EQ((reader.read<T, 2>("view")),
            (ef::Tensor<T, 2>(ef::TensorView<const T, 2>(x.view()[1]))));
}

TEST(SafetensorsWriter, SameTensorsSameBytes) {
  ef::Tensor<float, 1> f({3});
  ef::Tensor<double, 1> d({5});
  ef::Tensor<bool, 1> b({7});
  const test::TemporaryFolder folder;
  ef::write_safetensors(folder / "1", {{"a", b}, {"z", d}, {"m", f}, {"k", f}},
                        {{"y", "1"}, {"x", "é\n\""}});
  ef::write_safetensors(folder / "2", {{"k", f}, {"m", f}, {"a", b}, {"z", d}},
                        {{"x", "é\n\""}, {"y", "1"}});
  const std::string bytes = test::read_file(folder / "1");
  EXPECT_EQ(bytes, test::read_file(folder / "2"));
  // The header is padded, wide elements come first.
  const auto length = ef::internal::load_little_endian<std::uint64_t>(test::as_bytes(bytes).data());
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.size(), 8 + length + 40 + 12 + 12 + 7);
  ef::SafetensorsReader reader(folder / "1");
  EXPECT_EQ(reader.entry("z").begin, 0u);
  EXPECT_EQ(reader.entry("k").begin, 40u);
  EXPECT_EQ(reader.entry("m").begin, 52u);
  EXPECT_EQ(reader.entry("a").begin, 64u);
  EXPECT_EQ(reader.metadata().at("x"), "é\n\"");
}

TEST(SafetensorsWriter, NoTensors) {
  const test::TemporaryFolder folder;
  ef::write_safetensors(folder / "x", {});
  EXPECT_EQ(test::read_file(folder / "x").size(), 16u);
  EXPECT_TRUE(ef::SafetensorsReader(folder / "x").names().empty());
}

TEST(SafetensorsWriter, AnyNameComesBack) {
  const ef::Tensor<float, 1> x({1});
  const test::TemporaryFolder folder;
  const std::vector<std::string> names = {"", std::string("a\0b", 3), "a \"quoted\" \\",
                                          "\xf0\x9f\x98\x80", "{}"};
  std::vector<ef::NamedTensor> tensors;
  for (const std::string& name : names) tensors.emplace_back(name, x);
  ef::write_safetensors(folder / "x", tensors);
  const ef::SafetensorsReader reader(folder / "x");
  for (const std::string& name : names) EXPECT_TRUE(reader.contains(name)) << name;
}

TEST(SafetensorsWriter, WrongNames) {
  const ef::Tensor<float, 1> x({1});
  const test::TemporaryFolder folder;
  const auto write = [&](const std::vector<ef::NamedTensor>& tensors,
                         const ef::Metadata& metadata = {}) {
    ef::write_safetensors(folder / "x", tensors, metadata);
  };
  expect_error<std::invalid_argument>([&] { write({{"a", x}, {"a", x}}); }, {"two tensors", "a"});
  expect_error<std::invalid_argument>([&] { write({{"__metadata__", x}}); }, {"__metadata__"});
  expect_error<std::invalid_argument>([&] { write({{"\xff", x}}); }, {"UTF-8"});
  expect_error<std::invalid_argument>([&] { write({{"a", x}}, {{"k", "\xc3"}}); }, {"UTF-8"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A file that can't be written leaves the old one, and nothing beside it.
TEST(SafetensorsWriter, FailureKeepsTheOldFile) {
  const ef::Tensor<float, 1> x({3});
  const test::TemporaryFolder folder;
  expect_error(
      [&] {
        ef::write_safetensors(folder / "no/such/folder", {{"x", x}});
      },
      {"no/such/folder", "cannot create"});
  // A folder that isn't empty can't be replaced by a file.
  std::filesystem::create_directories(folder / "taken/full");
  expect_error(
      [&] {
        ef::write_safetensors(folder / "taken", {{"x", x}});
      },
      {"taken", "cannot be replaced"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);

  ef::write_safetensors(folder / "x", {{"x", x}});
  const std::string old = test::read_file(folder / "x");
  expect_error<std::invalid_argument>(
      [&] {
        ef::write_safetensors(folder / "x", {{"y", x}, {"y", x}});
      },
      {"two tensors"});
  EXPECT_EQ(test::read_file(folder / "x"), old);
}

#ifdef __unix__
// A disk that is full in the middle, by way of a limit on the size of files.
TEST(SafetensorsWriter, FullDiskKeepsTheOldFile) {
  const test::TemporaryFolder folder;
  ef::write_safetensors(folder / "x", {{"x", ef::Tensor<float, 1>({3})}});
  const std::string old = test::read_file(folder / "x");

  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = usual;
  small.rlim_cur = 20000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const ef::Tensor<float, 1> large({10007});
  expect_error(
      [&] {
        ef::write_safetensors(folder / "x", {{"x", large}});
      },
      {(folder / "x").string(), "writing failed"});
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(test::read_file(folder / "x"), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}
#endif

}  // namespace safetensors_writer_test
