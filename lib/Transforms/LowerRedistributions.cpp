//===- LowerRedistributions.cpp - Redistributions become collectives -------===//
//
// The steps of the planner are expressed on blocks: an axis that cuts a dim is split off as a dim of its own,
// moved to the front, and there the collective works. Splitting is a view, moving a transpose; where the axis
// cuts dim 0 both are the identity.
//
//===----------------------------------------------------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Redistribution/Planner.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_LOWERREDISTRIBUTIONS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;
using redistribution::Step;
using redistribution::StepKind;

namespace {

class Lowering {
public:
  explicit Lowering(ModuleOp module) : module(module), builder(module.getContext()) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      symbols[parameter.getSymName()] = parameter;
    for (StateOp state : module.getOps<StateOp>())
      symbols[state.getSymName()] = state;
    pipelineAxis = findOp<PipelineOp>(module).getAxis();
    auto meshOp = findOp<MeshOp>(module);
    for (auto [name, size] : llvm::zip(meshOp.getAxes().getAsValueRange<StringAttr>(), meshOp.getSizes()))
      mesh.axes.push_back({name.str(), size});
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
    FailureOr<redistribution::Plan> plan = planFor(op);
    if (failed(plan))
      return failure();
    builder.setInsertionPoint(op);
    ProvenanceScope scope(builder, op, getPhase(op));
    SmallVector<int64_t> copies = copiesToSum(op);
    Value value = op.getInput();
    boundary = describeBoundary(op);
    for (const Step &step : plan->steps) {
      SmallVector<int64_t> joined;
      if (step.kind == StepKind::AllReduce)
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

  //===--------------------------------------------------------------------===//
  // Planning
  //===--------------------------------------------------------------------===//

  /// The layout in the core's terms. `microbatch` is walked in time and the pipeline axis sums over copies:
  /// neither is the planner's.
  redistribution::Layout coreLayout(LayoutAttr layout) {
    redistribution::Layout result;
    auto convert = [&](AxisRefAttr axis) {
      unsigned index = *mesh.find(axis.getName().getValue());
      return axis.isWhole() ? redistribution::wholeAxis(mesh, index)
                            : redistribution::AxisRef{index, axis.getPreSize(), axis.getSize()};
    };
    for (DimShardingAttr dim : layout.getDims()) {
      redistribution::DimSharding sharding;
      sharding.blocks = dim.getBlocks();
      for (AxisRefAttr axis : dim.getAxes())
        if (axis.getName() != kMicrobatchAxis)
          sharding.axes.push_back(convert(axis));
      result.dims.push_back(sharding);
    }
    for (PartialAttr partial : layout.getPartial())
      if (partial.getAxis().getName() != kMicrobatchAxis && partial.getAxis().getName() != pipelineAxis)
        result.partial.push_back({convert(partial.getAxis()), redistribution::Reduction::Sum});
    return result;
  }

  FailureOr<redistribution::Plan> planFor(RedistributeOp op) {
    auto global = cast<RankedTensorType>(*op.getGlobal());
    SmallVector<int64_t> shape(global.getShape());
    for (auto [size, dim] : llvm::zip(shape, op.getFrom().getDims()))
      for (AxisRefAttr axis : dim.getAxes())
        if (axis.getName() == kMicrobatchAxis)
          size /= getMicrobatches(module);
    redistribution::PlanOptions options;
    // With latencies: several small steps may move fewer bytes than one call and yet take longer.
    options.topology = redistribution::Topology();
    // What a call of NCCL does by itself; a permutation of ranks would be sends and receives.
    options.exchange = false;
    options.excluded = {StepKind::Permute};
    llvm::Expected<redistribution::Plan> plan =
        redistribution::planRedistribution(mesh, shape, std::max(1u, global.getElementTypeBitWidth() / 8),
                                           coreLayout(op.getFrom()), coreLayout(op.getTo()), options);
    if (!plan)
      return emitModelError(op) << "from " << op.getFrom() << " to " << op.getTo()
                                << " cannot be planned: " << llvm::toString(plan.takeError());
    return std::move(*plan);
  }

  /// The pipeline coordinates whose copies of a parameter's gradient are to be summed; empty when there is no
  /// such sum.
  SmallVector<int64_t> copiesToSum(RedistributeOp op) {
    if (!op.getFrom().isPartialOver(pipelineAxis) || op.getTo().isPartialOver(pipelineAxis))
      return {};
    auto load = cast<LoadOp>(op.getInput().getDefiningOp());
    auto state = cast<StateOp>(symbols.lookup(load.getSymbol()));
    auto parameter = cast<ParameterOp>(symbols.lookup(*state.getOf()));
    SmallVector<int64_t> coordinates;
    for (int64_t stage : parameter.getHoldersAttr().asArrayRef())
      coordinates.push_back(getPipelineCoordinate(module, stage));
    llvm::sort(coordinates);
    return coordinates;
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

  FailureOr<Value> lower(RedistributeOp op, const Step &step, Value value, ArrayRef<int64_t> copies) {
    Location loc = op.getLoc();
    for (const redistribution::AxisRef &axis : step.axes)
      if (axis.size != mesh.axes[axis.axis].size)
        return emitModelError(op) << "from " << op.getFrom() << " to " << op.getTo()
                                  << " communicates over a part of the axis \"" << mesh.axes[axis.axis].name
                                  << "\", which is not supported by this version";
    // The members of a communicator are ordered row-major over the mesh, so blocks are too, whatever order
    // the planner wrote: any order serves, as long as both ends use the same.
    auto axes = step.axes;
    llvm::sort(axes);
    switch (step.kind) {
    case StepKind::AllReduce:
      return allReduce(loc, value, axes, copies);
    case StepKind::Slice: {
      Value blocks = splitOff(loc, value, step.after, axes);
      return ccl::SliceOp::create(builder, loc, blockType(blocks), blocks, axisNames(axes)).getResult();
    }
    case StepKind::Mask:
      return ccl::KeepFirstOp::create(builder, loc, value.getType(), value, axisNames(axes)).getResult();
    case StepKind::AllGather: {
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape{step.groupSize()};
      llvm::append_range(shape, type.getShape());
      Value gathered =
          mark(ccl::AllGatherOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()),
                                        value, communicator(loc, axes, {})));
      return merge(loc, gathered, step.before, axes);
    }
    case StepKind::ReduceScatter: {
      Value blocks = splitOff(loc, value, step.after, axes);
      return mark(
          ccl::ReduceScatterOp::create(builder, loc, blockType(blocks), blocks, communicator(loc, axes, {})));
    }
    case StepKind::AllToAll: {
      Value blocks = splitOff(loc, value, step.after, axes);
      Value exchanged =
          mark(ccl::AllToAllOp::create(builder, loc, blocks.getType(), blocks, communicator(loc, axes, {})));
      return merge(loc, exchanged, step.before, axes);
    }
    default:
      return emitModelError(op) << "from " << op.getFrom() << " to " << op.getTo() << " needs the step "
                                << redistribution::stepKindName(step.kind)
                                << ", which is not supported by this version";
    }
  }

  Value allReduce(Location loc, Value value, ArrayRef<redistribution::AxisRef> axes,
                  ArrayRef<int64_t> copies) {
    return mark(
        ccl::AllReduceOp::create(builder, loc, value.getType(), value, communicator(loc, axes, copies)));
  }

  /// Says on a call which boundary it serves.
  template <typename OpT>
  Value mark(OpT call) {
    call->setAttr("plumb.boundary", builder.getStringAttr(boundary));
    return call.getResult();
  }

  ArrayAttr axisNames(ArrayRef<redistribution::AxisRef> axes) {
    SmallVector<Attribute> names;
    for (const redistribution::AxisRef &axis : axes)
      names.push_back(builder.getStringAttr(mesh.axes[axis.axis].name));
    return builder.getArrayAttr(names);
  }

  static RankedTensorType blockType(Value blocks) {
    auto type = cast<RankedTensorType>(blocks.getType());
    return RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
  }

  /// How the dims of a coarse local tensor fall apart when `axes` cut them further.
  struct Decomposition {
    SmallVector<int64_t>
        shape; ///< Per dim of the coarse tensor: blocks, one entry per cutting axis, the rest.
    SmallVector<int64_t> permutation; ///< The axes first, in the order of the group, then everything else.
    SmallVector<int64_t> fineShape;   ///< The local shape after cutting.
  };

  Decomposition decompose(ArrayRef<int64_t> coarseShape, const redistribution::Layout &fine,
                          ArrayRef<redistribution::AxisRef> axes) {
    Decomposition result;
    SmallVector<int64_t> front(axes.size(), -1), rest;
    for (auto [size, sharding] : llvm::zip(coarseShape, fine.dims)) {
      int64_t blocks = sharding.axes.empty() ? 1 : sharding.blocks, piece = size / blocks;
      rest.push_back(result.shape.size());
      result.shape.push_back(blocks);
      for (const redistribution::AxisRef &axis : sharding.axes) {
        auto *position = llvm::find(axes, axis);
        if (position == axes.end())
          continue;
        front[position - axes.begin()] = result.shape.size();
        result.shape.push_back(axis.size);
        piece /= axis.size;
      }
      rest.push_back(result.shape.size());
      result.shape.push_back(piece);
      result.fineShape.push_back(blocks * piece);
    }
    result.permutation = front;
    llvm::append_range(result.permutation, rest);
    return result;
  }

  Value view(Location loc, Value value, ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
    return value.getType() == type ? value : nn::ViewOp::create(builder, loc, type, value).getResult();
  }

  Value transpose(Location loc, Value value, ArrayRef<int64_t> permutation) {
    // Moving dims of size 1 moves nothing: only the order of the others counts.
    auto shape = cast<RankedTensorType>(value.getType()).getShape();
    SmallVector<int64_t> large;
    for (int64_t dim : permutation)
      if (shape[dim] != 1)
        large.push_back(dim);
    if (llvm::is_sorted(large))
      return view(loc, value, llvm::map_to_vector(permutation, [&](int64_t dim) { return shape[dim]; }));
    return nn::TransposeOp::create(builder, loc, value, builder.getDenseI64ArrayAttr(permutation));
  }

  static int64_t groupSize(ArrayRef<redistribution::AxisRef> axes) {
    int64_t size = 1;
    for (const redistribution::AxisRef &axis : axes)
      size *= axis.size;
    return size;
  }

  /// A tensor as a row of the blocks into which `axes` cut it further.
  Value splitOff(Location loc, Value value, const redistribution::Layout &fine,
                 ArrayRef<redistribution::AxisRef> axes) {
    Decomposition parts = decompose(cast<RankedTensorType>(value.getType()).getShape(), fine, axes);
    value = transpose(loc, view(loc, value, parts.shape), parts.permutation);
    SmallVector<int64_t> shape{groupSize(axes)};
    llvm::append_range(shape, parts.fineShape);
    return view(loc, value, shape);
  }

  /// The inverse: joins a row of blocks of layout `fine` to the tensor that `axes` no longer cut.
  Value merge(Location loc, Value blocks, const redistribution::Layout &fine,
              ArrayRef<redistribution::AxisRef> axes) {
    SmallVector<int64_t> coarse(cast<RankedTensorType>(blocks.getType()).getShape().drop_front());
    for (auto [size, sharding] : llvm::zip(coarse, fine.dims))
      for (const redistribution::AxisRef &axis : sharding.axes)
        if (llvm::is_contained(axes, axis))
          size *= axis.size;
    Decomposition parts = decompose(coarse, fine, axes);
    SmallVector<int64_t> permuted, inverse(parts.permutation.size());
    for (auto [position, dim] : llvm::enumerate(parts.permutation)) {
      permuted.push_back(parts.shape[dim]);
      inverse[dim] = position;
    }
    return view(loc, transpose(loc, view(loc, blocks, permuted), inverse), coarse);
  }

  //===--------------------------------------------------------------------===//
  // Communicators
  //===--------------------------------------------------------------------===//

  FlatSymbolRefAttr communicator(Location loc, ArrayRef<redistribution::AxisRef> axes,
                                 ArrayRef<int64_t> copies) {
    std::string name;
    for (const redistribution::AxisRef &axis : axes)
      name += (name.empty() ? "" : "_") + mesh.axes[axis.axis].name;
    if (!copies.empty())
      name += (name.empty() ? "" : "_") + std::string("copies");
    for (int64_t coordinate : copies)
      name += "_" + std::to_string(coordinate);
    if (communicators.insert(name).second) {
      OpBuilder::InsertionGuard guard(builder);
      OpBuilder::Listener *listener = builder.getListener();
      builder.setListener(nullptr);
      builder.setInsertionPoint(*module.getOps<StageOp>().begin());
      ccl::CommunicatorOp::create(builder, loc, name, axisNames(axes), builder.getDenseI64ArrayAttr(copies));
      builder.setListener(listener);
    }
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  }

  ModuleOp module;
  OpBuilder builder;
  redistribution::Mesh mesh;
  StringRef pipelineAxis;
  llvm::StringMap<Operation *> symbols;
  llvm::StringSet<> communicators;
  std::string boundary;
};

struct LowerRedistributionsPass : plumb::impl::LowerRedistributionsBase<LowerRedistributionsPass> {
  void runOnOperation() override {
    if (findOp<PipelineOp>(getOperation()) && failed(Lowering(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
