//===- TransferReport.h - Plans between meshes as text and JSON -*- C++ -*-===//
#ifndef PLUMB_REDISTRIBUTION_TRANSFERREPORT_H
#define PLUMB_REDISTRIBUTION_TRANSFERREPORT_H

#include "plumb/Redistribution/Transfer.h"

namespace plumb::redistribution {

/// Devices as in "0-3,8,9": numbers and ranges that ascend. Fails on anything else, and beyond `kMaxDevices`.
llvm::Expected<std::vector<int64_t>> parseDevices(llvm::StringRef text);
inline constexpr int64_t kMaxDevices = 1 << 16;

/// The steps on the source mesh, then every message of every round with the elements that it carries, and
/// what crosses between nodes beside the least that must.
std::string transferText(const TransferPlan &plan);

/// One object: `prepare` (steps as text), `rounds` (lists of messages: `from`, `to`, `bytes`, and `elements`,
/// a list of [begin, end) per dimension), `cross_node_bytes`, `busiest_node_bytes`, `bound_node_bytes`,
/// `busiest_device_bytes`, `local_shapes` and `offsets` per target rank.
std::string transferJson(const TransferPlan &plan);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_TRANSFERREPORT_H
