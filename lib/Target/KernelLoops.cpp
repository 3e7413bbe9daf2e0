#include "plumb/Target/KernelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace plumb::kernels {

void transposeSquare(ImplicitLocOpBuilder &b, MutableArrayRef<Value> rows) {
  // Each step swaps one bit of the row number with the same bit of the column number.
  int64_t size = rows.size();
  for (int64_t bit = size / 2; bit > 0; bit /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t column = 0; column < size; ++column) {
      bool fromSecond = column & bit;
      low.push_back(fromSecond ? size + column - bit : column);
      high.push_back(fromSecond ? size + column : column + bit);
    }
    for (int64_t row = 0; row < size; ++row) {
      if (row & bit)
        continue;
      Value first = rows[row], second = rows[row + bit];
      rows[row] = vector::ShuffleOp::create(b, first, second, low);
      rows[row + bit] = vector::ShuffleOp::create(b, first, second, high);
    }
  }
}

namespace {
class Emitter {
public:
  Emitter(ImplicitLocOpBuilder &b, const LoopNest &nest, const VectorTarget &target);
  void emit();

private:
  double costPerElement(int lane) const;
  int chooseLane() const;
  SmallVector<int> orderedLoops(bool reduction, ArrayRef<int> without) const;
  int transposedAlong(const Access &input) const;

  void emitParallelLane();
  void emitTile(Point point, int64_t vectors, int64_t valid);
  void emitReductionLane();
  void emitTransposed(int other);
  void emitFromCopies();
  SmallVector<Value> evaluate(Point &point, ValueRange accumulators);

  ImplicitLocOpBuilder &b;
  const LoopNest &nest;
  const VectorTarget &target;
  int64_t lanes = 1;
  int lane = -1;
  /// Outputs that one value is folded into over all reduction loops; the others are written at every point.
  SmallVector<bool> accumulates;
  /// Some output varies with a part of the reduction loops only: every point reads and writes memory.
  bool throughMemory = false;
};
} // namespace

Emitter::Emitter(ImplicitLocOpBuilder &b, const LoopNest &nest, const VectorTarget &target)
    : b(b), nest(nest), target(target) {
  for (const Access &access : llvm::concat<const Access>(nest.inputs, nest.outputs))
    if (access.element.isIntOrFloat())
      lanes = std::max(lanes, target.lanes(access.element));
  for (const Access &output : nest.outputs) {
    int64_t fixed = 0, varying = 0;
    for (size_t loop = 0; loop < nest.loops(); ++loop) {
      if (nest.sizes[loop] == 1)
        continue;
      bool moves = output.strides[loop] != 0;
      if (nest.reduction[loop])
        ++(moves ? varying : fixed);
      else
        throughMemory |= !moves;
    }
    throughMemory |= fixed && varying;
    accumulates.push_back(fixed != 0);
  }
  if (throughMemory)
    accumulates.assign(accumulates.size(), false);
  lane = chooseLane();
  if (lane < 0)
    lanes = 1;
}

/// The loop along which an input lies contiguously though the lanes do not, or -1.
int Emitter::transposedAlong(const Access &input) const {
  if (throughMemory || lane < 0 || nest.reduction[lane] || input.strides[lane] == 0 ||
      input.strides[lane] == 1 || nest.sizes[lane] < 4)
    return -1;
  for (size_t loop = 0; loop < nest.loops(); ++loop)
    if (input.strides[loop] == 1 && nest.sizes[loop] >= 4 && !nest.reduction[loop])
      return loop;
  return -1;
}

/// Rough cycles per element with `lane` as vector loop: a vector access costs 1, one of separate elements as
/// many as there are lanes.
double Emitter::costPerElement(int lane) const {
  int64_t width = lane < 0 ? 1 : lanes;
  auto cost = [&](ArrayRef<int64_t> strides) -> double {
    int64_t stride = lane < 0 ? 0 : strides[lane];
    return stride == 0 ? 0.3 : stride == 1 ? 1 : 1.5 * width;
  };
  double total = 0.5 + 0.5 * nest.bodyOps;
  for (const Access &input : nest.inputs) {
    double each = input.pointer ? cost(input.strides) : 0;
    // A square tile of vectors is transposed by four shuffles a vector.
    bool tiles = lane >= 0 && !nest.reduction[lane] &&
                 llvm::any_of(llvm::seq<size_t>(0, nest.loops()), [&](size_t loop) {
                   return input.strides[loop] == 1 && nest.sizes[loop] >= 4 && !nest.reduction[loop];
                 });
    total += tiles ? std::min(each, 6.0) : each;
  }
  for (auto [output, reads] : llvm::zip_equal(nest.outputs, nest.readsOutput))
    total += (reads ? 2 : 1) * cost(output.strides);
  for (ArrayRef<int64_t> gather : nest.gathers)
    total += cost(gather);
  if (lane < 0)
    return 2 * total;
  int64_t size = nest.sizes[lane];
  double vectors = llvm::divideCeil(size, width);
  if (nest.reduction[lane])
    return total * vectors / size + 12.0 / size;
  return total * vectors / size;
}

int Emitter::chooseLane() const {
  int best = -1;
  double bestCost = costPerElement(-1);
  for (int loop = nest.loops() - 1; loop >= 0; --loop) {
    if (nest.sizes[loop] == 1)
      continue;
    bool legal = true;
    for (auto [i, output] : llvm::enumerate(nest.outputs)) {
      if (throughMemory)
        legal &= output.strides[loop] != 0 && !nest.reduction[loop];
      else if (nest.reduction[loop] && accumulates[i])
        legal &= nest.combiners[i] != nullptr;
    }
    legal &= !nest.reduction[loop] || llvm::is_contained(accumulates, true);
    double cost = costPerElement(loop);
    if (legal && cost < bestCost) {
      best = loop;
      bestCost = cost;
    }
  }
  return best;
}

/// Loops that run more than once, the longest stride outermost. When dot products are taken, that is the loop
/// over most of the inputs, so that these stream by once.
SmallVector<int> Emitter::orderedLoops(bool reduction, ArrayRef<int> without) const {
  SmallVector<int> result;
  for (size_t loop = 0; loop < nest.loops(); ++loop)
    if (nest.sizes[loop] != 1 && nest.reduction[loop] == reduction && !llvm::is_contained(without, loop))
      result.push_back(loop);
  auto weight = [&](int loop) {
    bool dots = lane >= 0 && nest.reduction[lane];
    int64_t sum = 0;
    for (const Access &access : reduction || dots ? nest.inputs : nest.outputs)
      sum += std::abs(access.strides[loop]) * (dots ? nest.sizes[loop] : 1);
    return sum;
  };
  llvm::sort(result, [&](int x, int y) { return std::pair(-weight(x), x) < std::pair(-weight(y), y); });
  return result;
}

/// The body at a point. Outputs written at every point are stored; the new accumulators are returned.
SmallVector<Value> Emitter::evaluate(Point &point, ValueRange accumulators) {
  SmallVector<Value> inputs, outputs;
  for (auto [input, reads] : llvm::zip_equal(nest.inputs, nest.readsInput))
    inputs.push_back(reads ? loadAt(b, input, point) : Value());
  size_t next = 0;
  for (auto [i, output] : llvm::enumerate(nest.outputs)) {
    if (accumulates[i])
      outputs.push_back(accumulators[next++]);
    else
      outputs.push_back(nest.readsOutput[i] ? loadAt(b, output, point) : Value());
  }
  SmallVector<Value> results = nest.body(b, point, inputs, outputs), carried;
  if (nest.padded == lane)
    point.valid = point.lanes;
  for (auto [i, result] : llvm::enumerate(results)) {
    if (accumulates[i])
      carried.push_back(broadcast(b, result, point.lanes));
    else
      storeAt(b, result, nest.outputs[i], point);
  }
  return carried;
}

/// `vectors` neighbouring vectors along the parallel lane loop, through all reduction loops.
void Emitter::emitTile(Point point, int64_t vectors, int64_t valid) {
  SmallVector<Point> points(vectors, point);
  for (int64_t i = 1; i < vectors; ++i)
    points[i].indices[lane] = linearIndex(b, 1, point.indices[lane], i * lanes);
  points.back().valid = valid;
  SmallVector<Value> inits;
  for (Point &each : points)
    for (auto [i, output] : llvm::enumerate(nest.outputs))
      if (accumulates[i])
        inits.push_back(broadcast(b, loadAt(b, output, each), lanes));
  size_t width = inits.size() / vectors;
  SmallVector<int> reductions = orderedLoops(/*reduction=*/true, {});
  SmallVector<Value> results = loops(b, reductions, nest.sizes, point, inits, [&](ValueRange carried) {
    SmallVector<Value> next;
    for (auto [i, each] : llvm::enumerate(points)) {
      for (int loop : reductions)
        each.indices[loop] = point.indices[loop];
      next.append(evaluate(each, carried.slice(i * width, width)));
    }
    return next;
  });
  auto result = results.begin();
  for (Point &each : points) {
    for (int loop : reductions)
      each.indices[loop] = Value();
    for (auto [i, output] : llvm::enumerate(nest.outputs))
      if (accumulates[i])
        storeAt(b, *result++, output, each);
  }
}

void Emitter::emitParallelLane() {
  Point point(nest.loops());
  point.lane = lane;
  point.lanes = point.valid = lanes;
  bool reduces = llvm::is_contained(accumulates, true);
  loops(b, orderedLoops(/*reduction=*/false, lane), nest.sizes, point, {}, [&](ValueRange) {
    if (lane < 0) {
      emitTile(point, 1, 1);
      return SmallVector<Value>();
    }
    // Several accumulators hide the latency of the sum.
    int64_t size = nest.sizes[lane], unroll = nest.bodyOps > 8 ? 1 : reduces ? 4 : 2;
    int64_t chunk = unroll * lanes, whole = size / chunk * chunk, rest = size - whole;
    loop(b, 0, whole, chunk, {}, [&](Value index, ValueRange) {
      point.indices[lane] = index;
      emitTile(point, unroll, lanes);
      return SmallVector<Value>();
    });
    if (rest != 0) {
      point.indices[lane] = constantI64(b, whole);
      int64_t vectors = llvm::divideCeil(rest, lanes);
      emitTile(point, vectors, rest - (vectors - 1) * lanes);
    }
    return SmallVector<Value>();
  });
}

void Emitter::emitReductionLane() {
  int64_t size = nest.sizes[lane];
  int64_t unroll = std::min<int64_t>(nest.bodyOps <= 8 ? 4 : 1, llvm::divideCeil(size, lanes));
  int64_t chunk = unroll * lanes, whole = size / chunk * chunk, rest = size - whole;

  SmallVector<Operation *> combiners;
  SmallVector<const Access *> outputs;
  for (auto [i, output] : llvm::enumerate(nest.outputs))
    if (accumulates[i]) {
      combiners.push_back(nest.combiners[i]);
      outputs.push_back(&output);
    }
  size_t width = combiners.size();

  auto emitChunk = [&](Point &point, Value index, int64_t vectors, int64_t valid, ValueRange carried) {
    SmallVector<Value> next(carried);
    for (int64_t i = 0; i < vectors; ++i) {
      Point each = point;
      each.indices[lane] = linearIndex(b, 1, index, i * lanes);
      each.valid = i + 1 == vectors ? valid : lanes;
      SmallVector<Value> results = evaluate(each, carried.slice(i * width, width));
      for (size_t k = 0; k < width; ++k) {
        Value &slot = next[i * width + k];
        slot = each.valid == lanes
                   ? results[k]
                   : arith::SelectOp::create(b, laneMask(b, lanes, each.valid), results[k], slot).getResult();
      }
    }
    return next;
  };

  Point point(nest.loops());
  point.lane = lane;
  point.lanes = point.valid = lanes;
  loops(b, orderedLoops(/*reduction=*/false, {}), nest.sizes, point, {}, [&](ValueRange) {
    SmallVector<Value> inits;
    for (int64_t i = 0; i < unroll; ++i)
      for (Operation *combiner : combiners)
        inits.push_back(
            broadcast(b, arith::ConstantOp::create(b, *arith::getNeutralElement(combiner)), lanes));
    SmallVector<int> outer = orderedLoops(/*reduction=*/true, lane);
    SmallVector<Value> partial = loops(b, outer, nest.sizes, point, inits, [&](ValueRange carried) {
      SmallVector<Value> next = loop(b, 0, whole, chunk, carried, [&](Value index, ValueRange inner) {
        return emitChunk(point, index, unroll, lanes, inner);
      });
      if (rest != 0) {
        int64_t vectors = llvm::divideCeil(rest, lanes);
        next = emitChunk(point, constantI64(b, whole), vectors, rest - (vectors - 1) * lanes, next);
      }
      return next;
    });
    for (int loop : outer)
      point.indices[loop] = Value();
    Point scalar(nest.loops());
    scalar.indices = point.indices;
    scalar.indices[lane] = Value();
    for (size_t k = 0; k < width; ++k) {
      Value all = partial[k];
      for (int64_t i = 1; i < unroll; ++i)
        all = applyLanewise(b, combiners[k], {all, partial[i * width + k]}, lanes);
      auto folded = vector::ReductionOp::create(b, *linalg::getCombinerOpKind(combiners[k]), all,
                                                arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz);
      Value result = applyLanewise(b, combiners[k], {loadAt(b, *outputs[k], scalar), folded}, 1);
      storeAt(b, result, *outputs[k], scalar);
    }
    return SmallVector<Value>();
  });
}

/// Tiles of lanes × lanes points over the lane loop and `other`, in which the inputs that are contiguous
/// along `other` are read in that direction and transposed in registers.
void Emitter::emitTransposed(int other) {
  Point point(nest.loops());
  point.lane = lane;
  point.lanes = lanes;
  auto emitSquare = [&](Value otherIndex, Value laneIndex, int64_t others, int64_t valid) {
    SmallVector<SmallVector<Value>> transposed(nest.inputs.size());
    for (auto [i, input] : llvm::enumerate(nest.inputs)) {
      if (!nest.readsInput[i] || transposedAlong(input) != other)
        continue;
      Point along(nest.loops());
      along.indices = point.indices;
      along.indices[other] = otherIndex;
      along.lane = other;
      along.lanes = lanes;
      along.valid = others;
      Value zero = arith::ConstantOp::create(b, b.getZeroAttr(VectorType::get({lanes}, input.element)));
      for (int64_t row = 0; row < lanes; ++row) {
        along.indices[lane] = linearIndex(b, 1, laneIndex, row);
        transposed[i].push_back(row < valid ? loadAt(b, input, along) : zero);
      }
      transposeSquare(b, transposed[i]);
    }
    Point each = point;
    each.indices[lane] = laneIndex;
    each.valid = valid;
    for (int64_t row = 0; row < others; ++row) {
      each.indices[other] = linearIndex(b, 1, otherIndex, row);
      SmallVector<Value> inputs, outputs;
      for (auto [i, input] : llvm::enumerate(nest.inputs))
        inputs.push_back(!transposed[i].empty() ? transposed[i][row]
                         : nest.readsInput[i]   ? loadAt(b, input, each)
                                                : Value());
      for (auto [i, output] : llvm::enumerate(nest.outputs))
        outputs.push_back(nest.readsOutput[i] ? loadAt(b, output, each) : Value());
      SmallVector<Value> results = nest.body(b, each, inputs, outputs);
      if (nest.padded == lane)
        each.valid = lanes;
      for (auto [output, value] : llvm::zip_equal(nest.outputs, results))
        storeAt(b, value, output, each);
      each.valid = valid;
    }
  };
  auto tiles = [&](int64_t size, function_ref<void(Value, int64_t)> body) {
    int64_t whole = size / lanes * lanes;
    loop(b, 0, whole, lanes, {}, [&](Value index, ValueRange) {
      body(index, lanes);
      return SmallVector<Value>();
    });
    if (whole != size)
      body(constantI64(b, whole), size - whole);
  };
  loops(b, orderedLoops(/*reduction=*/false, {lane, other}), nest.sizes, point, {}, [&](ValueRange) {
    tiles(nest.sizes[other], [&](Value otherIndex, int64_t others) {
      tiles(nest.sizes[lane],
            [&](Value laneIndex, int64_t valid) { emitSquare(otherIndex, laneIndex, others, valid); });
    });
    return SmallVector<Value>();
  });
}

/// Copies the inputs that lie across the lanes first. A tile repeats the body for each of its vectors, which
/// a long body is not worth.
void Emitter::emitFromCopies() {
  LoopNest plain = nest;
  SmallVector<int> order = orderedLoops(/*reduction=*/false, lane);
  order.push_back(lane);
  for (auto [i, input] : llvm::enumerate(plain.inputs)) {
    if (!nest.readsInput[i] || transposedAlong(input) < 0)
      continue;
    LoopNest copy;
    copy.sizes.assign(nest.loops(), 1);
    copy.reduction.assign(nest.loops(), false);
    Access temporary{Value(), input.element, SmallVector<int64_t>(nest.loops(), 0)};
    int64_t elements = 1;
    for (int loop : llvm::reverse(order)) {
      if (input.strides[loop] == 0)
        continue;
      copy.sizes[loop] = nest.sizes[loop];
      temporary.strides[loop] = elements;
      elements *= nest.sizes[loop];
    }
    temporary.pointer = addressOf(b, memref::AllocOp::create(b, MemRefType::get({elements}, input.element)));
    copy.inputs.push_back(input);
    copy.outputs.push_back(temporary);
    copy.readsInput.push_back(true);
    copy.readsOutput.push_back(false);
    copy.combiners.push_back(nullptr);
    copy.body = [](ImplicitLocOpBuilder &, const Point &, ValueRange inputs, ValueRange) {
      return SmallVector<Value>{inputs[0]};
    };
    emitLoops(b, copy, target);
    input = temporary;
  }
  emitLoops(b, plain, target);
}

void Emitter::emit() {
  if (llvm::is_contained(nest.sizes, 0))
    return;
  if (lane >= 0 && nest.reduction[lane] && llvm::is_contained(accumulates, true))
    return emitReductionLane();
  bool parallel = orderedLoops(/*reduction=*/true, {}).empty();
  if (parallel)
    for (auto [input, reads] : llvm::zip_equal(nest.inputs, nest.readsInput))
      if (int other = reads && input.pointer ? transposedAlong(input) : -1; other >= 0)
        return nest.bodyOps <= 4 ? emitTransposed(other) : emitFromCopies();
  emitParallelLane();
}

void emitLoops(ImplicitLocOpBuilder &b, const LoopNest &nest, const VectorTarget &target) {
  Emitter(b, nest, target).emit();
}

} // namespace plumb::kernels
