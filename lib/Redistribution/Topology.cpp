//===- Topology.cpp - What moving bytes costs -----------------------------===//
#include "plumb/Redistribution/Topology.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace plumb::redistribution;

Link Topology::link(const Mesh &mesh, const AxisRef &ref) const {
  if (ref.axis < axes.size() && axes[ref.axis])
    return *axes[ref.axis];
  // Neighbours `stride` apart, `ref.size` of them, fill aligned runs of stride·size ranks.
  int64_t run = rankStride(mesh, ref) * ref.size;
  bool withinNode = nodeSize == 0 || mesh.numRanks() <= nodeSize || (run <= nodeSize && nodeSize % run == 0);
  return withinNode ? node : network;
}

Link Topology::slowest(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes) const {
  Link result{std::numeric_limits<double>::infinity(), 0, 0};
  for (const AxisRef &ref : axes) {
    Link one = link(mesh, ref);
    result.bandwidth = std::min(result.bandwidth, one.bandwidth);
    result.latency = std::max(result.latency, one.latency);
    result.messageLatency = std::max(result.messageLatency, one.messageLatency);
  }
  return result;
}

llvm::Error plumb::redistribution::checkTopology(const Topology &topology) {
  auto check = [](const Link &link, llvm::StringRef where) -> llvm::Error {
    if (!(link.bandwidth > 0) || !std::isfinite(link.bandwidth))
      return llvm::createStringError(
          llvm::formatv("{0}: a bandwidth of {1} bytes per second is not positive", where, link.bandwidth)
              .str());
    if (!(link.latency >= 0 && link.messageLatency >= 0) ||
        !std::isfinite(link.latency + link.messageLatency))
      return llvm::createStringError(llvm::formatv("{0}: a latency is negative", where).str());
    return llvm::Error::success();
  };
  if (topology.nodeSize < 0)
    return llvm::createStringError(llvm::formatv("a node of {0} ranks", topology.nodeSize).str());
  if (llvm::Error error = check(topology.node, "links within a node"))
    return error;
  if (llvm::Error error = check(topology.network, "links between nodes"))
    return error;
  for (size_t i = 0; i < topology.axes.size(); ++i)
    if (topology.axes[i])
      if (llvm::Error error = check(*topology.axes[i], llvm::formatv("links of axis number {0}", i).str()))
        return error;
  return llvm::Error::success();
}
