#include "plumb/Target/KernelProduct.h"

#include "plumb/Target/KernelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace plumb::kernels {

/// Follows conversions from a factor of the product back to the argument it is made of.
static BlockArgument throughConversions(Value value, SmallVectorImpl<Operation *> &conversions) {
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1 || !isa<CastOpInterface>(op))
      return {};
    conversions.push_back(op);
    value = op->getOperand(0);
  }
  std::reverse(conversions.begin(), conversions.end());
  return cast<BlockArgument>(value);
}

std::optional<Product> matchProduct(const LoopNest &nest) {
  if (!nest.block || nest.inputs.size() != 2 || nest.outputs.size() != 1 || nest.usesIndices)
    return std::nullopt;
  Block *block = nest.block;
  Operation *add = block->getTerminator()->getOperand(0).getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::AddIOp>(add))
    return std::nullopt;
  Value accumulator = block->getArgument(2);
  if (add->getOperand(0) != accumulator && add->getOperand(1) != accumulator)
    return std::nullopt;
  Operation *mul = add->getOperand(add->getOperand(0) == accumulator ? 1 : 0).getDefiningOp();
  if (!isa_and_nonnull<arith::MulFOp, arith::MulIOp>(mul))
    return std::nullopt;

  Product product;
  product.nest = nest;
  BlockArgument left = throughConversions(mul->getOperand(0), product.convertA);
  BlockArgument right = throughConversions(mul->getOperand(1), product.convertB);
  if (!left || !right || left.getOwner() != block || right.getOwner() != block || left == right ||
      left == accumulator || right == accumulator)
    return std::nullopt;
  const Access *a = &nest.inputs[left.getArgNumber()], *b = &nest.inputs[right.getArgNumber()];
  const Access *c = &nest.outputs[0];
  if (!a->pointer || !b->pointer)
    return std::nullopt;

  int contiguous = -1;
  for (size_t loop = 0; loop < nest.loops(); ++loop)
    if (c->strides[loop] == 1)
      contiguous = loop;
  if (contiguous < 0)
    return std::nullopt;
  if (b->strides[contiguous] == 0) {
    std::swap(a, b);
    std::swap(product.convertA, product.convertB);
  }
  for (size_t loop = 0; loop < nest.loops(); ++loop) {
    if (nest.sizes[loop] == 1)
      continue;
    bool inA = a->strides[loop] != 0, inB = b->strides[loop] != 0, inC = c->strides[loop] != 0;
    if (inC == nest.reduction[loop] || (nest.reduction[loop] && !(inA && inB)) || (!inA && !inB))
      return std::nullopt;
    (!inC         ? product.inner
     : inA && inB ? product.batch
     : inA        ? product.rows
                  : product.columns)
        .push_back(loop);
  }
  if (!llvm::is_contained(product.columns, contiguous) || product.inner.empty())
    return std::nullopt;
  // The tile runs over the contiguous columns and over the largest loop of rows.
  llvm::erase(product.columns, contiguous);
  product.columns.push_back(contiguous);
  auto sortBy = [](SmallVectorImpl<int> &loops, function_ref<int64_t(int)> weight) {
    llvm::sort(loops, [&](int x, int y) { return std::pair(weight(x), x) < std::pair(weight(y), y); });
  };
  sortBy(product.rows, [&](int loop) { return nest.sizes[loop]; });
  sortBy(product.inner, [&](int loop) { return -std::abs(b->strides[loop]); });
  product.swapped = a == &nest.inputs[1];

  int64_t rows = 1;
  for (int loop : product.rows)
    rows *= nest.sizes[loop];
  // With few rows, transposing B costs as much as the product itself: better take dot products.
  if (rows < 6 && b->strides[contiguous] != 1)
    return std::nullopt;
  return product;
}

namespace {
class Emitter {
public:
  Emitter(ImplicitLocOpBuilder &b, const Product &p, const VectorTarget &target);
  void emit();

private:
  /// Where the two factors of a tile are read: packed, or in place where the pointer is null.
  struct Tile {
    int64_t rows, columns;
    Value packedA, packedB;
  };
  const Access &accessA() const { return p.nest.inputs[indexA]; }
  const Access &accessB() const { return p.nest.inputs[1 - indexA]; }
  const Access &accessC() const { return p.nest.outputs[0]; }

  void emitBlock(Point point, Value first, Value past, int64_t valid);
  void pack(const Access &from, const Point &point, int loop, int64_t count, Value packed, int64_t width,
            ArrayRef<Operation *> conversions);
  SmallVector<int64_t> packedStrides(int64_t width) const;
  void emitRows(Point &point, function_ref<void(Point &, int64_t rows)> body);
  void emitTile(Point point, const Tile &tile);
  void emitEpilogue(const Point &point, const Tile &tile);
  Value convert(Value value, ArrayRef<Operation *> conversions, int64_t width);

  ImplicitLocOpBuilder &b;
  const Product &p;
  const VectorTarget &target;
  unsigned indexA;
  Type element;
  int64_t lanes, rowsPerTile, columnsPerTile, depth = 1, panelsPerBlock;
  int rowLoop = -1, columnLoop;
  bool packsA, packsB;
  Value bufferA, bufferB, bufferC;
};
} // namespace

Emitter::Emitter(ImplicitLocOpBuilder &b, const Product &p, const VectorTarget &target)
    : b(b), p(p), target(target), indexA(p.swapped ? 1 : 0), element(accessC().element),
      lanes(target.lanes(element)), columnLoop(p.columns.back()) {
  int64_t rows = 1, columns = p.nest.sizes[columnLoop];
  if (!p.rows.empty())
    rowLoop = p.rows.back(), rows = p.nest.sizes[rowLoop];
  for (int loop : p.inner)
    depth *= p.nest.sizes[loop];
  // Two vectors of B and a broadcast element of A beside the accumulators leave some registers to the
  // addresses of a loop in flight. With few rows, wider tiles keep enough independent sums.
  int64_t accumulators = target.vectorRegisters * 3 / 4;
  int64_t vectors = std::min<int64_t>(llvm::divideCeil(columns, lanes), rows >= 4 ? 2 : 8 / rows);
  columnsPerTile = vectors * lanes;
  rowsPerTile = std::min(rows, accumulators / vectors);
  packsB = accessB().strides[columnLoop] != 1 || rows > 2 * rowsPerTile;
  // A block of packed panels shares the second-level cache with the rows of A that pass by.
  int64_t budget =
      768 * 1024 / (depth * columnsPerTile * std::max<int64_t>(4, element.getIntOrFloatBitWidth() / 8));
  panelsPerBlock = std::clamp<int64_t>(budget, 1, std::max<int64_t>(1, columns / columnsPerTile));
  // A walk through A with long strides touches a page per step; worth a copy if several panels share it.
  int64_t bytesOfWalk = std::abs(accessA().strides[p.inner.back()]) * depth * 4;
  packsA = accessA().strides[p.inner.back()] != 1 && bytesOfWalk > 32 * 1024 && panelsPerBlock >= 2;
}

Value Emitter::convert(Value value, ArrayRef<Operation *> conversions, int64_t width) {
  for (Operation *conversion : conversions)
    value = applyLanewise(b, conversion, value, width);
  return value;
}

/// The strides of a packed panel: k runs over its rows, `width` elements apart.
SmallVector<int64_t> Emitter::packedStrides(int64_t width) const {
  SmallVector<int64_t> strides(p.nest.loops(), 0);
  for (int loop : llvm::reverse(p.inner)) {
    strides[loop] = width;
    width *= p.nest.sizes[loop];
  }
  return strides;
}

/// packed[k][i] = from(k, i) for `count` steps of `loop`, beginning at the point.
void Emitter::pack(const Access &from, const Point &point, int loop, int64_t count, Value packed,
                   int64_t width, ArrayRef<Operation *> conversions) {
  LoopNest copy;
  copy.sizes.assign(p.nest.loops(), 1);
  copy.reduction.assign(p.nest.loops(), false);
  for (int inner : p.inner)
    copy.sizes[inner] = p.nest.sizes[inner];
  copy.sizes[loop] = count;
  copy.padded = loop;
  Access source = from, panel{packed, element, packedStrides(width)};
  source.pointer = advance(b, from, linearIndex(b, from.strides, point.indices));
  panel.strides[loop] = 1;
  copy.inputs.push_back(source);
  copy.outputs.push_back(panel);
  copy.readsInput.push_back(true);
  copy.readsOutput.push_back(false);
  copy.combiners.push_back(nullptr);
  copy.body = [&](ImplicitLocOpBuilder &, const Point &at, ValueRange inputs, ValueRange) {
    return SmallVector<Value>{convert(inputs[0], conversions, at.lanes)};
  };
  emitLoops(b, copy, target);
}

/// Calls the body for tiles of rows that differ by one row at most: two static sizes, and no small rest.
void Emitter::emitRows(Point &point, function_ref<void(Point &, int64_t rows)> body) {
  if (rowLoop < 0)
    return body(point, 1);
  int64_t rows = p.nest.sizes[rowLoop], tiles = llvm::divideCeil(rows, rowsPerTile);
  int64_t small = rows / tiles, split = (rows % tiles) * (small + 1);
  auto part = [&](int64_t lower, int64_t upper, int64_t step) {
    loop(b, lower, upper, step, {}, [&](Value index, ValueRange) {
      point.indices[rowLoop] = index;
      body(point, step);
      return SmallVector<Value>();
    });
  };
  part(0, split, small + 1);
  part(split, rows, small);
}

/// C(rows, columns) of one tile, which begins at the point.
void Emitter::emitTile(Point point, const Tile &tile) {
  const Access &accC = accessC();
  Access tileA = accessA(), tileB = accessB(), tileC = accC;
  int64_t rowStrideA = rowLoop < 0 ? 0 : tileA.strides[rowLoop],
          rowStrideC = rowLoop < 0 ? 0 : accC.strides[rowLoop];
  if (bufferC) {
    tileC.pointer = bufferC;
    rowStrideC = columnsPerTile;
  } else {
    tileC.pointer = advance(b, accC, linearIndex(b, accC.strides, point.indices));
  }
  ArrayRef<Operation *> convertA = p.convertA, convertB = p.convertB;
  if (tile.packedA) {
    tileA = {tile.packedA, element, packedStrides(lanes)};
    rowStrideA = 1;
    convertA = {};
  } else {
    tileA.pointer = advance(b, tileA, linearIndex(b, tileA.strides, point.indices));
  }
  if (tile.packedB) {
    tileB = {tile.packedB, element, packedStrides(columnsPerTile)};
    convertB = {};
  } else {
    tileB.pointer = advance(b, tileB, linearIndex(b, tileB.strides, point.indices));
  }
  int64_t vectors = llvm::divideCeil(tile.columns, lanes);
  auto validLanes = [&](int64_t vector) { return std::min(lanes, tile.columns - vector * lanes); };
  auto addressC = [&](int64_t row, int64_t vector) {
    return advance(b, tileC, constantI64(b, row * rowStrideC + vector * lanes));
  };

  SmallVector<Value> sums;
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(vectorOf(element, lanes)));
  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t vector = 0; vector < vectors; ++vector)
      sums.push_back(p.overwrites ? zero
                                  : loadVector(b, element, addressC(row, vector), lanes, validLanes(vector)));

  Point inner(p.nest.loops());
  sums = loops(b, p.inner, p.nest.sizes, inner, sums, [&](ValueRange carried) {
    SmallVector<Value> columns, next;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      Value address = advance(b, tileB, linearIndex(b, tileB.strides, inner.indices, vector * lanes));
      int64_t valid = tile.packedB ? lanes : validLanes(vector);
      columns.push_back(convert(loadVector(b, tileB.element, address, lanes, valid), convertB, lanes));
    }
    for (int64_t row = 0; row < tile.rows; ++row) {
      Value address = advance(b, tileA, linearIndex(b, tileA.strides, inner.indices, row * rowStrideA));
      Value factor = broadcast(b, convert(loadElement(b, tileA.element, address), convertA, 1), lanes);
      for (int64_t vector = 0; vector < vectors; ++vector) {
        Value sum = carried[row * vectors + vector];
        if (isa<FloatType>(element))
          next.push_back(LLVM::FMulAddOp::create(b, factor, columns[vector], sum));
        else
          next.push_back(arith::AddIOp::create(b, sum, arith::MulIOp::create(b, factor, columns[vector])));
      }
    }
    return next;
  });

  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t vector = 0; vector < vectors; ++vector)
      storeElements(b, sums[row * vectors + vector], addressC(row, vector), validLanes(vector));
}

/// The epilogue of one tile, which begins at the point.
void Emitter::emitEpilogue(const Point &point, const Tile &tile) {
  LoopNest nest = p.epilogue->nest;
  nest.sizes.assign(nest.loops(), 1);
  nest.sizes[columnLoop] = tile.columns;
  if (rowLoop >= 0)
    nest.sizes[rowLoop] = tile.rows;
  for (Access &access : llvm::concat<Access>(nest.inputs, nest.outputs))
    if (access.pointer)
      access.pointer = advance(b, access, linearIndex(b, access.strides, point.indices));
  if (bufferC) {
    Access &input = nest.inputs[p.epilogue->input];
    input.pointer = bufferC;
    input.strides.assign(nest.loops(), 0);
    input.strides[columnLoop] = 1;
    if (rowLoop >= 0)
      input.strides[rowLoop] = columnsPerTile;
  }
  emitLoops(b, nest, target);
}

/// The panels that begin in [first, past), `columns` wide: packs them, then runs all rows over them.
void Emitter::emitBlock(Point point, Value first, Value past, int64_t columns) {
  Value step = constantI64(b, columnsPerTile);
  auto forPanels = [&](Point &at, function_ref<void(Value packed)> body) {
    auto panels = scf::ForOp::create(b, first, past, step);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(panels.getBody()->getTerminator());
    Value packed;
    at.indices[columnLoop] = panels.getInductionVar();
    if (packsB) {
      // Panels of `depth` rows, as many elements apart as `depth` times the columns between them.
      Value between = arith::SubIOp::create(b, panels.getInductionVar(), first);
      packed = advance(b, {bufferB, element, {}}, arith::MulIOp::create(b, between, constantI64(b, depth)));
    }
    body(packed);
  };
  if (packsB)
    forPanels(point, [&](Value packed) {
      pack(accessB(), point, columnLoop, columns, packed, columnsPerTile, p.convertB);
    });
  ArrayRef<int> outerRows = p.rows;
  loops(b, outerRows.drop_back(outerRows.empty() ? 0 : 1), p.nest.sizes, point, {}, [&](ValueRange) {
    emitRows(point, [&](Point &at, int64_t rows) {
      if (packsA)
        pack(accessA(), at, rowLoop, rows, bufferA, lanes, p.convertA);
      forPanels(at, [&](Value packed) {
        Tile tile{rows, columns, bufferA, packed};
        emitTile(at, tile);
        if (p.epilogue)
          emitEpilogue(at, tile);
      });
    });
    return SmallVector<Value>();
  });
}

void Emitter::emit() {
  int64_t columns = p.nest.sizes[columnLoop], whole = columns / columnsPerTile * columnsPerTile;
  auto allocate = [&](int64_t elements) {
    return addressOf(b, memref::AllocOp::create(b, MemRefType::get({elements}, element)));
  };
  if (packsA)
    bufferA = allocate(depth * lanes);
  if (packsB)
    bufferB = allocate(panelsPerBlock * depth * columnsPerTile);
  if (p.epilogue && p.epilogue->consumes)
    bufferC = allocate(rowsPerTile * columnsPerTile);
  SmallVector<int> outer = p.batch;
  outer.append(p.columns.begin(), p.columns.end() - 1);
  Point point(p.nest.loops());
  loops(b, outer, p.nest.sizes, point, {}, [&](ValueRange) {
    int64_t step = panelsPerBlock * columnsPerTile;
    loop(b, 0, whole, step, {}, [&](Value first, ValueRange) {
      Value past = arith::MinSIOp::create(b, arith::AddIOp::create(b, first, constantI64(b, step)),
                                          constantI64(b, whole));
      emitBlock(point, first, past, columnsPerTile);
      return SmallVector<Value>();
    });
    if (whole != columns)
      emitBlock(point, constantI64(b, whole), constantI64(b, columns), columns - whole);
    return SmallVector<Value>();
  });
}

void emitProduct(ImplicitLocOpBuilder &b, const Product &product, const VectorTarget &target) {
  Emitter(b, product, target).emit();
}

} // namespace plumb::kernels
