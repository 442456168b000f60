// SPDX-License-Identifier: MIT
//
// The functions of every instruction set that this program may choose and this processor has, not
// only of the one it does choose: products against plain chains, rows against loops in long double.
#undef EIGENFORMER_COMPILED  // all of them are looked at here

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "eigenformer/kernels/packing.hpp"
#include "tests/reference/numbers.hpp"

namespace instruction_sets_test {

namespace ef = eigenformer;
namespace k = ef::kernels;
using ef::Index;
using reference::Real;

template <class T>
struct Set {
  std::string name;
  const k::Target<T>& machine;
};

template <class T>
std::vector<Set<T>> sets() {
  std::vector<Set<T>> result{{"native", k::native::target_functions<T>}};
#if EIGENFORMER_CHOOSES_AT_RUN_TIME
  if (k::instruction_set() != k::InstructionSet::native)
    result.push_back({"avx2", k::avx2::target_functions<T>});
  if (k::instruction_set() == k::InstructionSet::avx512)
    result.push_back({"avx512", k::avx512::target_functions<T>});
#endif
  return result;
}

std::vector<const k::CompressedTarget<float>*> compressed_sets() {
  std::vector<const k::CompressedTarget<float>*> result{&k::native::compressed_functions<float>};
#if EIGENFORMER_CHOOSES_AT_RUN_TIME
  if (k::instruction_set() != k::InstructionSet::native)
    result.push_back(&k::avx2::compressed_functions<float>);
  if (k::instruction_set() == k::InstructionSet::avx512)
    result.push_back(&k::avx512::compressed_functions<float>);
#endif
  return result;
}

void expect_near(Real actual, Real expected, Real bound) {
  EXPECT_LE(std::abs(actual - expected), bound) << actual << " instead of " << expected;
}

template <class T>
class InstructionSets : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(InstructionSets, Scalars);

TYPED_TEST(InstructionSets, ProductsAreTheChainOfTheirOwnMultiplyAdd) {
  using T = TypeParam;
  for (const auto& [name, machine] : sets<T>()) {
    for (Index rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25}) {
      for (Index columns : {1, 7, 16, 19, 33, 71}) {
        const Index depth = 13;
        const auto a = reference::random_tensor<T, 2>({rows, depth}, 1);
        const auto b = reference::random_tensor<T, 2>({columns, depth}, 2);
        const auto bias = reference::random_tensor<T, 1>({columns}, 3);
        const k::StridedFactor<T> factor{b.data(), depth};
        ef::Tensor<T, 1> panels({k::whole_panels<T>(columns) * depth});
        for (Index n = 0; n < columns; n += k::panel_width<T>) {
          machine.pack_rows(factor, n, std::min(k::panel_width<T>, columns - n), 0, depth, nullptr,
                            panels.data() + n * depth);
        }
        for (k::Start start : {k::Start::zero, k::Start::bias, k::Start::stored}) {
          auto c = reference::random_tensor<T, 2>({rows, columns}, 4);
          const auto before = c;
          machine.macrokernel({.rows = rows,
                               .columns = columns,
                               .depth = depth,
                               .a = a.data(),
                               .a_stride = depth,
                               .panels = panels.data(),
                               .panel_stride = depth * k::panel_width<T>,
                               .c = c.data(),
                               .c_stride = columns,
                               .start = start,
                               .bias = bias.data()});
          ef::Tensor<T, 1> single({columns});
          machine.single_row_macrokernel(a.data(), factor, 0, columns, depth, bias.data(),
                                         single.data());
          for (Index m = 0; m < rows; ++m) {
            for (Index n = 0; n < columns; ++n) {
              T chain = start == k::Start::bias     ? bias(n)
                        : start == k::Start::stored ? before(m, n)
                                                    : T(0);
              for (Index i = 0; i < depth; ++i) machine.add_scaled(&a(m, i), b(n, i), &chain, 1);
              ASSERT_TRUE(reference::same_bits(c(m, n), chain))
                  << name << ": " << rows << " x " << columns << " at " << m << ", " << n;
              if (m == 0 && start == k::Start::bias) {
                ASSERT_TRUE(reference::same_bits(single(n), chain)) << name << ": single row";
              }
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(InstructionSets, RowsAgreeWithLoops) {
  using T = TypeParam;
  const Real epsilon = std::numeric_limits<T>::epsilon();
  for (const auto& [name, machine] : sets<T>()) {
    SCOPED_TRACE(name);
    for (Index n : {1, 2, 3, 5, 8, 15, 16, 17, 37, 64, 131}) {
      SCOPED_TRACE(n);
      const auto x = reference::random_tensor<T, 1>({n}, 5, 3.0);
      const auto weight = reference::random_tensor<T, 1>({n}, 6), bias = weight;
      ef::Tensor<T, 1> y({n});
      Real sum = 0, squares = 0, largest = x(0), exponentials = 0;
      for (const T e : x) {
        sum += e;
        squares += Real(e) * e;
        largest = std::max(largest, Real(e));
      }
      for (const T e : x) exponentials += std::exp(Real(e) - largest);
      const Real bound = 4 * epsilon * static_cast<Real>(n) * 3;
      expect_near(machine.sum(x.data(), n), sum, bound);
      expect_near(machine.sum_of_squares(x.data(), n), squares, 3 * bound);
      EXPECT_EQ(machine.largest(x.data(), n), static_cast<T>(largest));
      EXPECT_TRUE(machine.all_finite(x.data(), n));

      machine.softmax(x.data(), y.data(), n);
      const Real mean = sum / static_cast<Real>(n);
      Real variance = 0;
      for (const T e : x) variance += (Real(e) - mean) * (Real(e) - mean);
      variance /= static_cast<Real>(n);
      for (Index i = 0; i < n; ++i)
        expect_near(y(i), std::exp(Real(x(i)) - largest) / exponentials, 8 * epsilon);
      machine.layer_norm(x.data(), weight.data(), bias.data(), T(0.125), y.data(), n);
      for (Index i = 0; i < n; ++i) {
        const Real expected =
            (Real(x(i)) - mean) / std::sqrt(variance + 0.125L) * weight(i) + bias(i);
        expect_near(y(i), expected, 40 * epsilon);
      }
      machine.rms_norm(x.data(), weight.data(), T(1), T(0.125), y.data(), n);
      for (Index i = 0; i < n; ++i) {
        const Real root = std::sqrt(squares / static_cast<Real>(n) + 0.125L);
        expect_near(y(i), Real(x(i)) / root * (1 + Real(weight(i))), 40 * epsilon);
      }
      machine.activate(ef::Activation::gelu, x.data(), y.data(), n);
      for (Index i = 0; i < n; ++i) {
        const Real e = x(i);
        expect_near(y(i), e * std::erfc(-e / std::sqrt(Real(2))) / 2, 8 * epsilon);
      }
      machine.activate(ef::Activation::silu, x.data(), y.data(), n);
      for (Index i = 0; i < n; ++i)
        expect_near(y(i), Real(x(i)) / (1 + std::exp(-Real(x(i)))), 8 * epsilon);
      machine.evaluate(k::Elementary::hyperbolic_tangent, x.data(), y.data(), n);
      for (Index i = 0; i < n; ++i) expect_near(y(i), std::tanh(Real(x(i))), 4 * epsilon);
    }
  }
}

TYPED_TEST(InstructionSets, ExponentialsOfLowScoresAreZeroAndNanStaysNan) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (const auto& [name, machine] : sets<T>()) {
    SCOPED_TRACE(name);
    std::vector<T> x(37, T(-0.5)), y(37);
    x[3] = -infinity;
    x[5] = T(-1e30);
    const T sum = machine.exponentials(x.data(), T(0), y.data(), 37);
    EXPECT_EQ(y[3], T(0));
    EXPECT_EQ(y[5], T(0));
    expect_near(sum, 35 * std::exp(Real(-0.5)), 1e-5);
    for (const T payload :
         {std::numeric_limits<T>::quiet_NaN(), static_cast<T>(std::nan("12345"))}) {
      x[36] = payload;
      EXPECT_TRUE(std::isnan(machine.exponentials(x.data(), T(0), y.data(), 37)));
      EXPECT_TRUE(std::isnan(y[36]));
    }
  }
}

/// Numbers that int8 panels and rows may hold, and sums that don't fit into 16 bits.
std::int8_t byte_at(Index i) { return static_cast<std::int8_t>(i * 97 % 255 - 127); }

TEST(CompressedInstructionSets, IntegerProductsAreExact) {
  for (const auto* machine : compressed_sets()) {
    for (Index rows : {1, 2, 3, 4, 5, 7, 12, 13, 19}) {
      const Index columns = 37, depth = 23, stride = k::whole_groups(depth);
      // Numbers as `quantize` writes them, and back.
      const auto written = [&](int number) {
        return static_cast<std::int8_t>(static_cast<std::uint8_t>(number + machine->zero_point));
      };
      const auto value = [&](std::int8_t q) {
        return int{static_cast<std::int8_t>(static_cast<std::uint8_t>(q - machine->zero_point))};
      };
      std::vector<std::int8_t> a(static_cast<std::size_t>(rows * stride), machine->zero_point);
      for (Index m = 0; m < rows; ++m) {
        for (Index i = 0; i < depth; ++i)
          a[static_cast<std::size_t>(m * stride + i)] = written(m % 2 == 0 ? 127 : byte_at(m + i));
      }
      const Index panel = stride * k::panel_width<float>;
      std::vector<std::int8_t> panels(
          static_cast<std::size_t>(k::whole_panels<float>(columns) * stride));
      const auto place = [&](Index n, Index i) {
        return static_cast<std::size_t>(
            n / k::panel_width<float> * panel +
            k::place_in_panel<float, std::int8_t>(n % k::panel_width<float>, i));
      };
      for (Index n = 0; n < columns; ++n) {
        for (Index i = 0; i < depth; ++i)
          panels[place(n, i)] = n % 3 == 0 ? std::int8_t{-127} : byte_at(n * depth + i);
      }
      const std::vector<float> a_scales(static_cast<std::size_t>(rows), 1.0f);
      const std::vector<float> b_scales(static_cast<std::size_t>(columns), 1.0f);
      ef::Tensor<float, 2> c({rows, columns});
      machine->macrokernel_int8({.rows = rows,
                                 .columns = columns,
                                 .depth = depth,
                                 .a = a.data(),
                                 .a_stride = stride,
                                 .a_scales = a_scales.data(),
                                 .panels = panels.data(),
                                 .panel_stride = panel,
                                 .b_scales = b_scales.data(),
                                 .bias = nullptr,
                                 .c = c.data(),
                                 .c_stride = columns});
      for (Index m = 0; m < rows; ++m) {
        for (Index n = 0; n < columns; ++n) {
          int sum = 0;
          for (Index i = 0; i < depth; ++i)
            sum += value(a[static_cast<std::size_t>(m * stride + i)]) * int{panels[place(n, i)]};
          ASSERT_EQ(c(m, n), static_cast<float>(sum)) << rows << " rows at " << m << ", " << n;
        }
      }
    }
  }
}

TEST(CompressedInstructionSets, RowsAreRoundedToTheNearestOf127Steps) {
  for (const auto* machine : compressed_sets()) {
    for (Index n : {1, 3, 16, 19, 37}) {
      const auto x = reference::random_tensor<float, 1>({n}, 7, 5.0);
      std::vector<std::int8_t> q(static_cast<std::size_t>(k::whole_groups(n)), 77);
      const float scale = machine->quantize(x.data(), n, q.data());
      const auto value = [&](Index i) {
        return int{static_cast<std::int8_t>(
            static_cast<std::uint8_t>(q[static_cast<std::size_t>(i)] - machine->zero_point))};
      };
      float top = 0;
      for (const float e : x) top = std::max(top, std::abs(e));
      EXPECT_EQ(scale, top / 127.0f);
      for (Index i = 0; i < n; ++i) {
        const Real exact = Real(x(i)) * 127 / top;
        EXPECT_LE(std::abs(static_cast<Real>(value(i)) - exact), 0.5001);
      }
      for (Index i = n; i < k::whole_groups(n); ++i) EXPECT_EQ(value(i), 0);
    }
  }
}

TEST(CompressedInstructionSets, Bfloat16AndInt8PanelsAreReadAsWritten) {
  for (const auto* machine : compressed_sets()) {
    for (Index rows : {1, 2, 3, 6, 7, 12, 15}) {
      const Index columns = 37, depth = 11, width = k::panel_width<float>;
      // Row m of A picks step m of k: c(m, n) is one number of the panels.
      ef::Tensor<float, 2> a({rows, depth}), c({rows, columns});
      for (Index m = 0; m < rows; ++m) a(m, m % depth) = 1;
      std::vector<ef::BFloat16> halves(
          static_cast<std::size_t>(k::whole_panels<float>(columns) * depth));
      std::vector<std::int8_t> bytes(
          static_cast<std::size_t>(k::whole_panels<float>(columns) * k::whole_groups(depth)));
      const auto half = [&](Index n, Index i) -> ef::BFloat16& {
        return halves[static_cast<std::size_t>(
            n / width * depth * width + k::place_in_panel<float, ef::BFloat16>(n % width, i))];
      };
      const auto byte = [&](Index n, Index i) -> std::int8_t& {
        return bytes[static_cast<std::size_t>(n / width * k::whole_groups(depth) * width +
                                              k::place_in_panel<float, std::int8_t>(n % width, i))];
      };
      for (Index n = 0; n < columns; ++n) {
        for (Index i = 0; i < depth; ++i) {
          half(n, i) = ef::to_bfloat16(static_cast<float>(n * depth + i) - 100.0f);
          byte(n, i) = byte_at(n * depth + i);
        }
      }
      const auto product = [&](const auto* panels, Index stored_depth) {
        using E = std::remove_cvref_t<decltype(*panels)>;
        return k::PanelProduct<float, E>{.rows = rows,
                                         .columns = columns,
                                         .depth = depth,
                                         .a = a.data(),
                                         .a_stride = depth,
                                         .panels = panels,
                                         .panel_stride = stored_depth * width,
                                         .c = c.data(),
                                         .c_stride = columns};
      };
      machine->macrokernel_bfloat16(product(halves.data(), depth));
      for (Index m = 0; m < rows; ++m) {
        for (Index n = 0; n < columns; ++n)
          ASSERT_EQ(c(m, n), ef::to_float(half(n, m % depth))) << rows << ": " << m << ", " << n;
      }
      machine->macrokernel_int8_weights(product(bytes.data(), k::whole_groups(depth)));
      for (Index m = 0; m < rows; ++m) {
        for (Index n = 0; n < columns; ++n)
          ASSERT_EQ(c(m, n), static_cast<float>(byte(n, m % depth)))
              << rows << ": " << m << ", " << n;
      }
    }
  }
}

}  // namespace instruction_sets_test
