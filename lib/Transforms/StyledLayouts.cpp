//===- StyledLayouts.cpp - What a style makes of a parameter ---------------===//

#include "StyledLayouts.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;

StringRef plumb::getStyleAxis(LayoutRuleOp rule) {
  return rule.getAxis().value_or(rule.getStyle() == "expert" ? "ep" : "tp");
}

StyledLayouts::StyledLayouts(ModuleOp module, ProgramOp program)
    : module(module), mesh(findOp<MeshOp>(module)) {
  for (LoadOp load : program.getBody().getOps<LoadOp>())
    loads[load.getSymbol()].push_back(load);
}

LayoutAttr StyledLayouts::replicated(ParameterOp parameter) {
  return LayoutAttr::replicated(FlatSymbolRefAttr::get(mesh),
                                cast<RankedTensorType>(parameter.getType()).getRank());
}

FailureOr<LayoutAttr> StyledLayouts::get(LayoutRuleOp rule, ParameterOp parameter, StringRef moduleName) {
  LayoutAttr layout = replicated(parameter);
  FailureOr<std::optional<int64_t>> dim = styledDim(rule, parameter, moduleName);
  if (failed(dim))
    return failure();
  if (!*dim)
    return layout;
  int64_t unit = rule.getUnit() ? static_cast<int64_t>(*rule.getUnit()) : findUnit(parameter, **dim);
  if (failed(shard(rule, parameter, layout, **dim, getStyleAxis(rule),
                   rule.getBlocks().value_or(ArrayRef<int64_t>()), unit)))
    return failure();
  return layout;
}

/// The dim that the style shards of a parameter: nothing for one that it replicates, such as the bias of a
/// row-wise module, which is added once to the sum.
FailureOr<std::optional<int64_t>> StyledLayouts::styledDim(LayoutRuleOp rule, ParameterOp parameter,
                                                           StringRef moduleName) {
  StringRef style = *rule.getStyle();
  int64_t rank = cast<RankedTensorType>(parameter.getType()).getRank();
  if (style == "expert")
    return rank >= 2 ? std::optional<int64_t>(0) : std::nullopt;
  bool isColwise = style == "colwise";
  if (!isColwise && style != "rowwise")
    return std::optional<int64_t>();
  if (rank == 1)
    return isColwise ? std::optional<int64_t>(0) : std::nullopt;
  auto wanted = isColwise ? FactorKind::Parallel : FactorKind::Reduction,
       opposite = isColwise ? FactorKind::Reduction : FactorKind::Parallel;
  std::string alternative;
  for (LoadOp load : loads[parameter.getSymName()]) {
    for (OpOperand &use : load->getUses()) {
      auto path = use.getOwner()->getAttrOfType<StringAttr>(kModuleAttr);
      auto op = dyn_cast<nn::TensorOpInterface>(use.getOwner());
      if (!op || !path || !isInModule(path, moduleName))
        continue;
      nn::ShardingRule factors = op.getShardingRule();
      for (auto [dim, members] : llvm::enumerate(factors.operands[use.getOperandNumber()])) {
        if (members.size() != 1)
          continue;
        const nn::Factor &factor = factors.factors[members[0]];
        FactorKind kind = factor.expanded.value_or(factor.kind);
        if (kind == wanted)
          return std::optional<int64_t>(dim);
        if (kind == opposite && alternative.empty())
          alternative = std::string("; \"") + (isColwise ? "rowwise" : "colwise") + "\" can: it shards dim " +
                        std::to_string(dim);
      }
    }
  }
  InFlightDiagnostic diagnostic = emitError(rule.getLoc());
  diagnostic << "style \"" << style << "\" cannot serve module " << moduleName << ": no op reads "
             << parameter.getSymName();
  if (!loads[parameter.getSymName()].empty())
    return diagnostic << " with " << (isColwise ? "an output feature dim" : "a contracted dim")
                      << " that can be sharded" << alternative;
  if (ParameterOp other = findStandIn(parameter, moduleName))
    diagnostic << "; the module reads " << other.getSymName()
               << ": if both are one parameter, say so in \"aliases\"";
  return diagnostic;
}

/// A parameter of the same type that the module reads. An export with fake weights does not tell that two
/// names are one parameter, and reads one of them only.
ParameterOp StyledLayouts::findStandIn(ParameterOp parameter, StringRef moduleName) {
  for (auto other : module.getOps<ParameterOp>()) {
    if (other.getType() != parameter.getType() || other == parameter)
      continue;
    for (LoadOp load : loads[other.getSymName()])
      for (Operation *user : load->getUsers())
        if (auto path = user->getAttrOfType<StringAttr>(kModuleAttr); path && isInModule(path, moduleName))
          return other;
  }
  return {};
}

/// The elements of a weight's dim that stay together where the model cuts its result apart, the size of a
/// head; 1 where it does not. The dim is followed through the ops that read it to the first view that makes
/// two of it.
int64_t StyledLayouts::findUnit(ParameterOp parameter, int64_t dim) {
  constexpr int kMostOps = 4; // product, bias, split, view
  if (loads[parameter.getSymName()].empty())
    return 1;
  Value value = loads[parameter.getSymName()].front();
  for (int count = 0; count < kMostOps && !value.use_empty(); ++count) {
    // The use that comes first in the program is the last of the list.
    OpOperand *use = nullptr;
    for (OpOperand &next : value.getUses())
      use = &next;
    auto op = dyn_cast<nn::TensorOpInterface>(use->getOwner());
    if (!op)
      return 1;
    nn::ShardingRule rule = op.getShardingRule();
    SmallVector<int> shardable;
    for (int factor : rule.operands[use->getOperandNumber()][dim])
      if (rule.factors[factor].kind == FactorKind::Parallel || (rule.pieces && factor == rule.pieces->whole))
        shardable.push_back(factor);
    int64_t unit = 1;
    for (int factor : llvm::drop_begin(shardable, std::min<size_t>(1, shardable.size())))
      unit *= rule.factors[factor].size;
    if (unit != 1 || shardable.size() != 1)
      return unit;
    // Of pieces that differ in size the first is followed.
    int followed = rule.pieces && shardable[0] == rule.pieces->whole ? rule.pieces->parts[0] : shardable[0];
    auto *found = llvm::find_if(rule.results[0], [&](const nn::ShardingRule::Dim &members) {
      return llvm::is_contained(members, followed);
    });
    if (found == rule.results[0].end())
      return 1;
    dim = found - rule.results[0].begin();
    value = op->getResult(0);
  }
  return 1;
}

LogicalResult StyledLayouts::shard(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr &layout, int64_t dim,
                                   StringRef axis, ArrayRef<int64_t> blocks, int64_t unit) {
  auto type = cast<RankedTensorType>(parameter.getType());
  int64_t normalized = dim < 0 ? dim + type.getRank() : dim;
  if (normalized < 0 || normalized >= type.getRank()) {
    InFlightDiagnostic diagnostic = emitError(rule.getLoc())
                                    << "shard(" << dim << ") names a dim that parameter "
                                    << parameter.getSymName() << " of type " << type << " does not have";
    diagnostic.attachNote(parameter.getLoc()) << "the parameter";
    return diagnostic;
  }
  if (blocks.size() > 1)
    return shardUnequal(rule, parameter, layout, normalized, axis, blocks, unit);
  int64_t count = blocks.empty() ? 1 : blocks.front();
  int64_t rows = type.getDimSize(normalized), ranks = mesh.getAxisSize(axis), parts = count;
  for (AxisRefAttr ref : layout.getDims()[normalized].getAxes())
    parts *= getAxisSize(module, ref);
  auto refuse = [&]() -> LogicalResult {
    // The same sizes in every layer are one cause.
    if (!refused.insert({rule.getLoc().getAsOpaquePointer(), rows, unit, parts * ranks}).second)
      return failure();
    InFlightDiagnostic diagnostic = emitError(rule.getLoc())
                                    << "parameter " << parameter.getSymName() << " has " << rows;
    if (rule.getStyle() == "expert")
      diagnostic << " experts";
    else
      diagnostic << " rows in dim " << normalized;
    if (unit > 1 && rows % unit == 0)
      diagnostic << ", " << rows / unit << " units of " << unit;
    diagnostic << ", which " << axis << " = " << ranks;
    if (count > 1)
      diagnostic << " times " << count << " blocks";
    diagnostic << " does not divide";
    diagnostic.attachNote(parameter.getLoc()) << "the parameter, " << type;
    return diagnostic;
  };
  if (rows % unit)
    return refuse();
  int64_t units = rows / unit;
  // Rows without a structure may be shared out unevenly; experts that are none would keep ranks idle.
  bool isPlain = unit == 1 && count == 1 && rule.getStyle() != "expert";
  if (units % (parts * ranks) == 0 || isPlain) {
    layout = shardDim(module, layout, normalized, axis, blocks);
    return success();
  }
  // Key and value heads that are fewer than the ranks: each is kept by a group of them.
  bool canRepeat = unit > 1 && parts == 1 && units > 1 && ranks % units == 0;
  if (!canRepeat && !(unit > 1 && units == 1))
    return refuse();
  if (units > 1) {
    MLIRContext *context = module.getContext();
    SmallVector<DimShardingAttr> dims(layout.getDims());
    dims[normalized] = DimShardingAttr::get(
        context, {AxisRefAttr::get(context, StringAttr::get(context, axis), 1, units)}, {});
    layout = LayoutAttr::get(context, layout.getMesh(), dims, layout.getPartial());
  }
  return success();
}

/// Blocks of different sizes, as the queries, keys and values of grouped-query attention have: each is shared
/// out in whole units.
LogicalResult StyledLayouts::shardUnequal(LayoutRuleOp rule, ParameterOp parameter, LayoutAttr &layout,
                                          int64_t dim, StringRef axis, ArrayRef<int64_t> blocks,
                                          int64_t unit) {
  int64_t rows = cast<RankedTensorType>(parameter.getType()).getDimSize(dim), parts = mesh.getAxisSize(axis);
  auto refuse = [&]() -> InFlightDiagnostic {
    std::string sizes;
    llvm::raw_string_ostream stream(sizes);
    printBlocks(stream, blocks);
    InFlightDiagnostic diagnostic = emitError(rule.getLoc());
    diagnostic.attachNote(parameter.getLoc()) << "the parameter, " << parameter.getType();
    diagnostic << "parameter " << parameter.getSymName() << " has " << rows << " rows in dim " << dim
               << ", in blocks of " << sizes;
    return diagnostic;
  };
  if (int64_t sum = llvm::sum_of(blocks); sum != rows)
    return refuse() << ", which are " << sum << " rows in all";
  for (AxisRefAttr ref : layout.getDims()[dim].getAxes())
    parts *= getAxisSize(module, ref);
  for (int64_t block : blocks)
    if (block % unit || block / unit % parts)
      return refuse() << "; " << axis << " = " << mesh.getAxisSize(axis) << " does not divide the one of "
                      << block << (unit > 1 ? ", in units of " + std::to_string(unit) : std::string());
  layout = shardDim(module, layout, dim, axis, blocks);
  return success();
}
