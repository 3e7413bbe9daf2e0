//===- NNContractionOps.cpp - Products and reductions ---------------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNContractionOps.cpp.inc"

static LogicalResult checkEqualTypes(ValueRange operands, EmitError emitError) {
  for (auto [i, operand] : llvm::enumerate(operands))
    if (operand.getType() != operands[0].getType())
      return emitError() << "operand " << i << " is " << operand.getType() << " but operand 0 is "
                         << operands[0].getType();
  return success();
}

//===-- einsum ------------------------------------------------------------===//

namespace {
/// The letters of `lhs,rhs->result`.
struct Equation {
  StringRef lhs, rhs, result;

  explicit Equation(StringRef text) {
    auto [operands, after] = text.split("->");
    result = after;
    std::tie(lhs, rhs) = operands.split(',');
  }
};
} // namespace

static LogicalResult checkLetters(StringRef letters, StringRef of, EmitError emitError) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!llvm::isLower(letters[i]))
      return emitError() << "equation names a dim of the " << of << " '" << letters.substr(i, 1)
                         << "'; dims are lower-case letters, as in \"bti,oi->bto\"";
    if (letters.find(letters[i], i + 1) != StringRef::npos)
      return emitError() << "equation names letter '" << letters.substr(i, 1) << "' twice in the " << of;
  }
  return success();
}

static LogicalResult checkOperandLetters(StringRef letters, RankedTensorType type, StringRef of,
                                         EmitError emitError) {
  if (static_cast<int64_t>(letters.size()) != type.getRank())
    return emitError() << "equation gives the " << of << " " << letters.size() << " letters, \"" << letters
                       << "\", but it has " << type.getRank() << " dims: " << type;
  return checkLetters(letters, of, emitError);
}

LogicalResult EinsumOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (adaptor.getEquation().count(',') != 1 || adaptor.getEquation().count("->") != 1)
    return emitError() << "equation \"" << adaptor.getEquation()
                       << "\" is not of the form \"lhs,rhs->result\"";
  Equation equation(adaptor.getEquation());
  RankedTensorType lhs = tensorType(adaptor.getLhs()), rhs = tensorType(adaptor.getRhs());
  if (failed(checkElementTypes(adaptor.getOperands(), emitError)) ||
      failed(checkOperandLetters(equation.lhs, lhs, "left operand", emitError)) ||
      failed(checkOperandLetters(equation.rhs, rhs, "right operand", emitError)) ||
      failed(checkLetters(equation.result, "result", emitError)))
    return failure();

  SmallVector<int64_t> shape;
  for (auto [i, letter] : llvm::enumerate(equation.rhs))
    if (size_t j = equation.lhs.find(letter); j != StringRef::npos && lhs.getDimSize(j) != rhs.getDimSize(i))
      return emitError() << "letter '" << Twine(letter) << "' has size " << lhs.getDimSize(j)
                         << " in the left operand but " << rhs.getDimSize(i) << " in the right";
  for (char letter : equation.result) {
    size_t i = equation.lhs.find(letter), j = equation.rhs.find(letter);
    if (i == StringRef::npos && j == StringRef::npos)
      return emitError() << "letter '" << Twine(letter) << "' of the result is in neither operand";
    shape.push_back(i != StringRef::npos ? lhs.getDimSize(i) : rhs.getDimSize(j));
  }
  types.push_back(withShape(lhs, shape));
  return success();
}

/// All letters of an equation, those of the result first, and their sizes: the loops of the contraction.
static std::string loopLetters(const Equation &equation) {
  std::string letters = equation.result.str();
  for (char letter : (equation.lhs + equation.rhs).str())
    if (!StringRef(letters).contains(letter))
      letters += letter;
  return letters;
}

static int64_t sizeOf(char letter, const Equation &equation, Value lhs, Value rhs) {
  size_t i = equation.lhs.find(letter);
  return i != StringRef::npos ? shapeOf(lhs)[i] : shapeOf(rhs)[equation.rhs.find(letter)];
}

ShardingRule EinsumOp::getShardingRule() {
  Equation equation(getEquation());
  ShardingRule rule;
  std::string loops = loopLetters(equation);
  for (char letter : loops)
    rule.addFactor(sizeOf(letter, equation, getLhs(), getRhs()),
                   equation.result.contains(letter) ? FactorKind::Parallel : FactorKind::Reduction);
  auto dims = [&](StringRef letters) {
    ShardingRule::Tensor tensor;
    for (char letter : letters)
      tensor.push_back({static_cast<int>(loops.find(letter))});
    return tensor;
  };
  rule.operands = {dims(equation.lhs), dims(equation.rhs)};
  rule.results.push_back(dims(equation.result));
  rule.linear.push_back({0});
  rule.linear.push_back({1});
  return rule;
}

/// The einsum of `a` and `b`, the operand first whose own letter comes first in the result: then the result
/// is written in the order in which a matrix product produces it.
static Value contract(OpBuilder &builder, Location loc, Value a, StringRef aLetters, Value b,
                      StringRef bLetters, StringRef result) {
  for (char letter : result) {
    bool inA = aLetters.contains(letter), inB = bLetters.contains(letter);
    if (inA && inB)
      continue;
    if (inB) {
      std::swap(a, b);
      std::swap(aLetters, bLetters);
    }
    break;
  }
  return EinsumOp::create(builder, loc, a, b, (aLetters + "," + bLetters + "->" + result).str());
}

/// The gradient of one operand (of letters `own`) given the other. Letters that only this operand has, and
/// the result lacks, were summed away: their gradient is the same at every index.
static Value einsumGradient(OpBuilder &builder, Location loc, Value cotangent, StringRef result, Value other,
                            StringRef otherLetters, RankedTensorType type, StringRef own) {
  std::string present;
  SmallVector<int64_t> shape;
  for (auto [letter, size] : llvm::zip_equal(own, type.getShape())) {
    bool found = result.contains(letter) || otherLetters.contains(letter);
    if (found)
      present += letter;
    shape.push_back(found ? size : 1);
  }
  Value gradient = contract(builder, loc, cotangent, result, other, otherLetters, present);
  if (present.size() == own.size())
    return gradient;
  gradient = ViewOp::create(builder, loc, withShape(type, shape), gradient);
  return BroadcastOp::create(builder, loc, type, gradient);
}

SmallVector<Value> EinsumOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  Equation equation(getEquation());
  auto ofLhs = [&] {
    return einsumGradient(builder, getLoc(), cotangents[0], equation.result, getRhs(), equation.rhs,
                          getLhs().getType(), equation.lhs);
  };
  auto ofRhs = [&] {
    return einsumGradient(builder, getLoc(), cotangents[0], equation.result, getLhs(), equation.lhs,
                          getRhs().getType(), equation.rhs);
  };
  return backwardOf(*this, builder, wanted, {ofLhs, ofRhs});
}

SmallVector<Value> EinsumOp::lower(OpBuilder &builder, ValueRange operands) {
  Equation equation(getEquation());
  std::string loops = loopLetters(equation);
  SmallVector<int64_t> sizes;
  for (char letter : loops)
    sizes.push_back(sizeOf(letter, equation, getLhs(), getRhs()));
  auto mapped = [&](Value tensor, StringRef letters) -> MappedTensor {
    SmallVector<AffineExpr> exprs;
    for (char letter : letters)
      exprs.push_back(builder.getAffineDimExpr(loops.find(letter)));
    return {tensor, AffineMap::get(loops.size(), 0, exprs, builder.getContext())};
  };
  auto kept = llvm::to_vector(llvm::seq<int64_t>(0, equation.result.size()));
  Value product = reduce(builder, getLoc(), Reduction::Sum,
                         {mapped(operands[0], equation.lhs), mapped(operands[1], equation.rhs)}, sizes, kept,
                         [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[1]; });
  return {convertTo(builder, getLoc(), product, getType())};
}

//===-- sum ---------------------------------------------------------------===//

LogicalResult SumOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  return inferReduction(adaptor.getInput(), adaptor.getDims(), adaptor.getKeepdim(), emitError, types);
}

ShardingRule SumOp::getShardingRule() {
  ShardingRule rule = reductionRule(getInput(), getDims(), getKeepdim(), FactorKind::Reduction);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> SumOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto spread = [&]() -> Value {
    RankedTensorType type = getInput().getType();
    Value value = viewAs(builder, getLoc(), cotangents[0], withOnes(type.getShape(), getDims()));
    return value.getType() == type ? value : BroadcastOp::create(builder, getLoc(), type, value);
  };
  return backwardOf(*this, builder, wanted, {spread});
}

SmallVector<Value> SumOp::lower(OpBuilder &builder, ValueRange operands) {
  ArrayRef<int64_t> loops = getInput().getType().getShape();
  Value sum =
      reduce(builder, getLoc(), Reduction::Sum, {alignedRight(operands[0], loops)}, loops,
             keptDims(loops.size(), getDims()), [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
  sum = convertTo(builder, getLoc(), sum, getType());
  return {reshape(builder, getLoc(), sum, getType().getShape())};
}

//===-- softmax -----------------------------------------------------------===//

LogicalResult SoftmaxOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getInput());
  int64_t least = adaptor.getCausal() ? 2 : 1;
  if (type.getRank() < least)
    return emitError() << "needs at least " << least << (least == 1 ? " dim" : " dims (query, key)")
                       << ", but the operand is " << type;
  types.push_back(type);
  return success();
}

ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, getCausal() ? 2 : 1);
  if (getCausal())
    rule.factors[rule.factors.size() - 2].expanded = FactorKind::Parallel;
  return rule;
}

SmallVector<Value> SoftmaxOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       ArrayRef<bool> wanted) {
  return backwardOf(*this, builder, wanted, {[&] {
    return SoftmaxBackwardOp::create(builder, getLoc(), cotangents[0], getResult());
  }});
}

SmallVector<Value> SoftmaxOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getType();
  ArrayRef<int64_t> loops = type.getShape();
  int64_t rows = type.getRank() - 1;
  // `value` where the key is not after the query, else `otherwise`.
  auto masked = [&](ScalarBuilder &scalars, Scalar value, double otherwise) {
    if (!getCausal())
      return value;
    Scalar isLater = isGreater(scalars.index(rows), scalars.index(rows - 1));
    return select(isLater, constant(value, otherwise), value);
  };
  MappedTensor input = alignedRight(operands[0], loops);
  Value largest = reduceRows(builder, loc, Reduction::Maximum, {input}, loops, rows,
                             [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
                               return masked(scalars, x[0], -std::numeric_limits<double>::infinity());
                             });
  RankedTensorType wide = RankedTensorType::get(loops, computeType(type.getElementType()));
  Value exponentials = pointwise(
      builder, loc, {input, alignedLeft(largest, loops)}, wide,
      [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) { return masked(scalars, exp(x[0] - x[1]), 0.0); });
  MappedTensor unscaled = alignedRight(exponentials, loops);
  Value sums = reduceRows(builder, loc, Reduction::Sum, {unscaled}, loops, rows,
                          [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
  Value scales = pointwise(builder, loc, sums, tensorType(sums),
                           [](ScalarBuilder &, ArrayRef<Scalar> x) { return 1.0 / x[0]; });
  return {pointwise(builder, loc, {unscaled, alignedLeft(scales, loops)}, type,
                    [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[1]; })};
}

LogicalResult SoftmaxBackwardOp::inferTypes(Adaptor adaptor, EmitError emitError,
                                            SmallVectorImpl<Type> &types) {
  if (failed(checkEqualTypes(adaptor.getOperands(), emitError)))
    return failure();
  if (tensorType(adaptor.getCotangent()).getRank() == 0)
    return emitError() << "needs at least 1 dim";
  types.push_back(adaptor.getCotangent().getType());
  return success();
}

ShardingRule SoftmaxBackwardOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, 1);
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> SoftmaxBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}

SmallVector<Value> SoftmaxBackwardOp::lower(OpBuilder &builder, ValueRange operands) {
  RankedTensorType type = getType();
  ArrayRef<int64_t> loops = type.getShape();
  MappedTensor cotangent = alignedRight(operands[0], loops), probabilities = alignedRight(operands[1], loops);
  Value dots =
      reduceRows(builder, getLoc(), Reduction::Sum, {cotangent, probabilities}, loops, type.getRank() - 1,
                 [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[1]; });
  return {pointwise(builder, getLoc(), {cotangent, probabilities, alignedLeft(dots, loops)}, type,
                    [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[1] * (x[0] - x[2]); })};
}

//===-- normalize ---------------------------------------------------------===//

/// The mean of the formula over all but the first `rows` dims.
static Value rowMeans(OpBuilder &builder, Location loc, ArrayRef<MappedTensor> inputs,
                      ArrayRef<int64_t> loops, int64_t rows, Formula formula) {
  Value sums = reduceRows(builder, loc, Reduction::Sum, inputs, loops, rows, formula);
  double count = static_cast<double>(ShapedType::getNumElements(loops.drop_front(rows)));
  return pointwise(builder, loc, sums, tensorType(sums),
                   [&](ScalarBuilder &, ArrayRef<Scalar> x) { return (1.0 / count) * x[0]; });
}

LogicalResult NormalizeOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getInput());
  int64_t count = adaptor.getCount();
  if (count < 1 || count > type.getRank())
    return emitError() << "count " << count << " is not between 1 and the operand's rank " << type.getRank();
  if (!adaptor.getEps().isFinite() || adaptor.getEps().isNegative())
    return emitError() << "eps " << adaptor.getEpsAttr() << " is not a non-negative number";
  types.push_back(type);
  types.push_back(withShape(type, type.getShape().drop_back(count)));
  return success();
}

ShardingRule NormalizeOp::getShardingRule() { return rowRule(*this, getCount()); }

SmallVector<Value> NormalizeOp::backward(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         ArrayRef<bool> wanted) {
  if (cotangents[1])
    return refuseBackward(*this, "has no derivative through rstd; only 'normalized' may reach the loss");
  auto ofInput = [&] {
    return NormalizeBackwardOp::create(builder, getLoc(), cotangents[0], getNormalized(), getRstd(),
                                       getUncentered());
  };
  return backwardOf(*this, builder, wanted, {ofInput});
}

SmallVector<Value> NormalizeOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getNormalized().getType();
  ArrayRef<int64_t> loops = type.getShape();
  int64_t rows = getRstd().getType().getRank();
  SmallVector<MappedTensor> inputs{alignedRight(operands[0], loops)};
  if (!getUncentered()) {
    Value means =
        rowMeans(builder, loc, inputs, loops, rows, [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
    inputs.push_back(alignedLeft(means, loops));
  }
  auto distance = [&](ArrayRef<Scalar> x) { return getUncentered() ? x[0] : x[0] - x[1]; };
  Value variances = rowMeans(builder, loc, inputs, loops, rows, [&](ScalarBuilder &, ArrayRef<Scalar> x) {
    Scalar value = distance(x);
    return value * value;
  });
  double eps = getEps().convertToDouble();
  Value rstds = pointwise(builder, loc, variances, tensorType(variances),
                          [&](ScalarBuilder &, ArrayRef<Scalar> x) { return 1.0 / sqrt(x[0] + eps); });
  inputs.push_back(alignedLeft(rstds, loops));
  Value normalized = pointwise(builder, loc, inputs, type,
                               [&](ScalarBuilder &, ArrayRef<Scalar> x) { return distance(x) * x.back(); });
  return {normalized, convertTo(builder, loc, rstds, getRstd().getType())};
}

LogicalResult NormalizeBackwardOp::inferTypes(Adaptor adaptor, EmitError emitError,
                                              SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getCotangent()), rstd = tensorType(adaptor.getRstd());
  if (failed(checkElementTypes(adaptor.getOperands(), emitError)) ||
      failed(checkEqualTypes(adaptor.getOperands().drop_back(), emitError)))
    return failure();
  if (rstd.getRank() >= type.getRank() || type.getShape().take_front(rstd.getRank()) != rstd.getShape())
    return emitError() << "rstd of type " << rstd << " has not the leading dims of the cotangent of type "
                       << type;
  types.push_back(type);
  return success();
}

ShardingRule NormalizeBackwardOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, getType().getRank() - getRstd().getType().getRank());
  rule.linear.push_back({0});
  return rule;
}

SmallVector<Value> NormalizeBackwardOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return refuseBackward(*this, "has no second derivative");
}

SmallVector<Value> NormalizeBackwardOp::lower(OpBuilder &builder, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType type = getType();
  ArrayRef<int64_t> loops = type.getShape();
  int64_t rows = getRstd().getType().getRank();
  MappedTensor cotangent = alignedRight(operands[0], loops), normalized = alignedRight(operands[1], loops);
  Value projections = rowMeans(builder, loc, {cotangent, normalized}, loops, rows,
                               [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0] * x[1]; });
  SmallVector<MappedTensor> inputs{cotangent, normalized, alignedLeft(operands[2], loops),
                                   alignedLeft(projections, loops)};
  if (!getUncentered()) {
    Value means = rowMeans(builder, loc, {cotangent}, loops, rows,
                           [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
    inputs.push_back(alignedLeft(means, loops));
  }
  return {pointwise(builder, loc, inputs, type, [&](ScalarBuilder &, ArrayRef<Scalar> x) {
    Scalar difference = x[0] - x[1] * x[3];
    return x[2] * (getUncentered() ? difference : difference - x[4]);
  })};
}
