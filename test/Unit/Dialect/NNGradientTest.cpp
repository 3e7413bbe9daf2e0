//===- NNGradientTest.cpp - Vector-Jacobian products of nn ops ------------===//
//
// Every gradient against central finite differences in f64.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"
#include <gtest/gtest.h>

namespace plumb::nn::test {
namespace {

double dot(const Array &a, const Array &b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i)
    sum += a.values[i] * b.values[i];
  return sum;
}

bool isFloat(mlir::Type type) {
  return llvm::isa<mlir::FloatType>(llvm::cast<mlir::RankedTensorType>(type).getElementType());
}

/// Checks `@f.backward` for random inputs and cotangents; integer inputs stay fixed.
void checkGradients(const std::string &text) {
  SCOPED_TRACE(text);
  auto module = parse(text);
  auto function = functionIn(*module);
  mlir::FunctionType signature = function.getFunctionType();
  addBackward(function);
  std::mt19937 random(7);
  std::vector<Array> inputs, cotangents;
  for (mlir::Type type : signature.getInputs())
    inputs.push_back(Array::random(llvm::cast<mlir::RankedTensorType>(type), random));
  for (mlir::Type type : signature.getResults())
    if (isFloat(type))
      cotangents.push_back(Array::random(llvm::cast<mlir::RankedTensorType>(type), random));
  Program program(std::move(module));

  std::vector<Array> arguments = inputs;
  arguments.insert(arguments.end(), cotangents.begin(), cotangents.end());
  std::vector<Array> gradients = program.run("f.backward", arguments);
  auto loss = [&](const std::vector<Array> &at) {
    std::vector<Array> results = program.run("f", at);
    double sum = 0;
    for (size_t i = 0, next = 0; i < results.size(); ++i)
      if (isFloat(signature.getResult(i)))
        sum += dot(results[i], cotangents[next++]);
    return sum;
  };
  const double step = 1e-5;
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!isFloat(signature.getInput(i)))
      continue;
    Array numeric(inputs[i].shape);
    for (size_t j = 0; j < numeric.values.size(); ++j) {
      std::vector<Array> up = inputs, down = inputs;
      up[i].values[j] += step;
      down[i].values[j] -= step;
      numeric.values[j] = (loss(up) - loss(down)) / (2 * step);
    }
    expectNear(gradients[next++], numeric, 1e-8, "gradient of input " + std::to_string(i));
  }
}

TEST(NNGradient, OneOp) {
  std::vector<std::string> ops = {
      "nn.einsum \"bti,oi->bto\"(%0, %1) : (tensor<2x3x5xf64>, tensor<4x5xf64>) -> tensor<2x3x4xf64>",
      "nn.einsum \"ik,kj->ij\"(%0, %1) : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>",
      "nn.einsum \"ik,kj->ji\"(%0, %1) : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<2x3xf64>",
      "nn.einsum \"bhqd,bhkd->bhqk\"(%0, %1) : (tensor<2x1x3x4xf64>, tensor<2x1x5x4xf64>) -> "
      "tensor<2x1x3x5xf64>",
      "nn.einsum \"bhqk,bhkd->bqhd\"(%0, %1) : (tensor<2x2x3x4xf64>, tensor<2x2x4x3xf64>) -> "
      "tensor<2x3x2x3xf64>",
      "nn.einsum \"abe,cda->db\"(%0, %1) : (tensor<2x3x2xf64>, tensor<4x5x2xf64>) -> tensor<5x3xf64>",
      "nn.einsum \"ab,ab->\"(%0, %1) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<f64>",
      "nn.einsum \"a,b->\"(%0, %1) : (tensor<2xf64>, tensor<3xf64>) -> tensor<f64>",
      "nn.einsum \",b->b\"(%0, %1) : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>",
      "nn.sum %0 dims [0, 2] : (tensor<2x3x5xf64>) -> tensor<3xf64>",
      "nn.sum %0 dims [1] keepdim : (tensor<2x3x5xf64>) -> tensor<2x1x5xf64>",
      "nn.sum %0 dims [0, 1] : (tensor<2x3xf64>) -> tensor<f64>",
      "nn.sum %0 dims [0] : (tensor<1x3xf64>) -> tensor<3xf64>",
      "nn.softmax %0 : (tensor<2x3x5xf64>) -> tensor<2x3x5xf64>",
      "nn.softmax %0 causal : (tensor<2x4x4xf64>) -> tensor<2x4x4xf64>",
      "nn.add %0, %1 : (tensor<3x1x5xf64>, tensor<4x1xf64>) -> tensor<3x4x5xf64>",
      "nn.add %0, %1 : (tensor<1x5xf64>, tensor<1x1xf64>) -> tensor<1x5xf64>",
      "nn.sub %0, %1 : (tensor<5xf64>, tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.mul %0, %1 : (tensor<2x5xf64>, tensor<2x1xf64>) -> tensor<2x5xf64>",
      "nn.div %0, %1 : (tensor<2x5xf64>, tensor<f64>) -> tensor<2x5xf64>",
      "nn.div %0, %1 : (tensor<1x5xf64>, tensor<2x1xf64>) -> tensor<2x5xf64>",
      "nn.scale %0 by -1.75 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.relu %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.tanh %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.gelu %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.gelu %0 tanh : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.exp %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.sin %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.cos %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.erf %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.sigmoid %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.softplus %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.power %0 by 3.0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.maximum %0, %1 : (tensor<2x5xf64>, tensor<5xf64>) -> tensor<2x5xf64>",
      "nn.minimum %0, %1 : (tensor<2x1xf64>, tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.where %0, %1, %2 : (tensor<5xi1>, tensor<2x5xf64>, tensor<2x1xf64>) -> tensor<2x5xf64>",
      "nn.max %0 dims [1] : (tensor<2x5x2xf64>) -> tensor<2x2xf64>",
      "nn.cumsum %0 dim 1 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.cumsum %0 dim 0 reverse : (tensor<3x2xf64>) -> tensor<3x2xf64>",
      "nn.log_softmax %0 : (tensor<2x5xf64>) -> tensor<2x5xf64>",
      "nn.slice %0 offsets [0, 1] strides [1, 2] : (tensor<2x6xf64>) -> tensor<2x3xf64>",
      "nn.pad %0 with 2.0 offsets [0, 1] strides [1, 2] : (tensor<2x3xf64>) -> tensor<3x8xf64>",
      "nn.reverse %0 dims [0] : (tensor<3x2xf64>) -> tensor<3x2xf64>",
      "nn.gather %0, %1 dim 0 : (tensor<4x3xf64>, tensor<5x3xi64>) -> tensor<5x3xf64>",
      "nn.scatter %0, %1, %2 dim 1 add : (tensor<2x4xf64>, tensor<2x3xi64>, tensor<2x3xf64>) -> "
      "tensor<2x4xf64>",
      "nn.convolution %0, %1 strides [2, 1] dilations [1, 2] : (tensor<2x2x2x6x5xf64>, "
      "tensor<2x3x2x3x2xf64>) -> "
      "tensor<2x2x3x2x3xf64>",
      "nn.view %0 : (tensor<2x6xf64>) -> tensor<3x4xf64>",
      "nn.transpose %0 [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>",
      "nn.broadcast %0 : (tensor<3x1xf64>) -> tensor<2x3x4xf64>",
      "nn.split %0 dim 1 : (tensor<2x5xf64>) -> (tensor<2x2xf64>, tensor<2x3xf64>)",
      "nn.cat %0, %1 dim 0 : (tensor<2x3xf64>, tensor<1x3xf64>) -> tensor<3x3xf64>",
      "nn.embedding %0, %1 : (tensor<4x3xf64>, tensor<2x5xi64>) -> tensor<2x5x3xf64>",
  };
  for (const std::string &op : ops)
    checkGradients(functionOf(op));
}

TEST(NNGradient, NormalizeAndLoss) {
  checkGradients(R"(
    func.func @f(%x: tensor<3x5xf64>) -> tensor<3x5xf64> {
      %n, %r = nn.normalize %x count 1 eps 1.0e-2 : (tensor<3x5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>)
      return %n : tensor<3x5xf64>
    })");
  checkGradients(R"(
    func.func @f(%x: tensor<2x3x2xf64>) -> tensor<2x3x2xf64> {
      %n, %r = nn.normalize %x count 2 eps 1.0e-2 : (tensor<2x3x2xf64>) -> (tensor<2x3x2xf64>, tensor<2xf64>)
      return %n : tensor<2x3x2xf64>
    })");
  checkGradients(R"(
    func.func @f(%x: tensor<3x2x4xf64>, %t: tensor<3x2xi64>) -> tensor<3x2xf64> {
      %losses, %lse = nn.cross_entropy %x, %t ignore 1 : (tensor<3x2x4xf64>, tensor<3x2xi64>) -> (tensor<3x2xf64>, tensor<3x2xf64>)
      return %losses : tensor<3x2xf64>
    })");
}

TEST(NNGradient, OfPartOfTheResults) {
  checkGradients(R"(
    func.func @f(%x: tensor<3x5xf64>) -> tensor<3x2xf64> {
      %v, %i = nn.topk %x count 2 : (tensor<3x5xf64>) -> (tensor<3x2xf64>, tensor<3x2xi64>)
      return %v : tensor<3x2xf64>
    })");
  checkGradients(R"(
    func.func @f(%x: tensor<3x5xf64>) -> tensor<3x5xf64> {
      %n, %r = nn.normalize %x count 1 eps 1.0e-2 uncentered : (tensor<3x5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>)
      return %n : tensor<3x5xf64>
    })");
}

TEST(NNGradient, OfPositiveNumbers) {
  checkGradients(R"(
    func.func @f(%x: tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<2x3xf64>) {
      %p = nn.exp %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
      %l = nn.log %p : (tensor<2x3xf64>) -> tensor<2x3xf64>
      %r = nn.power %p by -0.5 : (tensor<2x3xf64>) -> tensor<2x3xf64>
      return %l, %r : tensor<2x3xf64>, tensor<2x3xf64>
    })");
}

TEST(NNGradient, OverwrittenElementsHaveNone) {
  checkGradients(R"(
    func.func @f(%x: tensor<4xf64>, %s: tensor<2xf64>) -> tensor<4xf64> {
      %i = nn.iota start 3 step -2 : tensor<2xi64>
      %y = nn.scatter %x, %i, %s dim 0 : (tensor<4xf64>, tensor<2xi64>, tensor<2xf64>) -> tensor<4xf64>
      return %y : tensor<4xf64>
    })");
}

TEST(NNGradient, UnusedPieceHasZeroCotangent) {
  checkGradients(R"(
    func.func @f(%x: tensor<2x6xf64>) -> tensor<2x2xf64> {
      %p:3 = nn.split %x dim 1 : (tensor<2x6xf64>) -> (tensor<2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>)
      %y = nn.mul %p#0, %p#2 : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
      return %y : tensor<2x2xf64>
    })");
}

TEST(NNGradient, AttentionBlock) {
  checkGradients(R"(
    func.func @f(%x: tensor<2x3x4xf64>, %w: tensor<12x4xf64>, %g: tensor<4xf64>) -> tensor<2x3x4xf64> {
      %n, %r = nn.normalize %x count 1 eps 1.0e-5 : (tensor<2x3x4xf64>) -> (tensor<2x3x4xf64>, tensor<2x3xf64>)
      %s = nn.mul %n, %g : (tensor<2x3x4xf64>, tensor<4xf64>) -> tensor<2x3x4xf64>
      %qkv = nn.einsum "bti,oi->bto"(%s, %w) : (tensor<2x3x4xf64>, tensor<12x4xf64>) -> tensor<2x3x12xf64>
      %p:3 = nn.split %qkv dim 2 : (tensor<2x3x12xf64>) -> (tensor<2x3x4xf64>, tensor<2x3x4xf64>, tensor<2x3x4xf64>)
      %q = nn.view %p#0 : (tensor<2x3x4xf64>) -> tensor<2x3x2x2xf64>
      %k = nn.view %p#1 : (tensor<2x3x4xf64>) -> tensor<2x3x2x2xf64>
      %v = nn.view %p#2 : (tensor<2x3x4xf64>) -> tensor<2x3x2x2xf64>
      %a = nn.einsum "bqhd,bkhd->bhqk"(%q, %k) : (tensor<2x3x2x2xf64>, tensor<2x3x2x2xf64>) -> tensor<2x2x3x3xf64>
      %c = nn.scale %a by 0.7 : (tensor<2x2x3x3xf64>) -> tensor<2x2x3x3xf64>
      %m = nn.softmax %c causal : (tensor<2x2x3x3xf64>) -> tensor<2x2x3x3xf64>
      %o = nn.einsum "bhqk,bkhd->bqhd"(%m, %v) : (tensor<2x2x3x3xf64>, tensor<2x3x2x2xf64>) -> tensor<2x3x2x2xf64>
      %z = nn.view %o : (tensor<2x3x2x2xf64>) -> tensor<2x3x4xf64>
      %y = nn.add %z, %x : (tensor<2x3x4xf64>, tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
      return %y : tensor<2x3x4xf64>
    })");
}

/// The diagnostics of `backward` of the op with cotangents on `which` results; all its gradients must be
/// null.
std::string backwardError(const std::string &text, std::vector<bool> which) {
  auto module = parse(functionOf(text));
  mlir::Operation *op = opIn(*module);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    message += diagnostic.str();
    return mlir::success();
  });
  mlir::OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  llvm::SmallVector<mlir::Value> cotangents;
  for (auto [result, wanted] : llvm::zip_equal(op->getResults(), which))
    cotangents.push_back(wanted ? result : mlir::Value());
  llvm::SmallVector<bool> wanted(op->getNumOperands(), true);
  for (mlir::Value gradient : llvm::cast<TensorOpInterface>(op).backward(builder, cotangents, wanted))
    EXPECT_FALSE(gradient);
  return message;
}

TEST(NNGradient, RefusesWhatHasNoDerivative) {
  EXPECT_EQ(
      backwardError("nn.relu_backward %0, %1 : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>", {true}),
      "'nn.relu_backward' op has no second derivative");
  EXPECT_EQ(backwardError("nn.sgd %0, %1, %2 : (tensor<2xf64>, tensor<2xf64>, tensor<f64>) -> tensor<2xf64>",
                          {true}),
            "'nn.sgd' op has no derivative: differentiate the loss, not the optimizer step");
  EXPECT_EQ(
      backwardError("nn.normalize %0 count 1 eps 0.1 : (tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<2xf64>)",
                    {false, true}),
      "'nn.normalize' op has no derivative through rstd; only 'normalized' may reach the loss");
  EXPECT_EQ(backwardError("nn.add %0, %1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>", {true}), "");
}

TEST(NNGradient, BuildsOnlyWhatIsWanted) {
  for (std::string text :
       {"nn.einsum \"ik,kj->ij\"(%0, %1) : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>",
        "nn.cat %0, %1 dim 0 : (tensor<3x2xf64>, tensor<1x2xf64>) -> tensor<4x2xf64>",
        "nn.mul %0, %1 : (tensor<3x2xf64>, tensor<2xf64>) -> tensor<3x2xf64>"}) {
    auto module = parse(functionOf(text));
    mlir::Operation *op = opIn(*module);
    mlir::OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto gradients = llvm::cast<TensorOpInterface>(op).backward(builder, {op->getResult(0)}, {false, true});
    EXPECT_FALSE(gradients[0]) << text;
    EXPECT_EQ(gradients[1].getType(), op->getOperand(1).getType()) << text;
  }
}

} // namespace
} // namespace plumb::nn::test
