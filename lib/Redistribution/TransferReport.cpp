//===- TransferReport.cpp - Plans between meshes as text and JSON ---------===//
#include "plumb/Redistribution/TransferReport.h"
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <nlohmann/json.hpp>

using namespace plumb::redistribution;
using Json = nlohmann::ordered_json;

llvm::Expected<std::vector<int64_t>> plumb::redistribution::parseDevices(llvm::StringRef text) {
  std::vector<int64_t> devices;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [first, second] = part.split('-');
    int64_t begin = 0, end = 0;
    if (first.trim().getAsInteger(10, begin) ||
        (part.contains('-') ? second : first).trim().getAsInteger(10, end) || begin < 0 || end < begin)
      return llvm::createStringError(
          llvm::formatv("\"{0}\" is neither a device, such as 3, nor a range, such as 0-7", part).str());
    if (end - begin >= kMaxDevices - int64_t(devices.size()))
      return llvm::createStringError(llvm::formatv("more than {0} devices", kMaxDevices).str());
    for (int64_t device = begin; device <= end; ++device)
      devices.push_back(device);
  }
  return devices;
}

static std::string devicesText(llvm::ArrayRef<int64_t> devices) {
  std::string text;
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(devices[i]);
    if (last > i)
      text += "-" + std::to_string(devices[last]);
    i = last + 1;
  }
  return text;
}

/// "[0:4,0:2]"
static std::string elementsText(const IndexSet &elements) {
  auto dim = [](const Intervals &intervals) {
    return llvm::join(llvm::map_range(intervals,
                                      [](const Interval &i) {
                                        return std::to_string(i.begin) + ":" + std::to_string(i.end);
                                      }),
                      "+");
  };
  return "[" + llvm::join(llvm::map_range(elements, dim), ",") + "]";
}

std::string plumb::redistribution::transferText(const TransferPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto side = [](const Placement &placement, const Layout &layout) {
    return llvm::formatv("{0} on {1} (devices {2})", toString(placement.mesh, layout),
                         toString(placement.mesh), devicesText(placement.devices))
        .str();
  };
  os << side(plan.source, plan.prepare ? plan.prepare->from : plan.held) << " -> "
     << side(plan.target, plan.to) << ", shape [" << toString(plan.shape) << "]";
  if (plan.nodeSize)
    os << ", nodes of " << plan.nodeSize;
  os << '\n';
  if (plan.prepare)
    for (const Step &step : plan.prepare->steps)
      os << "  first " << toString(plan.source.mesh, step) << '\n';
  for (auto [i, round] : llvm::enumerate(plan.rounds)) {
    os << "  round " << i + 1 << '\n';
    for (const TileMessage &message : round)
      os << "    " << message.sender << " -> " << message.receiver << "  "
         << volume(message.elements) * plan.elementBytes << " bytes " << elementsText(message.elements)
         << '\n';
  }
  os << "between nodes " << plan.crossBytes << " bytes; busiest node " << plan.busiestNodeBytes
     << " (lower bound " << plan.nodeBoundBytes << "); busiest device " << plan.busiestDeviceBytes << '\n';
  return text;
}

std::string plumb::redistribution::transferJson(const TransferPlan &plan) {
  Json object;
  object["prepare"] = Json::array();
  if (plan.prepare)
    for (const Step &step : plan.prepare->steps)
      object["prepare"].push_back(toString(plan.source.mesh, step));
  object["rounds"] = Json::array();
  for (const std::vector<TileMessage> &round : plan.rounds) {
    Json messages = Json::array();
    for (const TileMessage &message : round) {
      Json elements = Json::array();
      for (const Intervals &intervals : message.elements) {
        Json dim = Json::array();
        for (const Interval &interval : intervals)
          dim.push_back({interval.begin, interval.end});
        elements.push_back(std::move(dim));
      }
      messages.push_back({{"from", message.sender},
                          {"to", message.receiver},
                          {"bytes", volume(message.elements) * plan.elementBytes},
                          {"elements", std::move(elements)}});
    }
    object["rounds"].push_back(std::move(messages));
  }
  object["cross_node_bytes"] = plan.crossBytes;
  object["busiest_node_bytes"] = plan.busiestNodeBytes;
  object["bound_node_bytes"] = plan.nodeBoundBytes;
  object["busiest_device_bytes"] = plan.busiestDeviceBytes;
  object["local_shapes"] = Json::array();
  object["offsets"] = Json::array();
  for (int64_t rank = 0; rank < plan.target.mesh.numRanks(); ++rank) {
    Index shape = localShape(plan.target.mesh, plan.to, plan.shape, rank),
          offset = localOffset(plan.target.mesh, plan.to, plan.shape, plan.target.mesh.coordinates(rank));
    object["local_shapes"].push_back(std::vector<int64_t>(shape.begin(), shape.end()));
    object["offsets"].push_back(std::vector<int64_t>(offset.begin(), offset.end()));
  }
  return object.dump();
}
