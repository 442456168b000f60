// SPDX-License-Identifier: MIT
#include "eigenformer/kernels/matrix_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eigenformer/base/thread_pool.hpp"
#include "tests/reference/numbers.hpp"

namespace matrix_product_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using ef::kernels::MatrixProduct;
using ef::kernels::RightFactor;
using ef::kernels::rows_per_packing;
using ef::kernels::StridedFactor;
using reference::Real;

enum class Order { rows, columns, panels };

/// A product whose A, B and C lie in wider matrices, with a value around C that must survive.
template <class T>
struct Problem {
  static constexpr Index gap = 3;
  static constexpr T untouched = T(-777);

  Index m, n, k;
  Order order;
  bool biased;
  Tensor<T, 2> a, b, c;
  Tensor<T, 1> bias, panels;

  Problem(Index m_, Index n_, Index k_, Order order_, bool biased_)
      : m(m_),
        n(n_),
        k(k_),
        order(order_),
        biased(biased_),
        a(reference::random_tensor<T, 2>({m, k + gap}, 1)),
        b(order == Order::columns ? reference::random_tensor<T, 2>({k, n + gap}, 2)
                                  : reference::random_tensor<T, 2>({n, k + gap}, 2)),
        c({m, n + gap}),
        bias(reference::random_tensor<T, 1>({n}, 3)),
        panels({ef::kernels::whole_panels<T>(n) * k}) {
    std::fill(c.begin(), c.end(), untouched);
  }

  T right(Index column, Index i) const {
    return order == Order::columns ? b(i, column) : b(column, i);
  }

  MatrixProduct<T> product() {
    if (order == Order::panels)
      ef::kernels::pack_panels(StridedFactor<T>{b.data(), k + gap}, n, k, panels.data());
    return {.rows = m,
            .columns = n,
            .depth = k,
            .a = a.data(),
            .a_stride = k + gap,
            .b = order == Order::rows      ? RightFactor<T>::from_rows(b.data(), k + gap)
                 : order == Order::columns ? RightFactor<T>::from_columns(b.data(), n + gap)
                                           : RightFactor<T>::from_panels(panels.data(), k),
            .bias = biased ? bias.data() : nullptr,
            .c = c.data(),
            .c_stride = n + gap};
  }
};

/// a * b + c as the kernel promises it: rounded once where the machine has a fused multiply-add.
template <class T>
T multiply_add(T a, T b, T c) {
  ef::kernels::target<T>().add_scaled(&a, b, &c, 1);
  return c;
}

template <class T>
void expect_canonical_chain(Problem<T>& p, ef::Workspace& workspace) {
  ef::kernels::multiply(p.product(), workspace);
  for (Index m = 0; m < p.m; ++m) {
    for (Index n = 0; n < p.n; ++n) {
      T chain = p.biased ? p.bias(n) : T(0);
      for (Index i = 0; i < p.k; ++i) chain = multiply_add(p.a(m, i), p.right(n, i), chain);
      ASSERT_TRUE(reference::same_bits(p.c(m, n), chain))
          << "(" << p.m << ", " << p.n << ", " << p.k << ") order " << static_cast<int>(p.order)
          << " at " << m << ", " << n << ": " << p.c(m, n) << " instead of " << chain;
    }
    for (Index n = p.n; n < p.n + p.gap; ++n) {
      ASSERT_EQ(p.c(m, n), p.untouched) << "written beyond row " << m;
    }
  }
}

template <class T>
class MatrixProductTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(MatrixProductTest, Scalars);

TYPED_TEST(MatrixProductTest, IsTheCanonicalChainForOddSizes) {
  ef::Workspace workspace;
  for (Order order : {Order::rows, Order::columns, Order::panels}) {
    for (bool biased : {false, true}) {
      for (Index m : {0, 1, 2, 5, 6, 7, 8, 13, 37}) {
        for (Index n : {0, 1, 2, 3, 7, 11, 16, 17, 23, 31, 37}) {
          for (Index k : {0, 1, 2, 3, 5, 8, 13, 19, 31, 37}) {
            Problem<TypeParam> p(m, n, k, order, biased);
            expect_canonical_chain(p, workspace);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(MatrixProductTest, IsTheCanonicalChainAcrossBlocks) {
  ef::Workspace workspace;
  const Index depth = ef::kernels::depth_block<TypeParam>;
  for (Order order : {Order::rows, Order::columns, Order::panels}) {
    for (Index k : {depth - 1, depth, depth + 1, 2 * depth + 3}) {
      for (Index m : {1, 7}) {
        Problem<TypeParam> p(m, 5, k, order, true);
        expect_canonical_chain(p, workspace);
      }
    }
    for (Index m : {rows_per_packing - 1, rows_per_packing + 1, 2 * rows_per_packing + 5}) {
      Problem<TypeParam> p(m, 3, 5, order, true);
      expect_canonical_chain(p, workspace);
    }
    Problem<TypeParam> both(rows_per_packing + 1, 2, depth + 1, order, false);
    expect_canonical_chain(both, workspace);
  }
}

TYPED_TEST(MatrixProductTest, IsWithinTheBoundOfRounding) {
  // |error| <= K u sum |a b| / (1 - K u), u half an epsilon; two roundings a step without fma.
  ef::Workspace workspace;
  Problem<TypeParam> p(13, 29, 211, Order::rows, false);
  ef::kernels::multiply(p.product(), workspace);
  for (Index m = 0; m < p.m; ++m) {
    for (Index n = 0; n < p.n; ++n) {
      Real exact = 0, magnitude = 0;
      for (Index i = 0; i < p.k; ++i) {
        exact += Real(p.a(m, i)) * Real(p.right(n, i));
        magnitude += std::abs(Real(p.a(m, i)) * Real(p.right(n, i)));
      }
      const Real bound =
          Real(p.k + 1) * Real(std::numeric_limits<TypeParam>::epsilon()) * magnitude;
      EXPECT_LE(std::abs(Real(p.c(m, n)) - exact), bound);
    }
  }
}

TYPED_TEST(MatrixProductTest, ARowHasTheSameBitsAloneAndAnywhere) {
  ef::Workspace workspace;
  const Index k = ef::kernels::depth_block<TypeParam> + 7, n = 67;
  for (Order order : {Order::rows, Order::columns, Order::panels}) {
    Problem<TypeParam> all(29, n, k, order, true);
    ef::kernels::multiply(all.product(), workspace);
    for (Index count : {1, 2, 5, 7, 12}) {
      for (Index first : {0, 1, 11, 17}) {
        Tensor<TypeParam, 2> part({count, n});
        MatrixProduct<TypeParam> product = all.product();
        product.rows = count;
        product.a += first * product.a_stride;
        product.c = part.data();
        product.c_stride = n;
        ef::kernels::multiply(product, workspace);
        for (Index m = 0; m < count; ++m) {
          ASSERT_TRUE(reference::same_bits(part.data() + m * n, &all.c(first + m, 0), n))
              << "row " << first + m << " among " << count;
        }
      }
    }
  }
}

/// Runs everything on the calling thread, last lane first, and counts.
struct Backwards {
  Index lanes;
  int calls = 0;
  Index concurrency() const { return lanes; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    ++calls;
    for (Index i = n; i-- > 0;) f(i);
  }
};

TYPED_TEST(MatrixProductTest, ThreadsDoNotChangeBits) {
  struct Size {
    Index m, n, k;
  };
  // Split by rows, by columns, and a single row.
  for (const Size size : {Size{401, 37, 53}, Size{31, 211, 101}, Size{1, 1009, 307}}) {
    for (Order order : {Order::rows, Order::columns, Order::panels}) {
      Problem<TypeParam> alone(size.m, size.n, size.k, order, true);
      ef::Workspace serial;
      ef::kernels::multiply(alone.product(), serial);
      for (Index lanes : {2, 3, 7}) {
        Backwards executor{lanes};
        ef::Workspace workspace(executor);
        Problem<TypeParam> p(size.m, size.n, size.k, order, true);
        ef::kernels::multiply(p.product(), workspace);
        EXPECT_GT(executor.calls, 0) << "the work must be worth splitting";
        ASSERT_TRUE(reference::same_bits(p.c, alone.c)) << lanes;

        ef::ThreadPool pool(lanes);
        ef::Workspace threaded(pool);
        Problem<TypeParam> q(size.m, size.n, size.k, order, true);
        ef::kernels::multiply(q.product(), threaded);
        ASSERT_TRUE(reference::same_bits(q.c, alone.c)) << lanes;
      }
    }
  }
}

TEST(MatrixProduct, SmallWorkNeverForks) {
  Backwards executor{7};
  ef::Workspace workspace(executor);
  Problem<float> p(1, 64, 64, Order::rows, true);
  ef::kernels::multiply(p.product(), workspace);
  EXPECT_EQ(executor.calls, 0);
}

TEST(MatrixProduct, FinishIsCalledOnceForEachElementWhenItIsComplete) {
  for (Index lanes : {1, 3}) {
    Backwards executor{lanes};
    ef::Workspace workspace(executor);
    for (Index m : {1, 7, 401}) {
      for (Index k : {Index{0}, Index{53}, ef::kernels::depth_block<float> + 1}) {
        Problem<float> plain(m, 41, k, Order::rows, true), doubled(m, 41, k, Order::rows, true);
        ef::kernels::multiply(plain.product(), workspace);
        ef::kernels::multiply(
            doubled.product(),
            [&](Index row, Index rows, Index column, Index columns) {
              for (Index r = row; r < row + rows; ++r) {
                for (Index c = column; c < column + columns; ++c) doubled.c(r, c) *= 2;
              }
            },
            workspace);
        for (Index r = 0; r < m; ++r) {
          for (Index c = 0; c < 41; ++c) ASSERT_EQ(doubled.c(r, c), 2 * plain.c(r, c));
        }
      }
    }
  }
}

TEST(MatrixProduct, NotANumberStaysInItsRowAndColumn) {
  ef::Workspace workspace;
  for (Order order : {Order::rows, Order::columns, Order::panels}) {
    Problem<float> p(13, 29, 17, order, false);
    p.a(7, 3) = std::numeric_limits<float>::quiet_NaN();
    (order == Order::columns ? p.b(5, 11) : p.b(11, 5)) = std::numeric_limits<float>::infinity();
    ef::kernels::multiply(p.product(), workspace);
    for (Index m = 0; m < p.m; ++m) {
      for (Index n = 0; n < p.n; ++n) {
        EXPECT_EQ(std::isfinite(p.c(m, n)), m != 7 && n != 11) << m << ", " << n;
      }
    }
  }
}

}  // namespace matrix_product_test
