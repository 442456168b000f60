// SPDX-License-Identifier: MIT
#include "eigenformer/io/safetensors_reader.hpp"

#include <chrono>
#include <cmath>
#include <random>

#include "tests/io/file_builder.hpp"
#include "tests/reference/error_text.hpp"

namespace safetensors_reader_test {

using test::as_bytes;
using test::bytes_of_values;
using test::expect_error;
using test::little_endian;
using test::one_tensor;
using test::safetensors;

void expect_refused(const std::string& file, std::initializer_list<std::string_view> parts) {
  // From memory that ends where the file ends, so that a sanitizer sees what reads too far, and from a file.
  const std::vector<char> exact(file.begin(), file.end());
  expect_error(
      [&] {
        ef::SafetensorsReader(std::as_bytes(std::span(exact.data(), exact.size())), "some.file");
      },
      parts);
  const test::TemporaryFolder folder;
  test::write_file(folder / "some.file", file);
  expect_error([&] { ef::SafetensorsReader{folder / "some.file"}; }, parts);
}

TEST(SafetensorsReader, ReadsNamesShapesMetadataAndNumbers) {
  const std::string file =
      safetensors(R"({"__metadata__":{"made by":"hand"},)"
                  R"("m":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                  R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[24,24]},)"
                  R"("one":{"dtype":"F64","shape":[],"data_offsets":[24,32]}}   )",
                  bytes_of_values<float>({1, 2, 3, 4, 5, 6}) + bytes_of_values<double>({-0.5}));
  ef::SafetensorsReader reader(as_bytes(file), "memory");
  EXPECT_EQ(reader.path(), "memory");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"m", "none", "one"}));
  EXPECT_EQ(reader.metadata().at("made by"), "hand");
  EXPECT_TRUE(reader.contains("m"));
  EXPECT_FALSE(reader.contains("__metadata__"));
  EXPECT_EQ(reader.entry("m").type, ef::DataType::f32);
  EXPECT_EQ(reader.entry("m").shape, (std::vector<ef::Index>{2, 3}));
  EXPECT_EQ(reader.entry("one").size, 1);
  EXPECT_EQ((reader.read<float, 2>("none").shape()), (ef::Shape<2>{0, 7}));
  double one = 0;
  reader.read_elements("one", &one);
  EXPECT_EQ(one, -0.5);
  std::vector<float> range(3);
  reader.read_range("m", 2, 3, range.data());
  EXPECT_EQ(range, (std::vector<float>{3, 4, 5}));
}

// Row-major bytes are row-major for every accessor.
TEST(SafetensorsReader, RowsAreRows) {
  const std::string file =
      safetensors(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                  R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[24,40]}})",
                  bytes_of_values<float>({1, 2, 3, 4, 5, 6, 1, 2, 3, 4}));
  ef::SafetensorsReader reader(as_bytes(file), "memory");
  const auto a = reader.read<float, 2>("a");
  EXPECT_EQ(a(0, 1), 2);
  EXPECT_EQ(a(1, 0), 4);
  EXPECT_EQ(a.matrix()(0, 1), 2);
  EXPECT_EQ(a.matrix()(1, 0), 4);
  ef::Tensor<double, 2> b({2, 2});
  reader.read_into("b", b);
  EXPECT_EQ(b(0, 1), 2);
  EXPECT_EQ(b(1, 0), 3);
  EXPECT_EQ(b.view()[0](1), 2);
  EXPECT_EQ(b.matrix().transpose()(0, 1), 3);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> eigen(2, 2);
  reader.read_into("b", ef::TensorView<double, 2>(eigen));
  EXPECT_EQ(eigen(0, 1), 2);
  EXPECT_EQ(eigen(1, 0), 3);
}

template <class T, class Stored>
std::vector<T> read_as(const std::string& type, std::initializer_list<Stored> values) {
  const std::string bytes = bytes_of_values(values);
  const std::string file = one_tensor(type, "[" + std::to_string(values.size()) + "]",
                                      "[0," + std::to_string(bytes.size()) + "]", bytes);
  ef::SafetensorsReader reader(as_bytes(file), "memory");
  const auto tensor = reader.read<T, 1>("x");
  return std::vector<T>(tensor.begin(), tensor.end());
}

TEST(SafetensorsReader, FloatsConvert) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ((read_as<float, std::uint16_t>("F16", {0x3C00, 0x8001, 0xFC00, 0x7BFF})),
            (std::vector<float>{1, -0x1p-24f, -infinity, 65504}));
  EXPECT_EQ((read_as<double, std::uint16_t>("BF16", {0x3F80, 0x0001, 0x7F80, 0xC040})),
            (std::vector<double>{1, 0x1p-133, infinity, -3}));
  EXPECT_TRUE(std::isnan(read_as<float, std::uint16_t>("F16", {0x7E00})[0]));
  EXPECT_TRUE(std::isnan(read_as<double, std::uint16_t>("BF16", {0x7FC0})[0]));
  EXPECT_EQ((read_as<double, float>("F32", {0.1f, infinity, 0x1p-149f})),
            (std::vector<double>{static_cast<double>(0.1f), infinity, 0x1p-149}));
  EXPECT_EQ((read_as<float, double>("F64", {0.1, -HUGE_VAL, 1e-300})),
            (std::vector<float>{0.1f, -infinity, 0}));
  EXPECT_TRUE(std::isnan(read_as<float, double>("F64", {std::nan("")})[0]));
}

TEST(SafetensorsReader, IntegersConvertInRange) {
  EXPECT_EQ((read_as<std::int32_t, std::int64_t>("I64", {7, -(1ll << 31), (1ll << 31) - 1})),
            (std::vector<std::int32_t>{7, std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max()}));
  EXPECT_EQ((read_as<std::int64_t, std::uint8_t>("U8", {0, 255})),
            (std::vector<std::int64_t>{0, 255}));
  EXPECT_EQ((read_as<std::uint16_t, std::int8_t>("I8", {0, 127})),
            (std::vector<std::uint16_t>{0, 127}));
  EXPECT_EQ((read_as<std::uint64_t, std::uint32_t>("U32", {0xFFFFFFFFu})),
            (std::vector<std::uint64_t>{0xFFFFFFFFu}));
  expect_error(
      [] {
        read_as<std::int32_t, std::int64_t>("I64", {0, 1ll << 31});
      },
      {"memory: tensor x: element 1 does not fit into I32"});
  expect_error([] { read_as<std::uint64_t, std::int16_t>("I16", {-1}); }, {"element 0"});
  expect_error([] { read_as<std::int8_t, std::uint8_t>("U8", {128}); }, {"I8"});
  expect_error([] { read_as<std::int64_t, std::uint64_t>("U64", {1ull << 63}); }, {"I64"});
}

// More elements than the conversion buffer holds, and a range that begins inside.
TEST(SafetensorsReader, LongTensorsConvert) {
  const ef::Index count = 30011;
  std::string bytes;
  for (ef::Index i = 0; i < count; ++i) bytes += little_endian(static_cast<std::uint64_t>(i), 8);
  const std::string file =
      one_tensor("I64", "[30011]", "[0," + std::to_string(8 * count) + "]", bytes);
  ef::SafetensorsReader reader(as_bytes(file), "memory");
  const auto all = reader.read<std::int32_t, 1>("x");
  for (ef::Index i = 0; i < count; ++i) ASSERT_EQ(all(i), i);
  std::vector<std::int16_t> range(3);
  reader.read_range("x", 20011, 3, range.data());
  EXPECT_EQ(range, (std::vector<std::int16_t>{20011, 20012, 20013}));
  std::vector<std::int8_t> narrow(200);
  expect_error([&] { reader.read_range("x", 100, 200, narrow.data()); }, {"element 128", "I8"});
}

TEST(SafetensorsReader, NothingElseConverts) {
  expect_error([] { read_as<float, std::int64_t>("I64", {1}); },
               {"memory: tensor x", "I64", "F32"});
  expect_error([] { read_as<float, bool>("BOOL", {true}); }, {"BOOL", "F32"});
  expect_error([] { read_as<std::int32_t, float>("F32", {1}); }, {"F32", "I32"});
  expect_error([] { read_as<bool, std::uint8_t>("U8", {1}); }, {"U8", "BOOL"});
  expect_error([] { read_as<std::uint8_t, bool>("BOOL", {true}); }, {"BOOL", "U8"});
  expect_error([] { read_as<bool, std::uint8_t>("BOOL", {1, 0, 2}); }, {"element 2", "BOOL"});
  EXPECT_EQ((read_as<bool, std::uint8_t>("BOOL", {1, 0, 1})),
            (std::vector<bool>{true, false, true}));
  expect_error([] { read_as<float, double>("F64", {1, 1e39}); }, {"element 1", "F32"});
}

TEST(SafetensorsReader, WrongRequestsNameTheTensor) {
  const std::string file = one_tensor("F32", "[2,3]", "[0,24]", std::string(24, '\0'));
  ef::SafetensorsReader reader(as_bytes(file), "memory");
  expect_error([&] { reader.read<float, 2>("y"); }, {"memory", "no tensor y"});
  expect_error([&] { reader.read<float, 1>("x"); }, {"memory: tensor x", "(2, 3)", "1 axes"});
  ef::Tensor<float, 2> wrong({3, 2});
  expect_error([&] { reader.read_into("x", wrong); }, {"memory: tensor x", "(2, 3)", "(3, 2)"});
  float number;
  for (const auto& range : {std::pair<ef::Index, ef::Index>{6, 1},
                            {-1, 1},
                            {0, 7},
                            {1, -1},
                            {std::numeric_limits<ef::Index>::max(), 1},
                            {1, std::numeric_limits<ef::Index>::max()}}) {
    expect_error<std::invalid_argument>(
        [&] { reader.read_range("x", range.first, range.second, &number); }, {"of x, which has 6"});
  }
}

// Declared shapes that the data doesn't have.
TEST(SafetensorsReader, ShapesAreChecked) {
  const std::string data(4, '\0');
  const auto with_shape = [&](const std::string& shape) {
    return one_tensor("F32", shape, "[0,4]", data);
  };
  expect_refused(with_shape("[1000,1000]"), {"some.file: tensor x", "4000000", "hold 4"});
  expect_refused(one_tensor("F64", "[]", "[0,4]", data), {"tensor x", "8 bytes"});
  expect_refused(with_shape("[4294967296,4294967296]"), {"tensor x", "too many"});
  expect_refused(with_shape("[4294967296,4294967296,0]"), {"tensor x", "too many"});
  expect_refused(with_shape("[9223372036854775807]"), {"tensor x", "too many"});
  expect_refused(with_shape("[18446744073709551615]"), {"tensor x", "too many"});
  expect_refused(with_shape("[18446744073709551617]"), {"tensor x", "no integer"});
  expect_refused(with_shape("[0]"), {"tensor x", "takes 0"});
  expect_refused(with_shape("[2]"), {"tensor x", "(2)", "takes 8", "hold 4"});
  for (const char* shape : {"[-1]", "[1.0]", "[1.5]", "[\"1\"]", "[null]", "[[1]]", "[true]"}) {
    expect_refused(with_shape(shape), {"some.file: tensor x", "no integer"});
  }
  for (const char* shape : {"1", "{}", "null", "\"1\""}) {
    expect_refused(with_shape(shape), {"some.file: tensor x", "shape is not an array"});
  }
  for (const char* shape :
       {"[1152921504606846976]", "[4294967296,268435456]", "[0,1152921504606846976]"}) {
    expect_refused(with_shape(shape), {"some.file: tensor x", "too many elements to address"});
  }
}

TEST(SafetensorsReader, DataTypesAreChecked) {
  for (const char* type : {"F8_E4M3", "f32", "", "C64", "F32 "}) {
    expect_refused(one_tensor(type, "[1]", "[0,4]", std::string(4, '\0')),
                   {"some.file: tensor x", "dtype", "not known"});
  }
  expect_refused(safetensors(R"({"x":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", "1234"),
                 {"tensor x", "dtype is not a string"});
}

TEST(SafetensorsReader, OffsetsAreChecked) {
  const auto with_offsets = [](const std::string& offsets) {
    return one_tensor("F32", "[1]", offsets, std::string(8, '\0'));
  };
  for (const char* offsets : {"[-4,4]", "[0]", "[0,4,8]", "[]", "[0.0,4.0]", "0", "null",
                              "[0,\"4\"]", "[0,18446744073709551616]"}) {
    expect_refused(with_offsets(offsets), {"some.file: tensor x", "two integers"});
  }
  for (const char* offsets :
       {"[8,4]", "[4,9]", "[0,18446744073709551612]", "[18446744073709551612,18446744073709551615]",
        "[18446744073709551612,0]"}) {
    expect_refused(with_offsets(offsets), {"some.file: tensor x", "not a range within the 8"});
  }
  expect_refused(with_offsets("[0,8]"), {"tensor x", "takes 4", "hold 8"});
  expect_refused(with_offsets("[4,8]"), {"tensor x", "a gap"});
}

TEST(SafetensorsReader, TensorsCoverTheData) {
  const auto two = [](const std::string& first, const std::string& second) {
    return safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                       "12345");
  };
  expect_refused(two("[0,2]", "[1,3]"), {"tensor b", "an overlap"});
  expect_refused(two("[0,2]", "[0,2]"), {"tensor b", "an overlap"});
  expect_refused(two("[3,5]", "[0,2]"), {"tensor a", "a gap"});
  expect_refused(two("[0,2]", "[2,4]"), {"some.file: 1 bytes behind"});
  const std::string trailing = two("[2,4]", "[0,2]");
  ef::SafetensorsReader reader(as_bytes(trailing), "memory", {.allow_trailing_bytes = true});
  EXPECT_EQ((reader.read<int, 1>("a")(0)), '3');
  expect_refused(safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                             "12"),
                 {"tensor a", "an overlap"});
  ef::SafetensorsReader empty(as_bytes(little_endian(2, 8) + "{}"), "memory");
  EXPECT_TRUE(empty.names().empty());
}

TEST(SafetensorsReader, HeaderLengthIsChecked) {
  const std::string valid = one_tensor("U8", "[1]", "[0,1]", "1");
  const auto with_length = [&](std::uint64_t length) {
    return little_endian(length, 8) + valid.substr(8);
  };
  expect_refused(with_length(0xFFFFFFFFFFFFFFFBu), {"some.file", "longer than the limit"});
  expect_refused(with_length(200'000'000), {"some.file", "longer than the limit"});
  expect_refused(with_length(100'000'000), {"some.file", "does not fit"});
  expect_refused(with_length(valid.size()), {"some.file", "does not fit"});
  expect_refused(with_length(valid.size() - 7), {"some.file", "does not fit"});
  expect_refused(with_length(0), {"some.file", "not a JSON object"});
  expect_refused("", {"some.file", "0 bytes are too few"});
  expect_refused(valid.substr(0, 7), {"some.file", "7 bytes are too few"});
  expect_refused(std::string(8, '\0'), {"some.file", "not a JSON object"});
}

TEST(SafetensorsReader, HeaderIsStrictJson) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const auto with_header = [](const std::string& header) { return safetensors(header, "1"); };
  expect_refused(with_header("[1]"), {"some.file", "not a JSON object"});
  expect_refused(with_header("null"), {"some.file", "not a JSON object"});
  expect_refused(with_header(" {}"), {"some.file", "not a JSON object"});
  expect_refused(with_header("{\"x\":" + entry), {"some.file", "not valid JSON"});
  expect_refused(with_header("{\"x\":" + entry + "}}"), {"some.file", "not valid JSON"});
  expect_refused(with_header("{\"x\":" + entry + ",\"x\":" + entry + "}"),
                 {"some.file", "\"x\" occurs twice"});
  expect_refused(with_header(R"({"x":{"dtype":"U8","dtype":"I8"}})"), {"\"dtype\" occurs twice"});
  expect_refused(with_header("{\"x\":" + std::string(100'000, '[')),
                 {"some.file", "nested deeper"});
  expect_refused(with_header("{\"x\":" + entry + "}" + std::string(3, '\0')),
                 {"some.file", "zero byte"});
  for (const char* value : {"1", "[]", "null", "\"\""}) {
    expect_refused(with_header(std::string("{\"x\":") + value + "}"),
                   {"some.file: tensor x", "not an object"});
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    std::string renamed = entry;
    renamed.replace(renamed.find(key), 1, "_");
    expect_refused(with_header("{\"x\":" + renamed + "}"),
                   {"some.file: tensor x", std::string("has no ") + key});
  }
  std::string more = entry;
  more.back() = ',';
  expect_refused(with_header("{\"x\":" + more + "\"more\":1}}"), {"tensor x", "has more than"});
  for (const char* metadata : {"1", "[]", "null"}) {
    expect_refused(
        with_header(std::string("{\"__metadata__\":") + metadata + ",\"x\":" + entry + "}"),
        {"some.file", "__metadata__ is not an object"});
  }
  expect_refused(with_header("{\"__metadata__\":{\"a\":1},\"x\":" + entry + "}"),
                 {"some.file", "__metadata__", "a is not a string"});
}

TEST(SafetensorsReader, WhatIsNoFile) {
  const test::TemporaryFolder folder;
  expect_error([&] { ef::SafetensorsReader{folder / "nothing"}; }, {"nothing", "no such file"});
  expect_error([&] { ef::SafetensorsReader{folder.path()}; },
               {folder.path().string(), "is not a file"});
}

// A file that shrinks behind the reader's back is an error, not garbage.
TEST(SafetensorsReader, TruncatedWhileOpen) {
  const test::TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  test::write_file(path, one_tensor("F32", "[100003]", "[0,400012]", std::string(400012, '1')));
  ef::SafetensorsReader reader(path);
  std::filesystem::resize_file(path, 300000);
  expect_error([&] { reader.read<float, 1>("x"); }, {path.string(), "reading", "failed"});
  std::filesystem::resize_file(path, 500000);
  EXPECT_EQ((reader.read<float, 1>("x").dim(0)), 100003);
}

// Thousands of damaged files: each loads or is refused, nothing else.
TEST(SafetensorsReader, SurvivesMutations) {
  const std::string valid = safetensors(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"I64","shape":[3],"data_offsets":[24,48]},)"
      R"("c":{"dtype":"BOOL","shape":[5],"data_offsets":[48,53]}})",
      std::string(53, '\0'));
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto start = std::chrono::steady_clock::now();
  int loaded = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string file = valid;
    for (std::size_t changes = 1 + below(3); changes > 0 && !file.empty(); --changes) {
      const std::size_t at =
          below(2) == 0 ? below(file.size()) : below(std::min<std::size_t>(file.size(), 250));
      switch (below(8)) {
        case 0:
          file.resize(at);
          break;
        case 1:
          file.erase(at, 1 + below(4));
          break;
        case 2:
          file.insert(at, 1, static_cast<char>(random()));
          break;
        case 3:
          file[at] = "0123456789,[]{}\":-."[below(19)];
          break;
        default:
          file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
      }
    }
    const std::vector<char> exact(file.begin(), file.end());
    try {
      ef::SafetensorsReader reader(std::as_bytes(std::span(exact.data(), exact.size())), "memory");
      for (const std::string& name : reader.names()) {
        const ef::TensorEntry& entry = reader.entry(name);
        ASSERT_LE(entry.size, static_cast<ef::Index>(exact.size()));
        std::vector<double> numbers(static_cast<std::size_t>(entry.size));
        std::vector<std::int64_t> integers(static_cast<std::size_t>(entry.size));
        if (ef::reads_into<double>(entry.type)) reader.read_elements(name, numbers.data());
        if (ef::reads_into<std::int64_t>(entry.type)) reader.read_elements(name, integers.data());
      }
      ++loaded;
    } catch (const std::runtime_error& error) {
      ASSERT_EQ(std::string_view(error.what()).substr(0, 6), "memory");
      ++refused;
    }
  }
  EXPECT_GT(loaded, 300);
  EXPECT_GT(refused, 3000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Names and values of the file are shown without control characters, and cut.
TEST(SafetensorsReader, ErrorsArePrintable) {
  const auto error = [](const std::string& name, const std::string& type) {
    const std::string file = safetensors(
        "{\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "four");
    return reference::error_text<std::runtime_error>(
        [&] { ef::SafetensorsReader(as_bytes(file), "file\r"); });
  };
  EXPECT_EQ(error("x\\u001b[2J", "F\\u00009\\u007f"),
            "file\\x0d: tensor x\\x1b[2J: dtype F\\x009\\x7f is not known");
  const std::string cut = error(std::string(7'000'000, 'n'), std::string(7'000'000, 't'));
  EXPECT_EQ(cut, "file\\x0d: tensor " + std::string(200, 'n') + "... (7000000 bytes): dtype " +
                     std::string(200, 't') + "... (7000000 bytes) is not known");
}

}  // namespace safetensors_reader_test
