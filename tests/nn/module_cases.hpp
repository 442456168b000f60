// SPDX-License-Identifier: MIT
#pragma once

// How a module takes part in ModuleLaws. A case is a struct template over the number type:
//
//   template <class T>
//   struct LinearCase : OnTokens<53> {
//     using Module = ef::Linear<T>;
//     static constexpr int rank = 3;                        // of the result
//     static Module make();
//     static Parameters parameters();                       // the exact names and shapes
//     static ef::Shape<3> output_shape(const Input& in);
//     static void call(const Module&, const Views<T>&, ef::TensorView<T, 3> y, ef::Workspace&);
//     static ef::Tensor<T, 3> convenient(const Module&, const Owned<T>&);
//   };
//   LAWS_HOLD_FOR(Linear, LinearCase);

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/kernels/mask.hpp"
#include "eigenformer/kernels/patches.hpp"
#include "eigenformer/nn/module.hpp"
#include "tests/nn/module_laws.hpp"

namespace laws {

template <class To, class From, int Rank>
ef::Tensor<To, Rank> converted(const ef::Tensor<From, Rank>& x) {
  ef::Tensor<To, Rank> y(x.shape());
  std::transform(x.begin(), x.end(), y.begin(), [](From v) { return static_cast<To>(v); });
  return y;
}

/// An input in the module's number type.
template <class T>
struct Owned {
  ef::Tensor<T, 3> x, memory;
  ef::Tensor<std::int32_t, 2> ids, source;
  ef::Tensor<T, 4> images;
  Lengths lengths;

  explicit Owned(const Input& in)
      : x(converted<T>(in.x)),
        memory(converted<T>(in.memory)),
        ids(in.ids),
        source(in.source),
        images(converted<T>(in.images)),
        lengths(in.lengths) {}

  ef::Mask<T> mask() const { return {.key_lengths = lengths}; }
};

/// The same as views, which may lie elsewhere.
template <class T>
struct Views {
  ef::TensorView<const T, 3> x, memory;
  ef::TensorView<const std::int32_t, 2> ids, source;
  ef::TensorView<const T, 4> images;
  ef::Mask<T> mask;

  explicit Views(const Owned<T>& in)
      : x(in.x),
        memory(in.memory),
        ids(in.ids),
        source(in.source),
        images(in.images),
        mask(in.mask()) {}
};

template <class T, int Rank>
Output output_of(const ef::TensorView<const T, Rank>& y) {
  Output output;
  for (int axis = 0; axis < Rank; ++axis) output.shape.push_back(y.dim(axis));
  output.values.assign(y.begin(), y.end());
  return output;
}

template <class T, int Rank>
Output output_of(const ef::Tensor<T, Rank>& y) {
  return output_of(ef::TensorView<const T, Rank>(y));
}

template <template <class> class Case, class T>
class CallOf : public AnyCall {
  static constexpr int rank = Case<T>::rank;

 public:
  CallOf(const typename Case<T>::Module& module, const Input& input, const Placement& placement,
         const ef::Shape<rank>& shape)
      : module_(module), inputs_(input), views_(inputs_) {
    const Index size = shape.size();
    if (placement.part < 0) {
      memory_ = ef::Tensor<T, 1>({size});
      std::fill(memory_.begin(), memory_.end(), T(-777));
      y_ = ef::TensorView<T, rank>(memory_.data(), shape);
    } else if (inputs_.images.size() > 0) {
      place(views_.images, placement, shape);
    } else {
      place(placement.part == 0 ? views_.x : views_.memory, placement, shape);
    }
  }

  void run(ef::Workspace& workspace) override { Case<T>::call(module_, views_, y_, workspace); }

  Output output() const override { return output_of(ef::TensorView<const T, rank>(y_)); }

  bool inputs_unchanged() const override {
    const auto same = [](const auto& view, const auto& tensor) {
      return std::equal(view.begin(), view.end(), tensor.begin());
    };
    return same(views_.x, inputs_.x) && same(views_.memory, inputs_.memory) &&
           same(views_.images, inputs_.images);
  }

 private:
  /// Copies the part into the middle of free memory, and lays y over it.
  template <int Rank>
  void place(ef::TensorView<const T, Rank>& part, const Placement& placement,
             const ef::Shape<rank>& shape) {
    memory_ = ef::Tensor<T, 1>({2 * shape.size() + part.size()});
    T* middle = memory_.data() + shape.size();
    std::copy(part.begin(), part.end(), middle);
    part = ef::TensorView<const T, Rank>(middle, part.shape());
    y_ = ef::TensorView<T, rank>(middle + placement.shift, shape);
  }

  const typename Case<T>::Module& module_;
  Owned<T> inputs_;
  Views<T> views_;
  ef::Tensor<T, 1> memory_;
  ef::TensorView<T, rank> y_;
};

// Outside of ModuleOf, so that they are compiled once for each type of parameter.
inline auto list_shapes_into(Parameters& found) {
  return [&found](const std::string& name, const auto& parameter) {
    found.emplace_back(name, to_string(parameter.shape()));
  };
}
inline auto list_addresses_into(std::vector<const void*>& found) {
  return [&found](const std::string&, const auto& parameter) { found.push_back(parameter.data()); };
}
inline auto list_values_into(std::vector<std::vector<double>>& found) {
  return [&found](const std::string&, const auto& parameter) {
    found.emplace_back(parameter.begin(), parameter.end());
  };
}

/// Gives a parameter `more` rows more, of zeros.
template <class Wanted>
auto resize_if(Wanted wanted, Index more) {
  return [wanted, more](const std::string&, auto& parameter) {
    if (!wanted()) return;
    auto shape = parameter.shape();
    shape[0] = std::max<Index>(0, shape[0] + more);
    parameter = std::remove_cvref_t<decltype(parameter)>(shape);
  };
}

template <template <class> class Case, class T>
class ModuleOf : public AnyModule {
  using Module = typename Case<T>::Module;

 public:
  explicit ModuleOf(Module module) : module_(std::move(module)) {}

  std::unique_ptr<AnyModule> copy() const override { return wrap(Module(module_)); }
  std::unique_ptr<AnyModule> moved() override { return wrap(std::move(module_)); }
  void assign(const AnyModule& other) override { module_ = of(other); }
  void check() const override { ef::check_module(module_); }
  std::unique_ptr<AnyModule> zeros_like() const override {
    return wrap(eigenformer::zeros_like(module_));
  }
  std::unique_ptr<AnyModule> cast_to_double_and_back() const override {
    return wrap(ef::cast<T>(ef::cast<double>(module_)));
  }

  Parameters parameters() const override {
    Parameters found;
    for_each_parameter(module_, list_shapes_into(found));
    return found;
  }
  Index count_parameters() const override { return eigenformer::count_parameters(module_); }
  std::vector<std::vector<double>> values() const override { return values_of(module_); }
  std::vector<std::vector<double>> values_as_double() const override {
    return values_of(ef::cast<double>(module_));
  }
  std::vector<const void*> addresses() const override {
    std::vector<const void*> found;
    for_each_parameter(module_, list_addresses_into(found));
    return found;
  }
  bool parameters_equal(const AnyModule& other) const override {
    return eigenformer::parameters_equal(module_, of(other));
  }
  void randomize(std::uint64_t seed) override { reference::randomize(module_, seed); }
  void change(std::size_t wanted) override {
    std::size_t i = 0;
    ef::for_each_parameter(module_, [&](const std::string&, auto& parameter) {
      if (i++ == wanted) parameter.data()[parameter.size() - 1] += 1;
    });
  }
  void resize(std::size_t wanted, Index more) override {
    std::size_t i = 0;
    ef::for_each_parameter(module_, resize_if([&i, wanted] { return i++ == wanted; }, more));
  }
  void init(std::uint64_t seed) override { ef::init(module_, ef::Key{seed}); }

  std::unique_ptr<AnyCall> prepare(const Input& input, const Placement& placement,
                                   const std::vector<Index>& shape) const override {
    ef::Shape<Case<T>::rank> own = Case<T>::output_shape(input);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      own[static_cast<int>(axis)] = shape[axis];
    }
    return std::make_unique<CallOf<Case, T>>(module_, input, placement, own);
  }
  Output convenient(const Input& input) const override {
    return output_of(Case<T>::convenient(module_, Owned<T>(input)));
  }

 private:
  static std::unique_ptr<AnyModule> wrap(Module module) {
    return std::make_unique<ModuleOf>(std::move(module));
  }
  static const Module& of(const AnyModule& any) {
    return dynamic_cast<const ModuleOf&>(any).module_;
  }
  template <class M>
  static std::vector<std::vector<double>> values_of(const M& module) {
    std::vector<std::vector<double>> found;
    for_each_parameter(module, list_values_into(found));
    return found;
  }

  Module module_;
};

template <template <class> class Case, class T>
std::unique_ptr<AnyModule> make_module() {
  return std::make_unique<ModuleOf<Case, T>>(Case<T>::make());
}

template <template <class> class Case, class T>
ModuleCase module_case(const std::string& name) {
  using C = Case<T>;
  return {.name = name,
          .traits = C::traits(),
          .parameters = C::parameters(),
          .make = make_module<Case, T>,
          .make_in_float = make_module<Case, float>,
          .make_in_double = make_module<Case, double>,
          .input = C::input,
          .large_input = C::large_input,
          .wrong_inputs = C::wrong_inputs(),
          .output_shape = [](const Input& in) {
            const auto shape = C::output_shape(in);
            return std::vector<Index>(shape.extents, shape.extents + C::rank);
          }};
}

inline std::string case_name(const ::testing::TestParamInfo<ModuleCase>& info) {
  return info.param.name;
}

#define LAWS_HOLD_FOR(Suite, Case)                                                               \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      Suite, ModuleLaws,                                                                         \
      ::testing::Values(module_case<Case, float>("float"), module_case<Case, double>("double")), \
      case_name)

// ------------------------------------------------------------------ what cases have in common
/// "(a, b, c)"
template <class... Extents>
std::string shape_text(Extents... extents) {
  return to_string(ef::Shape<static_cast<int>(sizeof...(Extents))>{static_cast<Index>(extents)...});
}

/// x (B, T, width) to (B, T, width). `masked`: lengths go into the module's mask.
template <Index width, bool masked = false>
struct OnTokens {
  static constexpr int rank = 3;
  static Traits traits() { return {}; }
  static Input input(Index batch, Index tokens, std::uint64_t seed) {
    Input in{Kind::tokens};
    in.x = reference::random_tensor<double, 3>({batch, tokens, width}, seed, 2);
    in.lengths = falling_lengths(batch, tokens);
    return in;
  }
  static Input large_input() { return input(5, 139, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    Input wide = input(2, 3, 1);
    wide.x = ef::Tensor<double, 3>({2, 3, width + 2});
    wrong.push_back({wide, {shape_text(2, 3, width + 2), shape_text(2, 3, width)}});
    if (masked) {
      Input long_one = input(2, 3, 1), too_many = input(2, 3, 1);
      long_one.lengths = {3, 4};
      too_many.lengths = {3, 1, 1};
      wrong.push_back({long_one, {"[0, 3]", "4"}});
      wrong.push_back({too_many, {"2", "3"}});
    }
    return wrong;
  }
  static ef::Shape<3> output_shape(const Input& in) { return {in.x.dim(0), in.x.dim(1), width}; }
};

/// x (B, T, 53), memory (B, T + 4, 31).
struct OnTwoSequences : OnTokens<53> {
  static Input input(Index batch, Index tokens, std::uint64_t seed) {
    Input in{Kind::two_sequences};
    const Index keys = tokens == 0 ? 0 : tokens + 4;
    in.x = reference::random_tensor<double, 3>({batch, tokens, 53}, seed, 2);
    in.memory = reference::random_tensor<double, 3>({batch, keys, 31}, seed + 100, 2);
    in.lengths = falling_lengths(batch, keys);
    return in;
  }
  static Input large_input() { return input(5, 139, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    Input wide = input(2, 3, 1), memory = wide, batch = wide, lengths = wide;
    wide.x = ef::Tensor<double, 3>({2, 3, 55});
    memory.memory = ef::Tensor<double, 3>({2, 7, 53});
    batch.memory = ef::Tensor<double, 3>({3, 7, 31});
    lengths.lengths = {7, 8};
    wrong.push_back({wide, {"(2, 3, 55)", "(2, 3, 53)"}});
    wrong.push_back({memory, {"(2, 7, 53)", "(2, 7, 31)"}});
    wrong.push_back({batch, {"(3, 7, 31)", "(2, 7, 31)"}});
    wrong.push_back({lengths, {"[0, 7]", "8"}});
    return wrong;
  }
};

/// (B, T) out of 11.
inline ef::Tensor<std::int32_t, 2> random_ids(Index batch, Index tokens, std::uint64_t seed) {
  ef::Tensor<std::int32_t, 2> ids({batch, tokens});
  const ef::Key key(seed);
  for (Index i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(key.bits(static_cast<std::uint64_t>(i)) % 11);
  }
  return ids;
}

/// ids (B, T) out of 11.
template <bool masked>
struct OnIds {
  static constexpr int rank = 3;
  static Traits traits() { return {}; }
  static Input input(Index batch, Index tokens, std::uint64_t seed) {
    Input in{Kind::ids};
    in.ids = random_ids(batch, tokens, seed);
    in.lengths = falling_lengths(batch, tokens);
    return in;
  }
  static Input large_input() { return input(5, 139, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    Input beyond = input(2, 3, 1), negative = input(2, 3, 1), long_one = input(2, 3, 1);
    beyond.ids(1, 1) = 11;
    negative.ids(0, 2) = -1;
    long_one.lengths = {3, 4};
    wrong.push_back({beyond, {"id 11", "11 rows"}});
    wrong.push_back({negative, {"id -1", "11 rows"}});
    if (masked) wrong.push_back({long_one, {"[0, 3]", "4"}});
    return wrong;
  }
};

/// ids (B, T) out of 11, memory (B, T + 4, 31).
struct OnIdsAndMemory : OnIds<false> {
  static Traits traits() { return {.overlap = Overlap::harmless}; }
  static Input input(Index batch, Index tokens, std::uint64_t seed) {
    Input in = OnTwoSequences::input(batch, tokens, seed);
    in.kind = Kind::ids_and_memory;
    in.x = {};
    in.ids = random_ids(batch, tokens, seed);
    return in;
  }
  static Input large_input() { return input(5, 139, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    Input beyond = input(2, 3, 1), memory = beyond, batch = beyond, lengths = beyond;
    beyond.ids(1, 1) = 11;
    memory.memory = ef::Tensor<double, 3>({2, 7, 53});
    batch.memory = ef::Tensor<double, 3>({3, 7, 31});
    lengths.lengths = {7, 8};
    wrong.push_back({beyond, {"id 11", "11 rows"}});
    wrong.push_back({memory, {"(2, 7, 53)", "(2, 7, 31)"}});
    wrong.push_back({batch, {"(3, 7, 31)", "(2, 7, 31)"}});
    wrong.push_back({lengths, {"[0, 7]", "8"}});
    return wrong;
  }
};

/// ids (B, T) and a source (B, T + 4), both out of 11.
struct OnTwoIds : OnIds<false> {
  static Input input(Index batch, Index tokens, std::uint64_t seed) {
    Input in{Kind::two_ids};
    const Index keys = tokens == 0 ? 0 : tokens + 4;
    in.ids = random_ids(batch, tokens, seed);
    in.source = random_ids(batch, keys, seed + 100);
    in.lengths = falling_lengths(batch, keys);
    return in;
  }
  static Input large_input() { return input(5, 139, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    Input beyond = input(2, 3, 1), source = beyond, batch = beyond, lengths = beyond;
    beyond.ids(1, 1) = 11;
    source.source(0, 6) = -1;
    batch.source = random_ids(3, 7, 1);
    batch.lengths = {7, 5, 3};
    lengths.lengths = {7, 8};
    wrong.push_back({beyond, {"id 11", "11 rows"}});
    wrong.push_back({source, {"id -1", "11 rows"}});
    wrong.push_back({batch, {"(3, 7, ", "(2, 7, "}});
    wrong.push_back({lengths, {"[0, 7]", "8"}});
    return wrong;
  }
};

/// Images (B, 3, 7, 11); patches of 2 x 5 leave a rest at both ends.
struct OnImages {
  static constexpr ef::ImageSize image_size{7, 11}, patch_size{2, 5};
  static constexpr Index num_patches = 6;
  static Traits traits() { return {.pads = false}; }
  static Input input(Index batch, Index, std::uint64_t seed) {
    Input in{Kind::images};
    in.images = reference::random_tensor<double, 4>({batch, 3, 7, 11}, seed);
    return in;
  }
  static Input large_input() { return input(101, 0, 9); }
  static std::vector<Wrong> wrong_inputs() {
    std::vector<Wrong> wrong;
    for (const auto& shape : {ef::Shape<4>{2, 4, 7, 11}, ef::Shape<4>{2, 3, 11, 7}}) {
      Input in{Kind::images};
      in.images = ef::Tensor<double, 4>(shape);
      wrong.push_back({in, {to_string(shape), shape_text(2, 3, 7, 11)}});
    }
    return wrong;
  }
};

/// Parameters of parts, for longer lists.
inline void add_linear(Parameters& list, const std::string& name, Index outputs, Index inputs,
                       bool bias = true) {
  list.emplace_back(name + ".weight", shape_text(outputs, inputs));
  if (bias) list.emplace_back(name + ".bias", shape_text(outputs));
}
inline void add_norm(Parameters& list, const std::string& name, Index width, bool bias = true) {
  list.emplace_back(name + ".weight", shape_text(width));
  if (bias) list.emplace_back(name + ".bias", shape_text(width));
}

}  // namespace laws
