//===- Expansions.cpp - Ops taken apart so that more of them can be sharded ===//
//
// Some ops need a dim whole only because they look at positions along it: which row of a table an index
// names, which class is the target, which query a key comes after. Taken apart, positions are numbers that
// are sharded like everything else (`nn.iota`), and each part of the dim contributes to a sum.
//
//===----------------------------------------------------------------------===//

#include "OpSupport.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <limits>

using namespace mlir;
using namespace plumb::nn;

namespace {
/// Writes nn ops at one location.
class Expander {
public:
  Expander(OpBuilder &builder, Location loc) : builder(loc, builder) {}

  Value view(Value value, ArrayRef<int64_t> shape) { return viewAs(builder, builder.getLoc(), value, shape); }
  /// The value with `count` dims of size 1 behind its own, against which others broadcast.
  Value withTrailingOnes(Value value, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape.append(count, 1);
    return view(value, shape);
  }
  /// 0, step, 2 step, …: `count` integers of the element type of `like`.
  Value positions(Value like, int64_t count, int64_t step = 1) {
    return make<IotaOp>(withShape(tensorType(like), {count}), builder.getI64IntegerAttr(0),
                        builder.getI64IntegerAttr(step));
  }
  Value number(Value like, double value) { return numberLike(builder, builder.getLoc(), like, value); }
  Value toFloat(Value value, Type element) {
    return make<ConvertOp>(RankedTensorType::get(shapeOf(value), element), value);
  }
  Value sum(Value value, ArrayRef<int64_t> dims) {
    return make<SumOp>(value, builder.getDenseI64ArrayAttr(dims), UnitAttr());
  }
  template <typename OpT, typename... Args>
  Value make(Args &&...args) {
    return OpT::create(builder, std::forward<Args>(args)...)->getResult(0);
  }

private:
  ImplicitLocOpBuilder builder;
};

/// For each part of a table of `rows` rows and each index: the index counted from the part's first row, and
/// whether that row lies in the part (1 or 0, of type `element`).
struct LocalIndices {
  Value indices, isInside;

  LocalIndices(Expander &expand, Value global, int64_t parts, int64_t rows, Type element) {
    SmallVector<int64_t> front(shapeOf(global).size() + 1, 1);
    front[0] = parts;
    Value first = expand.view(expand.positions(global, parts, rows), front);
    indices = expand.make<SubOp>(global, first);
    Value isBefore = expand.make<LessOp>(indices, expand.number(global, 0));
    Value isBehind = expand.make<LessEqualOp>(expand.number(global, static_cast<double>(rows)), indices);
    Value isOutside = expand.make<WhereOp>(isBefore, isBefore, isBehind);
    Value one = expand.toFloat(expand.number(global, 1), element);
    isInside = expand.make<SubOp>(one, expand.toFloat(isOutside, element));
  }
};

/// Logits as classes in parts, and which of the classes are their row's target.
struct ClassParts {
  Value logits, isTarget;

  ClassParts(Expander &expand, Value whole, Value targets, int64_t parts) {
    SmallVector<int64_t> shape(shapeOf(whole));
    int64_t classes = shape.back();
    shape.back() = parts;
    shape.push_back(classes / parts);
    logits = expand.view(whole, shape);
    Value numbers = expand.view(expand.positions(targets, classes), {parts, classes / parts});
    isTarget = expand.make<EqualOp>(expand.withTrailingOnes(targets, 2), numbers);
  }
};
} // namespace

/// Each part of the table gives the rows that it has, and zeros for the others.
SmallVector<Value> EmbeddingOp::expand(OpBuilder &builder, int, int64_t parts) {
  Expander expand(builder, getLoc());
  RankedTensorType table = getTable().getType();
  int64_t rows = table.getDimSize(0) / parts;
  LocalIndices local(expand, getIndices(), parts, rows, table.getElementType());
  Value tables = expand.view(getTable(), {parts, rows, table.getDimSize(1)});
  Value found = expand.make<EmbeddingOp>(tables, local.indices);
  found = expand.make<MulOp>(found, expand.withTrailingOnes(local.isInside, 1));
  return {expand.sum(found, {0})};
}

SmallVector<Value> EmbeddingBackwardOp::expand(OpBuilder &builder, int, int64_t parts) {
  Expander expand(builder, getLoc());
  RankedTensorType table = getType();
  int64_t rows = table.getDimSize(0) / parts;
  LocalIndices local(expand, getIndices(), parts, rows, table.getElementType());
  Value cotangents = expand.make<MulOp>(getCotangent(), expand.withTrailingOnes(local.isInside, 1));
  RankedTensorType tables = withShape(table, {parts, rows, table.getDimSize(1)});
  Value gradient = expand.make<EmbeddingBackwardOp>(tables, cotangents, local.indices);
  return {expand.view(gradient, table.getShape())};
}

/// The log of the sum of exponentials of each part, shifted by its own maximum; then the same over the parts.
SmallVector<Value> CrossEntropyOp::expand(OpBuilder &builder, int, int64_t parts) {
  Expander expand(builder, getLoc());
  ClassParts classes(expand, getLogits(), getTargets(), parts);
  int64_t partDim = getLogits().getType().getRank() - 1;
  auto attr = [&](int64_t dim) { return builder.getDenseI64ArrayAttr({dim}); };
  Value largest = expand.make<MaxOp>(classes.logits, attr(partDim + 1), UnitAttr());
  Value shifted = expand.make<SubOp>(classes.logits, expand.withTrailingOnes(largest, 1));
  Value sums = expand.sum(expand.make<ExpOp>(shifted), {partDim + 1});
  Value overall = expand.make<MaxOp>(largest, attr(partDim), UnitAttr());
  Value scale = expand.make<ExpOp>(expand.make<SubOp>(largest, expand.withTrailingOnes(overall, 1)));
  Value total = expand.sum(expand.make<MulOp>(sums, scale), {partDim});
  Value lse = expand.make<AddOp>(expand.make<LogOp>(total), overall);
  Value picked = expand.make<WhereOp>(classes.isTarget, classes.logits, expand.number(classes.logits, 0));
  picked = expand.sum(picked, {partDim, partDim + 1});
  Value isValid = expand.make<IsValidOp>(getLosses().getType(), getTargets(), getIgnoreIndexAttr());
  return {expand.make<MulOp>(expand.make<SubOp>(lse, picked), isValid), lse};
}

SmallVector<Value> CrossEntropyBackwardOp::expand(OpBuilder &builder, int, int64_t parts) {
  Expander expand(builder, getLoc());
  RankedTensorType rows = getCotangent().getType();
  ClassParts classes(expand, getLogits(), getTargets(), parts);
  Value shifted = expand.make<SubOp>(classes.logits, expand.withTrailingOnes(getLse(), 2));
  Value oneHot = expand.toFloat(classes.isTarget, rows.getElementType());
  Value isValid = expand.make<IsValidOp>(rows, getTargets(), getIgnoreIndexAttr());
  Value cotangent = expand.make<MulOp>(getCotangent(), isValid);
  Value gradient = expand.make<MulOp>(expand.make<SubOp>(expand.make<ExpOp>(shifted), oneHot),
                                      expand.withTrailingOnes(cotangent, 2));
  return {expand.view(gradient, getType().getShape())};
}

/// The causal mask by numbers of queries and keys.
SmallVector<Value> SoftmaxOp::expand(OpBuilder &builder, int, int64_t) {
  Expander expand(builder, getLoc());
  ArrayRef<int64_t> shape = getType().getShape();
  int64_t queries = shape[shape.size() - 2], keys = shape.back();
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  Value like = FillOp::create(builder, getLoc(), integer, APFloat(0.0));
  Value isVisible = expand.make<LessEqualOp>(expand.view(expand.positions(like, keys), {1, keys}),
                                             expand.view(expand.positions(like, queries), {queries, 1}));
  Value hidden = expand.number(getInput(), -std::numeric_limits<double>::infinity());
  return {expand.make<SoftmaxOp>(expand.make<WhereOp>(isVisible, getInput(), hidden), UnitAttr())};
}
