//===- KernelName.cpp - What a kernel is called, and what it costs ----------===//

#include "KernelName.h"
#include "KernelGroups.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;

static constexpr size_t kLongestName = 6;

static bool has(const nn::ShardingRule::Tensor &tensor, int factor) {
  return llvm::any_of(tensor, [&](const auto &dim) { return llvm::is_contained(dim, factor); });
}

static std::string join(ArrayRef<int64_t> sizes) {
  return llvm::join(llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }), "x");
}

/// "nt_256x192x64": whether the summed index is the last of the left operand (n, else t) and the first of the
/// right one (n, else t); batch, M, N and K. Empty for what is no product of two tensors.
static std::string describeContraction(const nn::ShardingRule &rule) {
  if (rule.operands.size() != 2 || rule.results.size() != 1)
    return "";
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int summed = -1;
  for (auto [factor, properties] : llvm::enumerate(rule.factors)) {
    int f = static_cast<int>(factor);
    bool left = has(rule.operands[0], f), right = has(rule.operands[1], f);
    if (properties.kind == FactorKind::Reduction && left && right)
      summed = f;
    if (properties.kind == FactorKind::Replicated ||
        (properties.kind == FactorKind::Reduction && !(left && right)))
      return "";
    int64_t &size = properties.kind == FactorKind::Reduction ? k : left && right ? batch : left ? m : n;
    size *= properties.size;
  }
  if (summed < 0)
    return "";
  auto isLast = [&](const nn::ShardingRule::Tensor &operand) {
    return !operand.empty() && llvm::is_contained(operand.back(), summed);
  };
  std::string text = isLast(rule.operands[0]) ? "n" : "t";
  text += isLast(rule.operands[1]) ? "t_" : "n_";
  return text + (batch > 1 ? join({batch, m, n, k}) : join({m, n, k}));
}

static std::string describeSizes(nn::TensorOpInterface op) {
  std::string contraction = describeContraction(op.getShardingRule());
  if (!contraction.empty())
    return contraction;
  // A reduction is known by what it reads.
  ArrayRef<int64_t> largest;
  for (Value value :
       llvm::concat<Value>(SmallVector<Value>(op->getResults()), SmallVector<Value>(op->getOperands()))) {
    auto type = cast<RankedTensorType>(value.getType());
    if (largest.empty() || type.getNumElements() > ShapedType::getNumElements(largest))
      largest = type.getShape();
  }
  return largest.empty() ? "scalar" : join(largest);
}

std::string plumb::getKernelName(ArrayRef<nn::TensorOpInterface> ops) {
  SmallVector<StringRef> names;
  for (nn::TensorOpInterface op : ops)
    names.push_back(op->getName().stripDialect());
  std::string sizes = describeSizes(ops.front()), text = "k_" + names[0].str();
  bool chain = isElementwise(ops.front());
  if (!chain)
    text += "_" + sizes;
  for (StringRef name : ArrayRef(names).slice(1).take_front(kLongestName - 1))
    text += "_" + name.str();
  if (names.size() > kLongestName)
    text += "_" + std::to_string(names.size() - kLongestName) + "more";
  return chain ? text + "_" + sizes : text;
}

/// The elements of the tensor that has most of the factors: of a look-up the rows that are found, of a
/// reduction what is reduced.
static int64_t countPoints(nn::TensorOpInterface op, const nn::ShardingRule &rule) {
  size_t most = 0;
  int64_t points = 0;
  auto consider = [&](const nn::ShardingRule::Tensor &tensor, Type type) {
    size_t factors = 0;
    for (const nn::ShardingRule::Dim &dim : tensor)
      factors += dim.size();
    if (points == 0 || factors > most) {
      most = factors;
      points = cast<RankedTensorType>(type).getNumElements();
    }
  };
  for (auto [tensor, type] : llvm::zip(rule.results, op->getResultTypes()))
    consider(tensor, type);
  for (auto [tensor, type] : llvm::zip(rule.operands, op->getOperandTypes()))
    consider(tensor, type);
  return points;
}

int64_t plumb::countFlops(nn::TensorOpInterface op) {
  if (op->hasTrait<nn::Reinterprets>())
    return 0;
  nn::ShardingRule rule = op.getShardingRule();
  bool contracts = rule.operands.size() == 2 && llvm::any_of(rule.factors, [](const nn::Factor &factor) {
                     return factor.kind == FactorKind::Reduction;
                   });
  if (!contracts)
    return countPoints(op, rule);
  int64_t products = 1;
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (has(rule.operands[0], static_cast<int>(index)) || has(rule.operands[1], static_cast<int>(index)))
      products *= factor.size;
  return 2 * products;
}
