//===- Topology.h - What moving bytes costs ---------------------*- C++ -*-===//
//
// A step over axes costs latency + messages · message latency + bytes / bandwidth,
// with the slowest link among its axes. Without a topology the cost is bytes
// alone, and all axes are alike.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_TOPOLOGY_H
#define PLUMB_REDISTRIBUTION_TOPOLOGY_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

struct Link {
  /// Bytes per second and direction of one rank.
  double bandwidth = 300e9;
  /// Seconds per step.
  double latency = 6.6e-6;
  /// Seconds per message that a rank sends within a step.
  double messageLatency = 0.6e-6;
  bool operator==(const Link &) const = default;
};

/// Links within a node and between nodes. Consecutive ranks fill nodes of `nodeSize`; 0: all ranks are in one
/// node. The defaults are those of eight H100 with NVLink per node and one 400 Gbit/s card per rank.
struct Topology {
  int64_t nodeSize = 0;
  Link node;
  Link network = {50e9, 14e-6, 2.7e-6};
  /// Overrides by axis; entries without a value are decided by `nodeSize`.
  std::vector<std::optional<Link>> axes;

  bool operator==(const Topology &) const = default;

  /// The link that neighbours along `ref` use: within a node only if all ranks of each such group are.
  Link link(const Mesh &mesh, const AxisRef &ref) const;
  /// The slowest in every respect among the links of `axes`.
  Link slowest(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes) const;
};

/// Reads
///   {"node_size": 8, "node": LINK, "network": LINK, "axes": {"dp": LINK, …}}
/// where LINK is {"bandwidth": bytes per second, "latency": seconds, "message_latency": seconds}; what is
/// left out keeps its default. Unknown keys and axes are errors.
llvm::Expected<Topology> parseTopology(const Mesh &mesh, llvm::StringRef json);

/// The name under which a mesh of the IR keeps that text.
inline constexpr llvm::StringLiteral topologyAttribute = "plumb.topology";

/// Fails on numbers outside the ranges of Support/Bounds.h.
llvm::Error checkTopology(const Topology &topology);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_TOPOLOGY_H
