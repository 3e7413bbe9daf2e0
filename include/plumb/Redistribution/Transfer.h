//===- Transfer.h - From one mesh to another --------------------*- C++ -*-===//
//
// A stage hands a tensor to the next stage, whose mesh may have another shape,
// size and place. Tiles, the intersections of source and target shards, travel
// as grouped sends and receives, in up to three rounds:
//
//   0  across: every tile enters each node that needs it once, split over the devices there that need it and
//   taken
//      evenly from the devices that hold it. Where more nodes need a tile than hold it, each gets a part.
//   1  relay: those nodes hand their parts on to one another.
//   2  share: within each node the parts go to the other devices that need them.
//
// A partial source is resolved on its own mesh first.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_TRANSFER_H
#define PLUMB_REDISTRIBUTION_TRANSFER_H

#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/Planner.h"

namespace plumb::redistribution {

/// A mesh on devices: rank r is `devices[r]`. Devices are numbered over the whole machine; `nodeSize`
/// consecutive ones share a node (0: all do).
struct Placement {
  Mesh mesh;
  std::vector<int64_t> devices;
};

struct TileMessage {
  int64_t sender = 0;
  int64_t receiver = 0;
  IndexSet elements;
};

struct TransferPlan {
  Placement source, target;
  Index shape;
  int64_t elementBytes = 1;
  int64_t nodeSize = 0;
  /// Steps on the source mesh that resolve partial values; their target is `held`.
  std::optional<Plan> prepare;
  /// What the source devices hold when tiles start to travel.
  Layout held;
  Layout to;
  /// One grouped send/receive each; a device sends only what it held before the round. Empty rounds are left
  /// out.
  std::vector<std::vector<TileMessage>> rounds;
  /// Target ranks whose tensor is filled with the neutral element: further copies of a value that becomes
  /// partial.
  std::vector<bool> neutral;

  /// Bytes that cross between nodes, and the most that enter or leave one node.
  int64_t crossBytes = 0;
  int64_t busiestNodeBytes = 0;
  /// The most that one device sends or receives over all rounds.
  int64_t busiestDeviceBytes = 0;
  /// What must enter the busiest node, or leave the nodes of the source, whatever the plan.
  int64_t nodeBoundBytes = 0;
};

/// Fails when a layout is invalid, a placement does not name one device per rank or names one twice, the
/// source cannot be resolved, the meshes have more than four million pairs of ranks, or a
/// quarter of a million messages do not suffice.
llvm::Expected<TransferPlan> planTransfer(const Placement &source, const Layout &from,
                                          const Placement &target, const Layout &to,
                                          llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                          int64_t nodeSize, const PlanOptions &options = {});

/// Follows every message: its sender must hold what it sends, no element may arrive where it is already, and
/// in the end every target rank must hold its shard.
llvm::Error verifyTransfer(const TransferPlan &plan);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_TRANSFER_H
