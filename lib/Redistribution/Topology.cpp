//===- Topology.cpp - What moving bytes costs -----------------------------===//
#include "plumb/Redistribution/Topology.h"
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace plumb::redistribution;
using Json = nlohmann::json;

namespace {

template <typename... Ts>
llvm::Error failure(const char *format, Ts &&...args) {
  return llvm::createStringError("topology: " + llvm::formatv(format, std::forward<Ts>(args)...).str());
}

llvm::Error readNumber(const Json &value, llvm::StringRef where, double &number) {
  if (!value.is_number())
    return failure("{0} is {1}, not a number", where, value.dump());
  number = value.get<double>();
  return llvm::Error::success();
}

llvm::Error readLink(const Json &value, llvm::StringRef where, Link &link) {
  if (!value.is_object())
    return failure("{0} is {1}, not an object of bandwidth, latency and message_latency", where,
                   value.dump());
  for (const auto &[key, entry] : value.items()) {
    double *field = key == "bandwidth"         ? &link.bandwidth
                    : key == "latency"         ? &link.latency
                    : key == "message_latency" ? &link.messageLatency
                                               : nullptr;
    if (!field)
      return failure("{0} has the unknown key '{1}'; there are bandwidth, latency and message_latency", where,
                     key);
    if (llvm::Error error = readNumber(entry, (where + "." + key).str(), *field))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error readAxes(const Mesh &mesh, const Json &value, Topology &topology) {
  if (!value.is_object())
    return failure("axes is {0}, not an object", value.dump());
  topology.axes.assign(mesh.axes.size(), std::nullopt);
  for (const auto &[name, entry] : value.items()) {
    std::optional<unsigned> axis = mesh.find(name);
    if (!axis)
      return failure("axes names '{0}', which is not on the mesh {1}", name, toString(mesh));
    Link link = topology.link(mesh, wholeAxis(mesh, *axis));
    if (llvm::Error error = readLink(entry, "axes." + name, link))
      return error;
    topology.axes[*axis] = link;
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Topology> plumb::redistribution::parseTopology(const Mesh &mesh, llvm::StringRef text) {
  Json json;
  try {
    json = Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error &error) {
    return failure("byte {0}: {1}", error.byte, error.what());
  }
  if (!json.is_object())
    return failure("{0} is not an object", json.dump());
  Topology topology;
  for (const auto &[key, value] : json.items()) {
    if (key == "node_size") {
      if (!value.is_number_integer())
        return failure("node_size is {0}, not a whole number", value.dump());
      topology.nodeSize = value.get<int64_t>();
    } else if (key == "node" || key == "network") {
      if (llvm::Error error = readLink(value, key, key == "node" ? topology.node : topology.network))
        return error;
    } else if (key != "axes") {
      return failure("unknown key '{0}'; there are node_size, node, network and axes", key);
    }
  }
  // Axes last: what they leave out is the default that the other keys decide.
  if (json.contains("axes"))
    if (llvm::Error error = readAxes(mesh, json["axes"], topology))
      return error;
  if (llvm::Error error = checkTopology(topology))
    return error;
  return topology;
}

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
      return failure("{0}: a bandwidth of {1} bytes per second is not positive", where, link.bandwidth);
    if (!(link.latency >= 0 && link.messageLatency >= 0) ||
        !std::isfinite(link.latency + link.messageLatency))
      return failure("{0}: a latency is negative", where);
    return llvm::Error::success();
  };
  if (topology.nodeSize < 0)
    return failure("a node of {0} ranks", topology.nodeSize);
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
