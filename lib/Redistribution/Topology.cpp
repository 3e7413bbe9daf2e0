//===- Topology.cpp - What moving bytes costs -----------------------------===//
#include "plumb/Redistribution/Topology.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Support/Bounds.h"
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
  } catch (const Json::exception &error) {
    return failure("{0}", error.what());
  }
  if (!json.is_object())
    return failure("{0} is not an object", json.dump());
  Topology topology;
  for (const auto &[key, value] : json.items()) {
    if (key == "node_size") {
      if (!value.is_number_integer() || !bounds::kIndex.contains(value.get<double>()))
        return failure("node_size must be a whole number{0}, not {1}", bounds::kIndex.str(), value.dump());
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
  auto check = [](double number, const char *key, const Bounds &bounds) -> llvm::Error {
    if (bounds.contains(number))
      return llvm::Error::success();
    return failure("{0} must be a number{1}, not {2}", key, bounds.str(), numberText(number));
  };
  auto checkLink = [&](const Link &link) -> llvm::Error {
    if (llvm::Error error = check(link.bandwidth, "bandwidth", bounds::kBandwidth))
      return error;
    if (llvm::Error error = check(link.latency, "latency", bounds::kLatency))
      return error;
    return check(link.messageLatency, "message_latency", bounds::kLatency);
  };
  if (llvm::Error error = check(static_cast<double>(topology.nodeSize), "node_size", bounds::kIndex))
    return error;
  if (llvm::Error error = checkLink(topology.node))
    return error;
  if (llvm::Error error = checkLink(topology.network))
    return error;
  for (const std::optional<Link> &link : topology.axes)
    if (link)
      if (llvm::Error error = checkLink(*link))
        return error;
  return llvm::Error::success();
}
