//===- Lowering.cpp - Loop nests from formulas on scalars -----------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace plumb::nn {

//===-- Scalars -----------------------------------------------------------===//

/// Builds `FloatOp` or `IntegerOp` on one or two numbers of one type.
template <typename FloatOp, typename IntegerOp>
static Scalar arithmetic(Scalar a, Scalar b) {
  ImplicitLocOpBuilder &builder = *a.builder;
  if (isa<FloatType>(a.value.getType()))
    return {&builder, FloatOp::create(builder, a.value, b.value)};
  return {&builder, IntegerOp::create(builder, a.value, b.value)};
}

Scalar operator+(Scalar a, Scalar b) { return arithmetic<arith::AddFOp, arith::AddIOp>(a, b); }
Scalar operator-(Scalar a, Scalar b) { return arithmetic<arith::SubFOp, arith::SubIOp>(a, b); }
Scalar operator*(Scalar a, Scalar b) { return arithmetic<arith::MulFOp, arith::MulIOp>(a, b); }
Scalar operator/(Scalar a, Scalar b) {
  return {a.builder, arith::DivFOp::create(*a.builder, a.value, b.value)};
}
Scalar maximum(Scalar a, Scalar b) { return arithmetic<arith::MaximumFOp, arith::MaxSIOp>(a, b); }
Scalar minimum(Scalar a, Scalar b) { return arithmetic<arith::MinimumFOp, arith::MinSIOp>(a, b); }

static TypedAttr numberAttr(Type type, double value) {
  if (auto floatType = dyn_cast<FloatType>(type))
    return FloatAttr::get(floatType, value);
  return IntegerAttr::get(type, static_cast<int64_t>(value));
}

Scalar constant(Scalar like, double value) {
  ImplicitLocOpBuilder &builder = *like.builder;
  return {&builder, arith::ConstantOp::create(builder, numberAttr(like.value.getType(), value))};
}

Scalar exp(Scalar x) { return {x.builder, math::ExpOp::create(*x.builder, x.value)}; }
Scalar log(Scalar x) { return {x.builder, math::LogOp::create(*x.builder, x.value)}; }
Scalar sqrt(Scalar x) { return {x.builder, math::SqrtOp::create(*x.builder, x.value)}; }
Scalar tanh(Scalar x) { return {x.builder, math::TanhOp::create(*x.builder, x.value)}; }
Scalar erf(Scalar x) { return {x.builder, math::ErfOp::create(*x.builder, x.value)}; }
Scalar sin(Scalar x) { return {x.builder, math::SinOp::create(*x.builder, x.value)}; }
Scalar cos(Scalar x) { return {x.builder, math::CosOp::create(*x.builder, x.value)}; }
Scalar abs(Scalar x) { return {x.builder, math::AbsFOp::create(*x.builder, x.value)}; }
Scalar floor(Scalar x) { return {x.builder, math::FloorOp::create(*x.builder, x.value)}; }
Scalar roundToEven(Scalar x) { return {x.builder, math::RoundEvenOp::create(*x.builder, x.value)}; }

/// x to the power n > 0 by squaring.
static Scalar wholePower(Scalar x, int64_t n) {
  if (n == 1)
    return x;
  Scalar half = wholePower(x, n / 2);
  Scalar square = half * half;
  return n % 2 ? square * x : square;
}

Scalar power(Scalar x, double exponent) {
  double size = std::abs(exponent);
  if (exponent == 0)
    return constant(x, 1);
  Scalar result = x;
  if (size <= 8 && size == std::floor(size))
    result = wholePower(x, static_cast<int64_t>(size));
  else if (size == 0.5)
    result = sqrt(x);
  else
    return {x.builder, math::PowFOp::create(*x.builder, x.value, constant(x, exponent).value)};
  return exponent > 0 ? result : 1.0 / result;
}

static Scalar compare(arith::CmpFPredicate floatPredicate, arith::CmpIPredicate integerPredicate, Scalar a,
                      Scalar b) {
  ImplicitLocOpBuilder &builder = *a.builder;
  if (isa<FloatType>(a.value.getType()))
    return {&builder, arith::CmpFOp::create(builder, floatPredicate, a.value, b.value)};
  return {&builder, arith::CmpIOp::create(builder, integerPredicate, a.value, b.value)};
}

Scalar isGreater(Scalar a, Scalar b) {
  return compare(arith::CmpFPredicate::OGT, arith::CmpIPredicate::sgt, a, b);
}
Scalar isLess(Scalar a, Scalar b) { return isGreater(b, a); }
Scalar isLessEqual(Scalar a, Scalar b) {
  return compare(arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle, a, b);
}
Scalar isEqual(Scalar a, Scalar b) {
  return compare(arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq, a, b);
}

Scalar both(Scalar a, Scalar b) { return {a.builder, arith::AndIOp::create(*a.builder, a.value, b.value)}; }
Scalar either(Scalar a, Scalar b) { return {a.builder, arith::OrIOp::create(*a.builder, a.value, b.value)}; }

Scalar select(Scalar condition, Scalar ifTrue, Scalar ifFalse) {
  ImplicitLocOpBuilder &builder = *condition.builder;
  return {&builder, arith::SelectOp::create(builder, condition.value, ifTrue.value, ifFalse.value)};
}

Scalar toI64(Scalar x) {
  Type i64 = x.builder->getI64Type();
  return x.value.getType() == i64 ? x : Scalar{x.builder, arith::ExtSIOp::create(*x.builder, i64, x.value)};
}

/// The float in another float type; other numbers stay.
static Value convertScalar(OpBuilder &builder, Location loc, Value value, Type type) {
  auto from = dyn_cast<FloatType>(value.getType());
  if (!from || from == type)
    return value;
  if (from.getWidth() < cast<FloatType>(type).getWidth())
    return arith::ExtFOp::create(builder, loc, type, value);
  return arith::TruncFOp::create(builder, loc, type, value);
}

static TypedAttr lowestAttr(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return IntegerAttr::get(integer, APInt::getSignedMinValue(integer.getWidth()));
  return numberAttr(type, -std::numeric_limits<double>::infinity());
}

Scalar lowest(Scalar like) {
  return {like.builder, arith::ConstantOp::create(*like.builder, lowestAttr(like.value.getType()))};
}

static Scalar convertFromFloat(Scalar x, Type to) {
  ImplicitLocOpBuilder &builder = *x.builder;
  if (isa<FloatType>(to))
    return {&builder, convertScalar(builder, builder.getLoc(), x.value, to)};
  if (to.isInteger(1))
    return {&builder,
            arith::CmpFOp::create(builder, arith::CmpFPredicate::UNE, x.value, constant(x, 0).value)};
  return {&builder, arith::FPToSIOp::create(builder, to, x.value)};
}

Scalar convert(Scalar x, Type to) {
  ImplicitLocOpBuilder &builder = *x.builder;
  Type from = x.value.getType();
  if (from == to)
    return x;
  if (isa<FloatType>(from))
    return convertFromFloat(x, to);
  if (from.isInteger(1) && isa<FloatType>(to))
    return {&builder, arith::UIToFPOp::create(builder, to, x.value)};
  if (from.isInteger(1))
    return {&builder, arith::ExtUIOp::create(builder, to, x.value)};
  if (isa<FloatType>(to))
    return {&builder, arith::SIToFPOp::create(builder, to, x.value)};
  if (to.isInteger(1))
    return {&builder,
            arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, x.value, constant(x, 0).value)};
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return {&builder, arith::ExtSIOp::create(builder, to, x.value)};
  return {&builder, arith::TruncIOp::create(builder, to, x.value)};
}

Scalar ScalarBuilder::index(int64_t dim) {
  Value value = linalg::IndexOp::create(builder, dim);
  return {&builder, arith::IndexCastOp::create(builder, builder.getI64Type(), value)};
}

Scalar ScalarBuilder::integer(int64_t value) {
  return {&builder, arith::ConstantOp::create(builder, builder.getI64IntegerAttr(value))};
}

Scalar ScalarBuilder::real(Type type, double value) {
  return {&builder, arith::ConstantOp::create(builder, builder.getFloatAttr(type, value))};
}

Scalar elementAt(ScalarBuilder &scalars, Value tensor, ValueRange place) {
  Value element = tensor::ExtractOp::create(scalars.builder, tensor, place);
  return {&scalars.builder,
          convertScalar(scalars.builder, scalars.builder.getLoc(), element, computeType(element.getType()))};
}

Value indexInside(OpBuilder &builder, Location loc, Value named, int64_t size) {
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(builder, loc, value); };
  Value inside = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), named);
  inside = arith::MaxSIOp::create(builder, loc, inside, index(0));
  return arith::MinSIOp::create(builder, loc, inside, index(size - 1));
}

//===-- Loop nests --------------------------------------------------------===//

Type computeType(Type type) {
  auto floatType = dyn_cast<FloatType>(type);
  return floatType && floatType.getWidth() < 32 ? Float32Type::get(type.getContext()) : type;
}

MappedTensor alignedRight(Value tensor, ArrayRef<int64_t> loops) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  MLIRContext *context = tensor.getContext();
  size_t added = loops.size() - shape.size();
  SmallVector<AffineExpr> exprs;
  for (auto [i, size] : llvm::enumerate(shape))
    exprs.push_back(size == 1 && loops[added + i] != 1 ? getAffineConstantExpr(0, context)
                                                       : getAffineDimExpr(added + i, context));
  return {tensor, AffineMap::get(loops.size(), 0, exprs, context)};
}

static AffineMap loopMap(MLIRContext *context, size_t loopCount, ArrayRef<int64_t> dims) {
  SmallVector<AffineExpr> exprs(
      llvm::map_range(dims, [&](int64_t dim) { return getAffineDimExpr(dim, context); }));
  return AffineMap::get(loopCount, 0, exprs, context);
}

MappedTensor alignedLeft(Value tensor, ArrayRef<int64_t> loops) {
  auto rows = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(tensor).size()));
  return {tensor, loopMap(tensor.getContext(), loops.size(), rows)};
}

/// One `linalg.generic` into `init`. The body sees the inputs in their compute type and the current element
/// of `init`, and its value is rounded to the element type of `init`.
static Value loopNest(OpBuilder &builder, Location loc, ArrayRef<MappedTensor> inputs, MappedTensor init,
                      function_ref<Scalar(ScalarBuilder &, ArrayRef<Scalar>, Scalar)> body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const MappedTensor &input : inputs) {
    values.push_back(input.tensor);
    maps.push_back(input.map);
  }
  maps.push_back(init.map);
  SmallVector<utils::IteratorType> iterators(init.map.getNumDims(), utils::IteratorType::reduction);
  for (AffineExpr expr : init.map.getResults())
    iterators[cast<AffineDimExpr>(expr).getPosition()] = utils::IteratorType::parallel;

  auto buildBody = [&](OpBuilder &nested, Location nestedLoc, ValueRange arguments) {
    ImplicitLocOpBuilder bodyBuilder(nestedLoc, nested);
    ScalarBuilder scalars{bodyBuilder};
    SmallVector<Scalar> x;
    for (Value argument : arguments.drop_back())
      x.push_back(
          {&bodyBuilder, convertScalar(nested, nestedLoc, argument, computeType(argument.getType()))});
    Value result = body(scalars, x, {&bodyBuilder, arguments.back()}).value;
    linalg::YieldOp::create(bodyBuilder,
                            convertScalar(bodyBuilder, nestedLoc, result, arguments.back().getType()));
  };
  return linalg::GenericOp::create(builder, loc, init.tensor.getType(), values, init.tensor, maps, iterators,
                                   buildBody)
      .getResult(0);
}

Value pointwise(OpBuilder &builder, Location loc, ArrayRef<MappedTensor> inputs, RankedTensorType result,
                Formula formula) {
  AffineMap identity = AffineMap::getMultiDimIdentityMap(result.getRank(), builder.getContext());
  return loopNest(builder, loc, inputs, {emptyTensor(builder, loc, result), identity},
                  [&](ScalarBuilder &scalars, ArrayRef<Scalar> x, Scalar) { return formula(scalars, x); });
}

Value pointwise(OpBuilder &builder, Location loc, ValueRange inputs, RankedTensorType result,
                Formula formula) {
  SmallVector<MappedTensor> mapped(
      llvm::map_range(inputs, [&](Value input) { return alignedRight(input, result.getShape()); }));
  return pointwise(builder, loc, mapped, result, formula);
}

/// Lets the accumulation be reordered: without it a row reduction stays scalar.
static Scalar accumulate(Reduction kind, Scalar accumulator, Scalar value) {
  Scalar result = kind == Reduction::Sum ? accumulator + value : maximum(accumulator, value);
  auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz | arith::FastMathFlags::contract;
  if (auto op = result.value.getDefiningOp<arith::ArithFastMathInterface>())
    op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(op->getContext(), flags));
  return result;
}

static Value filledWith(OpBuilder &builder, Location loc, RankedTensorType type, TypedAttr value) {
  Value number = arith::ConstantOp::create(builder, loc, value);
  return linalg::FillOp::create(builder, loc, number, emptyTensor(builder, loc, type)).getResult(0);
}

Value reduce(OpBuilder &builder, Location loc, Reduction kind, ArrayRef<MappedTensor> inputs,
             ArrayRef<int64_t> loops, ArrayRef<int64_t> kept, Formula formula, Type element) {
  SmallVector<int64_t> shape(llvm::map_range(kept, [&](int64_t loop) { return loops[loop]; }));
  if (!element)
    element = computeType(tensorType(inputs[0].tensor).getElementType());
  auto type = RankedTensorType::get(shape, element);
  TypedAttr neutral = kind == Reduction::Sum ? numberAttr(element, 0) : lowestAttr(element);
  MappedTensor init{filledWith(builder, loc, type, neutral),
                    loopMap(builder.getContext(), loops.size(), kept)};
  return loopNest(builder, loc, inputs, init,
                  [&](ScalarBuilder &scalars, ArrayRef<Scalar> x, Scalar accumulator) {
                    return accumulate(kind, accumulator, formula(scalars, x));
                  });
}

Value reduceRows(OpBuilder &builder, Location loc, Reduction kind, ArrayRef<MappedTensor> inputs,
                 ArrayRef<int64_t> loops, int64_t rows, Formula formula, Type element) {
  return reduce(builder, loc, kind, inputs, loops, llvm::to_vector(llvm::seq<int64_t>(0, rows)), formula,
                element);
}

Value addInto(OpBuilder &builder, Location loc, Value value, Value into) {
  AffineMap identity = AffineMap::getMultiDimIdentityMap(tensorType(into).getRank(), builder.getContext());
  return loopNest(builder, loc, MappedTensor{value, identity}, {into, identity},
                  [](ScalarBuilder &, ArrayRef<Scalar> x, Scalar sum) { return sum + x[0]; });
}

Value convertTo(OpBuilder &builder, Location loc, Value tensor, RankedTensorType type) {
  if (tensorType(tensor).getElementType() == type.getElementType())
    return tensor;
  return pointwise(builder, loc, tensor, type, [](ScalarBuilder &, ArrayRef<Scalar> x) { return x[0]; });
}

Value filled(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  return filledWith(builder, loc, type, numberAttr(type.getElementType(), value));
}

Value emptyTensor(OpBuilder &builder, Location loc, RankedTensorType type) {
  return tensor::EmptyOp::create(builder, loc, type.getShape(), type.getElementType());
}

//===-- Reshapes ----------------------------------------------------------===//

namespace {
/// Dims of two shapes in runs of equal element count: what one dim between the two shapes stands for.
struct CommonDims {
  SmallVector<int64_t> sizes;
  SmallVector<ReassociationIndices> from, to;
};
} // namespace

/// Both shapes have the same element count, which is not 0.
static CommonDims commonDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  CommonDims common;
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    ReassociationIndices fromDims{static_cast<int64_t>(i)}, toDims{static_cast<int64_t>(j)};
    int64_t fromSize = from[i++], toSize = to[j++];
    while (fromSize != toSize) {
      if (fromSize < toSize) {
        fromDims.push_back(static_cast<int64_t>(i));
        fromSize *= from[i++];
      } else {
        toDims.push_back(static_cast<int64_t>(j));
        toSize *= to[j++];
      }
    }
    common.sizes.push_back(fromSize);
    common.from.push_back(fromDims);
    common.to.push_back(toDims);
  }
  // What is left on one side has size 1. With no run at all, one side is a scalar and so is what lies
  // between.
  for (; i < from.size() && !common.from.empty(); ++i)
    common.from.back().push_back(static_cast<int64_t>(i));
  for (; j < to.size() && !common.to.empty(); ++j)
    common.to.back().push_back(static_cast<int64_t>(j));
  return common;
}

Value reshape(OpBuilder &builder, Location loc, Value tensor, ArrayRef<int64_t> shape) {
  RankedTensorType from = tensorType(tensor), to = withShape(from, shape);
  if (from == to)
    return tensor;
  if (to.getNumElements() == 0)
    return emptyTensor(builder, loc, to);
  CommonDims common = commonDims(from.getShape(), shape);
  RankedTensorType middle = withShape(from, common.sizes);
  if (from != middle)
    tensor = tensor::CollapseShapeOp::create(builder, loc, middle, tensor, common.from);
  if (middle != to)
    tensor = tensor::ExpandShapeOp::create(builder, loc, to, tensor, common.to);
  return tensor;
}

} // namespace plumb::nn
