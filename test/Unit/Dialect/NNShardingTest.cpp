//===- NNShardingTest.cpp - Sharding rules and local forms of nn ops ------===//
//
// A rule is right iff computing on shards is computing: for each factor that may be sharded, the local op on
// the slices of the operands gives the slices of the result, or (for a reduction) terms of it.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"
#include <gtest/gtest.h>

namespace plumb::nn::test {
namespace {

struct Case {
  const char *op;
  const char *rule;
};

const std::vector<Case> kCases = {
    {"nn.einsum \"bti,oi->bto\"(%0, %1) : (tensor<2x3x6xf64>, tensor<4x6xf64>) -> tensor<2x3x4xf64>",
     "[a b d], [c d] -> [a b c] {a=2, b=3, c=4, d=6 reduction} linear {0}, {1}"},
    {"nn.einsum \"ab,c->cb\"(%0, %1) : (tensor<2x3xf64>, tensor<4xf64>) -> tensor<4x3xf64>",
     "[c b], [a] -> [a b] {a=4, b=3, c=2 reduction} linear {0}, {1}"},
    {"nn.sum %0 dims [0, 2] : (tensor<2x3x5xf64>) -> tensor<3xf64>",
     "[a b c] -> [b] {a=2 reduction, b=3, c=5 reduction} linear {0}"},
    {"nn.sum %0 dims [1] keepdim : (tensor<2x3xf64>) -> tensor<2x1xf64>",
     "[a b] -> [a 1] {a=2, b=3 reduction} linear {0}"},
    {"nn.softmax %0 : (tensor<2x3x5xf64>) -> tensor<2x3x5xf64>",
     "[a b c] -> [a b c] {a=2, b=3, c=5 replicated}"},
    {"nn.softmax %0 causal : (tensor<2x3x5xf64>) -> tensor<2x3x5xf64>",
     "[a b c] -> [a b c] {a=2, b=3 replicated, c=5 replicated}"},
    {"nn.softmax_backward %0, %1 : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>",
     "[a b], [a b] -> [a b] {a=2, b=3 replicated} linear {0}"},
    {"nn.normalize %0 count 2 eps 1.0e-5 : (tensor<4x2x3xf64>) -> (tensor<4x2x3xf64>, tensor<4xf64>)",
     "[a b c] -> [a b c], [a] {a=4, b=2 replicated, c=3 replicated}"},
    {"nn.normalize_backward %0, %1, %2 : (tensor<3x2x4xf64>, tensor<3x2x4xf64>, tensor<3x2xf64>) -> "
     "tensor<3x2x4xf64>",
     "[a b c], [a b c], [a b] -> [a b c] {a=3, b=2, c=4 replicated} linear {0}"},
    {"nn.add %0, %1 : (tensor<3x1x5xf64>, tensor<4x1xf64>) -> tensor<3x4x5xf64>",
     "[a 1 c], [b 1] -> [a b c] {a=3, b=4, c=5} linear {0, 1}"},
    {"nn.sub %0, %1 : (tensor<2x5xf64>, tensor<5xf64>) -> tensor<2x5xf64>",
     "[a b], [b] -> [a b] {a=2, b=5} linear {0, 1}"},
    {"nn.mul %0, %1 : (tensor<2x1xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>",
     "[a 1], [a 1] -> [a 1] {a=2} linear {0}, {1}"},
    {"nn.div %0, %1 : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>",
     "[a b], [b] -> [a b] {a=2, b=3} linear {0}"},
    {"nn.scale %0 by 0.3 : (tensor<2x3xf64>) -> tensor<2x3xf64>", "[a b] -> [a b] {a=2, b=3} linear {0}"},
    {"nn.relu %0 : (tensor<4xf64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
    {"nn.relu_backward %0, %1 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>",
     "[a], [a] -> [a] {a=4} linear {0}"},
    {"nn.tanh %0 : (tensor<4xf64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
    {"nn.tanh_backward %0, %1 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>",
     "[a], [a] -> [a] {a=4} linear {0}"},
    {"nn.gelu %0 : (tensor<4xf64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
    {"nn.gelu_backward %0, %1 tanh : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>",
     "[a], [a] -> [a] {a=4} linear {0}"},
    {"nn.sgd %0, %1, %2 : (tensor<4xf64>, tensor<4xf64>, tensor<f64>) -> tensor<4xf64>",
     "[a], [a], [] -> [a] {a=4} linear {0, 1}"},
    {"nn.weighted_sum %0 by 0.9, %1 by 0.1 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>",
     "[a], [a] -> [a] {a=4} linear {0, 1}"},
    {"nn.square_sum %0 : (tensor<2x3xf64>) -> tensor<f64>", "[a b] -> [] {a=2 reduction, b=3 reduction}"},
    {"nn.view %0 : (tensor<2x3x8xf64>) -> tensor<2x3x2x4xf64>",
     "[a b c*d] -> [a b c d] {a=2, b=3, c=2, d=4} linear {0}"},
    {"nn.view %0 : (tensor<2x3x8xf64>) -> tensor<6x8xf64>", "[a b c] -> [a*b c] {a=2, b=3, c=8} linear {0}"},
    {"nn.view %0 : (tensor<4x8xf64>) -> tensor<8x1x4xf64>",
     "[a b*c] -> [a*b 1 c] {a=4, b=2, c=4} linear {0}"},
    {"nn.view %0 : (tensor<6x4x5xf64>) -> tensor<4x6x5xf64>",
     "[a*b e f] -> [a*c d f] {a=2, b=3 replicated, c=2 replicated, d=6 replicated, e=4 replicated, f=5} "
     "linear {0}"},
    {"nn.view %0 : (tensor<1x6xf64>) -> tensor<6x1xf64>", "[1 a] -> [a 1] {a=6} linear {0}"},
    {"nn.transpose %0 [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>",
     "[b c a] -> [a b c] {a=4, b=2, c=3} linear {0}"},
    {"nn.broadcast %0 : (tensor<3x1xf64>) -> tensor<2x3x4xf64>",
     "[b 1] -> [a b c] {a=2, b=3, c=4} linear {0}"},
    {"nn.split %0 dim 1 : (tensor<2x9xf64>) -> (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>)",
     "[a b*c] -> [a c], [a c], [a c] {a=2, b=3 replicated, c=3} linear {0}"},
    {"nn.split %0 dim 0 : (tensor<5x2xf64>) -> (tensor<2x2xf64>, tensor<3x2xf64>)",
     "[b a] -> [c a], [d a] {a=2, b=5 replicated, c=2 replicated, d=3 replicated} linear {0}"},
    {"nn.cat %0, %1 dim 0 : (tensor<4x2xf64>, tensor<4x2xf64>) -> tensor<8x2xf64>",
     "[c a], [c a] -> [b*c a] {a=2, b=2 replicated, c=4} linear {0, 1}"},
    {"nn.cat %0, %1 dim 1 : (tensor<4x2xf64>, tensor<4x3xf64>) -> tensor<4x5xf64>",
     "[a c], [a d] -> [a b] {a=4, b=5 replicated, c=2 replicated, d=3 replicated} linear {0, 1}"},
    {"nn.normalize %0 count 1 eps 1.0e-5 uncentered : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<4xf64>)",
     "[a b] -> [a b], [a] {a=4, b=3 replicated}"},
    {"nn.exp %0 : (tensor<4xf64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
    {"nn.less %0, %1 : (tensor<4x1xf64>, tensor<3xf64>) -> tensor<4x3xi1>", "[a 1], [b] -> [a b] {a=4, b=3}"},
    {"nn.where %0, %1, %2 : (tensor<4x1xi1>, tensor<4x3xf64>, tensor<f64>) -> tensor<4x3xf64>",
     "[a 1], [a b], [] -> [a b] {a=4, b=3} linear {1, 2}"},
    {"nn.convert %0 : (tensor<4xi64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
    {"nn.slice %0 offsets [0, 1] strides [1, 2] : (tensor<4x8xf64>) -> tensor<4x3xf64>",
     "[a c] -> [a b] {a=4, b=3 replicated, c=8 replicated} linear {0}"},
    {"nn.pad %0 with 0.0 offsets [0, 1] strides [1, 2] : (tensor<4x3xf64>) -> tensor<4x8xf64>",
     "[a b] -> [a c] {a=4, b=3 replicated, c=8 replicated} linear {0}"},
    {"nn.reverse %0 dims [1] : (tensor<4x3xf64>) -> tensor<4x3xf64>",
     "[a b] -> [a b] {a=4, b=3 replicated} linear {0}"},
    {"nn.gather %0, %1 dim 1 : (tensor<4x5xf64>, tensor<4x3xi64>) -> tensor<4x3xf64>",
     "[a c], [a b] -> [a b] {a=4, b=3, c=5 replicated} linear {0}"},
    {"nn.scatter %0, %1, %2 dim 1 : (tensor<4x5xf64>, tensor<4x3xi64>, tensor<4x3xf64>) -> tensor<4x5xf64>",
     "[a c], [a b], [a b] -> [a c] {a=4, b=3 replicated, c=5 replicated} linear {0, 2}"},
    {"nn.scatter %0, %1, %2 dim 1 add : (tensor<4x5xf64>, tensor<4x3xi64>, tensor<4x3xf64>) -> "
     "tensor<4x5xf64>",
     "[a c], [a b], [a b] -> [a c] {a=4, b=3 replicated, c=5 replicated} linear {0, 2}"},
    {"nn.topk %0 count 2 : (tensor<4x5xf64>) -> (tensor<4x2xf64>, tensor<4x2xi64>)",
     "[a b] -> [a c], [a c] {a=4, b=5 replicated, c=2 replicated}"},
    {"nn.max %0 dims [1] : (tensor<4x5xf64>) -> tensor<4xf64>", "[a b] -> [a] {a=4, b=5 replicated}"},
    {"nn.cumsum %0 dim 1 : (tensor<4x5xf64>) -> tensor<4x5xf64>",
     "[a b] -> [a b] {a=4, b=5 replicated} linear {0}"},
    {"nn.log_softmax %0 : (tensor<4x5xf64>) -> tensor<4x5xf64>", "[a b] -> [a b] {a=4, b=5 replicated}"},
    {"nn.convolution %0, %1 strides [2, 2] dilations [1, 1] : (tensor<2x2x3x5x5xf64>, tensor<2x4x3x3x3xf64>) "
     "-> tensor<2x2x4x2x2xf64>",
     "[a b d e f], [b c d g h] -> [a b c i j] {a=2, b=2, c=4, d=3 reduction, e=5 replicated, f=5 replicated, "
     "g=3 replicated, h=3 replicated, i=2 replicated, j=2 replicated} linear {0}, {1}"},
    {"nn.fill 2.5 : tensor<2x3xf64>", "-> [a b] {a=2, b=3}"},
    {"nn.iota start 0 step 1 : tensor<4xi64>", "-> [a] {a=4 replicated}"},
    {"nn.embedding %0, %1 : (tensor<4x6xf64>, tensor<2x3xi64>) -> tensor<2x3x6xf64>",
     "[a b], [c d] -> [c d b] {a=4 replicated, b=6, c=2, d=3} linear {0}"},
    {"nn.embedding_backward %0, %1 : (tensor<2x3x6xf64>, tensor<2x3xi64>) -> tensor<4x6xf64>",
     "[c d b], [c d] -> [a b] {a=4 replicated, b=6, c=2 reduction, d=3 reduction} linear {0}"},
    {"nn.cross_entropy %0, %1 ignore 1 : (tensor<2x3x5xf64>, tensor<2x3xi64>) -> (tensor<2x3xf64>, "
     "tensor<2x3xf64>)",
     "[a b c], [a b] -> [a b], [a b] {a=2, b=3, c=5 replicated}"},
    {"nn.cross_entropy_backward %0, %1, %2, %3 ignore 1 : (tensor<3xf64>, tensor<3x5xf64>, tensor<3xi64>, "
     "tensor<3xf64>) -> tensor<3x5xf64>",
     "[a], [a b], [a], [a] -> [a b] {a=3, b=5 replicated} linear {0}"},
    {"nn.is_valid %0 ignore 1 : (tensor<4xi64>) -> tensor<4xf64>", "[a] -> [a] {a=4}"},
};

ShardingRule ruleOf(mlir::ModuleOp module) {
  return llvm::cast<TensorOpInterface>(opIn(module)).getShardingRule();
}

TEST(NNSharding, Rules) {
  for (const Case &test : kCases)
    EXPECT_EQ(toString(ruleOf(*parse(functionOf(test.op)))), test.rule) << test.op;
}

TEST(NNSharding, FactorsMakeUpEveryDim) {
  for (const Case &test : kCases) {
    auto module = parse(functionOf(test.op));
    ShardingRule rule = ruleOf(*module);
    mlir::FunctionType signature = functionIn(*module).getFunctionType();
    auto check = [&](mlir::TypeRange types, llvm::ArrayRef<ShardingRule::Tensor> tensors) {
      ASSERT_EQ(types.size(), tensors.size()) << test.op;
      for (auto [type, dims] : llvm::zip_equal(types, tensors)) {
        auto shape = llvm::cast<mlir::RankedTensorType>(type).getShape();
        ASSERT_EQ(shape.size(), dims.size()) << test.op;
        for (auto [size, dim] : llvm::zip_equal(shape, dims)) {
          int64_t product = 1;
          for (int factor : dim)
            product *= rule.factors[factor].size;
          EXPECT_EQ(size, product) << test.op;
        }
      }
    };
    check(signature.getInputs(), rule.operands);
    check(signature.getResults(), rule.results);
  }
}

/// One factor cut into three shards, of ceil(size / 3) indices as long as there are any: even, uneven and
/// empty shards.
struct Cut {
  static constexpr int kShards = 3;
  const ShardingRule &rule;
  int factor;

  int64_t size() const { return rule.factors[factor].size; }
  int64_t begin(int shard) const { return std::min(size(), (size() + kShards - 1) / kShards * shard); }
  int64_t sizeOn(int shard) const { return begin(shard + 1) - begin(shard); }

  static bool contains(const ShardingRule::Tensor &dims, int factor) {
    return llvm::any_of(dims, [&](const ShardingRule::Dim &dim) { return llvm::is_contained(dim, factor); });
  }

  Shape localShape(const Shape &shape, const ShardingRule::Tensor &dims, int shard) const {
    Shape local = shape;
    for (auto [size, dim] : llvm::zip_equal(local, dims))
      if (llvm::is_contained(dim, factor))
        size = size / this->size() * sizeOn(shard);
    return local;
  }

  /// The index along the factor of the element at `index`, or -1 if no dim has the factor.
  int64_t coordinate(const Shape &index, const ShardingRule::Tensor &dims) const {
    for (auto [position, dim] : llvm::zip_equal(index, dims)) {
      int64_t rest = position;
      for (int other : llvm::reverse(dim)) {
        if (other == factor)
          return rest % size();
        rest /= rule.factors[other].size;
      }
    }
    return -1;
  }

  Array slice(const Array &array, const ShardingRule::Tensor &dims, int shard) const {
    Array local(localShape(array.shape, dims, shard));
    size_t next = 0;
    for (size_t i = 0; i < array.values.size(); ++i) {
      int64_t at = coordinate(indexOf(array.shape, static_cast<int64_t>(i)), dims);
      if (at < 0 || (begin(shard) <= at && at < begin(shard + 1)))
        local.values[next++] = array.values[i];
    }
    EXPECT_EQ(next, local.values.size());
    return local;
  }
};

std::string localName(int factor, int shard) {
  return "f." + std::to_string(factor) + "." + std::to_string(shard);
}

/// Adds the function that computes the op on one shard.
void addLocal(mlir::ModuleOp module, const Cut &cut, int shard) {
  auto localTypes = [&](mlir::TypeRange types, llvm::ArrayRef<ShardingRule::Tensor> tensors) {
    llvm::SmallVector<mlir::Type> local;
    for (auto [type, dims] : llvm::zip_equal(types, tensors)) {
      auto tensor = llvm::cast<mlir::RankedTensorType>(type);
      local.push_back(mlir::RankedTensorType::get(cut.localShape(tensor.getShape().vec(), dims, shard),
                                                  tensor.getElementType()));
    }
    return local;
  };
  mlir::Operation *op = opIn(module);
  auto operandTypes = localTypes(op->getOperandTypes(), cut.rule.operands);
  auto resultTypes = localTypes(op->getResultTypes(), cut.rule.results);
  auto builder = mlir::OpBuilder::atBlockEnd(module.getBody());
  auto function = mlir::func::FuncOp::create(builder, op->getLoc(), localName(cut.factor, shard),
                                             builder.getFunctionType(operandTypes, resultTypes));
  builder.setInsertionPointToStart(function.addEntryBlock());
  auto results = llvm::cast<TensorOpInterface>(op).localize(builder, function.getArguments(), resultTypes);
  mlir::func::ReturnOp::create(builder, op->getLoc(), results);
}

std::vector<int> shardableFactors(const ShardingRule &rule) {
  std::vector<int> factors;
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (factor.kind != FactorKind::Replicated && factor.size > 1)
      factors.push_back(static_cast<int>(i));
  return factors;
}

void checkCut(const Program &program, const Cut &cut, const std::vector<Array> &inputs,
              const std::vector<Array> &results) {
  std::vector<Array> sums;
  for (int shard = 0; shard < Cut::kShards; ++shard) {
    std::vector<Array> localInputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      localInputs.push_back(cut.slice(inputs[i], cut.rule.operands[i], shard));
    std::vector<Array> local = program.run(localName(cut.factor, shard), localInputs);
    for (size_t i = 0; i < results.size(); ++i) {
      if (cut.rule.factors[cut.factor].kind == FactorKind::Parallel) {
        EXPECT_TRUE(Cut::contains(cut.rule.results[i], cut.factor));
        expectNear(local[i], cut.slice(results[i], cut.rule.results[i], shard), 1e-12, "slice of the result");
        continue;
      }
      EXPECT_FALSE(Cut::contains(cut.rule.results[i], cut.factor));
      if (shard == 0)
        sums.push_back(local[i]);
      else
        for (size_t j = 0; j < local[i].values.size(); ++j)
          sums[i].values[j] += local[i].values[j];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i)
    expectNear(sums[i], results[i], 1e-12, "sum of the terms");
}

/// Splits the operands of a linear set into two terms: the results must be the sums of the results.
void checkLinear(const Program &program, llvm::ArrayRef<int> set, const std::vector<Array> &inputs,
                 const std::vector<Array> &results, std::mt19937 &random) {
  std::vector<Array> first = inputs, second = inputs;
  std::uniform_real_distribution<double> term(-1, 1);
  for (int operand : set)
    for (size_t j = 0; j < inputs[operand].values.size(); ++j) {
      first[operand].values[j] = term(random);
      second[operand].values[j] = inputs[operand].values[j] - first[operand].values[j];
    }
  std::vector<Array> sum = program.run("f", first), rest = program.run("f", second);
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t j = 0; j < sum[i].values.size(); ++j)
      sum[i].values[j] += rest[i].values[j];
    expectNear(sum[i], results[i], 1e-12, "sum over the terms of a linear set");
  }
}

TEST(NNSharding, ShardsComputeTheWhole) {
  for (const Case &test : kCases) {
    SCOPED_TRACE(test.op);
    auto module = parse(functionOf(test.op));
    ShardingRule rule = ruleOf(*module);
    std::mt19937 random(3);
    std::vector<Array> inputs;
    for (mlir::Type type : functionIn(*module).getFunctionType().getInputs())
      inputs.push_back(Array::random(llvm::cast<mlir::RankedTensorType>(type), random));
    for (int factor : shardableFactors(rule))
      for (int shard = 0; shard < Cut::kShards; ++shard)
        addLocal(*module, {rule, factor}, shard);
    Program program(std::move(module));
    std::vector<Array> results = program.run("f", inputs);
    for (int factor : shardableFactors(rule)) {
      SCOPED_TRACE("factor " + std::to_string(factor));
      checkCut(program, {rule, factor}, inputs, results);
    }
    for (const auto &set : rule.linear)
      checkLinear(program, set, inputs, results, random);
  }
}

/// Taken apart for each factor that can be, an op gives what it gives in one piece.
TEST(NNSharding, ExpandedOpsComputeTheSame) {
  const char *ops[] = {
      "nn.embedding %0, %1 : (tensor<8x3xf64>, tensor<2x5xi64>) -> tensor<2x5x3xf64>",
      "nn.embedding_backward %0, %1 : (tensor<2x5x3xf64>, tensor<2x5xi64>) -> tensor<8x3xf64>",
      "nn.cross_entropy %0, %1 ignore 3 : (tensor<2x5x8xf64>, tensor<2x5xi64>) -> (tensor<2x5xf64>, "
      "tensor<2x5xf64>)",
      "nn.cross_entropy_backward %0, %1, %2, %3 ignore 3 : (tensor<6xf64>, tensor<6x8xf64>, tensor<6xi64>, "
      "tensor<6xf64>) -> tensor<6x8xf64>",
      "nn.softmax %0 causal : (tensor<2x4x4xf64>) -> tensor<2x4x4xf64>"};
  for (const char *op : ops) {
    SCOPED_TRACE(op);
    auto whole = parse(functionOf(op)), expanded = parse(functionOf(op));
    auto tensorOp = llvm::cast<TensorOpInterface>(opIn(*expanded));
    ShardingRule rule = tensorOp.getShardingRule();
    auto *factor =
        llvm::find_if(rule.factors, [](const Factor &entry) { return entry.expanded.has_value(); });
    ASSERT_NE(factor, rule.factors.end());
    std::mt19937 random(5);
    std::vector<Array> inputs;
    for (mlir::Type type : functionIn(*whole).getFunctionType().getInputs())
      inputs.push_back(Array::random(llvm::cast<mlir::RankedTensorType>(type), random));
    mlir::OpBuilder builder(tensorOp);
    tensorOp->replaceAllUsesWith(
        tensorOp.expand(builder, static_cast<int>(factor - rule.factors.begin()), /*parts=*/2));
    tensorOp->erase();
    std::vector<Array> expected = Program(std::move(whole)).run("f", inputs);
    std::vector<Array> actual = Program(std::move(expanded)).run("f", inputs);
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(actual[i], expected[i], 1e-12, "result " + std::to_string(i));
  }
}

/// Several tables, each looked up by its own indices.
TEST(NNSharding, SeveralTables) {
  std::vector<Array> tables =
      evaluate("nn.embedding %0, %1 : (tensor<2x3x1xf64>, tensor<2x2xi64>) -> tensor<2x2x1xf64>",
               {generate({2, 3, 1}, [](const Shape &i) { return static_cast<double>(10 * i[0] + i[1]); }),
                generate({2, 2}, [](const Shape &i) { return static_cast<double>(i[0] + i[1]); })});
  EXPECT_EQ(tables[0].values, (std::vector<double>{0, 1, 11, 12}));
}

TEST(NNSharding, RulesInGlobalSizes) {
  auto rule = [](const std::string &op) { return toString(ruleOf(*parse(functionOf(op)))); };
  EXPECT_EQ(rule("nn.view %0 : (tensor<8x32x64xf32>) -> tensor<8x32x4x16xf32>"),
            "[a b c*d] -> [a b c d] {a=8, b=32, c=4, d=16} linear {0}");
  EXPECT_EQ(rule("nn.view %0 : (tensor<8x32x256xf32>) -> tensor<256x256xf32>"),
            "[a b c] -> [a*b c] {a=8, b=32, c=256} linear {0}");
  EXPECT_EQ(rule("nn.view %0 : (tensor<f32>) -> tensor<1x1xf32>"), "[] -> [1 1] {} linear {0}");
}

} // namespace
} // namespace plumb::nn::test
