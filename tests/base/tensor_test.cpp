// SPDX-License-Identifier: MIT
#include "eigenformer/base/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "eigenformer/base/rows_view.hpp"
#include "tests/reference/error_text.hpp"

namespace tensor_test {

namespace ef = eigenformer;
using ef::Index;
using ef::Tensor;
using ef::TensorView;

template <class T, int Rank>
Tensor<T, Rank> counting(const ef::Shape<Rank>& shape) {
  Tensor<T, Rank> x(shape);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(i);
  return x;
}

template <class F>
std::string text_of(F&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Tensor, StartsWithZeros) {
  // Dirty memory first, so that zeros can't come by luck.
  for (int round = 0; round < 3; ++round) {
    Tensor<float, 2> dirty({37, 41});
    std::fill(dirty.begin(), dirty.end(), 5.0f);
  }
  const Tensor<float, 2> x({37, 41});
  for (float value : x) ASSERT_EQ(value, 0.0f);
}

TEST(Tensor, IsRowMajor) {
  const Tensor<int, 3> x = counting<int, 3>({2, 3, 5});
  EXPECT_EQ(x(0, 0, 1), 1);
  EXPECT_EQ(x(0, 1, 0), 5);
  EXPECT_EQ(x(1, 0, 0), 15);
  EXPECT_EQ(x(1, 2, 4), 29);
  EXPECT_EQ(x.dim(1), 3);
  EXPECT_EQ(x.view().rows(), 6);
  EXPECT_EQ(x.view().columns(), 5);
}

TEST(Tensor, StorageIsAlignedTo64Bytes) {
  for (Index size : {1, 3, 17, 129, 1000}) {
    const Tensor<std::int8_t, 1> bytes({size});
    const Tensor<double, 1> doubles({size});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0u) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(doubles.data()) % 64, 0u) << size;
  }
}

TEST(Tensor, CopiesDeeply) {
  Tensor<float, 2> x = counting<float, 2>({3, 5});
  Tensor<float, 2> y(x);
  EXPECT_EQ(x, y);
  EXPECT_NE(x.data(), y.data());
  y(2, 4) = -1;
  EXPECT_EQ(x(2, 4), 14);
  EXPECT_NE(x, y);
}

TEST(Tensor, AssignmentOfAnEqualShapeKeepsTheMemory) {
  Tensor<float, 2> x({3, 5});
  const float* before = x.data();
  const Tensor<float, 2> y = counting<float, 2>({3, 5});
  x = y;
  EXPECT_EQ(x.data(), before);
  EXPECT_EQ(x, y);
}

TEST(Tensor, AssignmentOfAnotherShapeTakesIt) {
  Tensor<float, 2> x({3, 5});
  const Tensor<float, 2> y = counting<float, 2>({5, 3});  // as many elements, another shape
  x = y;
  EXPECT_EQ(x.shape(), (ef::Shape<2>{5, 3}));
  EXPECT_EQ(x, y);
  x = Tensor<float, 2>();
  EXPECT_TRUE(x.empty());
}

TEST(Tensor, SelfAssignmentChangesNothing) {
  Tensor<float, 2> x = counting<float, 2>({3, 5});
  const Tensor<float, 2> before = x;
  Tensor<float, 2>& same = x;
  x = same;
  EXPECT_EQ(x, before);
  x = std::move(same);
  EXPECT_EQ(x, before);
}

TEST(Tensor, MovedFromIsEmptyAndUsable) {
  Tensor<float, 2> x = counting<float, 2>({3, 5});
  const float* data = x.data();
  Tensor<float, 2> y = std::move(x);
  EXPECT_EQ(y.data(), data);
  EXPECT_EQ(x.shape(), (ef::Shape<2>{0, 0}));
  EXPECT_EQ(x.data(), nullptr);
  x = y;
  EXPECT_EQ(x, y);
}

TEST(Tensor, EqualityLooksAtTheShapeToo) {
  EXPECT_NE((Tensor<float, 2>({2, 3})), (Tensor<float, 2>({3, 2})));
  EXPECT_NE((Tensor<float, 2>({0, 3})), (Tensor<float, 2>({0, 2})));
  EXPECT_EQ((Tensor<float, 2>({0, 3})), (Tensor<float, 2>({0, 3})));
}

TEST(Tensor, ZeroExtentsAreTensors) {
  Tensor<float, 3> x({2, 0, 5});
  EXPECT_EQ(x.size(), 0);
  EXPECT_TRUE(x.empty());
  EXPECT_EQ(x.matrix().rows(), 0);
  EXPECT_EQ(x.matrix().cols(), 5);
  EXPECT_EQ(x.view().folded().shape(), (ef::Shape<2>{0, 5}));
  const Tensor<float, 3> copy = x;
  EXPECT_EQ(copy.shape(), x.shape());
  EXPECT_EQ((Tensor<float, 2>({3, 0}).matrix().rows()), 3);
}

TEST(Tensor, RefusesBadShapesBeforeItAllocates) {
  EXPECT_NE(text_of([] { Tensor<float, 2>({3, -1}); }).find("(3, -1)"), std::string::npos);
  EXPECT_NE(text_of([] {
              Tensor<float, 2>({Index{1} << 40, Index{1} << 40});
            }).find("(1099511627776, 1099511627776)"),
            std::string::npos);
  EXPECT_ERROR((Tensor<double, 1>({std::numeric_limits<Index>::max() / 4})), std::invalid_argument,
               "Tensor: too many elements to address; got (2305843009213693951)");
}

TEST(Tensor, LivesInContainers) {
  std::vector<Tensor<float, 1>> several;
  for (Index i = 0; i < 20; ++i) several.push_back(counting<float, 1>({i}));
  for (Index i = 0; i < 20; ++i) {
    EXPECT_EQ(several[static_cast<std::size_t>(i)], (counting<float, 1>({i})));
  }
  std::optional<Tensor<float, 1>> maybe;
  maybe.emplace(ef::Shape<1>{3});
  EXPECT_EQ(maybe->size(), 3);
}

TEST(Tensor, MapsToEigenWithoutCopying) {
  Tensor<float, 3> x = counting<float, 3>({2, 3, 5});
  EXPECT_EQ(x.matrix().rows(), 6);
  EXPECT_EQ(x.matrix().cols(), 5);
  EXPECT_EQ(x.matrix()(4, 2), x(1, 1, 2));
  x.matrix()(5, 4) = 100;
  EXPECT_EQ(x(1, 2, 4), 100);
  EXPECT_EQ(x.vector().size(), 30);
  const auto& constant = x;
  EXPECT_EQ(constant.matrix().data(), x.data());
}

TEST(TensorView, SeesSomeoneElsesMemoryOfAnyAlignment) {
  alignas(64) float memory[14] = {};
  for (int i = 0; i < 14; ++i) memory[i] = static_cast<float>(i);
  const TensorView<const float, 2> view(memory + 1, {3, 4});
  EXPECT_EQ(view(2, 3), 12);
  const Eigen::VectorXf sums = view.matrix().rowwise().sum();
  EXPECT_EQ(sums(0), 1 + 2 + 3 + 4);
  const TensorView<float, 2> writable(memory + 1, {3, 4});
  writable(0, 0) = 50;
  EXPECT_EQ(memory[1], 50);
  EXPECT_EQ(view(0, 0), 50);
}

TEST(TensorView, RefusesANullPointerWithElements) {
  EXPECT_ERROR((TensorView<float, 2>(nullptr, {2, 3})), std::invalid_argument,
               "TensorView: null pointer with shape (2, 3)");
  EXPECT_NO_THROW((TensorView<float, 2>(nullptr, {2, 0})));
}

TEST(TensorView, ReshapesAndIndexes) {
  Tensor<int, 3> x = counting<int, 3>({2, 3, 5});
  EXPECT_EQ(x.view()[1](2, 4), 29);
  EXPECT_EQ(x.view()[1][2](3), 28);
  EXPECT_EQ(x.view().reshaped<2>({10, 3})(9, 2), 29);
  const std::string text = text_of([&] { x.view().reshaped<2>({7, 5}); });
  EXPECT_NE(text.find("(2, 3, 5)"), std::string::npos) << text;
  EXPECT_NE(text.find("(7, 5)"), std::string::npos) << text;
}

TEST(TensorView, OfRowMajorEigenObjects) {
  ef::RowMajorMatrix<float> matrix(3, 5);
  matrix.setRandom();
  TensorView<float, 2> view(matrix);
  EXPECT_EQ(view.data(), matrix.data());
  EXPECT_EQ(view.shape(), (ef::Shape<2>{3, 5}));
  view(2, 4) = 9;
  EXPECT_EQ(matrix(2, 4), 9);

  const ef::RowMajorMatrix<float>& constant = matrix;
  EXPECT_EQ((TensorView<const float, 2>(constant)(2, 4)), 9);
  EXPECT_FALSE((std::is_constructible_v<TensorView<float, 2>, decltype(constant)>));

  auto rows = matrix.topRows(2);
  EXPECT_EQ((TensorView<float, 2>(rows).shape()), (ef::Shape<2>{2, 5}));
  auto columns = matrix.leftCols(2);
  EXPECT_ERROR((TensorView<float, 2>(columns)), std::invalid_argument,
               "TensorView: the Eigen object must be contiguous; its rows have");
}

TEST(RowsView, FoldsLeadingAxesAndKeepsTheShapeForMessages) {
  Tensor<float, 3> x({2, 3, 5});
  const ef::RowsView<const float> rows(x);
  EXPECT_EQ(rows.rows(), 6);
  EXPECT_EQ(rows.columns(), 5);
  EXPECT_EQ(to_string(rows), "(2, 3, 5)");
  EXPECT_EQ(rows.shape_text(7), "(2, 3, 7)");
  EXPECT_EQ(rows.view().shape(), (ef::Shape<2>{6, 5}));

  Tensor<float, 1> single({5});
  EXPECT_EQ(ef::RowsView<float>(single).rows(), 1);
}

TEST(RowsView, RequireRowsNamesBothShapes) {
  Tensor<float, 3> x({2, 3, 5}), y({2, 3, 7}), folded_differently({3, 2, 7});
  const auto check = [&](Index inputs, Tensor<float, 3>& to, Index outputs) {
    return text_of([&] {
      ef::require_rows<float>("here", ef::RowsView<const float>(x), inputs, ef::RowsView<float>(to),
                              outputs);
    });
  };
  EXPECT_EQ(check(5, y, 7), "nothing thrown");
  for (const std::string& text :
       {check(6, y, 7), check(5, y, 8), check(5, folded_differently, 7)}) {
    EXPECT_NE(text.find("here"), std::string::npos) << text;
  }
  EXPECT_NE(check(6, y, 7).find("(2, 3, 6)"), std::string::npos);
  EXPECT_NE(check(6, y, 7).find("(2, 3, 5)"), std::string::npos);
  EXPECT_NE(check(5, folded_differently, 7).find("(3, 2, 7)"), std::string::npos);
  EXPECT_NE(check(5, folded_differently, 7).find("(2, 3, 7)"), std::string::npos);
}

TEST(RowsView, RequireDisjointFindsEveryOverlap) {
  float memory[20] = {};
  const auto view = [&](Index first, Index size) {
    return TensorView<float, 1>(memory + first, {size});
  };
  const auto disjoint = [](auto a, auto b) {
    return text_of([&] { ef::require_disjoint("here", {a}, {b}); }) == "nothing thrown";
  };
  EXPECT_TRUE(disjoint(view(0, 5), view(5, 5)));
  EXPECT_TRUE(disjoint(view(5, 5), view(0, 5)));
  EXPECT_FALSE(disjoint(view(0, 5), view(4, 5)));
  EXPECT_FALSE(disjoint(view(4, 5), view(0, 5)));
  EXPECT_FALSE(disjoint(view(0, 20), view(7, 1)));
  EXPECT_FALSE(disjoint(view(3, 4), view(3, 4)));
  EXPECT_TRUE(disjoint(view(3, 0), view(0, 20))) << "nothing overlaps with no elements";
}

TEST(TensorFrom, BracesOfEveryRank) {
  const auto vector = Tensor<float, 1>::from({1, 2, 3});
  EXPECT_EQ(vector.shape(), ef::Shape<1>{3});
  const auto ids = Tensor<std::int32_t, 2>::from({{1, 17, 4}, {1, 9, 2}});
  EXPECT_EQ(ids.shape(), (ef::Shape<2>{2, 3}));
  EXPECT_EQ(ids(1, 1), 9);
  const auto cube = Tensor<double, 3>::from({{{1, 2}}, {{3, 4}}, {{5, 6}}});
  EXPECT_EQ(cube.shape(), (ef::Shape<3>{3, 1, 2}));
  EXPECT_EQ(cube(2, 0, 1), 6);
  const auto four = Tensor<float, 4>::from({{{{1, 2}, {3, 4}}}});
  EXPECT_EQ(four.shape(), (ef::Shape<4>{1, 1, 2, 2}));
  EXPECT_EQ(four(0, 0, 1, 0), 3);
}

TEST(TensorFrom, VectorsAndRanges) {
  const std::vector<std::vector<int>> nested = {{1, 2}, {3, 4}, {5, 6}};
  const auto rows = Tensor<std::int32_t, 2>::from(nested);
  EXPECT_EQ(rows.shape(), (ef::Shape<2>{3, 2}));
  EXPECT_EQ(rows(2, 0), 5);
  const std::list<double> flat = {1, 2, 3, 4, 5, 6};
  const auto shaped = Tensor<float, 2>::from(flat, {2, 3});
  EXPECT_EQ(shaped(1, 0), 4);
  EXPECT_EQ((Tensor<float, 2>::from(flat.begin(), flat.end(), {3, 2})(2, 1)), 6);
}

TEST(TensorFrom, RefusesWhatIsNoBox) {
  const auto ragged = text_of([] { Tensor<float, 2>::from({{1, 2}, {3}}); });
  EXPECT_NE(ragged.find("must hold 2 elements"), std::string::npos) << ragged;
  EXPECT_NE(ragged.find("got 1"), std::string::npos) << ragged;
  const std::vector<float> five(5);
  const auto few = text_of([&] { Tensor<float, 2>::from(five, {2, 3}); });
  EXPECT_NE(few.find("6 elements for shape (2, 3); got 5"), std::string::npos) << few;
  EXPECT_NE(text_of([&] {
              Tensor<float, 2>::from(five, {2, 2});
            }).find("got more"),
            std::string::npos);
}

}  // namespace tensor_test
