//===- LowerRedistributions.cpp - Redistributions become collectives -------===//
//
// The steps of the planner are expressed on blocks: an axis that cuts a dim is split off as a dim of its own,
// moved to the front, and there the collective works. Splitting is a view, moving a transpose; where the axis
// cuts dim 0 both are the identity. What a rank keeps of its own tensor is copied dim by dim. Steps that
// differ from rank to rank become tables of messages.
//
// Where shards differ in size they lie in tensors of the largest shard's shape, their padding at the end.
// Before a dim is cut so it is padded to a multiple, and where such pieces are joined the padding of the
// whole is dropped: it is that of the last ranks, so it lies at the end again. Shards that differ by more
// than the last axis of a dim are cut and joined by tables.
//
// Layouts are read in digits: axes are split until those of a step are none or all of each axis of the
// layouts before and after it.
//
//===----------------------------------------------------------------------===//

#include "DigitStep.h"
#include "ExchangeTables.h"
#include "LowerRotations.h"
#include "ShardBlocks.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/RedistributionPlans.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_LOWERREDISTRIBUTIONS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;
using redistribution::AxisRef;
using redistribution::Reduction;
using redistribution::Step;
using redistribution::StepKind;

namespace {

class Lowering {
public:
  explicit Lowering(ModuleOp module) : module(module), builder(module.getContext()), plans(module) {
    pipelineAxis = findOp<PipelineOp>(module).getAxis();
    for (StageOp stage : module.getOps<StageOp>())
      for (RedistributeOp op : stage.getBody().getOps<RedistributeOp>())
        if (sumsCopies(op))
          sharers[cast<LoadOp>(op.getInput().getDefiningOp()).getSymbol()].insert(
              getPipelineCoordinate(module, static_cast<int64_t>(stage.getIndex())));
  }

  LogicalResult run() {
    SmallVector<RedistributeOp> redistributions;
    for (StageOp stage : module.getOps<StageOp>())
      llvm::append_range(redistributions, stage.getBody().getOps<RedistributeOp>());
    for (RedistributeOp op : redistributions)
      if (failed(lower(op)))
        return failure();
    return success();
  }

private:
  LogicalResult lower(RedistributeOp op) {
    FailureOr<const redistribution::Plan *> planned = plans.plan(op);
    if (failed(planned))
      return failure();
    plan = *planned;
    builder.setInsertionPoint(op);
    ProvenanceScope scope(builder, op, getPhase(op));
    SmallVector<int64_t> copies = copiesToSum(op);
    Value value = op.getInput();
    boundary = describeBoundary(op);
    for (const Step &step : plan->steps) {
      SmallVector<int64_t> joined;
      if (step.kind == StepKind::AllReduce && step.reduction == Reduction::Sum)
        std::swap(joined, copies);
      FailureOr<Value> next = lower(op, step, value, joined);
      if (failed(next))
        return failure();
      value = *next;
    }
    if (!copies.empty())
      value = allReduce(op.getLoc(), value, {}, copies);
    if (value.getType() != op.getResult().getType())
      return emitModelError(op) << "was lowered to " << value.getType() << " instead of "
                                << op.getResult().getType();
    for (Operation *made = op->getPrevNode(); made && made != op.getInput().getDefiningOp();
         made = made->getPrevNode())
      if (made->getNumResults() == 1 && !getLayout(made->getResult(0)) && made->getResult(0) == value)
        setLayouts(made, {op.getTo()});
    op.getResult().replaceAllUsesWith(value);
    op.erase();
    return success();
  }

  bool sumsCopies(RedistributeOp op) const {
    return op.getFrom().isPartialOver(pipelineAxis) && !op.getTo().isPartialOver(pipelineAxis);
  }

  /// The pipeline coordinates whose shares of a state are to be summed; empty when there is no such sum.
  SmallVector<int64_t> copiesToSum(RedistributeOp op) {
    if (!sumsCopies(op))
      return {};
    auto load = cast<LoadOp>(op.getInput().getDefiningOp());
    const std::set<int64_t> &coordinates = sharers[load.getSymbol()];
    return SmallVector<int64_t>(coordinates.begin(), coordinates.end());
  }

  static std::string describeBoundary(RedistributeOp op) {
    std::string text;
    llvm::raw_string_ostream os(text);
    auto print = [&](LayoutAttr layout) {
      os << "[";
      llvm::interleaveComma(layout.getDims(), os, [&](DimShardingAttr dim) {
        os << "{";
        llvm::interleaveComma(dim.getAxes(), os, [&](AxisRefAttr axis) { os << axis.getName().getValue(); });
        os << "}";
      });
      os << "]";
      for (PartialAttr partial : layout.getPartial())
        os << " partial(" << partial.getAxis().getName().getValue() << ")";
    };
    print(op.getFrom());
    os << " -> ";
    print(op.getTo());
    return text;
  }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  FailureOr<Value> lower(RedistributeOp op, const Step &planned, Value value, ArrayRef<int64_t> copies) {
    Location loc = op.getLoc();
    ShardBlocks shards(builder, loc, plan->shape);
    DigitStep step(planned);
    if (step.isByMessages(plan->shape))
      return exchange(op, planned, value);
    switch (step.kind) {
    case StepKind::AllReduce:
      return allReduce(loc, value, step.axes, copies, *step.reduction);
    case StepKind::Slice:
      return slice(loc, shards, step, value);
    case StepKind::Mask:
      return mask(op, step, value);
    case StepKind::AllGather: {
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape{step.groupSize()};
      llvm::append_range(shape, type.getShape());
      Value gathered =
          mark(ccl::AllGatherOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()),
                                        value, communicator(loc, step.axes, {})));
      return shards.merge(gathered, step.before, step.axes);
    }
    case StepKind::ReduceScatter: {
      Value blocks = shards.splitOff(value, step.after, step.axes);
      return mark(ccl::ReduceScatterOp::create(
          builder, loc, blockType(blocks), blocks, communicator(loc, step.axes, {}),
          builder.getStringAttr(redistribution::reductionName(*step.reduction))));
    }
    case StepKind::AllToAll: {
      Value blocks = shards.splitOff(value, step.after, step.axes);
      Value exchanged = mark(
          ccl::AllToAllOp::create(builder, loc, blocks.getType(), blocks, communicator(loc, step.axes, {})));
      return shards.merge(exchanged, step.before, step.axes);
    }
    case StepKind::Permute:
    case StepKind::Exchange:
      break;
    }
    llvm_unreachable("messages are lowered above");
  }

  Value allReduce(Location loc, Value value, ArrayRef<AxisRef> axes, ArrayRef<int64_t> copies,
                  Reduction reduction = Reduction::Sum) {
    return mark(ccl::AllReduceOp::create(builder, loc, value.getType(), value,
                                         communicator(loc, axes, copies),
                                         builder.getStringAttr(redistribution::reductionName(reduction))));
  }

  //===--------------------------------------------------------------------===//
  // Steps without communication
  //===--------------------------------------------------------------------===//

  /// The axes that cut dim `d` of `fine` and not of `coarse`.
  static ArrayRef<AxisRef> addedAxes(const redistribution::Layout &coarse, const redistribution::Layout &fine,
                                     size_t d) {
    return ArrayRef<AxisRef>(fine.dims[d].axes).drop_front(coarse.dims[d].axes.size());
  }

  /// The shape of a local tensor in rows: what is outside of the pieces of dim `d` (its blocks included), the
  /// pieces, a piece with what is inside.
  static SmallVector<int64_t> rows(ArrayRef<int64_t> fineShape, size_t d, int64_t blocks, int64_t pieces) {
    SmallVector<int64_t> shape{blocks, pieces, fineShape[d] / blocks};
    for (size_t other = 0; other < fineShape.size(); ++other)
      if (other != d)
        shape[other < d ? 0 : 2] *= fineShape[other];
    return shape;
  }

  Value slice(Location loc, ShardBlocks &shards, const DigitStep &step, Value value) {
    value = shards.pad(value, step.after, step.axes);
    for (size_t d = 0; d < step.after.dims.size(); ++d) {
      ArrayRef<AxisRef> axes = addedAxes(step.before, step.after, d);
      if (axes.empty())
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[d] /= sizeOf(axes);
      SmallVector<int64_t> parts = rows(shape, d, step.after.dims[d].blocks, sizeOf(axes));
      auto typed = [&](ArrayRef<int64_t> sizes) {
        return RankedTensorType::get(sizes, type.getElementType());
      };
      // Pieces that follow one another are parts of the tensor, others are copied.
      if (parts[0] == 1) {
        SmallVector<int64_t> pieces{parts[1]};
        llvm::append_range(pieces, shape);
        value = ccl::SliceOp::create(builder, loc, typed(shape), shards.view(value, pieces), axisNames(axes));
        continue;
      }
      Value own = ccl::ExtractOp::create(builder, loc, typed({parts[0], parts[2]}), shards.view(value, parts),
                                         axisNames(axes));
      value = shards.view(own, shape);
    }
    return value;
  }

  /// Shards among zeros, and zeros in place of all copies but one: sums of these are the value.
  FailureOr<Value> mask(RedistributeOp op, const DigitStep &step, Value value) {
    Location loc = op.getLoc();
    ShardBlocks shards(builder, loc, plan->shape);
    if (step.reduction == Reduction::Product)
      return emitModelError(op) << "to " << op.getTo()
                                << " would have to make a factor out of a value, which is not supported";
    SmallVector<AxisRef> copied = step.axes;
    for (size_t d = 0; d < step.before.dims.size(); ++d) {
      ArrayRef<AxisRef> axes = addedAxes(step.after, step.before, d);
      if (axes.empty())
        continue;
      llvm::erase_if(copied, [&](const AxisRef &axis) { return llvm::is_contained(axes, axis); });
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      SmallVector<int64_t> parts = rows(shape, d, step.before.dims[d].blocks, sizeOf(axes));
      shape[d] *= sizeOf(axes);
      Value own = shards.view(value, {parts[0], parts[2]});
      value = ccl::InsertOp::create(builder, loc, RankedTensorType::get(parts, type.getElementType()), own,
                                    axisNames(axes));
      value = shards.view(value, shape);
    }
    value = shards.trim(value, step.before, step.axes);
    if (!copied.empty() && step.reduction == Reduction::Sum)
      value = ccl::KeepFirstOp::create(builder, loc, value.getType(), value, axisNames(copied));
    return value;
  }

  //===--------------------------------------------------------------------===//
  // Steps that differ from rank to rank
  //===--------------------------------------------------------------------===//

  ArrayAttr toAttribute(ArrayRef<SmallVector<int64_t>> members) {
    return builder.getArrayAttr(llvm::map_to_vector(members, [&](ArrayRef<int64_t> numbers) -> Attribute {
      return builder.getDenseI64ArrayAttr(numbers);
    }));
  }

  FailureOr<Value> exchange(RedistributeOp op, const Step &step, Value value) {
    std::optional<std::vector<ExchangeTables>> rounds = exchangeTables(plan->mesh, plan->shape, step);
    if (!rounds)
      return emitError(op.getLoc()) << "internal error: the step "
                                    << redistribution::toString(plan->mesh, step) << " has no tables";
    SmallVector<int64_t> shape(redistribution::largestLocalShape(plan->mesh, step.after, plan->shape));
    auto type = RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
    for (const ExchangeTables &tables : *rounds)
      value = tables.isLocal ? cut(op.getLoc(), type, tables, value, cutsEvenly(step.after, plan->shape))
                             : exchange(op.getLoc(), type, tables, value);
    return value;
  }

  Value copy(Location loc, const ExchangeTables &tables, Type type, ValueRange from,
             ArrayRef<Attribute> pieces) {
    return ccl::CopyOp::create(builder, loc, type, from, axisNames(joined(tables.axes)),
                               builder.getArrayAttr(pieces));
  }

  Value cut(Location loc, RankedTensorType type, const ExchangeTables &tables, Value value, bool evenly) {
    if (evenly)
      return copy(loc, tables, type, value, toAttribute(tables.copies));
    // Ones are cut to tell a shard from its padding, which must be zero then.
    Value zeros = nn::FillOp::create(builder, loc, type, builder.getF64FloatAttr(0));
    int64_t all = type.getNumElements();
    std::vector<SmallVector<int64_t>> everywhere(tables.copies.size(), {0, 0, all, 1, all, all});
    return copy(loc, tables, type, {zeros, value}, {toAttribute(everywhere), toAttribute(tables.copies)});
  }

  Value exchange(Location loc, RankedTensorType type, const ExchangeTables &tables, Value value) {
    auto buffer = [&](int64_t elements) { return RankedTensorType::get({elements}, type.getElementType()); };
    Value sent = value;
    if (tables.sendBuffer)
      sent = copy(loc, tables, buffer(*tables.sendBuffer), value, toAttribute(tables.packs));
    Value received = mark(ccl::ExchangeOp::create(
        builder, loc, tables.receiveBuffer ? buffer(*tables.receiveBuffer) : type, sent,
        communicator(loc, tables.axes, {}), toAttribute(tables.sends), toAttribute(tables.receives)));
    if (!tables.receiveBuffer)
      return received;
    return copy(loc, tables, type, {value, received},
                {toAttribute(tables.copies), toAttribute(tables.unpacks)});
  }

  //===--------------------------------------------------------------------===//
  // Blocks
  //===--------------------------------------------------------------------===//

  /// Says on a call which boundary it serves.
  template <typename OpT>
  Value mark(OpT call) {
    call->setAttr("plumb.boundary", builder.getStringAttr(boundary));
    return call->getResult(0);
  }

  ArrayAttr axisNames(ArrayRef<AxisRef> axes) {
    return builder.getArrayAttr(llvm::map_to_vector(axes, [&](const AxisRef &axis) -> Attribute {
      return builder.getStringAttr(redistribution::toString(plans.getMesh(), axis));
    }));
  }

  /// Neighbouring digits as one axis.
  static SmallVector<AxisRef> joined(ArrayRef<AxisRef> digits) {
    SmallVector<AxisRef> axes;
    for (const AxisRef &digit : digits)
      if (!axes.empty() && digit.follows(axes.back()))
        axes.back().size *= digit.size;
      else
        axes.push_back(digit);
    return axes;
  }

  static RankedTensorType blockType(Value blocks) {
    auto type = cast<RankedTensorType>(blocks.getType());
    return RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
  }

  //===--------------------------------------------------------------------===//
  // Communicators
  //===--------------------------------------------------------------------===//

  FlatSymbolRefAttr communicator(Location loc, ArrayRef<AxisRef> axes, ArrayRef<int64_t> copies) {
    SmallVector<AxisRef> whole = joined(axes);
    std::string name, key;
    for (const AxisRef &axis : whole) {
      const redistribution::MeshAxis &of = plans.getMesh().axes[axis.axis];
      name += (name.empty() ? "" : "_") + of.name;
      if (axis.size != of.size)
        name += "_" + std::to_string(axis.pre) + "_" + std::to_string(axis.size);
      key += llvm::formatv("{0}:{1}:{2} ", axis.axis, axis.pre, axis.size);
    }
    if (!copies.empty())
      name += (name.empty() ? "" : "_") + std::string("copies");
    for (int64_t coordinate : copies) {
      name += "_" + std::to_string(coordinate);
      key += llvm::formatv("+{0}", coordinate);
    }
    std::string &known = communicators[key];
    if (known.empty()) {
      while (SymbolTable::lookupSymbolIn(module, name))
        name += "_";
      known = name;
      OpBuilder::InsertionGuard guard(builder);
      OpBuilder::Listener *listener = builder.getListener();
      builder.setListener(nullptr);
      builder.setInsertionPoint(*module.getOps<StageOp>().begin());
      ccl::CommunicatorOp::create(builder, loc, name, axisNames(whole), builder.getDenseI64ArrayAttr(copies));
      builder.setListener(listener);
    }
    return FlatSymbolRefAttr::get(builder.getContext(), known);
  }

  ModuleOp module;
  OpBuilder builder;
  RedistributionPlans plans;
  const redistribution::Plan *plan = nullptr; ///< Of the redistribution at hand.
  StringRef pipelineAxis;
  llvm::StringMap<std::set<int64_t>> sharers; ///< The coordinates that complete a state.
  llvm::StringMap<std::string> communicators; ///< Symbols, by what they join.
  std::string boundary;
};

struct LowerRedistributionsPass : plumb::impl::LowerRedistributionsBase<LowerRedistributionsPass> {
  void runOnOperation() override {
    if (findOp<PipelineOp>(getOperation()) && findOp<MeshOp>(getOperation()) &&
        (failed(Lowering(getOperation()).run()) || failed(lowerRotations(getOperation()))))
      signalPassFailure();
  }
};

} // namespace
