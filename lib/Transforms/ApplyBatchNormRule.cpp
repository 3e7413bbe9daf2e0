//===- ApplyBatchNormRule.cpp - Batch normalisation in training --------------===//
//
// Statistics are sums over rows. Rows that are normalised together are a part of dim 0: to take the
// statistics of parts, dim 0 is seen as (ranks, microbatches, rows), in which order the axes of the batch cut
// it. So every plan, the unsplit model included, computes the same.
//
// Running statistics move in each call of a microbatch, microbatch by microbatch. If the calls of a forward
// move them by the fractions f_k, what is there before a microbatch keeps the share D = product of (1 - f_k),
// and after all of M microbatches they are
//
//   D^M running + sum over k and m of f_k (1 - f_(k+1)) (1 - f_(k+2)) … D^(M - 1 - m) statistic_k(m).
//
// Each call adds its sum over m, the first one also takes the share of what was there before the step.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Utils.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace plumb;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The parts of a batch that are normalised apart.
struct Parts {
  int64_t ranks = 1, microbatches = 1;
  bool isLocal = false; ///< Each rank by itself.

  bool isWhole() const { return microbatches == 1 && (!isLocal || ranks == 1); }
};

/// One of the calls that move the same running statistics.
struct Move {
  bool isFirst = true;
  double after = 1; ///< The share of a statistic that later calls for the same microbatch leave.
  double share = 1; ///< What all calls for a microbatch leave of what was there before.
};

class Normalisation {
public:
  Normalisation(ModuleOp module, ProgramOp program, BatchNormOp op, const Parts &parts, const Move &move)
      : module(module), program(program), op(op), parts(parts), move(move), builder(op), loc(op.getLoc()),
        scope(builder, op, Phase::Forward) {}

  LogicalResult expand() {
    Value input = op.getInput();
    SmallVector<int64_t> shape(typeOf(input).getShape()), reduced{0};
    if (!parts.isWhole()) {
      int64_t count = parts.ranks * parts.microbatches;
      if (shape[0] % count)
        return emitModelError(op) << "normalises " << shape[0] << " rows, which " << parts.ranks
                                  << " ranks of " << parts.microbatches << " microbatches do not divide";
      shape[0] /= count;
      shape.insert(shape.begin(), {parts.ranks, parts.microbatches});
      reduced = parts.isLocal ? SmallVector<int64_t>{2} : SmallVector<int64_t>{0, 2};
    }
    int64_t channel = parts.isWhole() ? 1 : 3, terms = 1;
    for (auto dim = static_cast<size_t>(channel) + 1; dim < shape.size(); ++dim)
      reduced.push_back(static_cast<int64_t>(dim));
    for (int64_t dim : reduced)
      terms *= shape[dim];
    if (terms < 2)
      return emitModelError(op) << "has one value per channel to normalise; it needs more than one";
    Value rows = viewAs(input, shape), mean = scaled(sum(rows, reduced, true), 1.0 / terms);
    Value distance = nn::SubOp::create(builder, loc, rows, mean);
    Value squares = sum(nn::MulOp::create(builder, loc, distance, distance), reduced, true);
    Value wide = nn::AddOp::create(builder, loc, scaled(squares, 1.0 / terms),
                                   number(squares, op.getEps().convertToDouble()));
    Value root = nn::PowerOp::create(builder, loc, wide, APFloat(-0.5));
    Value result = nn::MulOp::create(builder, loc, distance, root);
    op.getResult().replaceAllUsesWith(viewAs(result, typeOf(input).getShape()));
    if (!op.getRunning().empty()) {
      Value statistics[] = {mean, scaled(squares, 1.0 / static_cast<double>(terms - 1))};
      for (auto [running, updated, statistic] : llvm::zip(op.getRunning(), op.getUpdated(), statistics))
        updated.replaceAllUsesWith(moved(running, statistic));
    }
    op.erase();
    return success();
  }

private:
  Value viewAs(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return nn::ViewOp::create(builder, loc, RankedTensorType::get(shape, typeOf(value).getElementType()),
                              value);
  }
  Value sum(Value value, ArrayRef<int64_t> dims, bool keepdim) {
    return nn::SumOp::create(builder, loc, value, builder.getDenseI64ArrayAttr(dims),
                             keepdim ? builder.getUnitAttr() : UnitAttr());
  }
  Value scaled(Value value, double factor) {
    return nn::ScaleOp::create(builder, loc, value, builder.getF64FloatAttr(factor));
  }
  Value number(Value like, double value) {
    return nn::FillOp::create(builder, loc, RankedTensorType::get({}, typeOf(like).getElementType()),
                              builder.getF64FloatAttr(value));
  }

  /// A running statistic moved towards those of the parts.
  Value moved(Value running, Value statistic) {
    double fraction = op.getMomentum().convertToDouble();
    int64_t channels = typeOf(running).getDimSize(0), count = parts.microbatches;
    if (parts.isWhole()) {
      statistic = viewAs(statistic, {channels});
      return nn::WeightedSumOp::create(builder, loc, running, APFloat(1 - fraction), statistic,
                                       APFloat(fraction));
    }
    // Ranks that normalise by themselves keep the mean of what they have.
    int64_t apart = parts.isLocal ? parts.ranks : 1;
    statistic = scaled(sum(viewAs(statistic, {apart, count, channels}), {0}, false), 1.0 / apart);
    Value added = nn::EinsumOp::create(builder, loc, makeWeights(running, fraction * move.after), statistic,
                                       builder.getStringAttr("m,mc->c"));
    double left = move.isFirst ? std::pow(move.share, count) : 1;
    return nn::WeightedSumOp::create(builder, loc, running, APFloat(left), added, APFloat(1.0));
  }

  /// w D^(M - 1 - m) for each microbatch m.
  Value makeWeights(Value like, double weight) {
    int64_t count = parts.microbatches;
    SmallVector<AxisRefAttr> axes;
    if (getMicrobatches(module) > 1)
      axes.push_back(AxisRefAttr::get(builder.getStringAttr(kMicrobatchAxis)));
    Value numbers = getNumbers(program, "microbatch", count, DimShardingAttr::get(op.getContext(), axes, {}));
    auto type = RankedTensorType::get({count}, typeOf(like).getElementType());
    Value powers = nn::SubOp::create(builder, loc, nn::ConvertOp::create(builder, loc, type, numbers),
                                     number(like, static_cast<double>(count - 1)));
    double base = std::log(std::max(move.share, std::numeric_limits<double>::min()));
    return scaled(nn::ExpOp::create(builder, loc, scaled(powers, -base)), weight);
  }

  ModuleOp module;
  ProgramOp program;
  BatchNormOp op;
  Parts parts;
  Move move;
  OpBuilder builder;
  Location loc;
  ProvenanceScope scope;
};

} // namespace

/// The ranks that cut the rows of the batch, besides the microbatches.
static int64_t countRanksOfRows(ModuleOp module, ProgramOp program) {
  int64_t most = 1;
  for (InputOp input : program.getBody().getOps<InputOp>()) {
    ArrayRef<DimShardingAttr> dims = getLayout(input.getResult()).getDims();
    int64_t ranks = 1;
    for (AxisRefAttr axis : dims.empty() ? ArrayRef<AxisRefAttr>() : dims.front().getAxes())
      ranks *= axis.getName() == kMicrobatchAxis ? 1 : getAxisSize(module, axis);
    most = std::max(most, ranks);
  }
  return most;
}

static FailureOr<Parts> readParts(ModuleOp module, ProgramOp program, BatchNormRuleOp rule) {
  Parts parts;
  if (!rule)
    return parts;
  if (rule.getOver() != "microbatch" && rule.getOver() != "local")
    return emitError(rule.getLoc()) << "batch normalisation over \"" << rule.getOver()
                                    << "\" is unknown; there are microbatch and local";
  parts.isLocal = rule.getOver() == "local";
  parts.microbatches = getMicrobatches(module);
  parts.ranks = countRanksOfRows(module, program);
  if (rule.getParts()) {
    parts.ranks = (*rule.getParts())[0];
    parts.microbatches = (*rule.getParts())[1];
  }
  module->setAttr(kBatchPartsAttr, Builder(module).getDenseI64ArrayAttr({parts.ranks, parts.microbatches}));
  return parts;
}

/// The call whose running statistics a call goes on from, if it is not the first.
static BatchNormOp previousCall(BatchNormOp op) {
  return op.getRunning().empty() ? BatchNormOp() : op.getRunning().front().getDefiningOp<BatchNormOp>();
}

/// Calls that move the same running statistics in turn, which each call hands to one other at most.
static FailureOr<DenseMap<Operation *, Move>> orderMoves(ArrayRef<BatchNormOp> ops) {
  DenseMap<Operation *, BatchNormOp> next;
  for (BatchNormOp op : ops) {
    BatchNormOp previous = previousCall(op);
    bool inTurn = !previous || next.try_emplace(previous, op).second;
    for (auto [i, running] : llvm::enumerate(op.getRunning()))
      inTurn &= previous ? running == previous.getUpdated()[i] : !!running.getDefiningOp<LoadOp>();
    if (!inTurn)
      return emitModelError(op)
             << "moves running statistics that something else than another call of the same "
                "normalisation has changed before; with several microbatches these would have "
                "to change in turn; use one microbatch";
  }
  auto leaves = [](BatchNormOp op) { return 1 - op.getMomentum().convertToDouble(); };
  DenseMap<Operation *, Move> moves;
  for (BatchNormOp op : llvm::reverse(ops)) {
    BatchNormOp later = next.lookup(op);
    double after = later ? leaves(later) * moves.lookup(later).after : 1;
    moves[op] = {true, after, leaves(op) * after};
  }
  for (BatchNormOp op : ops)
    if (BatchNormOp previous = previousCall(op)) {
      double share = moves.lookup(previous).share;
      moves[op] = {false, moves.lookup(op).after, share};
    }
  return moves;
}

LogicalResult plumb::applyBatchNormRule(ModuleOp module, ProgramOp program) {
  auto rules = llvm::to_vector(module.getOps<BatchNormRuleOp>());
  FailureOr<Parts> parts = readParts(module, program, rules.empty() ? BatchNormRuleOp() : rules.front());
  if (failed(parts))
    return failure();
  auto ops = llvm::to_vector(program.getBody().getOps<BatchNormOp>());
  int64_t microbatches = getMicrobatches(module);
  if (!ops.empty() && rules.empty() && microbatches > 1)
    return emitModelError(ops.front())
           << "normalises by the statistics of the whole batch, which " << microbatches
           << " microbatches do not have at once; \"batch_norm\": \"microbatch\" normalises each by its own";
  if (!ops.empty() && !parts->isWhole())
    emitWarning(rules.front().getLoc())
        << "batch normalisation uses the statistics of " << parts->microbatches << " microbatches"
        << (parts->isLocal ? " on " + std::to_string(parts->ranks) + " ranks" : std::string())
        << ", not those of the batch: results are not those of the model on the whole batch";
  DenseMap<Operation *, Move> moves;
  if (!parts->isWhole()) {
    FailureOr<DenseMap<Operation *, Move>> ordered = orderMoves(ops);
    if (failed(ordered))
      return failure();
    moves = std::move(*ordered);
  }
  for (BatchNormOp op : ops)
    if (failed(Normalisation(module, program, op, *parts, moves.lookup(op)).expand()))
      return failure();
  for (BatchNormRuleOp rule : rules)
    rule.erase();
  return success();
}
