// SPDX-License-Identifier: MIT
// Opening a file allocates by its own size, never by the sizes that it declares. This program counts every allocation.

#include <atomic>
#include <cstdlib>
#include <new>

#include "eigenformer/io/load.hpp"
#include "eigenformer/io/safetensors_reader.hpp"
#include "eigenformer/nn/linear.hpp"
#include "eigenformer/nn/packed.hpp"
#include "tests/io/file_builder.hpp"

namespace {

std::atomic<std::size_t> largest{0};

[[gnu::noinline]] void* counted(std::size_t bytes, std::size_t alignment) {
  std::size_t seen = largest;
  while (seen < bytes && !largest.compare_exchange_weak(seen, bytes)) {
  }
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Not inlined, or GCC would see malloc's memory given to delete.
[[gnu::noinline]] void free_counted(void* memory) { std::free(memory); }

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { free_counted(memory); }
void operator delete(void* memory, std::size_t) noexcept { free_counted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free_counted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free_counted(memory); }

namespace {

TEST(SafetensorsAllocation, DeclaredSizesAllocateNothing) {
  const std::string data(4, '\0');
  const std::string broken[] = {test::one_tensor("F32", "[1000,1000]", "[0,4]", data),
                                test::one_tensor("F32", "[1000,1000]", "[0,4000000]", data),
                                test::one_tensor("F64", "[4294967296,4294967296]", "[0,4]", data),
                                test::one_tensor("F32", "[1]", "[0,18446744073709551612]", data),
                                test::little_endian(100'000'000, 8) + "{}",
                                test::little_endian(0xFFFFFFFFFFFFFFFBu, 8) + "{}",
                                test::safetensors("{\"x\":" + std::string(3000, '['), data)};
  const test::TemporaryFolder folder;
  for (const std::string& file : broken) {
    const auto path = folder / "x";
    test::write_file(path, file);
    largest = 0;
    test::expect_error([&] { ef::SafetensorsReader reader(path); }, {path.string()});
    EXPECT_GT(largest.load(), 0u);
    // A stream buffer of the standard library is larger than these files.
    EXPECT_LT(largest.load(), 20'000u) << file.substr(0, 100);
  }
}

// 400 kB of data cost no more than the header: only what is read is allocated, and nothing for reading without conversion.
TEST(SafetensorsAllocation, OpeningReadsTheHeaderOnly) {
  const test::TemporaryFolder folder;
  const auto path = folder / "x";
  test::write_file(path,
                   test::one_tensor("F32", "[100003]", "[0,400012]", std::string(400012, '\0')));
  largest = 0;
  ef::SafetensorsReader reader(path);
  EXPECT_LT(largest.load(), 20'000u);
  ef::Tensor<float, 1> plain({100003});
  ef::Tensor<double, 1> converted({100003});
  largest = 0;
  reader.read_into("x", plain);
  reader.read_into("x", converted);
  EXPECT_LT(largest.load(), 20'000u);
}

TEST(SafetensorsAllocation, ReadingIntoAPackedModuleHoldsFewRows) {
  const test::TemporaryFolder folder;
  const auto path = folder / "x";
  const ef::LinearConfig config{.in_features = 307, .out_features = 1009};
  ef::save(ef::Linear<float>(config), path);
  ef::Linear<ef::Packed<float>> as_numbers(config);
  ef::Linear<ef::Packed<ef::int8>> as_int8(config);
  largest = 0;
  ef::load(as_numbers, path, {.in_place = true});
  ef::load(as_int8, path, {.in_place = true});
  EXPECT_LT(largest.load(), sizeof(float) * 307u * 1009u / 8);
}

}  // namespace
