//===- PlanSpec.h - The plan spec -------------------------------*- C++ -*-===//
//
// What a person wants of a model: the mesh, where to cut it, how to lay it out, the schedule. All values keep
// their range in the spec, for diagnostics of later phases that only a model can give rise to.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_PLANSPEC_H
#define PLUMB_IMPORT_PLANSPEC_H

#include "plumb/Import/Json.h"

#include <array>
#include <optional>

namespace plumb::spec {

template <typename T>
struct Located {
  T value{};
  Range range{};
};

struct MeshAxis {
  Located<std::string> name;
  Located<int64_t> size;
};

/// What one mesh axis does to a tensor: `shard(1)`, `shard(0, blocks=3)`, `shard(0, blocks=[64, 32, 32])`,
/// `replicate`, `partial(sum)`.
struct Placement {
  enum class Kind { Shard, Replicate, Partial };
  Kind kind = Kind::Replicate;
  int64_t dim = 0; ///< Shard: the tensor dim; negative ones count from the last.
  /// Shard: each block of the dim is sharded; so many equal ones, or of these sizes. Empty: the dim is one.
  std::vector<int64_t> blocks;

  /// The canonical spelling.
  std::string str() const;
};

/// `3` or `[64, 32, 32]`: blocks as a placement has them.
std::string blocksText(const std::vector<int64_t> &blocks);

/// Reads a placement in the form above; nothing if it is none.
std::optional<Placement> parsePlacement(const std::string &text);

struct AxisPlacement {
  Located<std::string> axis;
  Located<Placement> placement;
  bool isKept = false; ///< Of a port: the axis stays as propagation gives it.
};

struct SplitPoint {
  Located<std::string> module;
  bool isEnd = false; ///< After the module's last operation instead of before its first.
};

/// A choice of all stage boundaries.
struct SplitPolicy {
  Range range;
  std::string kind;                              ///< `balanced`, `layers`, `each`, `layout` or `modules`.
  std::optional<int64_t> stages;                 ///< balanced
  std::optional<std::string> by;                 ///< balanced: `flops`, `parameters` or `time`.
  std::vector<int64_t> list;                     ///< layers: how many in each stage.
  std::string of;                                ///< each: the module; layout: the string.
  std::vector<std::vector<std::string>> modules; ///< modules: those of each stage.
};

/// What becomes of the parameters that a pattern matches where several stages use them.
struct Sharing {
  Located<std::string> match; ///< A glob over parameter names, see Glob.
  std::string choice;         ///< `replicate`, `transmit` or `auto`.
};

/// A file that the spec names, relative to its own folder. `source` is null until `readReferencedFiles`.
struct ReferencedFile {
  Located<std::string> path;
  std::shared_ptr<const Source> source;
};

/// Times of one microbatch, in any unit.
struct Costs {
  struct Stage {
    double forward = 0, inputGrad = 0, weightGrad = 0;
  };
  std::vector<Stage> stages;
  Place place;         ///< Of the list of stages, in the plan or in a file of its own.
  double transfer = 0; ///< Between two ranks.
};

struct Pipeline {
  Range range;
  Located<std::string> axis{"pp"};
  Located<std::string> schedule{"1f1b"};
  Located<int64_t> microbatches{1};
  std::optional<Located<int64_t>> stagesPerRank;
  std::optional<Located<std::string>> placement;      ///< `loop` or `v`; that of the schedule if not given.
  std::optional<Located<std::vector<int64_t>>> ranks; ///< Of each stage, instead of a placement.
  std::optional<ReferencedFile> actions;              ///< The CSV file of the schedule `custom`.
  std::optional<std::string> skipConnections;         ///< `direct`, `forward` or `auto`.
  std::vector<SplitPoint> split;
  std::optional<SplitPolicy> policy; ///< Instead of split points.
  std::vector<Sharing> sharing;      ///< The last entry that matches counts.
};

struct ParameterLayout {
  Located<std::string> name; ///< Relative to the module.
  std::vector<AxisPlacement> placements;
};

/// What a plan says of one side of a port.
struct PortLayout {
  Located<std::string> name;
  bool isKept = false; ///< As propagation gives it; no placements then.
  std::vector<AxisPlacement> placements;
};
using PortLayouts = std::optional<std::vector<PortLayout>>;

/// A style on an axis, or layouts of the module's parameters and ports.
struct LayoutEntry {
  Range range;
  Located<std::string> match; ///< A glob over module names, see Glob.
  std::optional<Located<std::string>> style;
  std::optional<Located<std::string>> templateName;
  Located<std::string> axis{"tp"};                     ///< Of the style or template.
  std::optional<Located<std::vector<int64_t>>> blocks; ///< As those of a placement.
  std::optional<std::vector<ParameterLayout>> params;
  PortLayouts inSource, inTarget, outSource, outTarget;
  std::vector<std::string> outNames;
  std::optional<Located<int64_t>> unit;
  std::optional<int64_t> dim; ///< Of the `sequence` style.
  std::vector<std::string> bind;
  bool isOverride = false;
  std::optional<Located<std::string>> communication;
  bool sequenceParallel = false;
  bool lossParallel = false;
};

/// Parameters that are stored in shards of an axis and gathered for use.
struct StorageEntry {
  Range range;
  std::string match = "*"; ///< A glob over parameter names.
  Located<std::string> axis{"dp"};
  std::string gather = "pass";
  std::optional<int64_t> prefetch; ///< Layers that are gathered ahead of their use.
};

/// An input that is not simply a batch along dimension 0. Without placements it is no batch: the same on all
/// ranks and for all microbatches.
struct InputEntry {
  Located<std::string> name;
  std::vector<AxisPlacement> placements;
};

struct Loss {
  Range range;
  Located<std::variant<int64_t, std::string>> output; ///< Index or name of an output.
  /// `mean_square`, `mean`, `sum` or `cross_entropy`; none: it is the loss itself.
  std::optional<Located<std::string>> reduce;
  std::optional<Located<std::string>> target; ///< cross_entropy: name of the input with the labels.
  std::string targetType = "i64";
  std::optional<Located<int64_t>> ignoreIndex;
};

/// The batch to compile for: so many rows in all, of each replica, or of each microbatch.
struct Batch {
  Range range;
  std::string of; ///< `global`, `replica` or `microbatch`.
  int64_t size = 1;
};

/// How the parameters that a pattern matches begin, where the export has no values.
struct Initial {
  Located<std::string> match;
  std::string kind; ///< `normal`, `zeros` or `ones`.
  double deviation = 0.02;
};

/// The numbers that a kind does not use are absent; those that it needs have the defaults of torch.optim.
struct Optimizer {
  Range range;
  Located<std::string> kind; ///< `sgd`, `adam`, `adamw`.
  Located<double> rate;
  std::optional<Located<double>> momentum, dampening, decay, epsilon, clip;
  std::optional<Located<std::array<double, 2>>> betas;
  bool nesterov = false;
  std::optional<Located<std::string>> schedule; ///< `constant`, `linear`, `cosine`.
  std::optional<Located<int64_t>> warmup, steps;
  std::optional<Located<double>> final; ///< The rate after `steps`, as a fraction.
  std::vector<AxisPlacement> state;     ///< How the state is sharded besides its parameter.
};

/// Which rows batch normalisation normalises together in training.
struct BatchNorm {
  Range range;
  std::string over;           ///< `microbatch` or `local`.
  std::vector<int64_t> parts; ///< Ranks and microbatches; those of the plan if empty.
};

/// How attention over sequences in shards gets at keys and values.
struct ContextParallel {
  Located<std::string> axis;
  std::string attention = "auto"; ///< `auto`, `gather` or `ring`.
};

struct PlanSpec {
  std::shared_ptr<const Source> source;
  Range meshRange;
  std::vector<MeshAxis> mesh; ///< In the order written; at least one. The product of the sizes fits 31 bits.
  Pipeline pipeline;          ///< With its defaults if the spec has none.
  std::vector<LayoutEntry> layouts;
  std::vector<StorageEntry> storage;
  std::vector<InputEntry> inputs;
  std::optional<Batch> batch;
  std::vector<std::vector<Located<std::string>>> aliases; ///< Names of one parameter.
  std::vector<Initial> init;                              ///< The last entry that matches counts.
  std::vector<Located<std::string>> recompute;            ///< Patterns of modules.
  std::optional<Located<std::string>> compute; ///< The element type of products; as in the model if absent.
  std::optional<Loss> loss;
  std::optional<Optimizer> optimizer;
  std::optional<Located<std::string>> topology; ///< JSON, checked; see Redistribution/Topology.h.
  std::optional<int64_t> memoryLimit;           ///< Bytes of a rank.
  std::optional<ContextParallel> contextParallel;
  std::optional<int64_t> bucketBytes; ///< Of tensors that share the launch of a collective.
  std::optional<BatchNorm> batchNorm;
  std::optional<Located<int64_t>> seed;
  std::optional<Costs> costs;
  std::optional<ReferencedFile> costsFile; ///< From which the costs are read.

  Place place(Range range) const { return source->place(range); }
  const MeshAxis *findAxis(std::string_view name) const;
};

/// Reads a spec, and checks it as far as that is possible without a model: types, unknown keys (with the
/// nearest known one), keys that this version does not honour, mesh axes that do not exist. Reports all it
/// finds.
std::optional<PlanSpec> parsePlanSpec(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

/// Reads the files that the spec names: the CSV file of a custom schedule, and measured costs. False if an
/// error was reported.
bool readReferencedFiles(PlanSpec &plan, Diagnostics &diagnostics);

/// Reads costs from a file of their own: an object like that of the key `costs`.
std::optional<Costs> parseCosts(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

/// Checks keys and values of a topology in a file of its own: an object like that of the key `topology`.
bool checkTopologyFile(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

/// The JSON Schema (draft 2020-12) of the plan spec, indented, with a final newline.
std::string planSchema();

} // namespace plumb::spec

#endif // PLUMB_IMPORT_PLANSPEC_H
