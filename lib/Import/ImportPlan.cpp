#include "plumb/Import/ImportPlan.h"

#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Dialect/Plumb/PlanOptions.h"
#include "plumb/Redistribution/Topology.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace plumb {

namespace {

class PlanBuilder {
public:
  PlanBuilder(const spec::PlanSpec &plan, ModuleOp module)
      : plan_(plan), module_(module), builder_(OpBuilder::atBlockBegin(module.getBody())) {
    module.getContext()->loadDialect<PlumbDialect>();
  }

  LogicalResult build() {
    if (failed(buildMesh()))
      return failure();
    buildPipeline();
    if (plan_.batch)
      BatchRuleOp::create(builder_, at(plan_.batch->range), text(plan_.batch->of),
                          integer(plan_.batch->size));
    if (plan_.batchNorm)
      BatchNormRuleOp::create(builder_, at(plan_.batchNorm->range), text(plan_.batchNorm->over),
                              plan_.batchNorm->parts.empty()
                                  ? DenseI64ArrayAttr()
                                  : builder_.getDenseI64ArrayAttr(plan_.batchNorm->parts));
    if (plan_.seed)
      SeedRuleOp::create(builder_, at(plan_.seed->range), integer(plan_.seed->value));
    for (const auto &group : plan_.aliases)
      buildAliasRule(group);
    for (const spec::LayoutEntry &entry : plan_.layouts)
      buildLayoutRule(entry);
    for (const spec::StorageEntry &entry : plan_.storage) {
      auto rule = StorageRuleOp::create(builder_, at(entry.range), text(entry.match), text(entry.axis.value),
                                        text(entry.gather));
      if (entry.prefetch)
        rule->setAttr(kPrefetchAttr, integer(*entry.prefetch));
    }
    for (const spec::Located<std::string> &pattern : plan_.recompute)
      RecomputeRuleOp::create(builder_, at(pattern.range), text(pattern.value));
    if (plan_.compute)
      PrecisionRuleOp::create(builder_, at(plan_.compute->range), text(plan_.compute->value));
    for (const spec::InputEntry &entry : plan_.inputs)
      InputRuleOp::create(builder_, at(entry.name.range), text(entry.name.value),
                          placements(entry.placements));
    if (plan_.loss)
      buildLossRule(*plan_.loss);
    if (plan_.optimizer)
      buildOptimizer(*plan_.optimizer);
    return success();
  }

private:
  FileLineColLoc at(const Place &place) const {
    return FileLineColLoc::get(builder_.getContext(), place.file, place.line, place.column);
  }
  Location at(Range range) const { return at(plan_.place(range)); }
  StringAttr text(const std::string &value) { return builder_.getStringAttr(value); }
  IntegerAttr integer(int64_t value) { return builder_.getI64IntegerAttr(value); }

  /// A model that has layouts of its own states the mesh that they are of. Its axes are the plan's; how many
  /// ranks they have, the plan says.
  LogicalResult buildMesh() {
    SmallVector<Attribute> axes;
    SmallVector<int64_t> sizes;
    for (const spec::MeshAxis &axis : plan_.mesh) {
      axes.push_back(text(axis.name.value));
      sizes.push_back(axis.size.value);
    }
    std::string name = "mesh";
    while (SymbolTable::lookupSymbolIn(module_, name))
      name += "_";
    for (auto stated : llvm::make_early_inc_range(module_.getOps<MeshOp>())) {
      if (stated.getAxes().getValue() != ArrayRef(axes)) {
        InFlightDiagnostic diagnostic = mlir::emitError(at(plan_.meshRange));
        diagnostic << "the axes of the plan's mesh are not those of the model's; give both the same";
        diagnostic.attachNote(stated.getLoc()) << "the model's mesh, of which it states layouts";
        return diagnostic;
      }
      name = stated.getSymName().str();
      stated.erase();
      builder_.setInsertionPointToStart(module_.getBody());
    }
    auto mesh = MeshOp::create(builder_, at(plan_.meshRange), text(name), builder_.getArrayAttr(axes),
                               builder_.getDenseI64ArrayAttr(sizes));
    if (plan_.topology)
      mesh->setAttr(redistribution::topologyAttribute, text(plan_.topology->value));
    return success();
  }

  void buildPipeline() {
    const spec::Pipeline &pipeline = plan_.pipeline;
    // A spec without a pipeline has its defaults; they are due to the spec as a whole.
    Range range = pipeline.range.end ? pipeline.range : plan_.meshRange;
    auto op =
        PipelineOp::create(builder_, at(range), text(pipeline.axis.value), text(pipeline.schedule.value),
                           integer(pipeline.microbatches.value),
                           pipeline.stagesPerRank ? integer(pipeline.stagesPerRank->value) : IntegerAttr(),
                           pipeline.placement ? text(pipeline.placement->value) : StringAttr());
    if (pipeline.skipConnections)
      op->setAttr(kSkipConnectionsAttr, text(*pipeline.skipConnections));
    if (pipeline.ranks)
      op->setAttr(kRanksAttr, builder_.getDenseI64ArrayAttr(pipeline.ranks->value));
    if (pipeline.schedule.value == "dualpipe")
      op->setAttr(kCopiesAttr, integer(2));
    if (pipeline.actions && pipeline.actions->source)
      op->setAttr(kActionsAttr, dictionary("file", text(pipeline.actions->source->name()), "text",
                                           text(std::string(pipeline.actions->source->text()))));
    if (plan_.costs)
      op->setAttr(kCostsAttr, costs(*plan_.costs));
    if (plan_.memoryLimit)
      op->setAttr(kMemoryLimitAttr, integer(*plan_.memoryLimit));
    if (const auto &context = plan_.contextParallel)
      op->setAttr(kContextParallelAttr,
                  dictionary("axis", text(context->axis.value), "attention", text(context->attention)));
    if (plan_.bucketBytes)
      op->setAttr(kBucketBytesAttr, integer(*plan_.bucketBytes));
    for (const spec::SplitPoint &point : pipeline.split)
      SplitRuleOp::create(builder_, at(point.module.range), text(point.module.value),
                          point.isEnd ? builder_.getUnitAttr() : UnitAttr());
    if (pipeline.policy)
      buildPolicy(*pipeline.policy);
    for (const spec::Sharing &sharing : pipeline.sharing)
      SharingRuleOp::create(builder_, at(sharing.match.range), text(sharing.match.value),
                            text(sharing.choice));
  }

  void buildPolicy(const spec::SplitPolicy &policy) {
    SmallVector<Attribute> modules;
    for (const std::vector<std::string> &stage : policy.modules)
      modules.push_back(builder_.getStrArrayAttr(SmallVector<StringRef>(stage.begin(), stage.end())));
    SplitPolicyOp::create(
        builder_, at(policy.range), text(policy.kind),
        policy.stages ? integer(*policy.stages) : IntegerAttr(), policy.by ? text(*policy.by) : StringAttr(),
        policy.list.empty() ? DenseI64ArrayAttr() : builder_.getDenseI64ArrayAttr(policy.list),
        policy.of.empty() ? StringAttr() : text(policy.of),
        modules.empty() ? ArrayAttr() : builder_.getArrayAttr(modules));
  }

  void buildAliasRule(const std::vector<spec::Located<std::string>> &group) {
    if (group.empty())
      return;
    SmallVector<Attribute> names;
    for (const spec::Located<std::string> &name : group)
      names.push_back(text(name.value));
    AliasRuleOp::create(builder_, at(group.front().range), builder_.getArrayAttr(names));
  }

  DictionaryAttr dictionary(StringRef first, Attribute value, StringRef second, Attribute other) {
    return builder_.getDictionaryAttr(
        {builder_.getNamedAttr(first, value), builder_.getNamedAttr(second, other)});
  }

  DictionaryAttr costs(const spec::Costs &costs) {
    SmallVector<double> stages;
    for (const spec::Costs::Stage &stage : costs.stages)
      stages.append({stage.forward, stage.inputGrad, stage.weightGrad});
    return builder_.getDictionaryAttr(
        {builder_.getNamedAttr("stages", builder_.getDenseF64ArrayAttr(stages)),
         builder_.getNamedAttr("transfer", builder_.getF64FloatAttr(costs.transfer)),
         builder_.getNamedAttr("place", at(costs.place))});
  }

  DictionaryAttr placements(const std::vector<spec::AxisPlacement> &list) {
    SmallVector<NamedAttribute> entries;
    for (const spec::AxisPlacement &entry : list)
      entries.push_back(
          builder_.getNamedAttr(entry.axis.value, text(entry.isKept ? "keep" : entry.placement.value.str())));
    return builder_.getDictionaryAttr(entries);
  }

  void buildLayoutRule(const spec::LayoutEntry &entry) {
    StringAttr style, axis, family;
    if (entry.templateName)
      family = text(entry.templateName->value);
    if (entry.style)
      style = text(entry.style->value);
    // Replicating needs no axis.
    bool isAxisGiven = entry.axis.range.end != 0;
    bool needsAxis = entry.style && entry.style->value != "replicate" && entry.style->value != "expert";
    if (isAxisGiven || entry.templateName || needsAxis)
      axis = text(entry.axis.value);
    DictionaryAttr params;
    if (entry.params) {
      SmallVector<NamedAttribute> layouts;
      for (const spec::ParameterLayout &parameter : *entry.params)
        layouts.push_back(builder_.getNamedAttr(parameter.name.value, placements(parameter.placements)));
      params = builder_.getDictionaryAttr(layouts);
    }
    auto unit = [&](bool value) { return value ? builder_.getUnitAttr() : UnitAttr(); };
    LayoutRuleOp::create(
        builder_, at(entry.match.range), text(entry.match.value), style, axis,
        entry.blocks && !entry.blocks->value.empty() ? builder_.getDenseI64ArrayAttr(entry.blocks->value)
                                                     : DenseI64ArrayAttr(),
        params, ports(entry.inSource), ports(entry.inTarget), ports(entry.outSource), ports(entry.outTarget),
        strings(entry.outNames), entry.unit ? integer(entry.unit->value) : IntegerAttr(),
        entry.dim ? integer(*entry.dim) : IntegerAttr(), strings(entry.bind), unit(entry.isOverride),
        entry.communication ? text(entry.communication->value) : StringAttr(), family,
        unit(entry.sequenceParallel), unit(entry.lossParallel));
  }

  ArrayAttr strings(const std::vector<std::string> &list) {
    return list.empty() ? ArrayAttr()
                        : builder_.getStrArrayAttr(SmallVector<StringRef>(list.begin(), list.end()));
  }

  /// A port that is kept as it is stands as the word.
  DictionaryAttr ports(const spec::PortLayouts &list) {
    if (!list)
      return {};
    SmallVector<NamedAttribute> entries;
    for (const spec::PortLayout &port : *list)
      entries.push_back(builder_.getNamedAttr(port.name.value, port.isKept ? Attribute(text("keep"))
                                                                           : placements(port.placements)));
    return builder_.getDictionaryAttr(entries);
  }

  void buildLossRule(const spec::Loss &loss) {
    IntegerAttr index;
    StringAttr name, reduce;
    if (const auto *number = std::get_if<int64_t>(&loss.output.value))
      index = integer(*number);
    else
      name = text(std::get<std::string>(loss.output.value));
    if (loss.reduce)
      reduce = text(loss.reduce->value);
    StringAttr target;
    TypeAttr targetType;
    if (loss.target) {
      target = text(loss.target->value);
      targetType = TypeAttr::get(builder_.getIntegerType(loss.targetType == "i32" ? 32 : 64));
    }
    // What PyTorch ignores unless it is told otherwise.
    constexpr int64_t ignored = -100;
    LossRuleOp::create(builder_, at(loss.output.range), index, name, reduce, target, targetType,
                       target ? integer(loss.ignoreIndex ? loss.ignoreIndex->value : ignored)
                              : IntegerAttr());
  }

  void buildOptimizer(const spec::Optimizer &optimizer) {
    auto number = [&](const std::optional<spec::Located<double>> &value) {
      return value ? builder_.getF64FloatAttr(value->value) : FloatAttr();
    };
    auto count = [&](const std::optional<spec::Located<int64_t>> &value) {
      return value ? integer(value->value) : IntegerAttr();
    };
    auto beta = [&](size_t index) {
      return optimizer.betas ? builder_.getF64FloatAttr(optimizer.betas->value[index]) : FloatAttr();
    };
    OptimizerOp::create(builder_, at(optimizer.range), text(optimizer.kind.value),
                        builder_.getF64FloatAttr(optimizer.rate.value), number(optimizer.momentum),
                        number(optimizer.dampening), optimizer.nesterov ? builder_.getUnitAttr() : UnitAttr(),
                        beta(0), beta(1), number(optimizer.epsilon), number(optimizer.decay),
                        number(optimizer.clip),
                        optimizer.schedule ? text(optimizer.schedule->value) : StringAttr(),
                        count(optimizer.warmup), count(optimizer.steps), number(optimizer.final),
                        optimizer.state.empty() ? DictionaryAttr() : placements(optimizer.state));
  }

  const spec::PlanSpec &plan_;
  ModuleOp module_;
  OpBuilder builder_;
};

} // namespace

LogicalResult importPlan(const spec::PlanSpec &plan, ModuleOp module) {
  return PlanBuilder(plan, module).build();
}

} // namespace plumb
