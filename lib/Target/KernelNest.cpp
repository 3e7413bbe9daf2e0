#include "plumb/Target/KernelNest.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace plumb::kernels {

/// A bool takes a byte in memory, while a vector of i1 would be packed to bits.
static Type storageType(OpBuilder &b, Type element) { return element.isInteger(1) ? b.getI8Type() : element; }

static unsigned bytesOf(Type element) { return std::max(8u, element.getIntOrFloatBitWidth()) / 8; }

int64_t VectorTarget::lanes(Type type) const { return vectorBytes / std::max(4u, bytesOf(type)); }

Type vectorOf(Type element, int64_t lanes) {
  return lanes == 1 ? element : Type(VectorType::get({lanes}, element));
}

Value constantI64(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

Value broadcast(ImplicitLocOpBuilder &b, Value value, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, VectorType::get({lanes}, value.getType()), value);
}

Value applyLanewise(ImplicitLocOpBuilder &b, Operation *op, ValueRange operands, int64_t lanes) {
  bool vectors = llvm::any_of(operands, [](Value v) { return isa<VectorType>(v.getType()); });
  OperationState state(b.getLoc(), op->getName());
  for (Value operand : operands)
    state.operands.push_back(vectors ? broadcast(b, operand, lanes) : operand);
  Type result = op->getResult(0).getType();
  state.types.push_back(vectors ? VectorType::get({lanes}, result) : result);
  state.attributes = op->getDiscardableAttrDictionary();
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
}

Value linearIndex(ImplicitLocOpBuilder &b, ArrayRef<int64_t> strides, ArrayRef<Value> indices,
                  int64_t offset) {
  Value sum;
  for (auto [stride, index] : llvm::zip_equal(strides, indices)) {
    if (!index || stride == 0)
      continue;
    Value term = stride == 1 ? index : arith::MulIOp::create(b, index, constantI64(b, stride));
    sum = sum ? arith::AddIOp::create(b, sum, term) : term;
  }
  if (!sum)
    return constantI64(b, offset);
  return offset == 0 ? sum : arith::AddIOp::create(b, sum, constantI64(b, offset));
}

static Value gep(ImplicitLocOpBuilder &b, Type element, Value pointer, Value elements) {
  return LLVM::GEPOp::create(b, pointer.getType(), storageType(b, element), pointer, ValueRange{elements});
}

Value advance(ImplicitLocOpBuilder &b, const Access &access, Value elements) {
  return gep(b, access.element, access.pointer, elements);
}

Value laneMask(ImplicitLocOpBuilder &b, int64_t lanes, int64_t valid) {
  SmallVector<bool> bits(lanes, false);
  std::fill_n(bits.begin(), valid, true);
  return arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({lanes}, b.getI1Type()), bits));
}

static Value fromStorage(ImplicitLocOpBuilder &b, Type element, Value stored) {
  if (!element.isInteger(1))
    return stored;
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(stored.getType()));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, stored, zero);
}

Value loadElement(ImplicitLocOpBuilder &b, Type element, Value pointer) {
  Value stored = LLVM::LoadOp::create(b, storageType(b, element), pointer, bytesOf(element));
  return fromStorage(b, element, stored);
}

Value loadVector(ImplicitLocOpBuilder &b, Type element, Value pointer, int64_t lanes, int64_t valid) {
  if (lanes == 1)
    return loadElement(b, element, pointer);
  auto type = VectorType::get({lanes}, storageType(b, element));
  if (valid == lanes)
    return fromStorage(b, element, LLVM::LoadOp::create(b, type, pointer, bytesOf(element)));
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  Value stored =
      LLVM::MaskedLoadOp::create(b, type, pointer, laneMask(b, lanes, valid), zero,
                                 b.getI32IntegerAttr(bytesOf(element)), /*nontemporal=*/UnitAttr());
  return fromStorage(b, element, stored);
}

void storeElements(ImplicitLocOpBuilder &b, Value value, Value pointer, int64_t valid) {
  Type element = getElementTypeOrSelf(value);
  if (element.isInteger(1)) {
    Type bytes = b.getI8Type();
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      bytes = VectorType::get(vector.getShape(), bytes);
    value = arith::ExtUIOp::create(b, bytes, value);
  }
  auto vector = dyn_cast<VectorType>(value.getType());
  if (!vector || vector.getNumElements() == valid) {
    LLVM::StoreOp::create(b, value, pointer, bytesOf(element));
    return;
  }
  LLVM::MaskedStoreOp::create(b, value, pointer, laneMask(b, vector.getNumElements(), valid),
                              bytesOf(element));
}

/// Stride between the lanes of a point.
static int64_t laneStride(const Access &access, const Point &point) {
  return point.lane < 0 ? 0 : access.strides[point.lane];
}

Value loadAt(ImplicitLocOpBuilder &b, const Access &access, const Point &point) {
  Value pointer = advance(b, access, linearIndex(b, access.strides, point.indices));
  int64_t stride = laneStride(access, point);
  if (stride == 0 || point.lanes == 1)
    return loadElement(b, access.element, pointer);
  if (stride == 1)
    return loadVector(b, access.element, pointer, point.lanes, point.valid);
  auto type = VectorType::get({point.lanes}, access.element);
  Value vector = arith::ConstantOp::create(b, b.getZeroAttr(type));
  for (int64_t lane = 0; lane < point.valid; ++lane) {
    Value element =
        loadElement(b, access.element, gep(b, access.element, pointer, constantI64(b, lane * stride)));
    vector = vector::InsertOp::create(b, element, vector, lane);
  }
  return vector;
}

void storeAt(ImplicitLocOpBuilder &b, Value value, const Access &access, const Point &point) {
  Value pointer = advance(b, access, linearIndex(b, access.strides, point.indices));
  int64_t stride = laneStride(access, point);
  if (stride == 0 || point.lanes == 1)
    return storeElements(b, value, pointer, 1);
  value = broadcast(b, value, point.lanes);
  if (stride == 1)
    return storeElements(b, value, pointer, point.valid);
  for (int64_t lane = 0; lane < point.valid; ++lane) {
    Value element = vector::ExtractOp::create(b, value, lane);
    storeElements(b, element, gep(b, access.element, pointer, constantI64(b, lane * stride)), 1);
  }
}

Value addressOf(ImplicitLocOpBuilder &b, Value memref) {
  // The descriptor of a rank-0 base is { allocated pointer, aligned pointer, offset }. The cast meets its
  // inverse when memrefs are lowered; a pointer made from an integer would lose its provenance.
  auto metadata = memref::ExtractStridedMetadataOp::create(b, memref);
  auto pointerType = LLVM::LLVMPointerType::get(b.getContext());
  auto descriptor =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {pointerType, pointerType, b.getI64Type()});
  Value base = UnrealizedConversionCastOp::create(b, descriptor, metadata.getBaseBuffer()).getResult(0);
  Value pointer = LLVM::ExtractValueOp::create(b, base, ArrayRef<int64_t>{1});
  Value offset = arith::IndexCastOp::create(b, b.getI64Type(), metadata.getOffset());
  return gep(b, cast<MemRefType>(memref.getType()).getElementType(), pointer, offset);
}

SmallVector<Value> loop(ImplicitLocOpBuilder &b, int64_t lower, int64_t upper, int64_t step, ValueRange inits,
                        function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (lower >= upper)
    return SmallVector<Value>(inits);
  Value first = constantI64(b, lower);
  if (lower + step >= upper)
    return body(first, inits);
  auto loop = scf::ForOp::create(b, first, constantI64(b, upper), constantI64(b, step), inits);
  // The builder leaves a terminator in a loop that carries nothing.
  if (inits.empty())
    loop.getBody()->getTerminator()->erase();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> loops(ImplicitLocOpBuilder &b, ArrayRef<int> dims, ArrayRef<int64_t> sizes, Point &point,
                         ValueRange inits, function_ref<SmallVector<Value>(ValueRange)> body) {
  if (dims.empty())
    return body(inits);
  int dim = dims.front();
  return loop(b, 0, sizes[dim], 1, inits, [&](Value index, ValueRange carried) {
    point.indices[dim] = sizes[dim] == 1 ? Value() : index;
    return loops(b, dims.drop_front(), sizes, point, carried, body);
  });
}

void mergeLoops(MutableArrayRef<LoopNest *> nests) {
  if (llvm::any_of(nests, [](LoopNest *nest) { return nest->usesIndices; }))
    return;
  LoopNest &first = *nests.front();
  auto forEachAccess = [&](function_ref<bool(Access &)> test) {
    return llvm::all_of(nests, [&](LoopNest *nest) {
      return llvm::all_of(nest->inputs, test) && llvm::all_of(nest->outputs, test);
    });
  };
  auto mergeable = [&](size_t outer, size_t inner) {
    if (outer == inner || first.sizes[outer] == 1 || first.sizes[inner] == 1 ||
        first.reduction[outer] != first.reduction[inner])
      return false;
    return forEachAccess(
        [&](Access &access) { return access.strides[outer] == access.strides[inner] * first.sizes[inner]; });
  };
  for (size_t outer = 0; outer < first.loops(); ++outer)
    for (size_t inner = 0; inner < first.loops(); ++inner) {
      if (!mergeable(outer, inner))
        continue;
      for (LoopNest *nest : nests) {
        nest->sizes[inner] *= nest->sizes[outer];
        nest->sizes[outer] = 1;
      }
      forEachAccess([&](Access &access) {
        access.strides[outer] = 0;
        return true;
      });
      break;
    }
}

} // namespace plumb::kernels
