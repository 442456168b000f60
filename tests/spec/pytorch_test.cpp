// SPDX-License-Identifier: MIT

// PyTorch's functions and modules. The long lists of numbers are
// results of PyTorch 2.15 in double, with parameters 0.3 * RandomState(seed).randn in the order of
// the module's state_dict and inputs from the same stream. PyTorch's MultiheadAttention and encoder
// layers block where a mask is true; the library, like scaled_dot_product_attention, lets take part
// where it is true, so masks are inverted here.

#include "tests/reference/error_text.hpp"
#include "tests/spec/numpy_random.hpp"
#include "tests/spec/values.hpp"

namespace eigenformer {
namespace pytorch_test {

using values::expect_values;
using values::largest_difference;
using values::random;
using values::rows;

const double infinity = std::numeric_limits<double>::infinity();

// -------------------------------------------------------------------- scaled_dot_product_attention

// Values of another width than the keys, S other than T; the scale defaults to 1 / sqrt(D) and
// can be given.
TEST(PyTorch, ShapesAndScale) {
  const auto q = random<double>(Shape<4>{2, 3, 5, 7}, 1),
             k = random<double>(Shape<4>{2, 3, 11, 7}, 2),
             v = random<double>(Shape<4>{2, 3, 11, 13}, 3);
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).shape(), (Shape<4>{2, 3, 5, 13}));
  for (double scale : {0.0, 0.3, 2.0, -1.0}) {
    const auto expected =
        values::plain_attention(q, k, v, scale, values::everything_visible, values::no_bias);
    EXPECT_LT(largest_difference(scaled_dot_product_attention(q, k, v, {}, scale), expected.y),
              1e-13);
  }
  EXPECT_EQ(scaled_dot_product_attention(q, k, v),
            scaled_dot_product_attention(q, k, v, {}, 1 / std::sqrt(7.0)));
}

// A boolean mask says who takes part, a float mask is added; both broadcast to (B, H, T, S)
// from the right.
TEST(PyTorch, MasksOfEveryBroadcastableShape) {
  const auto q = random<double>(Shape<4>{2, 3, 5, 7}, 4),
             k = random<double>(Shape<4>{2, 3, 11, 7}, 5),
             v = random<double>(Shape<4>{2, 3, 11, 13}, 6);
  const auto check = [&]<int Rank>(const Shape<Rank>& shape) {
    const auto bias = random<double>(shape, 7);
    Tensor<bool, Rank> allowed(shape);
    for (Index i = 0; i < bias.size(); ++i) allowed.data()[i] = bias.data()[i] > -0.5;
    const auto element = [&](Index b, Index h, Index t, Index j) {  // offset of (b, h, t, j)
      const Index index[] = {b, h, t, j};
      Index offset = 0;
      for (int axis = 0; axis < Rank; ++axis)
        offset = offset * shape[axis] + (shape[axis] == 1 ? 0 : index[axis + 4 - Rank]);
      return offset;
    };
    const double scale = 1 / std::sqrt(7.0);
    const auto with_bias = values::plain_attention(
        q, k, v, scale, values::everything_visible,
        [&](Index b, Index h, Index t, Index j) { return bias.data()[element(b, h, t, j)]; });
    const auto with_allowed = values::plain_attention(
        q, k, v, scale,
        [&](Index b, Index h, Index t, Index j) { return allowed.data()[element(b, h, t, j)]; },
        values::no_bias);
    EXPECT_LT(
        largest_difference(scaled_dot_product_attention(q, k, v, {.bias = bias}), with_bias.y),
        1e-13)
        << to_string(shape);
    EXPECT_LT(largest_difference(scaled_dot_product_attention(q, k, v, {.allowed = allowed}),
                                 with_allowed.y),
              1e-13)
        << to_string(shape);
  };
  check(Shape<4>{2, 3, 5, 11});
  check(Shape<4>{1, 3, 5, 11});
  check(Shape<4>{2, 1, 5, 11});
  check(Shape<4>{2, 3, 1, 11});
  check(Shape<4>{2, 3, 5, 1});
  check(Shape<4>{2, 1, 1, 11});
  check(Shape<3>{3, 5, 11});
  check(Shape<3>{1, 5, 11});
  check(Shape<2>{5, 11});
  check(Shape<2>{1, 11});
  const Tensor<double, 2> wrong({5, 7});
  EXPECT_ERROR(scaled_dot_product_attention(q, k, v, {.bias = wrong}), std::invalid_argument,
               "scaled_dot_product_attention: mask.bias: shape must broadcast");
}

// Enable_gqa repeats each key/value head for H / K query heads in a row; K must divide H and be
// the same for keys and values.
TEST(PyTorch, GroupedHeadsAreRepeatedInterleaved) {
  const auto q = random<double>(Shape<4>{2, 6, 5, 7}, 8),
             k = random<double>(Shape<4>{2, 2, 11, 7}, 9),
             v = random<double>(Shape<4>{2, 2, 11, 3}, 10);
  Tensor<double, 4> all_k({2, 6, 11, 7}), all_v({2, 6, 11, 3});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 6; ++h)
      for (Index j = 0; j < 11; ++j) {
        for (Index d = 0; d < 7; ++d) all_k(b, h, j, d) = k(b, h / 3, j, d);
        for (Index e = 0; e < 3; ++e) all_v(b, h, j, e) = v(b, h / 3, j, e);
      }
  EXPECT_EQ(scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, all_k, all_v));
  EXPECT_ERROR(scaled_dot_product_attention(random<double>(Shape<4>{2, 5, 5, 7}, 8), k, v),
               std::invalid_argument,
               "scaled_dot_product_attention: the heads of k and v must divide");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, random<double>(Shape<4>{2, 3, 11, 3}, 10)),
               std::invalid_argument,
               "scaled_dot_product_attention: v: shape must be (2, 2, 11, 3);");
}

// A row of -infinity alone gives zeros, as in PyTorch from 2.5 on.
TEST(PyTorch, FullyMaskedRowIsZero) {
  const auto q = random<double>(Shape<4>{1, 2, 3, 5}, 11);
  Tensor<double, 2> bias({3, 3});
  for (Index j = 0; j < 3; ++j) bias(1, j) = -infinity;
  Tensor<double, 4> weights;
  const auto y = scaled_dot_product_attention(q, q, q, {.bias = bias}, {}, &weights);
  const auto unmasked = scaled_dot_product_attention(q, q, q);
  for (Index h = 0; h < 2; ++h)
    for (Index t = 0; t < 3; ++t)
      for (Index d = 0; d < 5; ++d) EXPECT_EQ(y(0, h, t, d), t == 1 ? 0.0 : unmasked(0, h, t, d));
  for (Index j = 0; j < 3; ++j) EXPECT_EQ(weights(0, 0, 1, j), 0.0);
}

// PyTorch multiplies NaN in a masked key or value by zero and gets NaN; here it stays outside.
TEST(PyTorch, NanInMaskedKeysAndValuesStaysOutside) {
  const auto q = random<double>(Shape<4>{1, 2, 3, 5}, 12);
  auto k = random<double>(Shape<4>{1, 2, 7, 5}, 13), v = random<double>(Shape<4>{1, 2, 7, 5}, 14);
  const std::vector<int> lengths{4};
  const auto clean = scaled_dot_product_attention(q, k, v, {.key_lengths = lengths});
  for (Index h = 0; h < 2; ++h)
    for (Index j = 4; j < 7; ++j)
      for (Index d = 0; d < 5; ++d)
        k(0, h, j, d) = v(0, h, j, d) = d % 2 == 0 ? std::nan("") : infinity;
  EXPECT_EQ(scaled_dot_product_attention(q, k, v, {.key_lengths = lengths}), clean);
}

// Is_causal aligns the triangle at the top left; decoding with a cache wants it at the bottom
// right, which is query_offset S - T.
TEST(PyTorch, CausalAlignment) {
  const auto pattern = [](Index queries, Index keys, Index offset) {
    Tensor<double, 4> weights;
    const Tensor<double, 4> q({1, 1, queries, 2}), k({1, 1, keys, 2});
    scaled_dot_product_attention(q, k, k, {.causal = true, .query_offset = offset}, {}, &weights);
    std::string text;
    for (Index t = 0; t < queries; ++t) {
      for (Index j = 0; j < keys; ++j) text += weights(0, 0, t, j) > 0 ? '1' : '0';
      text += ' ';
    }
    return text;
  };
  EXPECT_EQ(pattern(3, 4, 0), "1000 1100 1110 ");
  EXPECT_EQ(pattern(3, 4, 1), "1100 1110 1111 ");
  EXPECT_EQ(pattern(4, 3, 0), "100 110 111 111 ");
  EXPECT_EQ(pattern(4, 3, -1), "000 100 110 111 ") << "the first T - S rows see nothing";

  // A cache aligns at the bottom right by itself: of S tokens, the last T are new. Keys are 0, so
  // that the result is the mean of the values seen; value j is 1 << j.
  const auto of_cache = [](Index queries, Index keys) {
    MultiHeadAttention<double> attention({.hidden_size = 1, .num_attention_heads = 1});
    values::set_identity(attention.value);
    values::set_identity(attention.output);
    auto cache = attention.make_cache(1, keys);
    Workspace workspace;
    const auto append = [&](Index begin, Index end) {
      Tensor<double, 3> x({1, end - begin, 1}), y(x.shape());
      for (Index t = begin; t < end; ++t) x(0, t - begin, 0) = static_cast<double>(Index{1} << t);
      attention.forward(x, cache, {.causal = true}, y, workspace);
      return y;
    };
    append(0, keys - queries);
    const auto y = append(keys - queries, keys);
    std::string text;
    for (Index t = 0; t < queries; ++t) {
      const Index seen = keys - queries + t + 1;
      const auto sum = static_cast<Index>(std::lround(y(0, t, 0) * static_cast<double>(seen)));
      for (Index j = 0; j < keys; ++j) text += (sum >> j & 1) == 1 ? '1' : '0';
      text += ' ';
    }
    return text;
  };
  EXPECT_EQ(of_cache(3, 4), "1100 1110 1111 ");
  EXPECT_EQ(of_cache(1, 4), "1111 ");
  EXPECT_EQ(of_cache(4, 4), "1000 1100 1110 1111 ");
}

// ------------------------------------------------------------------------------ MultiheadAttention

/// 0.3 * randn for each of the tensors, in order.
template <class... Parameters>
void fill(NumpyRandom& numpy, Parameters&... parameters) {
  ((parameters = numpy.randn<double>(parameters.shape(), .3)), ...);
}

/// in_proj_weight (3E, E), in_proj_bias (3E), out_proj.weight, out_proj.bias: rows of in_proj are
/// query, key, value.
void fill_attention(NumpyRandom& numpy, MultiHeadAttention<double>& a) {
  fill(numpy, a.query.weight, a.key.weight, a.value.weight, a.query.bias, a.key.bias, a.value.bias,
       a.output.weight, a.output.bias);
}

// Attention mask and padding mask block what either blocks; weights averaged over heads; a
// float mask is added.
TEST(PyTorch, MultiheadAttention) {
  MultiHeadAttention<double> attention({.hidden_size = 6, .num_attention_heads = 3});
  NumpyRandom numpy(1);
  fill_attention(numpy, attention);
  const auto x = numpy.randn<double>(Shape<3>{2, 4, 6}),
             memory = numpy.randn<double>(Shape<3>{2, 5, 6});
  Tensor<bool, 2> blocked({4, 5}), allowed({4, 5});
  for (Index t = 0; t < 4; ++t)
    for (Index j = 0; j < 5; ++j) blocked(t, j) = (t + 2 * j) % 5 == 1;
  for (Index i = 0; i < 20; ++i) allowed.data()[i] = !blocked.data()[i];
  const Tensor<bool, 2> keep = values::tensor<bool>(Shape<2>{2, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  const Mask<double> mask{.key_allowed = keep, .allowed = allowed};
  expect_values(attention(x, memory, mask),
                {.0907156364,  -.2751199605, .1548026185, .1487119794, .9619994782,  -.1833253882,
                 .0262474573,  -.2090154347, .1738542302, .1308437827, 1.0076788589, -.1727366080,
                 -.1442542277, -.1848055601, .0571238280, .0947607588, 1.1229709847, -.2137610207,
                 -.1322486403, -.1278389968, .0736002170, .0908242915, 1.0763303417, -.1774310676,
                 .6657248146,  -.7906491900, .2567283123, .2706699142, .4797758158,  -.2259541561,
                 .3092214093,  -.6578791109, .1759040476, .1637497586, .6494696170,  -.1101417763,
                 .5524252487,  -.6607465600, .0662688482, .0730338966, .6522577497,  .0672929552,
                 .5837344787,  -.7745203782, .1268432463, .1962703095, .8272808921,  -.1707611755},
                1e-9);

  const auto weights = attention.attention_weights(x, memory, mask);
  Tensor<double, 3> averaged({2, 4, 5});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index t = 0; t < 4; ++t)
        for (Index j = 0; j < 5; ++j) averaged(b, t, j) += weights(b, h, t, j) / 3;
  expect_values(
      averaged,
      {.2238730894, .1590844083, .4805471870, .0000000000, .1364953153, .0000000000, .2137541472,
       .3030851667, .2368674140, .2462932721, .2161763889, .3182689677, .0000000000, .2808976000,
       .1846570435, .2522331388, .2194161236, .3324520672, .1958986705, .0000000000, .1766271251,
       .6265433588, .1968295161, .0000000000, .0000000000, .0000000000, .4759173575, .5240826425,
       .0000000000, .0000000000, .6621579873, .3378420127, .0000000000, .0000000000, .0000000000,
       .3136615329, .2700641841, .4162742830, .0000000000, .0000000000},
      1e-9);

  const auto bias = numpy.randn<double>(Shape<2>{4, 5});
  const auto y = attention(x, memory, {.bias = bias});
  expect_values(Tensor<double, 2>(y.view()[0]),
                {-.0345497402, -.2530135237, .2252091214, .1928336330, 1.0435102134, -.2645076587,
                 .0361534214,  -.1662940478, .1347082739, .1029544523, .9787283932,  -.1316947734,
                 -.2118103513, -.1354937991, .0496108371, .0849854219, 1.1322362606, -.2126206508,
                 -.1186086640, -.2148701629, .1066872768, .1295792546, 1.0923590539, -.2306803020},
                1e-9);
}

// A mask (B h, T, S) holds batch row n, head i at n h + i, which is (B, h, T, S) in memory.
TEST(PyTorch, MaskForEachHead) {
  MultiHeadAttention<double> attention({.hidden_size = 6, .num_attention_heads = 3});
  NumpyRandom numpy(7);
  fill_attention(numpy, attention);
  const auto x = numpy.randn<double>(Shape<3>{2, 5, 6});
  Tensor<bool, 3> blocked({2 * 3, 5, 5});
  for (Index i = 0; i < blocked.size(); ++i) blocked.data()[i] = numpy.integer(0, 3) == 0;
  Tensor<bool, 4> allowed({2, 3, 5, 5});
  for (Index i = 0; i < blocked.size(); ++i) allowed.data()[i] = !blocked.data()[i];
  const auto weights = attention.attention_weights(x, x, {.allowed = allowed});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index t = 0; t < 5; ++t)
        for (Index j = 0; j < 5; ++j) EXPECT_EQ(weights(b, h, t, j) == 0, blocked(b * 3 + h, t, j));
}

// Kdim and vdim, widths of their own for the inputs of keys and values.
TEST(PyTorch, KeysAndValuesOfOtherWidths) {
  MultiHeadAttention<double> attention(
      {.hidden_size = 6, .num_attention_heads = 2, .key_value_size = 5, .value_size = 3});
  NumpyRandom numpy(2);
  fill_attention(numpy, attention);
  const auto q = numpy.randn<double>(Shape<3>{2, 2, 6}), k = numpy.randn<double>(Shape<3>{2, 4, 5}),
             v = numpy.randn<double>(Shape<3>{2, 4, 3});
  expect_values(attention(q, k, v),
                {-.3861671785, .1439639732, .1326286185,  -.3112915979, .3408627902, -1.2014942560,
                 -.5741333154, .1802011503, .0708400703,  -.3614042003, .4530208027, -1.2146807883,
                 -.8617722512, .2386311196, -.4209408160, -.0623505804, .1537985581, -.7726692495,
                 -.7040395430, .2065660035, -.3405468987, -.0580270793, .1319185954, -.8137729281},
                1e-9);
}

// Add_bias_kv appends a learned key and value, add_zero_attn a zero key and value, after the
// projections.
TEST(PyTorch, AppendedKeysAndValues) {
  const LinearConfig square{.in_features = 6, .out_features = 6};
  Linear<double> query(square), key(square), value(square), output(square);
  Tensor<double, 1> bias_k({6}), bias_v({6});
  NumpyRandom numpy(3);
  fill(numpy, query.weight, key.weight, value.weight, query.bias, key.bias, value.bias, bias_k,
       bias_v, output.weight, output.bias);
  const auto x = numpy.randn<double>(Shape<3>{2, 2, 6}),
             memory = numpy.randn<double>(Shape<3>{2, 3, 6});

  const auto heads_of = [](const Tensor<double, 3>& projected, const Tensor<double, 1>* appended) {
    const Index tokens = projected.dim(1) + (appended == nullptr ? 0 : 2);
    Tensor<double, 4> heads({2, 2, tokens, 3});
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 2; ++h)
        for (Index d = 0; d < 3; ++d) {
          for (Index t = 0; t < projected.dim(1); ++t)
            heads(b, h, t, d) = projected(b, t, h * 3 + d);
          if (appended != nullptr) heads(b, h, projected.dim(1), d) = (*appended)(h * 3 + d);
        }
    return heads;
  };
  const auto y =
      scaled_dot_product_attention(heads_of(query(x), nullptr), heads_of(key(memory), &bias_k),
                                   heads_of(value(memory), &bias_v));
  Tensor<double, 3> concatenated({2, 2, 6});
  for (Index b = 0; b < 2; ++b)
    for (Index t = 0; t < 2; ++t)
      for (Index c = 0; c < 6; ++c) concatenated(b, t, c) = y(b, c / 3, t, c % 3);
  expect_values(output(concatenated),
                {-.1202783155, -.3626403971, -.4036997396, -.2941734526, .3130838744, .1154223399,
                 -.1362895126, -.3335235427, -.4096448027, -.3335589273, .2491725456, .0786482319,
                 .0727504179,  -.2958636812, -.6122312010, -.3678538731, .7759163411, .3213180997,
                 .1175335992,  -.3535970694, -.5906814594, -.2620894809, .8228952262, .2854970487},
                1e-9);
}

// ----------------------------------------------------- TransformerEncoderLayer, TransformerEncoder

void fill_layer(NumpyRandom& numpy, EncoderLayer<double>& layer) {
  fill_attention(numpy, layer.attention);
  auto& mlp = layer.feed_forward;
  fill(numpy, mlp.linear_1.weight, mlp.linear_1.bias, mlp.linear_2.weight, mlp.linear_2.bias,
       layer.attention_norm.weight, layer.attention_norm.bias, layer.feed_forward_norm.weight,
       layer.feed_forward_norm.bias);
}

TEST(PyTorch, EncoderLayerPostNormWithReLU) {
  EXPECT_EQ(count_parameters(EncoderLayer<ShapeOnly>(
                {.hidden_size = 512, .num_attention_heads = 8, .intermediate_size = 2048})),
            3152384);
  EncoderLayer<double> layer({.hidden_size = 6,
                              .num_attention_heads = 2,
                              .intermediate_size = 7,
                              .activation = Activation::relu});
  NumpyRandom numpy(4);
  fill_layer(numpy, layer);
  const auto x = numpy.randn<double>(Shape<3>{2, 3, 6});
  expect_values(layer(x, {.key_lengths = std::vector<int>{3, 2}}),
                {.8634030263,  -.2362244684, .1161341888, .8612183234, .2517821909,  -1.1669906212,
                 1.1050258712, -.2346760263, .1530043108, .7918130434, -.1148536755, -.9969620464,
                 1.0239142554, -.2357940401, .1594066070, .8388309950, .0632066010,  -1.0574593858,
                 1.0638349132, -.2435938644, .1298872883, .9018018105, -.1101578552, -1.0140173349,
                 1.0004265544, -.2352551553, .0986893077, .8426805404, .0871490014,  -1.1715526927,
                 1.0537000464, -.2385160357, .2207193565, .8320158558, -.0706624499, -.8629591103},
                1e-9);
}

TEST(PyTorch, EncoderLayerPreNormWithGELU) {
  EncoderLayer<double> layer({.hidden_size = 6,
                              .num_attention_heads = 2,
                              .intermediate_size = 7,
                              .norm_placement = NormPlacement::pre});
  NumpyRandom numpy(5);
  fill_layer(numpy, layer);
  const auto x = numpy.randn<double>(Shape<3>{2, 3, 6});
  expect_values(
      layer(x, {.key_lengths = std::vector<int>{3, 2}}),
      {1.1423967643,  -1.0218809153, -1.2334486167, -1.0540026322, -1.3506226480, 1.6853051260,
       -.4743116327,  .7777273544,   -.9283644286,  .5404508480,   -.8891097947,  1.0019393692,
       2.6111299779,  .5229898218,   -.1808857523,  -.2006196287,  .7100332795,   1.8979589965,
       -1.7864970074, -1.5888729359, 1.4399647612,  .8327759855,   -.2203122177,  1.0619302720,
       1.0915268512,  .5835412035,   -.9394668898,  2.4613963291,  -.3376805639,  -.4316676062,
       -.6664947101,  -.3156075397,  -1.0821913635, .2654670252,   .0423248672,   -2.7888757806},
      1e-9);
}

// A stack with a final norm. PyTorch's layers start as copies of one layer; here `init` gives
// each its own numbers.
TEST(PyTorch, EncoderWithFinalNorm) {
  EncoderStack<double> stack({.hidden_size = 6,
                              .num_hidden_layers = 2,
                              .num_attention_heads = 2,
                              .intermediate_size = 7,
                              .activation = Activation::relu,
                              .final_norm = true});
  NumpyRandom numpy(6);
  for (auto& layer : stack.layers) fill_layer(numpy, layer);
  fill(numpy, stack.final_norm->weight, stack.final_norm->bias);
  expect_values(stack(numpy.randn<double>(Shape<3>{1, 3, 6})),
                {.5308258752, -.4405362091, .0505144021, .4977854261, -.0478757126, .0961893128,
                 .5302857125, -.4416276395, .0426304604, .5095357610, -.0424154142, .0960259623,
                 .5310847956, -.4411485950, .0486340357, .5044861319, -.0449950471, .0961229991},
                1e-9);

  init(stack, Key{8});
  EXPECT_FALSE(parameters_equal(stack.layers[0], stack.layers[1]));
  EXPECT_TRUE(parameters_equal(stack.layers[0].attention_norm, stack.layers[1].attention_norm));
}

TEST(PyTorch, ParameterNamesOfAStack) {
  const EncoderStack<ShapeOnly> stack({.hidden_size = 6,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 2,
                                       .intermediate_size = 7,
                                       .final_norm = true});
  std::vector<std::string> names;
  for_each_parameter(stack, [&](const std::string& name, const auto&) { names.push_back(name); });
  ASSERT_EQ(names.size(), 2 * 16 + 2u);
  EXPECT_EQ(names.front(), "layers.0.attention_norm.weight");
  EXPECT_EQ(names[16], "layers.1.attention_norm.weight");
  EXPECT_EQ(names.back(), "final_norm.bias");
}

// ---------------------------------------- TransformerDecoderLayer, TransformerDecoder, Transformer

void fill_layer(NumpyRandom& numpy, DecoderLayer<double>& layer) {
  fill_attention(numpy, layer.self_attention);
  fill_attention(numpy, *layer.cross_attention);
  auto& mlp = layer.feed_forward;
  fill(numpy, mlp.linear_1.weight, mlp.linear_1.bias, mlp.linear_2.weight, mlp.linear_2.bias,
       layer.self_attention_norm.weight, layer.self_attention_norm.bias,
       layer.cross_attention_norm->weight, layer.cross_attention_norm->bias,
       layer.feed_forward_norm.weight, layer.feed_forward_norm.bias);
}

TransformerConfig decoder_layer_config(NormPlacement placement, Activation activation) {
  return {.hidden_size = 6,
          .num_attention_heads = 2,
          .intermediate_size = 7,
          .cross_attention = true,
          .activation = activation,
          .norm_placement = placement};
}

// Padding in the target and in the memory, of another length.
TEST(PyTorch, DecoderLayerPostNormWithReLU) {
  EXPECT_EQ(count_parameters(DecoderLayer<ShapeOnly>({.hidden_size = 512,
                                                      .num_attention_heads = 8,
                                                      .intermediate_size = 2048,
                                                      .cross_attention = true})),
            4204032);
  DecoderLayer<double> layer(decoder_layer_config(NormPlacement::post, Activation::relu));
  NumpyRandom numpy(11);
  fill_layer(numpy, layer);
  const auto x = numpy.randn<double>(Shape<3>{2, 3, 6}),
             memory = numpy.randn<double>(Shape<3>{2, 5, 6});
  const std::vector<int> target{3, 2}, source{5, 3};
  expect_values(layer(x, memory, {.key_lengths = target}, {.key_lengths = source}),
                {.1497796761, -.4614150318, -.9716327867, .0073861639,  .7764526939, -.0311186419,
                 .1495529348, -.4193616728, -.9180491990, .0151030652,  .7698471537, -.0303479656,
                 .1439831038, -.6640079610, -.7928751437, -.0307323584, .8490676691, -.0200100444,
                 .1434440178, -.6096454668, -.7167087865, -.0177572093, .8372424876, -.0182475371,
                 .1430201387, -.6695742321, -.6989843039, -.0301480284, .8360156387, -.0131552627,
                 .1416399178, -.7730653543, -.5930802385, -.0636612146, .8341509815, -.0085635488},
                1e-9);
}

TEST(PyTorch, DecoderLayerPreNormWithGELU) {
  DecoderLayer<double> layer(decoder_layer_config(NormPlacement::pre, Activation::gelu));
  NumpyRandom numpy(12);
  fill_layer(numpy, layer);
  const auto x = numpy.randn<double>(Shape<3>{2, 3, 6}),
             memory = numpy.randn<double>(Shape<3>{2, 5, 6});
  const std::vector<int> target{3, 2}, source{5, 3};
  expect_values(
      layer(x, memory, {.key_lengths = target}, {.key_lengths = source}),
      {.7220774524,  -1.3722268542, -.5917179889,  2.0874775535, .4303662789,   -1.8865851646,
       .1536710501,  -2.0136767078, .0225360699,   .9116756066,  .2650841640,   -1.8791943753,
       .4950895643,  -.8673670028,  .3705209308,   .8841589509,  -1.9160437474, -.5591841159,
       -.5038947440, -.8320818529,  .1412873695,   .4484049203,  -.1573958152,  .4743660534,
       -.0997663461, -.4577066240,  1.6438750027,  3.7872984139, 1.6161821766,  -1.5111806273,
       -.1569424868, -2.5795704784, -1.4473805126, 2.0582005940, .4371427772,   -2.5890978452},
      1e-9);
}

// Self-attention, attention to the memory, network, in this order; before each branch its input
// is normalised, the memory is not.
TEST(PyTorch, OrderOfBranchesAndNorms) {
  DecoderLayer<double> layer(decoder_layer_config(NormPlacement::pre, Activation::gelu));
  values::randomize(layer, 16);
  const auto x = random<double>(Shape<3>{2, 3, 6}, 17),
             memory = random<double>(Shape<3>{2, 5, 6}, 18);
  const auto h =
      values::sum(x, layer.self_attention(layer.self_attention_norm(x), {.causal = true}));
  const auto g = values::sum(h, (*layer.cross_attention)((*layer.cross_attention_norm)(h), memory));
  const auto expected = values::sum(g, layer.feed_forward(layer.feed_forward_norm(g)));
  EXPECT_LT(largest_difference(layer(x, memory), expected), 1e-14);

  Tensor<double, 3> scaled(memory);
  scaled.vector() *= 3.0;
  EXPECT_GT(largest_difference(layer(x, scaled), expected), 1e-2) << "a norm would hide the factor";
}

TEST(PyTorch, ParameterNamesOfALayer) {
  const DecoderLayer<ShapeOnly> layer(decoder_layer_config(NormPlacement::post, Activation::relu));
  std::vector<std::string> modules;
  Index parameters = 0;
  for_each_parameter(layer, [&](const std::string& name, const auto&) {
    ++parameters;
    const std::string module = name.substr(0, name.find('.'));
    if (modules.empty() || modules.back() != module) modules.push_back(module);
  });
  EXPECT_EQ(modules, (std::vector<std::string>{"self_attention_norm", "self_attention",
                                               "cross_attention_norm", "cross_attention",
                                               "feed_forward_norm", "feed_forward"}));
  EXPECT_EQ(parameters, 2 * 8 + 4 + 6);
}

// A stack with a final norm. PyTorch's tgt_is_causal is only a hint, a mask must be passed;
// here the stack is causal without one, and a mask as PyTorch makes it changes no bit.
TEST(PyTorch, DecoderWithFinalNorm) {
  DecoderStack<double> stack({.hidden_size = 6,
                              .num_hidden_layers = 2,
                              .num_attention_heads = 2,
                              .intermediate_size = 7,
                              .cross_attention = true,
                              .activation = Activation::relu,
                              .final_norm = true});
  NumpyRandom numpy(13);
  for (auto& layer : stack.layers) fill_layer(numpy, layer);
  fill(numpy, stack.final_norm->weight, stack.final_norm->bias);
  const auto x = numpy.randn<double>(Shape<3>{1, 3, 6}),
             memory = numpy.randn<double>(Shape<3>{1, 5, 6});
  const auto y = stack(x, memory);
  expect_values(y,
                {.1955144565, .3829383830, -.1297312364, -.3694653529, .4851141961, .0198788512,
                 .1955395576, .3867762576, -.1249140740, -.3734501554, .4984137555, .0212704460,
                 .1934842863, .3874366442, -.1275526148, -.3692173078, .5040325877, .0211107057},
                1e-9);
  const auto square_subsequent_mask =
      rows<double>({{0, -infinity, -infinity}, {0, 0, -infinity}, {0, 0, 0}});
  EXPECT_EQ(stack(x, memory, {.bias = square_subsequent_mask}), y);
  EXPECT_EQ(stack(x, memory, {.causal = false}), y);

  // Without the norm: the layers alone.
  DecoderStack<double> without(stack);
  without.final_norm.reset();
  without.config.final_norm = false;
  EXPECT_EQ((*stack.final_norm)(without(x, memory)), y);
  EXPECT_EQ(without(x, memory), stack.layers[1](stack.layers[0](x, memory), memory));
  EXPECT_FALSE(DecoderStack<double>({.hidden_size = 6, .intermediate_size = 7}).final_norm);

  init(stack, Key{19});  // PyTorch's layers start as copies of one layer
  EXPECT_FALSE(parameters_equal(stack.layers[0], stack.layers[1]));
}

EncoderDecoderConfig transformer_config(NormPlacement placement, Index hidden, Index heads,
                                        Index encoder_layers, Index decoder_layers,
                                        Index intermediate) {
  return {.encoder = {.hidden_size = hidden,
                      .num_hidden_layers = encoder_layers,
                      .num_attention_heads = heads,
                      .intermediate_size = intermediate,
                      .activation = Activation::relu,
                      .norm_placement = placement,
                      .final_norm = true},
          .decoder = {.hidden_size = hidden,
                      .num_hidden_layers = decoder_layers,
                      .num_attention_heads = heads,
                      .intermediate_size = intermediate,
                      .activation = Activation::relu,
                      .norm_placement = placement,
                      .final_norm = true}};
}

// Nn.Transformer(512, 8, 6, 6, 2048): a final norm in each half, although post-norm; no
// embeddings and no positions.
TEST(PyTorch, TransformerHas44140544Parameters) {
  const TransformerStack<ShapeOnly> model(
      transformer_config(NormPlacement::post, 512, 8, 6, 6, 2048));
  EXPECT_EQ(count_parameters(model), 44140544);
  EXPECT_EQ(count_parameters(model.encoder.layers[0]), 3152384);
  EXPECT_EQ(count_parameters(model.decoder.layers[0]), 4204032);
  EXPECT_EQ(count_parameters(*model.encoder.final_norm), 1024);
  EXPECT_EQ(count_parameters(*model.decoder.final_norm), 1024);
  for_each_parameter(model, [](const std::string& name, const auto&) {
    EXPECT_EQ(name.find("embedding"), std::string::npos) << name;
  });
}

TEST(PyTorch, TransformerOfEitherPlacement) {
  const auto check = [](NormPlacement placement, unsigned seed,
                        const std::vector<double>& expected) {
    TransformerStack<double> model(transformer_config(placement, 6, 2, 2, 1, 7));
    NumpyRandom numpy(seed);
    for (auto& layer : model.encoder.layers) fill_layer(numpy, layer);
    fill(numpy, model.encoder.final_norm->weight, model.encoder.final_norm->bias);
    for (auto& layer : model.decoder.layers) fill_layer(numpy, layer);
    fill(numpy, model.decoder.final_norm->weight, model.decoder.final_norm->bias);
    const auto source = numpy.randn<double>(Shape<3>{2, 4, 6}),
               target = numpy.randn<double>(Shape<3>{2, 3, 6});
    const std::vector<int> lengths{4, 2};
    const auto y = model(source, target,
                         {.source = {.key_lengths = lengths}, .memory = {.key_lengths = lengths}});
    expect_values(y, expected, 1e-9);
    const auto memory = model.encoder(source, {.key_lengths = lengths});
    EXPECT_EQ(model.decoder(target, memory, {}, {.key_lengths = lengths}), y);
  };
  check(NormPlacement::post, 14,
        {-.2158929906, 1.0617724106, .3685358330, .1060713207,  .2926367970, -.2589684533,
         -.3242487429, .8003421897,  .2085823007, .0228464347,  .3045581614, -.2758204265,
         -.2682866187, 1.1217486423, .3034742733, .0633809828,  .2066945562, -.2588425859,
         -.3346182744, .8644245619,  .1925308865, -.0069913709, .2252548712, -.2692581976,
         -.3339976419, .9829237776,  .1920030979, -.0023498282, .1605542498, -.2648882232,
         -.2779480051, 1.1433599564, .2824382821, .0321135878,  .1588372208, -.2646896490});
  check(NormPlacement::pre, 15,
        {.0644626085,  -.1160424407, .0109773615,  .2296902158, .3071766515,  -1.0091711910,
         -.7071852017, -.2341667555, -.1318416700, .2396007860, .1923870931,  -.0238602336,
         .7178751988,  .0836248526,  .1006086404,  .2363325008, -.4532171417, -.1330473759,
         .1221993827,  -.0361724645, .1160976411,  .2447196741, -.2359470531, .5527937440,
         .1520851558,  .1030850532,  .0745718875,  .2517328426, .0863939880,  -.2009230830,
         .6434329570,  -.1501492651, .2710209237,  .2250582878, -.3520335997, .3514943071});
}

// Every matrix is initialized from the Glorot uniform distribution, for the matrix as it is
// here; PyTorch initializes query, key and value as one matrix (3 E, E), with a narrower bound.
TEST(PyTorch, EveryMatrixIsDrawnFromTheGlorotUniformDistribution) {
  TransformerStack<double> model(transformer_config(NormPlacement::post, 24, 3, 2, 2, 37));
  init(model, Key{20});
  Index matrices = 0;
  for_each_parameter(model, [&](const std::string& name, const auto& parameter) {
    const Eigen::ArrayXd x = parameter.vector();
    if constexpr (std::remove_reference_t<decltype(parameter)>::rank == 2) {
      ++matrices;
      const double bound =
          std::sqrt(6.0 / static_cast<double>(parameter.dim(0) + parameter.dim(1)));
      EXPECT_LE(x.abs().maxCoeff(), bound) << name;
      EXPECT_GT(x.maxCoeff(), 0.97 * bound) << name;
      EXPECT_LT(x.minCoeff(), -0.97 * bound) << name;
      EXPECT_NEAR(x.square().mean(), bound * bound / 3, 0.1 * bound * bound) << name;
    } else if (name.find("norm.weight") != std::string::npos) {
      EXPECT_TRUE((x == 1).all()) << name;
    } else {
      EXPECT_TRUE((x == 0).all()) << name;
    }
  });
  EXPECT_EQ(matrices, 2 * 6 + 2 * 10);
}

// ------------------------------------------------------------------ LayerNorm, RMSNorm, GELU, SiLU

TEST(PyTorch, LayerNormHasThePopulationVariance) {
  const LayerNorm<double> norm({.hidden_size = 4});
  EXPECT_EQ(norm.config.eps, 1e-5);
  expect_values(norm(rows<double>({{1, 2, 3, 4}})),
                {-1.34163542, -.44721181, .44721181, 1.34163542}, 5e-9);
}

// Over the last two axes at once, by folding them into one.
TEST(PyTorch, LayerNormOverTwoAxes) {
  LayerNorm<double> norm({.hidden_size = 3 * 5});
  values::randomize(norm, 9);
  const auto x = random<double>(Shape<3>{2, 3, 5}, 10);
  const auto y = norm(values::reshaped(x, Shape<2>{2, 15}));
  for (Index b = 0; b < 2; ++b) {
    const Eigen::Map<const Eigen::VectorXd> own(x.data() + b * 15, 15);
    const double mean = own.mean(), variance = (own.array() - mean).square().mean();
    for (Index i = 0; i < 15; ++i)
      EXPECT_NEAR(y(b, i),
                  (own(i) - mean) / std::sqrt(variance + 1e-5) * norm.weight(i) + norm.bias(i),
                  1e-14);
  }
}

// PyTorch's default eps is the machine epsilon of the type, 1.1920929e-7 for float.
TEST(PyTorch, RMSNorm) {
  RMSNorm<float> norm({.hidden_size = 2, .eps = std::numeric_limits<float>::epsilon()});
  const auto y = norm(rows<float>({{3, 4}, {1e-4, -1e-4}}));
  EXPECT_NEAR(y(0, 0), 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(y(1, 0), 1e-4 / std::sqrt(1e-8 + 1.1920929e-7), 1e-7);
  EXPECT_NEAR(y(1, 1), -1e-4 / std::sqrt(1e-8 + 1.1920929e-7), 1e-7);
}

TEST(PyTorch, GELUAndSiLU) {
  const auto x = rows<double>({{-1, 3}});
  EXPECT_EQ(GELU<double>{}.config.approximate, GELUApproximation::none);
  expect_values(GELU<double>{}(x), {-.158655253931, 2.995950305905}, 5e-13);
  expect_values(GELU<double>({.approximate = GELUApproximation::tanh})(x),
                {-.158808009392, 2.996362607918}, 5e-13);
  expect_values(silu(rows<double>({{1, -1}})), {.731058578630, -.268941421370}, 5e-13);
}

}  // namespace pytorch_test
}  // namespace eigenformer
