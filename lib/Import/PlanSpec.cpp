#include "plumb/Import/PlanSpec.h"

#include "OptimizerSpec.h"
#include "PlanCheck.h"
#include "PlanSchema.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

namespace plumb::spec {

//===--------------------------------------------------------------------===//
// Placements
//===--------------------------------------------------------------------===//

static std::vector<int64_t> equalBlocks(int64_t count) {
  return count == 1 ? std::vector<int64_t>() : std::vector<int64_t>{count};
}

static std::vector<int64_t> blocksOfSizes(const std::vector<int64_t> &sizes) {
  bool isEqual = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  return isEqual ? equalBlocks(std::max<int64_t>(1, static_cast<int64_t>(sizes.size()))) : sizes;
}

std::string blocksText(const std::vector<int64_t> &blocks) {
  if (blocks.empty())
    return "1";
  std::string text;
  for (int64_t block : blocks)
    text += (text.empty() ? "" : ", ") + std::to_string(block);
  return blocks.size() > 1 ? "[" + text + "]" : text;
}

std::string Placement::str() const {
  if (kind == Kind::Replicate)
    return "replicate";
  if (kind == Kind::Partial)
    return "partial(sum)";
  return "shard(" + std::to_string(dim) + (blocks.empty() ? "" : ", blocks=" + blocksText(blocks)) + ")";
}

/// The numbers of a text that matches the pattern: one without brackets is a number of blocks.
static std::vector<int64_t> readBlocks(const std::string &text) {
  static const std::regex number("[0-9]+");
  std::vector<int64_t> numbers;
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it)
    numbers.push_back(std::stoll(it->str()));
  return text.starts_with("[") ? blocksOfSizes(numbers) : equalBlocks(numbers.empty() ? 1 : numbers.front());
}

std::optional<Placement> parsePlacement(const std::string &text) {
  static const std::regex pattern(kPlacementPattern);
  std::smatch match;
  if (text.size() > 200 || !std::regex_match(text, match, pattern))
    return std::nullopt;
  Placement placement;
  if (match[1].matched) {
    placement.kind = Placement::Kind::Shard;
    placement.dim = std::stoll(match[1]);
    placement.blocks = readBlocks(match[2]);
  } else if (match[3] != "replicate") {
    placement.kind = Placement::Kind::Partial;
  }
  return placement;
}

const MeshAxis *PlanSpec::findAxis(std::string_view name) const {
  auto found =
      std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis &axis) { return axis.name.value == name; });
  return found == mesh.end() ? nullptr : &*found;
}

//===--------------------------------------------------------------------===//
// Conversion
//===--------------------------------------------------------------------===//

namespace {

// These take values that were validated against the table, so their types are known.

Located<std::string> toString(const json::Value &value) { return {*value.asString(), value.range}; }
Located<std::string> toString(const json::Member &member) { return {member.key, member.keyRange}; }
Located<int64_t> toInteger(const json::Value &value) { return {*value.asInteger(), value.range}; }

Located<std::vector<int64_t>> toBlocks(const json::Value &value) {
  if (const int64_t *count = value.asInteger())
    return {equalBlocks(*count), value.range};
  std::vector<int64_t> sizes;
  for (const json::Value &size : *value.asArray())
    sizes.push_back(*size.asInteger());
  return {blocksOfSizes(sizes), value.range};
}

std::vector<AxisPlacement> toPlacements(const json::Value &value) {
  std::vector<AxisPlacement> result;
  for (const json::Member &member : *value.asObject()) {
    std::optional<Placement> placement = parsePlacement(*member.value.asString());
    result.push_back({toString(member), {placement.value_or(Placement()), member.value.range}, !placement});
  }
  return result;
}

PortLayouts toPorts(const json::Value *value) {
  if (!value)
    return std::nullopt;
  PortLayouts ports(std::in_place);
  for (const json::Member &member : *value->asObject()) {
    bool isKept = member.value.asString();
    ports->push_back(
        {toString(member), isKept, isKept ? std::vector<AxisPlacement>() : toPlacements(member.value)});
  }
  return ports;
}

std::vector<std::string> toStrings(const json::Value *value) {
  std::vector<std::string> result;
  if (value)
    for (const json::Value &element : *value->asArray())
      result.push_back(*element.asString());
  return result;
}

bool isTrue(const json::Value *value) { return value && *value->asBool(); }

/// Whether a schedule is defined for two stages per rank, or a stage and a copy, that run down the ranks and
/// back.
bool isOnV(const std::string &schedule) {
  return schedule == "zb-v" || schedule == "v-half" || schedule == "v-min" || schedule == "dualpipe-v" ||
         schedule == "dualpipe";
}

/// A policy is an object with a key of that name, a layout string, or lists of module names.
SplitPolicy toPolicy(const json::Value &value) {
  SplitPolicy policy;
  policy.range = value.range;
  if (const std::string *layout = value.asString()) {
    policy.kind = "layout";
    policy.of = *layout;
  } else if (const json::Array *stages = value.asArray()) {
    policy.kind = "modules";
    for (const json::Value &stage : *stages) {
      policy.modules.emplace_back();
      for (const json::Value &name : *stage.asArray())
        policy.modules.back().push_back(*name.asString());
    }
  } else {
    policy.kind = *value.find("policy")->asString();
    if (const json::Value *count = value.find("stages"))
      policy.stages = *count->asInteger();
    if (const json::Value *by = value.find("by"))
      policy.by = *by->asString();
    if (const json::Value *of = value.find("of"))
      policy.of = *of->asString();
    if (const json::Value *list = value.find("list"))
      for (const json::Value &count : *list->asArray())
        policy.list.push_back(*count.asInteger());
  }
  return policy;
}

std::vector<Sharing> toSharing(const json::Value &value) {
  if (const std::string *choice = value.asString())
    return {{{"*", value.range}, *choice}};
  std::vector<Sharing> result;
  for (const json::Member &member : *value.asObject())
    result.push_back({toString(member), *member.value.asString()});
  return result;
}

Pipeline toPipeline(const json::Value &value) {
  Pipeline pipeline;
  pipeline.range = value.range;
  if (const json::Value *axis = value.find("axis"))
    pipeline.axis = toString(*axis);
  if (const json::Value *schedule = value.find("schedule"))
    pipeline.schedule = toString(*schedule);
  if (const json::Value *microbatches = value.find("microbatches"))
    pipeline.microbatches = toInteger(*microbatches);
  if (const json::Value *stages = value.find("stages_per_rank"))
    pipeline.stagesPerRank = toInteger(*stages);
  if (const json::Value *actions = value.find("actions"))
    pipeline.actions = ReferencedFile{toString(*actions), nullptr};
  if (const json::Value *placement = value.find("placement"); placement && placement->asArray()) {
    pipeline.ranks = {{}, placement->range};
    for (const json::Value &rank : *placement->asArray())
      pipeline.ranks->value.push_back(*rank.asInteger());
  } else if (placement)
    pipeline.placement = toString(*placement);
  else if (isOnV(pipeline.schedule.value))
    pipeline.placement = {"v", pipeline.schedule.range};
  if (const json::Value *split = value.find("split")) {
    if (!split->asObject() || split->find("policy"))
      pipeline.policy = toPolicy(*split);
    else
      for (const json::Member &member : *split->asObject())
        pipeline.split.push_back({toString(member), *member.value.asString() == "end"});
  }
  if (const json::Value *route = value.find("skip_connections"))
    pipeline.skipConnections = *route->asString();
  if (const json::Value *sharing = value.find("multi_use_parameters"))
    pipeline.sharing = toSharing(*sharing);
  return pipeline;
}

/// The style that Hugging Face calls `style`, for the modules of a base model.
LayoutEntry fromHuggingFace(const std::string &pattern, const Located<std::string> &style,
                            const LayoutEntry &common) {
  LayoutEntry entry = common;
  entry.range = style.range;
  entry.match = {"**." + pattern, style.range};
  std::string name = style.value;
  auto drop = [&](const std::string &part) {
    size_t at = name.find(part);
    bool found = at != std::string::npos;
    if (found)
      name.erase(at, part.size());
    return found;
  };
  drop("local_");
  bool isReplicated = drop("_rep") || drop("_gather_output") || drop("_split_input");
  if (drop("packed_"))
    entry.blocks = {{2}, style.range};
  if (drop("embedding_"))
    drop("_output");
  if (name == "sequence_parallel")
    name = "sequence";
  entry.style = {name, style.range};
  if (isReplicated && name == "colwise")
    entry.outTarget = {{{"output.0", style.range}, false, {}}};
  if (isReplicated && name == "rowwise")
    entry.inSource = {{{"input.0", style.range}, false, {}}};
  return entry;
}

LayoutEntry toLayoutEntry(const json::Value &value) {
  LayoutEntry entry;
  entry.range = value.range;
  entry.match.range = value.range;
  if (const json::Value *match = value.find("match"))
    entry.match = toString(*match);
  if (const json::Value *style = value.find("style"))
    entry.style = toString(*style);
  if (const json::Value *axis = value.find("axis"))
    entry.axis = toString(*axis);
  if (const json::Value *blocks = value.find("blocks"))
    entry.blocks = toBlocks(*blocks);
  if (const json::Value *params = value.find("params")) {
    entry.params.emplace();
    for (const json::Member &member : *params->asObject())
      entry.params->push_back({toString(member), toPlacements(member.value)});
  }
  entry.inSource = toPorts(value.find("in_src"));
  entry.inTarget = toPorts(value.find("in_dst"));
  entry.outSource = toPorts(value.find("out_src"));
  entry.outTarget = toPorts(value.find("out_dst"));
  entry.outNames = toStrings(value.find("out_names"));
  if (const json::Value *unit = value.find("unit"))
    entry.unit = toInteger(*unit);
  if (const json::Value *dim = value.find("dim"))
    entry.dim = *dim->asInteger();
  entry.bind = toStrings(value.find("bind"));
  entry.isOverride = isTrue(value.find("override"));
  if (const json::Value *communication = value.find("communication"))
    entry.communication = toString(*communication);
  entry.sequenceParallel = isTrue(value.find("sequence_parallel"));
  entry.lossParallel = isTrue(value.find("loss_parallel"));
  return entry;
}

/// A template, or the entries that a plan of Hugging Face stands for. Its patterns are relative to the base
/// model, which may be part of a larger one.
void addLayoutEntries(const json::Value &value, std::vector<LayoutEntry> &entries) {
  const json::Value *family = value.find("template");
  LayoutEntry entry = toLayoutEntry(value);
  if (family && family->asObject()) {
    for (const json::Member &member : *family->asObject())
      entries.push_back(fromHuggingFace(member.key, {*member.value.asString(), member.value.range}, entry));
    return;
  }
  if (family)
    entry.templateName = toString(*family);
  entries.push_back(std::move(entry));
}

StorageEntry toStorage(const json::Value &value) {
  StorageEntry entry;
  entry.range = entry.axis.range = value.range;
  if (const json::Value *match = value.find("match"))
    entry.match = *match->asString();
  if (const json::Value *axis = value.find("axis"))
    entry.axis = toString(*axis);
  if (const json::Value *gather = value.find("gather"))
    entry.gather = *gather->asString();
  if (const json::Value *prefetch = value.find("prefetch"))
    entry.prefetch = *prefetch->asInteger();
  return entry;
}

Loss toLoss(const json::Value &value) {
  Loss loss;
  loss.range = value.range;
  const json::Value &output = *value.find("output");
  loss.output.range = output.range;
  if (const int64_t *index = output.asInteger())
    loss.output.value = *index;
  else
    loss.output.value = *output.asString();
  if (const json::Value *reduce = value.find("reduce"))
    loss.reduce = toString(*reduce);
  if (const json::Value *target = value.find("target")) {
    loss.target = toString(*target->find("name"));
    if (const json::Value *type = target->find("dtype"))
      loss.targetType = *type->asString();
  }
  if (const json::Value *ignore = value.find("ignore_index"))
    loss.ignoreIndex = toInteger(*ignore);
  return loss;
}

/// `normal(0.02)`, `zeros` or `ones`.
Initial toInitial(const json::Member &member) {
  static const std::regex pattern(kInitialPattern);
  const std::string &text = *member.value.asString();
  Initial initial{toString(member), text.substr(0, text.find('('))};
  std::smatch match;
  if (std::regex_match(text, match, pattern) && match[1].matched)
    initial.deviation = std::strtod(match.str(1).c_str(), nullptr);
  return initial;
}

ContextParallel toContextParallel(const json::Value &value) {
  ContextParallel result{{"cp", value.range}};
  if (const json::Value *axis = value.find("axis"))
    result.axis = toString(*axis);
  if (const json::Value *attention = value.find("attention"))
    result.attention = *attention->asString();
  return result;
}

Costs toCosts(const json::Value &value, const Source &source) {
  Costs costs;
  costs.place = source.place(value.find("stages")->range);
  for (const json::Value &stage : *value.find("stages")->asArray())
    costs.stages.push_back(
        {*stage.find("F")->asNumber(), *stage.find("I")->asNumber(), *stage.find("W")->asNumber()});
  if (const json::Value *transfer = value.find("transfer"))
    costs.transfer = *transfer->asNumber();
  return costs;
}

PlanSpec toPlanSpec(const json::Document &document) {
  const json::Value &root = document.root;
  PlanSpec plan;
  plan.source = document.source;
  plan.meshRange = root.find("mesh")->range;
  for (const json::Member &member : *root.find("mesh")->asObject())
    plan.mesh.push_back({toString(member), toInteger(member.value)});
  if (const json::Value *pipeline = root.find("pipeline"))
    plan.pipeline = toPipeline(*pipeline);
  if (const json::Value *layouts = root.find("layouts"))
    for (const json::Value &entry : *layouts->asArray())
      addLayoutEntries(entry, plan.layouts);
  if (const json::Value *storage = root.find("storage")) {
    if (storage->asObject())
      plan.storage.push_back(toStorage(*storage));
    else
      for (const json::Value &entry : *storage->asArray())
        plan.storage.push_back(toStorage(entry));
  }
  if (const json::Value *inputs = root.find("inputs"))
    for (const json::Member &member : *inputs->asObject()) {
      bool isReplicated = member.value.asString();
      if (isReplicated)
        plan.inputs.push_back({toString(member), {}});
      else if (!member.value.asObject()->empty()) // `{}` says nothing: the input is a batch, as by default.
        plan.inputs.push_back({toString(member), toPlacements(member.value)});
    }
  if (const json::Value *batch = root.find("batch"))
    plan.batch = {batch->range, *batch->find("of")->asString(), *batch->find("size")->asInteger()};
  if (const json::Value *aliases = root.find("aliases"))
    for (const json::Value &group : *aliases->asArray()) {
      plan.aliases.emplace_back();
      for (const json::Value &name : *group.asArray())
        plan.aliases.back().push_back(toString(name));
    }
  if (const json::Value *init = root.find("init"))
    for (const json::Member &member : *init->asObject())
      plan.init.push_back(toInitial(member));
  if (const json::Value *loss = root.find("loss"))
    plan.loss = toLoss(*loss);
  if (const json::Value *recompute = root.find("recompute"))
    for (const json::Value &pattern : *recompute->asArray())
      plan.recompute.push_back(toString(pattern));
  if (const json::Value *precision = root.find("precision"))
    plan.compute = toString(*precision->find("compute"));
  if (const json::Value *over = root.find("batch_norm"))
    plan.batchNorm = {over->range, *over->asString(), {}};
  if (const json::Value *seed = root.find("seed"))
    plan.seed = toInteger(*seed);
  if (const json::Value *limit = root.find("memory_limit"))
    plan.memoryLimit = *limit->asInteger();
  if (const json::Value *context = root.find("context_parallel"))
    plan.contextParallel = toContextParallel(*context);
  if (const json::Value *bytes = root.find("bucket_bytes"))
    plan.bucketBytes = *bytes->asInteger();
  if (const json::Value *costs = root.find("costs"); costs && costs->asString())
    plan.costsFile = ReferencedFile{toString(*costs), nullptr};
  else if (costs)
    plan.costs = toCosts(*costs, *plan.source);
  if (const json::Value *optimizer = root.find("optimizer")) {
    plan.optimizer = toOptimizer(*optimizer);
    if (const json::Value *state = optimizer->find("state"))
      plan.optimizer->state = toPlacements(*state);
  }
  if (const json::Value *topology = root.find("topology")) {
    Range range = topology->range;
    plan.topology = {std::string(plan.source->text().substr(range.begin, range.end - range.begin)), range};
  }
  return plan;
}

} // namespace

std::optional<PlanSpec> parsePlanSpec(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  std::optional<json::Document> document = json::parse(std::move(source), diagnostics);
  if (!document || !validate(*document, planTable(), diagnostics))
    return std::nullopt;
  size_t before = diagnostics.errorCount();
  PlanSpec plan = toPlanSpec(*document);
  checkPlanSpec(plan, diagnostics);
  return diagnostics.errorCount() == before ? std::optional(std::move(plan)) : std::nullopt;
}

/// Reads a file that the spec names. Only a plain file is sure to end.
static std::shared_ptr<const Source> readReferenced(const PlanSpec &plan, const Located<std::string> &path,
                                                    Diagnostics &diagnostics) {
  std::filesystem::path file = path.value;
  if (file.is_relative())
    file = std::filesystem::path(plan.source->name()).parent_path() / file;
  std::error_code failed;
  Diagnostics reasons;
  std::optional<Source> source;
  if (std::filesystem::is_regular_file(file, failed))
    source = Source::open(file.string(), reasons);
  if (source)
    return std::make_shared<const Source>(std::move(*source));
  diagnostics.error(plan.place(path.range), "the file \"" + file.string() + "\" cannot be read" +
                                                (failed ? ": " + failed.message() : ""));
  return nullptr;
}

std::optional<Costs> parseCosts(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  std::optional<json::Document> document = json::parse(source, diagnostics);
  if (!document || !validate(*document, costsTable(), diagnostics, "an object of costs"))
    return std::nullopt;
  return toCosts(document->root, *source);
}

bool checkTopologyFile(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  std::optional<json::Document> document = json::parse(std::move(source), diagnostics);
  return document && validate(*document, topologyTable(), diagnostics, "a topology");
}

bool readReferencedFiles(PlanSpec &plan, Diagnostics &diagnostics) {
  size_t before = diagnostics.errorCount();
  if (plan.pipeline.actions)
    plan.pipeline.actions->source = readReferenced(plan, plan.pipeline.actions->path, diagnostics);
  if (plan.costsFile)
    plan.costsFile->source = readReferenced(plan, plan.costsFile->path, diagnostics);
  if (plan.costsFile && plan.costsFile->source)
    plan.costs = parseCosts(plan.costsFile->source, diagnostics);
  return diagnostics.errorCount() == before;
}

std::string planSchema() {
  nlohmann::ordered_json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                                   {"title", "Plumb plan spec"}};
  schema.update(toJsonSchema(planTable()));
  return schema.dump(2) + "\n";
}

} // namespace plumb::spec
