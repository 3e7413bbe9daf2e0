//===- ApplyInputAndLossRules.cpp - Layouts of inputs, and the loss ---------===//

#include "ApplySpec.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// The dim that a placement shards, normalised, or an error.
static FailureOr<int64_t> normalizedDim(Operation *rule, int64_t dim, RankedTensorType type, StringRef name) {
  int64_t normalized = dim < 0 ? dim + type.getRank() : dim;
  if (normalized >= 0 && normalized < type.getRank())
    return normalized;
  return emitError(rule->getLoc()) << "shard(" << dim << ") names a dim that the input \"" << name
                                   << "\" of type " << type << " does not have";
}

namespace {
/// An input, and the dims that axes shard, in the order of the mesh, `microbatch` last.
struct ShardedInput {
  InputOp input;
  InputRuleOp rule; ///< May be null.
  llvm::MapVector<StringRef, int64_t> dims = {};

  /// Whether an axis shards the dim of the microbatches.
  bool shardsBatch(StringRef axis) const {
    auto batch = dims.find(kMicrobatchAxis), own = dims.find(axis);
    return batch != dims.end() && own != dims.end() && own->second == batch->second;
  }
};
} // namespace

static LogicalResult readPlacements(ModuleOp module, ShardedInput &sharded) {
  auto &[input, rule, dims] = sharded;
  auto type = cast<RankedTensorType>(input.getResult().getType());
  auto mesh = findOp<MeshOp>(module);
  bool replicated = (rule && rule.getPlacements().empty()) || type.getRank() == 0;
  SmallVector<StringRef> axes(mesh.getAxes().getAsValueRange<StringAttr>());
  axes.push_back(kMicrobatchAxis);
  for (StringRef axis : axes) {
    Placement placement;
    if (!replicated && (axis == "dp" || axis == kMicrobatchAxis))
      placement.shardDim = 0;
    if (rule)
      if (auto text = rule.getPlacements().getAs<StringAttr>(axis)) {
        FailureOr<Placement> stated = parsePlacement(rule, text);
        if (failed(stated))
          return failure();
        if (!stated->blocks.empty())
          return emitError(rule.getLoc())
                 << "input \"" << input.getName() << "\" cannot be sharded in blocks, only as a whole";
        placement = *stated;
      }
    if (!placement.shardDim)
      continue;
    FailureOr<int64_t> dim =
        normalizedDim(rule ? rule.getOperation() : input, *placement.shardDim, type, input.getName());
    if (failed(dim))
      return failure();
    dims[axis] = *dim;
  }
  return success();
}

/// The axes apply in the order of the mesh, then `microbatch`. But axes that shard the batch of some inputs
/// only, those not in `common`, cut each microbatch: it has the same rows in all inputs.
static LogicalResult shardInput(ModuleOp module, const ShardedInput &sharded,
                                const llvm::StringSet<> &common) {
  InputOp input = sharded.input;
  InputRuleOp rule = sharded.rule;
  auto type = cast<RankedTensorType>(input.getResult().getType());
  auto layout = LayoutAttr::replicated(FlatSymbolRefAttr::get(findOp<MeshOp>(module)), type.getRank());
  auto isInner = [&](StringRef axis) { return sharded.shardsBatch(axis) && !common.contains(axis); };
  for (bool inner : {false, true})
    for (auto [axis, dim] : sharded.dims)
      if (isInner(axis) == inner)
        layout = shardDim(module, layout, dim, axis);
  for (auto [dim, sharding] : llvm::enumerate(layout.getDims())) {
    int64_t parts = 1;
    std::string text;
    for (AxisRefAttr axis : sharding.getAxes()) {
      parts *= getAxisSize(module, axis);
      text += (text.empty() ? "" : " x ") + axis.getName().str() + " = " +
              std::to_string(getAxisSize(module, axis));
    }
    if (type.getDimSize(dim) % parts)
      return emitError(rule ? rule.getLoc() : findOp<PipelineOp>(module).getLoc())
             << "input \"" << input.getName() << "\" has " << type.getDimSize(dim) << " rows in dim " << dim
             << ", which " << text << " (" << parts
             << " parts) does not divide; change the batch, the mesh or the microbatches";
    // Ranks that each have one piece of the beginning and one of the end have the same work under a causal
    // mask.
    bool isSequence =
        llvm::any_of(sharding.getAxes(), [](AxisRefAttr axis) { return axis.getName() == "cp"; });
    if (rule && isSequence && type.getDimSize(dim) % (2 * parts)) {
      InFlightDiagnostic diagnostic = emitWarning(rule.getLoc());
      diagnostic << "input \"" << input.getName() << "\" has " << type.getDimSize(dim) << " elements in dim "
                 << dim << ", which twice " << text
                 << " does not divide: no order of pieces gives all ranks equal work under causal attention";
      diagnostic.attachNote(input.getLoc()) << "the input";
    }
  }
  setLayouts(input, {layout});
  return success();
}

/// The axes, `microbatch` among them, that shard the batch of every input that has one.
static llvm::StringSet<> findCommonAxes(ArrayRef<ShardedInput> inputs) {
  llvm::StringSet<> common;
  for (const ShardedInput &input : inputs)
    for (auto [axis, dim] : input.dims)
      if (llvm::all_of(inputs, [&, axis = axis](const ShardedInput &other) {
            return !other.dims.contains(kMicrobatchAxis) || other.shardsBatch(axis);
          }))
        common.insert(axis);
  return common;
}

/// Whether the axes that a rule names can shard an input.
static LogicalResult checkAxes(ModuleOp module, InputRuleOp rule) {
  auto mesh = findOp<MeshOp>(module);
  for (NamedAttribute placement : rule.getPlacements()) {
    StringRef axis = placement.getName();
    if (axis == findOp<PipelineOp>(module).getAxis())
      return emitError(rule.getLoc()) << "the pipeline axis \"" << axis << "\" cannot shard an input";
    if (axis == kMicrobatchAxis || mesh.findAxis(axis))
      continue;
    std::vector<std::string> names;
    for (StringRef name : mesh.getAxes().getAsValueRange<StringAttr>())
      names.push_back(name.str());
    return emitError(rule.getLoc()) << "the mesh has no axis \"" << axis << "\""
                                    << didYouMean(axis.str(), names);
  }
  return success();
}

LogicalResult plumb::applyInputRules(ModuleOp module, ProgramOp program) {
  bool isFine = true;
  llvm::StringMap<InputRuleOp> rules;
  for (InputRuleOp rule : module.getOps<InputRuleOp>()) {
    isFine &= succeeded(checkAxes(module, rule));
    rules[rule.getName()] = rule;
  }
  std::vector<std::string> names;
  SmallVector<ShardedInput> inputs;
  for (InputOp input : program.getBody().getOps<InputOp>()) {
    names.push_back(input.getName().str());
    inputs.push_back({input, rules.lookup(input.getName())});
    isFine &= succeeded(readPlacements(module, inputs.back()));
    rules.erase(input.getName());
  }
  llvm::StringSet<> common = findCommonAxes(inputs);
  for (const ShardedInput &input : inputs)
    isFine &= succeeded(shardInput(module, input, common));
  for (InputRuleOp rule : llvm::make_early_inc_range(module.getOps<InputRuleOp>())) {
    if (rules.contains(rule.getName())) {
      emitError(rule.getLoc()) << "the model has no input \"" << rule.getName() << "\""
                               << didYouMean(rule.getName().str(), names);
      isFine = false;
    }
    rule.erase();
  }
  return success(isFine);
}

Value plumb::getNumbers(ProgramOp program, StringRef name, int64_t count, DimShardingAttr cut) {
  Block &body = *program.getBody().begin();
  int64_t index = 0;
  for (InputOp input : body.getOps<InputOp>()) {
    if (input.getCounts() && input.getName() == name)
      return input;
    index = std::max(index, static_cast<int64_t>(input.getIndex()) + 1);
  }
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  auto type = RankedTensorType::get({count}, builder.getI64Type());
  auto input = InputOp::create(builder, program.getLoc(), type, name, index, /*counts=*/true);
  auto mesh = FlatSymbolRefAttr::get(findOp<MeshOp>(program->getParentOfType<ModuleOp>()));
  setLayouts(input, {LayoutAttr::get(program.getContext(), mesh, cut, {})});
  return input;
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// The output that the rule names, or an error. Without a rule, the output named "loss" if there is one.
static FailureOr<OutputOp> findLossOutput(LossRuleOp rule, ProgramOp program) {
  std::vector<std::string> names;
  for (OutputOp output : program.getBody().getOps<OutputOp>()) {
    names.push_back(output.getName().str());
    if (rule
            ? (rule.getOutput() ? *rule.getOutput() == output.getIndex() : rule.getName() == output.getName())
            : output.getName() == "loss")
      return output;
  }
  if (!rule)
    return OutputOp();
  if (rule.getOutput())
    return emitError(rule.getLoc()) << "the loss is output " << static_cast<int64_t>(*rule.getOutput())
                                    << ", the model has " << names.size() << " outputs";
  return emitError(rule.getLoc()) << "the model has no output \"" << rule.getName().value_or("") << "\""
                                  << didYouMean(rule.getName().value_or("").str(), names);
}

static Value sumAll(OpBuilder &builder, Location loc, Value value) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, cast<RankedTensorType>(value.getType()).getRank()));
  if (dims.empty())
    return value;
  return nn::SumOp::create(builder, loc, value, builder.getDenseI64ArrayAttr(dims), UnitAttr());
}

/// The mean over all labels that are not ignored: a sum divided by their global count, in the graph.
static Value buildCrossEntropy(OpBuilder &builder, LossRuleOp rule, Value logits, Value labels) {
  Location loc = rule.getLoc();
  auto ignore = builder.getI64IntegerAttr(rule.getIgnore().value_or(-100));
  auto losses = nn::CrossEntropyOp::create(builder, loc, logits, labels, ignore);
  Value counted = nn::IsValidOp::create(builder, loc, losses.getLosses().getType(), labels, ignore);
  Value total = sumAll(builder, loc, losses.getLosses()), count = sumAll(builder, loc, counted);
  return nn::DivOp::create(builder, loc, total, count);
}

/// Builds the reduction of a value to a scalar: sums only, a mean is a sum times one over the global count.
static FailureOr<Value> buildReduction(OpBuilder &builder, ProgramOp program, LossRuleOp rule, Value value) {
  StringRef reduce = *rule.getReduce();
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.getElementType().isFloat())
    return emitError(rule.getLoc()) << "the loss cannot be reduced from " << type
                                    << ", which is not floating-point";
  Location loc = rule.getLoc();
  if (reduce == "cross_entropy") {
    for (InputOp input : program.getBody().getOps<InputOp>())
      if (input.getName() == rule.getTarget())
        return buildCrossEntropy(builder, rule, value, input);
    return emitError(loc) << "the reduction \"cross_entropy\" needs a target";
  }
  if (reduce == "mean_square")
    value = nn::MulOp::create(builder, loc, value, value);
  else if (reduce != "mean" && reduce != "sum")
    return emitError(loc) << "unknown reduction \"" << reduce
                          << "\"; expected \"mean_square\", \"mean\", \"sum\" or \"cross_entropy\"";
  value = sumAll(builder, loc, value);
  if (reduce != "sum" && type.getNumElements() > 0)
    value = nn::ScaleOp::create(builder, loc, value, builder.getF64FloatAttr(1.0 / type.getNumElements()));
  return value;
}

LogicalResult plumb::addLossTarget(ModuleOp module, ProgramOp program) {
  for (LossRuleOp rule : module.getOps<LossRuleOp>()) {
    if (!rule.getTarget())
      continue;
    int64_t index = 0;
    for (InputOp input : program.getBody().getOps<InputOp>()) {
      if (input.getName() == *rule.getTarget())
        return emitError(rule.getLoc()) << "the model has an input \"" << input.getName()
                                        << "\" already; the target of a loss is a further input";
      index = std::max(index, static_cast<int64_t>(input.getIndex()) + 1);
    }
    FailureOr<OutputOp> output = findLossOutput(rule, program);
    if (failed(output))
      return failure();
    auto logits = cast<RankedTensorType>((*output).getValue().getType());
    if (logits.getRank() < 2)
      return emitError(rule.getLoc())
             << "the reduction \"cross_entropy\" needs an output with rows and classes, "
             << "the last dim; output " << static_cast<int64_t>((*output).getIndex()) << " has the type "
             << logits;
    OpBuilder builder = OpBuilder::atBlockBegin(&*program.getBody().begin());
    InputOp::create(builder, rule.getLoc(),
                    RankedTensorType::get(logits.getShape().drop_back(), *rule.getTargetType()),
                    *rule.getTarget(), index);
  }
  return success();
}

LogicalResult plumb::applyLossRule(ModuleOp module, ProgramOp program) {
  auto rules = llvm::to_vector(module.getOps<LossRuleOp>());
  if (rules.size() > 1) {
    InFlightDiagnostic diagnostic = emitError(rules[1].getLoc()) << "there can be only one loss";
    diagnostic.attachNote(rules[0].getLoc()) << "the other one";
    return diagnostic;
  }
  LossRuleOp rule = rules.empty() ? LossRuleOp() : rules.front();
  FailureOr<OutputOp> output = findLossOutput(rule, program);
  if (failed(output))
    return failure();
  if (!*output)
    return success();

  Value value = output->getValue();
  Operation *producer = value.getDefiningOp();
  OpBuilder builder(module.getContext());
  // Right behind the producer, so that a marker at the end of the model does not make the loss a stage of its
  // own.
  builder.setInsertionPointAfter(producer);
  ProvenanceScope scope(builder, producer, Phase::Forward);
  if (rule && rule.getReduce()) {
    FailureOr<Value> reduced = buildReduction(builder, program, rule, value);
    if (failed(reduced))
      return failure();
    value = *reduced;
  }
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() != 0 || !type.getElementType().isFloat())
    return emitError(rule ? rule.getLoc() : output->getLoc())
           << "the loss must be a floating-point scalar, output " << static_cast<int64_t>(output->getIndex())
           << " has the type " << type << "; add \"reduce\": \"mean\", \"sum\" or \"mean_square\"";
  LossOp::create(builder, rule ? rule.getLoc() : output->getLoc(), value);
  if (rule)
    rule.erase();
  return success();
}
