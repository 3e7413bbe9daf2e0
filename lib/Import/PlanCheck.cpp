#include "PlanCheck.h"

#include "OptimizerSpec.h"

#include "plumb/Redistribution/Topology.h"
#include "plumb/Support/Suggest.h"

#include <algorithm>

namespace plumb::spec {

static constexpr std::string_view kMicrobatch = "microbatch";

namespace {

class Checker {
public:
  Checker(const PlanSpec &plan, Diagnostics &diagnostics) : plan_(plan), diagnostics_(diagnostics) {}

  void check() {
    checkMesh();
    checkPipeline();
    if (plan_.pipeline.policy)
      checkPolicy(*plan_.pipeline.policy);
    if (plan_.loss)
      checkLoss(*plan_.loss);
    for (const LayoutEntry &entry : plan_.layouts)
      checkLayout(entry);
    if (plan_.contextParallel)
      checkLayoutAxis(plan_.contextParallel->axis);
    for (const StorageEntry &entry : plan_.storage)
      checkLayoutAxis(entry.axis);
    if (plan_.optimizer) {
      checkOptimizer(plan_, *plan_.optimizer, diagnostics_);
      for (const AxisPlacement &placement : plan_.optimizer->state)
        checkParameterPlacement(placement, "the optimizer's state");
    }
    for (const InputEntry &entry : plan_.inputs)
      for (const AxisPlacement &placement : entry.placements)
        checkInputPlacement(placement);
    if (plan_.topology)
      checkTopology(*plan_.topology);
  }

private:
  Diagnostic &error(Range range, std::string message) {
    return diagnostics_.error(plan_.place(range), std::move(message));
  }

  void checkTopology(const Located<std::string> &topology) {
    redistribution::Mesh mesh;
    for (const MeshAxis &axis : plan_.mesh)
      mesh.axes.push_back({axis.name.value, axis.size.value});
    if (auto parsed = redistribution::parseTopology(mesh, topology.value); !parsed)
      error(topology.range, llvm::toString(parsed.takeError()));
  }

  void checkMesh() {
    if (plan_.mesh.empty())
      error(plan_.meshRange, "the mesh has no axis; a single rank is {\"tp\": 1}");
    int64_t ranks = 1;
    for (const MeshAxis &axis : plan_.mesh) {
      if (axis.name.value == kMicrobatch)
        error(axis.name.range,
              "\"microbatch\" cannot be a mesh axis: it is the name of the axis over which a step "
              "walks its microbatches");
      if (__builtin_mul_overflow(ranks, axis.size.value, &ranks) || ranks > INT32_MAX) {
        error(axis.size.range, "the mesh has more than 2^31 ranks");
        return;
      }
    }
  }

  void checkPipeline() {
    const Pipeline &pipeline = plan_.pipeline;
    bool isGiven = pipeline.axis.range.end != 0;
    if (isGiven)
      checkAxisExists(pipeline.axis);
    checkPlacement();
    bool isCustom = pipeline.schedule.value == "custom";
    if (isCustom && !pipeline.actions)
      error(pipeline.schedule.range, "the schedule \"custom\" needs the key \"actions\": its CSV file");
    if (!isCustom && pipeline.actions)
      error(pipeline.actions->path.range,
            "\"actions\" belongs to the schedule \"custom\", but the schedule is \"" +
                pipeline.schedule.value + "\"");
  }

  void checkPlacement() {
    const Pipeline &pipeline = plan_.pipeline;
    bool isChosen = pipeline.ranks || (pipeline.placement && pipeline.placement->value != "v");
    if (pipeline.schedule.value == "dualpipe" && isChosen)
      error(
          pipeline.ranks ? pipeline.ranks->range : pipeline.placement->range,
          "the schedule \"dualpipe\" places stage s and its copy itself, on rank s and on its mirror image");
    if (!pipeline.ranks)
      return;
    const MeshAxis *axis = plan_.findAxis(pipeline.axis.value);
    int64_t size = axis ? axis->size.value : 1;
    for (int64_t rank : pipeline.ranks->value)
      if (rank >= size) {
        error(pipeline.ranks->range, "a stage is placed on rank " + std::to_string(rank) +
                                         ", but the axis \"" + pipeline.axis.value +
                                         "\" has the ranks 0 to " + std::to_string(size - 1));
        return;
      }
  }

  /// Each policy has its own keys.
  void checkPolicy(const SplitPolicy &policy) {
    if (policy.kind == "layout")
      return;
    auto check = [&](const char *key, const char *owner, bool isGiven, bool isNeeded) {
      if (isGiven && policy.kind != owner)
        error(policy.range, "\"" + std::string(key) + "\" belongs to the policy \"" + owner +
                                "\", not to \"" + policy.kind + "\"");
      else if (isNeeded && !isGiven && policy.kind == owner)
        error(policy.range, "the policy \"" + policy.kind + "\" needs the key \"" + key + "\"");
    };
    check("stages", "balanced", policy.stages.has_value(), false);
    check("by", "balanced", policy.by.has_value(), false);
    check("list", "layers", !policy.list.empty(), true);
    check("of", "each", !policy.of.empty(), true);
  }

  void checkLoss(const Loss &loss) {
    bool isCrossEntropy = loss.reduce && loss.reduce->value == "cross_entropy";
    if (isCrossEntropy && !loss.target)
      error(loss.reduce->range,
            "\"cross_entropy\" needs \"target\": {\"name\": …}, the input that holds the labels");
    if (!isCrossEntropy && loss.target)
      error(loss.target->range, "\"target\" belongs to \"reduce\": \"cross_entropy\"");
    if (!isCrossEntropy && loss.ignoreIndex)
      error(loss.ignoreIndex->range, "\"ignore_index\" belongs to \"reduce\": \"cross_entropy\"");
  }

  bool checkAxisExists(const Located<std::string> &axis) {
    if (plan_.findAxis(axis.value))
      return true;
    std::vector<std::string> names;
    for (const MeshAxis &known : plan_.mesh)
      names.push_back(known.name.value);
    error(axis.range, "the mesh has no axis \"" + axis.value + "\"" + didYouMean(axis.value, names))
        .note(plan_.place(plan_.meshRange), "the mesh is declared here");
    return false;
  }

  /// An axis that a layout or an input may name: one of the mesh that does not hold the stages.
  bool checkLayoutAxis(const Located<std::string> &axis) {
    if (!checkAxisExists(axis))
      return false;
    if (axis.value != plan_.pipeline.axis.value)
      return true;
    error(axis.range,
          "\"" + axis.value + "\" is the pipeline axis, which holds stages and cannot lay out a tensor");
    return false;
  }

  void checkLayout(const LayoutEntry &entry) {
    if (entry.match.value.empty() && !entry.templateName && entry.bind.empty())
      error(entry.range, "this entry needs \"match\", the modules that it lays out");
    bool hasPorts = entry.inSource || entry.inTarget || entry.outSource || entry.outTarget;
    if (!entry.style && !entry.params && !entry.templateName && !hasPorts)
      error(entry.range,
            "this entry changes nothing: it needs \"style\", \"template\", \"params\" or layouts "
            "of ports");
    checkPorts(entry);
    if (entry.communication && entry.communication->value != "mesh")
      checkLayoutAxis(*entry.communication);
    if (entry.style && entry.params)
      error(entry.range,
            "this entry has both \"style\" and \"params\", but a style lays out the parameters itself");
    if (entry.blocks && !entry.style)
      error(entry.blocks->range, "\"blocks\" belongs to a style; in \"params\" write \"shard(0, blocks=" +
                                     blocksText(entry.blocks->value) + ")\"");
    if (entry.style)
      checkStyleAxis(entry);
    for (const ParameterLayout &parameter : entry.params.value_or(std::vector<ParameterLayout>()))
      for (const AxisPlacement &placement : parameter.placements)
        checkParameterPlacement(placement, "the parameter \"" + parameter.name.value + "\"");
  }

  void checkParameterPlacement(const AxisPlacement &placement, const std::string &what) {
    checkLayoutAxis(placement.axis);
    if (placement.placement.value.kind == Placement::Kind::Partial)
      error(placement.placement.range,
            what + " cannot be partial: its value is stored, not still to be summed");
  }

  void checkPorts(const LayoutEntry &entry) {
    for (const PortLayouts *side : {&entry.inSource, &entry.inTarget, &entry.outSource, &entry.outTarget})
      for (const PortLayout &port : side->value_or(std::vector<PortLayout>()))
        for (const AxisPlacement &placement : port.placements)
          checkLayoutAxis(placement.axis);
    if (entry.inSource && !entry.inTarget && !entry.style)
      error(entry.range, "\"in_src\" without \"in_dst\" redistributes nothing; state both, or neither");
  }

  void checkStyleAxis(const LayoutEntry &entry) {
    bool isGiven = entry.axis.range.end != 0;
    bool isBare = entry.style->value.starts_with("prepare_");
    if (isGiven)
      checkLayoutAxis(entry.axis);
    else if (isBare || entry.style->value == "expert")
      return;
    else if (entry.style->value != "replicate" && !plan_.findAxis(entry.axis.value))
      error(entry.style->range, "the style \"" + entry.style->value + "\" uses the axis \"" +
                                    entry.axis.value +
                                    "\" if \"axis\" is not given, but the mesh has no such axis")
          .note(plan_.place(plan_.meshRange), "the mesh is declared here");
  }

  void checkInputPlacement(const AxisPlacement &placement) {
    if (placement.axis.value != kMicrobatch)
      checkLayoutAxis(placement.axis);
    if (placement.placement.value.kind == Placement::Kind::Partial)
      error(placement.placement.range, "an input cannot be partial: it is given as whole values");
  }

  const PlanSpec &plan_;
  Diagnostics &diagnostics_;
};

} // namespace

void checkPlanSpec(const PlanSpec &plan, Diagnostics &diagnostics) { Checker(plan, diagnostics).check(); }

} // namespace plumb::spec
