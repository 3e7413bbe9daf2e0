#include "Programs.h"

using namespace plumb;
using namespace plumb::test;

TEST(ImportOperators, Linear) {
  Arguments arguments = {{"input", tensor("x0")}, {"weight", tensor("x1")}};
  EXPECT_EQ(
      built(Program({{{2, 3, 4}}, {{5, 4}}}).node("linear.default", arguments, {{{2, 3, 5}}})),
      "%2 = nn.einsum \"abi,oi->abo\"(%0, %1) : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>\n");
  arguments.push_back({"bias", tensor("x2")});
  EXPECT_EQ(built(Program({{{4}}, {{5, 4}}, {{5}}}).node("linear.default", arguments, {{{5}}})),
            "%3 = nn.einsum \"i,oi->o\"(%0, %1) : (tensor<4xf32>, tensor<5x4xf32>) -> tensor<5xf32>\n"
            "%4 = nn.add %3, %2 : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>\n");
}

TEST(ImportOperators, MatrixProducts) {
  Arguments two = {{"self", tensor("x0")}, {"other", tensor("x1")}};
  EXPECT_NE(built(Program({{{2, 3, 4}}, {{4, 5}}}).node("matmul.default", two, {{{2, 3, 5}}}))
                .find("\"abi,io->abo\""),
            std::string::npos);
  EXPECT_NE(built(Program({{{2, 3, 4}}, {{2, 4, 5}}}).node("matmul.default", two, {{{2, 3, 5}}}))
                .find("\"ami,aio->amo\""),
            std::string::npos);
  EXPECT_NE(built(Program({{{2, 3, 4}}, {{7, 2, 4, 5}}}).node("matmul.default", two, {{{7, 2, 3, 5}}}))
                .find("nn.broadcast"),
            std::string::npos);
  EXPECT_NE(refused(Program({{{2, 3, 4}}, {{7, 3, 4, 5}}}).node("matmul.default", two, {{{7, 3, 3, 5}}}))
                .find("batches of 2 and 3 do not fit"),
            std::string::npos);
  EXPECT_NE(
      built(Program({{{5}}, {{3, 4}}, {{4, 5}}})
                .node("addmm.default",
                      {{"self", tensor("x0")}, {"mat1", tensor("x1")}, {"mat2", tensor("x2")}}, {{{3, 5}}}))
          .find("\"ai,io->ao\"(%1, %2)"),
      std::string::npos);
}

TEST(ImportOperators, ArithmeticOfTensorsAndNumbers) {
  Arguments two = {{"self", tensor("x0")}, {"other", tensor("x1")}};
  EXPECT_EQ(built(Program({{{2, 3}}, {{3}}}).node("add.Tensor", two, {{{2, 3}}})),
            "%2 = nn.add %0, %1 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>\n");
  two.push_back({"alpha", integer(2)});
  EXPECT_EQ(built(Program({{{2, 3}}, {{3}}}).node("sub.Tensor", two, {{{2, 3}}})),
            "%2 = nn.scale %1 by 2.000000e+00 : (tensor<3xf32>) -> tensor<3xf32>\n"
            "%3 = nn.sub %0, %2 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>\n");
  Arguments number = {{"self", tensor("x0")}, {"other", {{"as_float", 0.5}}}};
  EXPECT_EQ(built(Program({{{2}}}).node("mul.Tensor", number, {{{2}}})),
            "%1 = nn.scale %0 by 5.000000e-01 : (tensor<2xf32>) -> tensor<2xf32>\n");
  EXPECT_EQ(built(Program({{{2}}}).node("add.Tensor", number, {{{2}}})),
            "%1 = nn.fill 5.000000e-01 : tensor<f32>\n"
            "%2 = nn.add %0, %1 : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>\n");
  EXPECT_EQ(built(Program({{{2}}}).node("neg.default", {{"self", tensor("x0")}}, {{{2}}})),
            "%1 = nn.scale %0 by -1.000000e+00 : (tensor<2xf32>) -> tensor<2xf32>\n");
  EXPECT_NE(refused(Program({{{2}}, {{3}}})
                        .node("add.Tensor", {{"self", tensor("x0")}, {"other", tensor("x1")}}, {{{2}}})),
            "");
  // Types are promoted as torch promotes them.
  EXPECT_NE(built(Program({{{2}}, {{2}, kLong}})
                      .node("add.Tensor", {{"self", tensor("x0")}, {"other", tensor("x1")}}, {{{2}}}))
                .find("nn.convert"),
            std::string::npos);
}

TEST(ImportOperators, Activations) {
  Arguments self = {{"self", tensor("x0")}};
  EXPECT_NE(built(Program({{{2}}}).node("relu.default", self, {{{2}}})).find("nn.relu"), std::string::npos);
  EXPECT_NE(built(Program({{{2}}}).node("tanh.default", self, {{{2}}})).find("nn.tanh"), std::string::npos);
  EXPECT_EQ(built(Program({{{2}}}).node("gelu.default", self, {{{2}}})),
            "%1 = nn.gelu %0 : (tensor<2xf32>) -> tensor<2xf32>\n");
  self.push_back({"approximate", {{"as_string", "tanh"}}});
  EXPECT_NE(built(Program({{{2}}}).node("gelu.default", self, {{{2}}})).find("nn.gelu %0 tanh"),
            std::string::npos);
  self.back().second["as_string"] = "sigmoid";
  EXPECT_EQ(refused(Program({{{2}}}).node("gelu.default", self, {{{2}}})),
            "the approximation \"sigmoid\" is not supported, only \"none\" and \"tanh\"");
}

TEST(ImportOperators, LayerNorm) {
  Arguments arguments = {{"input", tensor("x0")},
                         {"normalized_shape", integers({3, 4})},
                         {"weight", tensor("x1")},
                         {"bias", tensor("x2")}};
  EXPECT_EQ(
      built(Program({{{2, 3, 4}}, {{3, 4}}, {{3, 4}}}).node("layer_norm.default", arguments, {{{2, 3, 4}}})),
      "%normalized, %rstd = nn.normalize %0 count 2 eps 1.000000e-05 : (tensor<2x3x4xf32>) -> "
      "(tensor<2x3x4xf32>, tensor<2xf32>)\n"
      "%3 = nn.mul %normalized, %1 : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>\n"
      "%4 = nn.add %3, %2 : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>\n");
  arguments = {{"input", tensor("x0")}, {"normalized_shape", integers({3})}, {"eps", {{"as_float", 0.5}}}};
  EXPECT_NE(
      refused(Program({{{2, 4}}}).node("layer_norm.default", arguments, {{{2, 4}}})).find("normalized_shape"),
      std::string::npos);
}

TEST(ImportOperators, Attention) {
  Arguments arguments = {{"query", tensor("x0")}, {"key", tensor("x1")}, {"value", tensor("x2")}};
  std::vector<Tensor> inputs = {{{2, 3, 8, 16}}, {{2, 3, 5, 16}}, {{2, 3, 5, 4}}};
  EXPECT_EQ(built(Program(inputs).node("scaled_dot_product_attention.default", arguments, {{{2, 3, 8, 4}}})),
            "%3 = nn.einsum \"abid,abjd->abij\"(%0, %1) : (tensor<2x3x8x16xf32>, tensor<2x3x5x16xf32>) -> "
            "tensor<2x3x8x5xf32>\n"
            "%4 = nn.scale %3 by 2.500000e-01 : (tensor<2x3x8x5xf32>) -> tensor<2x3x8x5xf32>\n"
            "%5 = nn.softmax %4 : (tensor<2x3x8x5xf32>) -> tensor<2x3x8x5xf32>\n"
            "%6 = nn.einsum \"abij,abjd->abid\"(%5, %2) : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> "
            "tensor<2x3x8x4xf32>\n");
  auto with = [&](const char *name, Json value) {
    Arguments more = arguments;
    more.push_back({name, std::move(value)});
    return Program(inputs).node("scaled_dot_product_attention.default", more, {{{2, 3, 8, 4}}});
  };
  EXPECT_NE(built(with("scale", {{"as_float", 0.125}})).find("by 1.250000e-01"), std::string::npos);
  EXPECT_NE(built(with("is_causal", {{"as_bool", true}})).find("nn.softmax %4 causal"), std::string::npos);
  // Numbers are added to the scores, where they broadcast.
  EXPECT_NE(refused(with("attn_mask", tensor("x0"))).find("does not broadcast"), std::string::npos);
  EXPECT_NE(built(with("dropout_p", {{"as_float", 0.1}})).find("plumb.dropout %5"), std::string::npos);
  EXPECT_NE(refused(with("dropout_p", {{"as_float", 1.5}})).find("cannot be dropped"), std::string::npos);
  EXPECT_NE(built(with("enable_gqa", {{"as_bool", true}})).find("nn.softmax"), std::string::npos);
  inputs[1] = inputs[2] = {{2, 2, 5, 16}};
  EXPECT_NE(refused(with("enable_gqa", {{"as_bool", true}})).find("3 query heads cannot share 2 heads"),
            std::string::npos);
}

TEST(ImportOperators, SumsAndMeans) {
  Arguments self = {{"self", tensor("x0")}};
  EXPECT_EQ(built(Program({{{2, 3}}}).node("sum.default", self, {{{}}})),
            "%1 = nn.sum %0 dims [0, 1] : (tensor<2x3xf32>) -> tensor<f32>\n");
  self.push_back({"dim", integers({-1})});
  self.push_back({"keepdim", {{"as_bool", true}}});
  EXPECT_EQ(built(Program({{{2, 4}}}).node("mean.dim", self, {{{2, 1}}})),
            "%1 = nn.sum %0 dims [1] keepdim : (tensor<2x4xf32>) -> tensor<2x1xf32>\n"
            "%2 = nn.scale %1 by 2.500000e-01 {plumb.mean = 0.000000e+00 : f64} : (tensor<2x1xf32>) -> "
            "tensor<2x1xf32>\n");
  self[1].second = integers({2});
  EXPECT_NE(refused(Program({{{2, 4}}}).node("sum.dim_IntList", self, {{{2, 1}}}))
                .find("names dimension 2 of a tensor of rank 2"),
            std::string::npos);
}

TEST(ImportOperators, Shapes) {
  auto one = [](const char *target, Arguments more, std::vector<int64_t> from, std::vector<int64_t> to) {
    more.insert(more.begin(), {"self", tensor("x0")});
    return Program({{from}}).node(target, more, {{to}});
  };
  EXPECT_EQ(built(one("view.default", {{"size", integers({-1, 6})}}, {2, 3, 4}, {4, 6})),
            "%1 = nn.view %0 : (tensor<2x3x4xf32>) -> tensor<4x6xf32>\n");
  EXPECT_EQ(built(one("reshape.default", {{"shape", integers({2, 3})}}, {2, 3}, {2, 3})), "");
  EXPECT_NE(refused(one("view.default", {{"size", integers({-1, 5})}}, {2, 3, 4}, {4, 5})), "");
  EXPECT_NE(refused(one("view.default", {{"size", integers({4, 6})}}, {2, 3, 4}, {6, 4}))
                .find("the archive recorded a tensor<6x4xf32>"),
            std::string::npos);
  EXPECT_NE(refused(one("view.default", {{"size", integers({INT64_MAX, INT64_MAX})}}, {2}, {2}))
                .find("too many elements"),
            std::string::npos);
  EXPECT_NE(built(one("flatten.using_ints", {{"start_dim", integer(1)}}, {2, 3, 4}, {2, 12}))
                .find("tensor<2x12xf32>"),
            std::string::npos);
  EXPECT_NE(
      built(one("unsqueeze.default", {{"dim", integer(-1)}}, {2, 3}, {2, 3, 1})).find("tensor<2x3x1xf32>"),
      std::string::npos);
  EXPECT_NE(built(one("squeeze.dim", {{"dim", integer(1)}}, {2, 1, 3}, {2, 3})).find("tensor<2x3xf32>"),
            std::string::npos);
  EXPECT_NE(built(one("transpose.int", {{"dim0", integer(1)}, {"dim1", integer(-1)}}, {2, 3, 4}, {2, 4, 3}))
                .find("nn.transpose %0 [0, 2, 1]"),
            std::string::npos);
  EXPECT_NE(
      built(one("permute.default", {{"dims", integers({2, 0, 1})}}, {2, 3, 4}, {4, 2, 3})).find("[2, 0, 1]"),
      std::string::npos);
  EXPECT_NE(refused(one("permute.default", {{"dims", integers({0, 0, 7})}}, {2, 3, 4}, {2, 2, 3})), "");
  EXPECT_NE(refused(one("transpose.int", {{"dim0", integer(3)}, {"dim1", integer(0)}}, {2, 3, 4}, {2, 4, 3}))
                .find("dimension 3"),
            std::string::npos);
  EXPECT_NE(
      built(one("expand.default", {{"size", integers({5, -1, 3})}}, {2, 1}, {5, 2, 3})).find("nn.broadcast"),
      std::string::npos);
}

TEST(ImportOperators, Pieces) {
  Arguments arguments = {{"self", tensor("x0")}, {"split_size", integer(3)}, {"dim", integer(-1)}};
  EXPECT_EQ(built(Program({{{2, 7}}}).node("split.Tensor", arguments, {{{2, 3}}, {{2, 3}}, {{2, 1}}}, true)),
            "%1:3 = nn.split %0 dim 1 : (tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, "
            "tensor<2x1xf32>)\n");
  EXPECT_NE(refused(Program({{{2, 7}}}).node("split.Tensor", arguments, {{{2, 3}}, {{2, 4}}}, true))
                .find("too few pieces"),
            std::string::npos);
  arguments[1] = {"chunks", integer(4)};
  EXPECT_NE(built(Program({{{2, 7}}})
                      .node("chunk.default", arguments, {{{2, 2}}, {{2, 2}}, {{2, 2}}, {{2, 1}}}, true))
                .find("nn.split"),
            std::string::npos);
  arguments[1] = {"split_sizes", integers({6, 1})};
  EXPECT_NE(built(Program({{{2, 7}}}).node("split_with_sizes.default", arguments, {{{2, 6}}, {{2, 1}}}, true))
                .find("nn.split"),
            std::string::npos);
  Json list = {{"as_tensors", {{{"name", "x0"}}, {{"name", "x1"}}}}};
  EXPECT_NE(built(Program({{{2, 7}}, {{2, 1}}})
                      .node("cat.default", {{"tensors", list}, {"dim", integer(1)}}, {{{2, 8}}}))
                .find("nn.cat %0, %1 dim 1"),
            std::string::npos);
}

TEST(ImportOperators, Embedding) {
  Arguments arguments = {{"weight", tensor("x0")}, {"indices", tensor("x1")}};
  std::vector<Tensor> inputs = {{{10, 4}}, {{2, 3}, kLong}};
  EXPECT_EQ(built(Program(inputs).node("embedding.default", arguments, {{{2, 3, 4}}})),
            "%2 = nn.embedding %0, %1 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>\n");
  arguments.push_back({"padding_idx", integer(0)});
  // The padding row is left out of the gradient.
  EXPECT_NE(built(Program(inputs).node("embedding.default", arguments, {{{2, 3, 4}}})).find("nn.detach"),
            std::string::npos);
}

TEST(ImportOperators, Ranges) {
  auto range = [](const char *target, Arguments arguments, int64_t count) {
    arguments.push_back({"device", {{"as_device", {{"type", "cpu"}, {"index", nullptr}}}}});
    arguments.push_back({"pin_memory", {{"as_bool", false}}});
    return Program(std::vector<Tensor>()).node(target, arguments, {{{count}, kLong}});
  };
  EXPECT_EQ(built(range("arange.default", {{"end", integer(5)}}, 5)),
            "%0 = nn.iota start 0 step 1 : tensor<5xi64>\n");
  EXPECT_NE(refused(range("arange.default", {{"end", {{"as_float", 5.5}}}}, 6)).find("whole number"),
            std::string::npos);
  EXPECT_NE(refused(range("arange.start", {{"start", integer(2)}, {"end", integer(5)}}, 5)).find("recorded"),
            std::string::npos);
  Imported step = import(
      range("arange.start_step", {{"start", integer(9)}, {"end", integer(0)}, {"step", integer(-4)}}, 3));
  ASSERT_TRUE(step.module) << step.errors;
  step.module->walk([](nn::IotaOp iota) {
    EXPECT_EQ(iota.getStart(), 9);
    EXPECT_EQ(iota.getStep(), -4);
  });
}

TEST(ImportOperators, CrossEntropy) {
  Arguments arguments = {{"self", tensor("x0")}, {"target", tensor("x1")}};
  std::vector<Tensor> inputs = {{{6, 10}}, {{6}, kLong}};
  EXPECT_EQ(built(Program(inputs).node("cross_entropy_loss.default", arguments, {{{}}})),
            "%losses, %lse = nn.cross_entropy %0, %1 ignore -100 : (tensor<6x10xf32>, tensor<6xi64>) -> "
            "(tensor<6xf32>, tensor<6xf32>)\n"
            "%2 = nn.sum %losses dims [0] : (tensor<6xf32>) -> tensor<f32>\n"
            "%3 = nn.is_valid %1 ignore -100 : (tensor<6xi64>) -> tensor<6xf32>\n"
            "%4 = nn.sum %3 dims [0] : (tensor<6xf32>) -> tensor<f32>\n"
            "%5 = nn.div %2, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>\n");
  auto with = [&](const char *name, Json value) {
    Arguments more = arguments;
    more.push_back({name, std::move(value)});
    return more;
  };
  EXPECT_NE(
      built(Program(inputs).node("cross_entropy_loss.default", with("ignore_index", integer(3)), {{{}}}))
          .find("ignore 3"),
      std::string::npos);
  EXPECT_EQ(built(Program(inputs).node("cross_entropy_loss.default", with("reduction", integer(2)), {{{}}}))
                .find("is_valid"),
            std::string::npos);
  EXPECT_EQ(built(Program(inputs).node("cross_entropy_loss.default", with("reduction", integer(0)), {{{6}}}))
                .find("nn.sum"),
            std::string::npos);
  EXPECT_NE(built(Program(inputs).node("cross_entropy_loss.default",
                                       with("label_smoothing", {{"as_float", 0.1}}), {{{}}}))
                .find("nn.log_softmax"),
            std::string::npos);
  // Classes are dim 1.
  EXPECT_NE(
      built(Program({{{2, 10, 3}}, {{2, 3}, kLong}}).node("cross_entropy_loss.default", arguments, {{{}}}))
          .find("nn.cross_entropy"),
      std::string::npos);
  EXPECT_NE(
      refused(Program({{{2, 10, 3}}, {{2, 2}, kLong}}).node("cross_entropy_loss.default", arguments, {{{}}}))
          .find("one target for each row"),
      std::string::npos);
  EXPECT_NE(refused(Program({{{2, 10}}, {{2, 10}}}).node("cross_entropy_loss.default", arguments, {{{}}}))
                .find("probabilities"),
            std::string::npos);
}
