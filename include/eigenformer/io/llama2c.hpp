// SPDX-License-Identifier: MIT
#pragma once

// Files of llama2.c (github.com/karpathy/llama2.c) in its first format, "stories15M.bin":
//
//   7 int32: C, F, L, H, K, V (negative: the head has a table of its own), number of positions
//   float32: token table (V, C); for all layers, one kind after the other, norm before attention
//   (L, C), query (L, C, C), key (L, K D, C), value (L, K D, C), output (L, C, C), norm before
//   feed-forward (L, C), gate (L, F, C), down (L, C, F), up (L, F, C); last norm (C); cosines and
//   sines of the positions, (positions, D / 2) each, which are left out; the head's table (V, C)
//
//   auto header = ef::read_llama2c_header("stories260K.bin");
//   ef::load_llama2c(decoder, "stories260K.bin");
//
// It is Llama: pre-norm with RMSNorm and eps 1e-5, SwiGLU, no biases, rotary positions with base
// 10000 in RotaryLayout::interleaved. Every error is a std::runtime_error with the path. Nothing is
// read or allocated before the file was found to have the size that its header says.

#include <array>
#include <set>

#include "eigenformer/io/byte_source.hpp"
#include "eigenformer/io/data_type.hpp"
#include "eigenformer/io/key_map.hpp"
#include "eigenformer/io/parameter_writer.hpp"
#include "eigenformer/io/safetensors_reader.hpp"
#include "eigenformer/nn/module.hpp"

namespace eigenformer {
inline namespace EIGENFORMER_ABI {

/// Names as in Hugging Face's config.json.
struct Llama2cHeader {
  Index hidden_size = 0;
  Index intermediate_size = 0;
  Index num_hidden_layers = 0;
  Index num_attention_heads = 0;
  Index num_key_value_heads = 0;
  Index vocab_size = 0;
  Index max_position_embeddings = 0;
  bool tie_word_embeddings = true;
};

namespace internal {

/// One kind of array in the file, in its order.
struct Llama2cArray {
  std::string own;  // pattern of the parameters' names; none: left out
  std::vector<Index> shape;
  Index count = 1;  // one for each layer

  std::uint64_t size() const {
    std::uint64_t product = 1;  // of two int32 at most
    for (Index n : shape) product *= static_cast<std::uint64_t>(n);
    return product;
  }
};

inline std::vector<Llama2cArray> llama2c_arrays(const Llama2cHeader& h) {
  const Index width = h.hidden_size, inner = h.intermediate_size, layers = h.num_hidden_layers;
  const Index head_size = width / h.num_attention_heads;
  const Index key_width = h.num_key_value_heads * head_size;
  std::vector<Llama2cArray> arrays = {
      {"embeddings.token.weight", {h.vocab_size, width}},
      {"layers.{}.self_attention_norm.weight", {width}, layers},
      {"layers.{}.self_attention.query.weight", {width, width}, layers},
      {"layers.{}.self_attention.key.weight", {key_width, width}, layers},
      {"layers.{}.self_attention.value.weight", {key_width, width}, layers},
      {"layers.{}.self_attention.output.weight", {width, width}, layers},
      {"layers.{}.feed_forward_norm.weight", {width}, layers},
      {"layers.{}.feed_forward.gate.weight", {inner, width}, layers},
      {"layers.{}.feed_forward.down.weight", {width, inner}, layers},
      {"layers.{}.feed_forward.up.weight", {inner, width}, layers},
      {"final_norm.weight", {width}},
      {"", {h.max_position_embeddings, head_size / 2}, 2}};
  if (!h.tie_word_embeddings) arrays.push_back({"head.weight", {h.vocab_size, width}});
  return arrays;
}

inline constexpr std::uint64_t llama2c_header_bytes = 7 * 4;

/// Bytes of the whole file, or more than any file has.
inline std::uint64_t llama2c_bytes(const Llama2cHeader& header) {
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  std::uint64_t elements = 0;
  for (const Llama2cArray& array : llama2c_arrays(header)) {
    const auto count = static_cast<std::uint64_t>(array.count);
    elements += array.size() > most / count ? most : array.size() * count;
    elements = (std::min)(elements, most);
  }
  return llama2c_header_bytes + 4 * elements;
}

/// Finds the parameters of a module in the file, and everything that doesn't fit.
class Llama2cLookup {
 public:
  explicit Llama2cLookup(const Llama2cHeader& header) : arrays_(llama2c_arrays(header)) {
    for (const Llama2cArray& array : arrays_) {
      for (Index i = 0; i < array.count && !array.own.empty(); ++i) {
        unused_.insert(fill_key(array.own, {std::to_string(i)}));
      }
    }
  }

  /// Where the parameter begins in the file; 0 if it doesn't fit.
  std::uint64_t find(const std::string& own, const std::vector<Index>& shape) {
    if (unused_.erase(own) == 0) {
      misfits_.push_back("missing: " + own);
      return 0;
    }
    std::uint64_t offset = llama2c_header_bytes;
    for (const Llama2cArray& array : arrays_) {
      const auto found = match_key(array.own, own);
      if (!found) {
        offset += 4 * array.size() * static_cast<std::uint64_t>(array.count);
        continue;
      }
      if (shape != array.shape) {
        misfits_.push_back(own + " has shape " + shape_text(array.shape) + "; " +
                           shape_text(shape) + " is wanted");
        return 0;
      }
      const std::uint64_t layer = found->empty() ? 0 : std::stoull(found->front());
      return offset + 4 * array.size() * layer;
    }
    return 0;
  }

  /// Throws if anything didn't fit.
  void require_fit(const std::string& path) const {
    ErrorLines lines;
    lines.add("", misfits_);
    lines.add("unexpected: ", {unused_.begin(), unused_.end()});
    if (!lines.text.empty()) fail_file(path, "does not fit the module", lines);
  }

 private:
  std::vector<Llama2cArray> arrays_;
  std::set<std::string> unused_;
  std::vector<std::string> misfits_;
};

template <class T>
void read_floats(ByteSource& source, std::uint64_t offset, T* to, Index count) {
  std::array<std::byte, 16384> buffer;
  constexpr Index capacity = static_cast<Index>(buffer.size() / 4);
  for (Index done = 0; done < count;) {
    const Index step = (std::min)(capacity, count - done);
    source.read(offset + 4 * static_cast<std::uint64_t>(done), buffer.data(),
                4 * static_cast<std::size_t>(step));
    for (Index i = 0; i < step; ++i) {
      convert_element<float>(buffer.data() + 4 * i, to[done + i]);
    }
    done += step;
  }
}

}  // namespace internal

/// The header of a file that is as long as its header says.
inline Llama2cHeader read_llama2c_header(ByteSource& source) {
  const std::string& path = source.name();
  constexpr std::uint64_t bytes = internal::llama2c_header_bytes;
  if (source.size() < bytes) {
    fail_file(path, "has ", source.size(), " bytes; a header of ", bytes, " is wanted");
  }
  std::array<std::byte, bytes> buffer;
  source.read(0, buffer.data(), buffer.size());
  std::array<Index, 7> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int32_t>(
        internal::load_little_endian<std::uint32_t>(buffer.data() + 4 * i));
  }
  if (numbers[0] == 0x616b3432) {
    fail_file(path, "is of version ", numbers[1],
              " of llama2.c's format; the first one is wanted, "
              "which has neither version nor magic number");
  }
  static constexpr const char* names[] = {
      "hidden_size",         "intermediate_size", "num_hidden_layers",      "num_attention_heads",
      "num_key_value_heads", "vocab_size",        "max_position_embeddings"};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool may_be_negative = i == 5;
    if (numbers[i] == 0 || (numbers[i] < 0 && !may_be_negative)) {
      fail_file(path, names[i], " is ", numbers[i], "; a number > 0 is wanted");
    }
  }
  const Llama2cHeader header = {.hidden_size = numbers[0],
                                .intermediate_size = numbers[1],
                                .num_hidden_layers = numbers[2],
                                .num_attention_heads = numbers[3],
                                .num_key_value_heads = numbers[4],
                                .vocab_size = numbers[5] < 0 ? -numbers[5] : numbers[5],
                                .max_position_embeddings = numbers[6],
                                .tie_word_embeddings = numbers[5] > 0};
  const Index heads = header.num_attention_heads;
  if (header.hidden_size % heads != 0 || header.hidden_size / heads % 2 != 0) {
    fail_file(path, "num_attention_heads must divide hidden_size into even heads; found ", heads,
              " and ", header.hidden_size);
  }
  if (heads % header.num_key_value_heads != 0) {
    fail_file(path, "num_key_value_heads must divide num_attention_heads; found ",
              header.num_key_value_heads, " and ", heads);
  }
  if (source.size() != internal::llama2c_bytes(header)) {
    fail_file(path, "has ", source.size(), " bytes; ", internal::llama2c_bytes(header),
              " are wanted by its header");
  }
  constexpr Index most_layers = 10'000;
  if (header.num_hidden_layers > most_layers) {
    fail_file(path, "num_hidden_layers is ", header.num_hidden_layers, "; at most ", most_layers,
              " are read");
  }
  return header;
}

inline Llama2cHeader read_llama2c_header(const std::filesystem::path& path) {
  ByteSource source(path);
  return read_llama2c_header(source);
}

/// Fills every parameter of a TransformerDecoder, or of another module with the same names and
/// shapes. Throws, with a list of all that doesn't fit, before anything is changed.
template <Module M>
void load_llama2c(M& module, ByteSource& source) {
  internal::Llama2cLookup lookup(read_llama2c_header(source));
  std::vector<std::uint64_t> offsets;
  for_each_parameter(module, [&](const std::string& own, auto& parameter) {
    offsets.push_back(lookup.find(own, shape_vector(parameter.shape())));
  });
  lookup.require_fit(source.name());
  auto offset = offsets.begin();
  for_each_parameter(module, [&](const std::string&, auto& parameter) {
    using T = typename std::remove_reference_t<decltype(parameter)>::Scalar;
    internal::write_parameter(parameter, [&](Index first, Index count, T* to) {
      internal::read_floats(source, *offset + 4 * static_cast<std::uint64_t>(first), to, count);
    });
    ++offset;
  });
}

template <Module M>
void load_llama2c(M& module, const std::filesystem::path& path) {
  ByteSource source(path);
  load_llama2c(module, source);
}

}  // namespace EIGENFORMER_ABI
}  // namespace eigenformer
