#include "plumb/Target/KernelPoint.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace plumb::kernels {

PointEmitter::PointEmitter(ImplicitLocOpBuilder &b, linalg::LinalgOp op)
    : b(b), op(op), sizes(op.getStaticLoopRanges()), indices(sizes.size()) {
  op.getParallelDims(parallel);
  op.getReductionDims(reduction);
}

Value PointEmitter::constant(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

/// The indices of some loops at the turn with this number, the last loop running fastest.
void PointEmitter::setIndices(ArrayRef<unsigned> loops, Value number) {
  for (unsigned loop : llvm::reverse(loops)) {
    Value size = constant(sizes[loop]);
    indices[loop] = loop == loops.front() ? number : arith::RemUIOp::create(b, number, size);
    number = arith::DivUIOp::create(b, number, size);
  }
}

SmallVector<Value> PointEmitter::subscripts(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  SmallVector<Value> result;
  for (AffineExpr expr : map.getResults())
    result.push_back(affine::AffineApplyOp::create(b, AffineMap::get(map.getNumDims(), 0, expr), indices));
  return result;
}

/// The body at the current indices.
SmallVector<Value> PointEmitter::evaluate(ValueRange outputs) {
  IRMapping values;
  for (OpOperand *input : op.getDpsInputOperands())
    values.map(op.getMatchingBlockArgument(input),
               op.isScalar(input) ? input->get()
                                  : memref::LoadOp::create(b, input->get(), subscripts(*input)).getResult());
  for (auto [argument, value] : llvm::zip_equal(op.getRegionOutputArgs(), outputs))
    values.map(argument, value);
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner))
      values.map(index.getResult(), indices[index.getDim()]);
    else
      b.clone(inner, values);
  }
  SmallVector<Value> results;
  for (Value yielded : op.getBlock()->getTerminator()->getOperands())
    results.push_back(values.lookupOrDefault(yielded));
  return results;
}

SmallVector<Value> PointEmitter::loadOutputs(Places &places) {
  // Subscripts of outputs do not ask for the reduction loops; any index will do for those.
  for (unsigned loop : reduction)
    indices[loop] = constant(0);
  SmallVector<Value> outputs;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    places.push_back(subscripts(output));
    outputs.push_back(memref::LoadOp::create(b, output.get(), places.back()));
  }
  return outputs;
}

/// What the outputs are after all turns of the reduction loops, in each of which `body` makes new ones.
SmallVector<Value> PointEmitter::reduce(ArrayRef<unsigned> loops, ValueRange outputs,
                                        function_ref<SmallVector<Value>(ValueRange)> body) {
  if (loops.empty())
    return body(outputs);
  auto loop = scf::ForOp::create(b, constant(0), constant(sizes[loops.front()]), constant(1), outputs);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  indices[loops.front()] = loop.getInductionVar();
  scf::YieldOp::create(b, reduce(loops.drop_front(), loop.getRegionIterArgs(), body));
  return SmallVector<Value>(loop.getResults());
}

void PointEmitter::emit(Value point) {
  setIndices(parallel, point);
  Places places;
  SmallVector<Value> outputs = loadOutputs(places);
  SmallVector<Value> results =
      reduce(reduction, outputs, [&](ValueRange carried) { return evaluate(carried); });
  for (auto [output, place, result] : llvm::zip_equal(op.getDpsInits(), places, results))
    memref::StoreOp::create(b, result, output, place);
}

/// Fewer threads would leave a device idle.
static constexpr int64_t kFewestThreads = 32768;

/// The 256 threads of a block are 16 times 16, those of a warp 4 times 8: neighbours load few rows and
/// columns.
static constexpr int64_t kSide = 16, kWarpRows = 4, kWarpColumns = 8;

std::optional<Tile> chooseTile(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() == 0)
    return std::nullopt;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  SmallVector<unsigned> parallel;
  op.getParallelDims(parallel);
  auto longest = [&](auto suits) -> std::optional<unsigned> {
    std::optional<unsigned> best;
    for (unsigned loop : parallel)
      if (suits(loop) && (!best || sizes[loop] >= sizes[*best]))
        best = loop;
    return best;
  };
  auto dependsOn = [&](OpOperand *input, unsigned loop) {
    return op.getMatchingIndexingMap(input).isFunctionOfDim(loop);
  };
  SmallVector<OpOperand *> inputs;
  for (OpOperand *input : op.getDpsInputOperands())
    if (!op.isScalar(input))
      inputs.push_back(input);
  if (inputs.size() != 2)
    return std::nullopt;
  auto rows =
      longest([&](unsigned loop) { return dependsOn(inputs[0], loop) && !dependsOn(inputs[1], loop); });
  auto columns =
      longest([&](unsigned loop) { return dependsOn(inputs[1], loop) && !dependsOn(inputs[0], loop); });
  if (!rows || !columns)
    return std::nullopt;
  // Neighbouring threads write neighbours.
  if (*rows > *columns)
    std::swap(rows, columns);
  int64_t points = 1;
  for (unsigned loop : parallel)
    points *= sizes[loop];
  for (int64_t size : {8, 4, 2}) {
    Tile tile{*rows, *columns, size, 0, 0, 1};
    tile.rowStep = llvm::alignTo(llvm::divideCeil(sizes[*rows], size), kSide);
    tile.columnStep = llvm::alignTo(llvm::divideCeil(sizes[*columns], size), kSide);
    for (unsigned loop : parallel)
      tile.threads *= loop == *rows ? tile.rowStep : loop == *columns ? tile.columnStep : sizes[loop];
    // Not where most of the threads would be for points that are not there.
    if (points / (size * size) >= kFewestThreads && tile.threads <= 2 * points / (size * size))
      return tile;
  }
  return std::nullopt;
}

void PointEmitter::emitTile(Value thread, const Tile &tile) {
  auto take = [&](int64_t size) { // the lowest digit of the thread's number
    Value digit = arith::RemUIOp::create(b, thread, constant(size));
    thread = arith::DivUIOp::create(b, thread, constant(size));
    return digit;
  };
  // From the highest digit to the lowest: other loops; rows and columns of the block, the warp, the thread.
  Value column = take(kWarpColumns), row = take(kWarpRows);
  auto add = [&](Value &index, Value digit, int64_t weight) {
    index = arith::AddIOp::create(b, index, arith::MulIOp::create(b, digit, constant(weight)));
  };
  add(column, take(kSide / kWarpColumns), kWarpColumns);
  add(row, take(kSide / kWarpRows), kWarpRows);
  add(column, take(tile.columnStep / kSide), kSide);
  add(row, take(tile.rowStep / kSide), kSide);
  SmallVector<unsigned> others;
  for (unsigned loop : parallel)
    if (loop != tile.rows && loop != tile.columns)
      others.push_back(loop);
  setIndices(others, thread);

  /// The indices of the square in a loop. Those past the end load the last element instead, and store
  /// nothing.
  auto indicesOf = [&](Value first, unsigned loop, int64_t step) {
    SmallVector<Value> result;
    Value last = constant(sizes[loop] - 1);
    for (int64_t i = 0; i < tile.size; ++i)
      result.push_back(arith::AddIOp::create(b, first, constant(i * step)));
    return std::pair(result, llvm::map_to_vector(result, [&](Value index) -> Value {
                       return arith::MinUIOp::create(b, index, last);
                     }));
  };
  auto [rows, loadedRows] = indicesOf(row, tile.rows, tile.rowStep);
  auto [columns, loadedColumns] = indicesOf(column, tile.columns, tile.columnStep);
  auto forEachPoint = [&](auto function) {
    for (int64_t i = 0; i < tile.size * tile.size; ++i) {
      indices[tile.rows] = loadedRows[i / tile.size];
      indices[tile.columns] = loadedColumns[i % tile.size];
      function(i);
    }
  };

  unsigned count = op.getNumDpsInits();
  Places places;
  SmallVector<Value> outputs;
  forEachPoint([&](int64_t) { llvm::append_range(outputs, loadOutputs(places)); });
  SmallVector<Value> results = reduce(reduction, outputs, [&](ValueRange carried) {
    SmallVector<Value> next;
    forEachPoint([&](int64_t i) { llvm::append_range(next, evaluate(carried.slice(i * count, count))); });
    return next;
  });
  forEachPoint([&](int64_t i) {
    auto isInside = [&](Value index, unsigned loop) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, constant(sizes[loop]));
    };
    Value inside = arith::AndIOp::create(b, isInside(rows[i / tile.size], tile.rows),
                                         isInside(columns[i % tile.size], tile.columns));
    auto branch = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    for (unsigned k = 0; k < count; ++k)
      memref::StoreOp::create(b, results[i * count + k], op.getDpsInits()[k], places[i * count + k]);
  });
}

void PointEmitter::emitPart(Value point, Value part, int64_t parts, ArrayRef<Operation *> combiners,
                            ValueRange partials) {
  setIndices(parallel, point);
  SmallVector<Value> neutral;
  for (Operation *combiner : combiners)
    neutral.push_back(arith::ConstantOp::create(b, *arith::getNeutralElement(combiner)));
  auto loop = scf::ForOp::create(b, part, constant(turns()), constant(parts), neutral);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    setIndices(reduction, loop.getInductionVar());
    scf::YieldOp::create(b, evaluate(loop.getRegionIterArgs()));
  }
  SmallVector<Value> place = llvm::map_to_vector(parallel, [&](unsigned loop) { return indices[loop]; });
  place.push_back(part);
  for (auto [partial, result] : llvm::zip_equal(partials, loop.getResults()))
    memref::StoreOp::create(b, result, partial, place);
}

} // namespace plumb::kernels
