//===- Accounting.cpp - What the steps of a plan move and hold ------------===//
#include "Accounting.h"
#include "plumb/Redistribution/Lowering.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace plumb::redistribution;

namespace {

/// Elements that ranks send and receive in one step: of every rank, or one entry if all are alike.
struct Traffic {
  std::vector<double> sent, received;
  int64_t messages = 0;

  static Traffic uniform(double elements, int64_t messages) { return {{elements}, {elements}, messages}; }
  double most() const {
    return std::max(*std::max_element(sent.begin(), sent.end()),
                    *std::max_element(received.begin(), received.end()));
  }
};

std::vector<unsigned> changedDims(const Layout &before, const Layout &after) {
  std::vector<unsigned> dims;
  for (unsigned d = 0; d < before.dims.size(); ++d)
    if (before.dims[d] != after.dims[d])
      dims.push_back(d);
  return dims;
}

/// Message by message, over every group of the mesh.
Traffic countedTraffic(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step) {
  Traffic traffic;
  traffic.sent.assign(mesh.numRanks(), -1);
  traffic.received.assign(mesh.numRanks(), 0);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    if (traffic.sent[rank] >= 0)
      continue;
    for (const MemberLoad &member : loadsOfGroup(mesh, shape, step, rank)) {
      traffic.sent[member.rank] = member.sent;
      traffic.received[member.rank] = member.received;
      traffic.messages = std::max(traffic.messages, member.messages);
    }
  }
  return traffic;
}

Traffic trafficOf(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step) {
  int64_t group = step.groupSize();
  double before = numElements(step.localBefore), after = numElements(step.localAfter);
  switch (step.kind) {
  case StepKind::Slice:
  case StepKind::Mask:
    return Traffic::uniform(0, 0);
  case StepKind::AllGather:
    return Traffic::uniform(before * (group - 1), group - 1);
  case StepKind::ReduceScatter:
    return Traffic::uniform(after * (group - 1), group - 1);
  case StepKind::AllReduce:
    return Traffic::uniform(before * 2 * (group - 1) / group, 2 * (group - 1));
  case StepKind::AllToAll:
    if (cutsEvenly(step.before, shape) && cutsEvenly(step.after, shape))
      return Traffic::uniform(before * (group - 1) / group, group - 1);
    return countedTraffic(mesh, shape, step);
  case StepKind::Permute:
  case StepKind::Exchange:
    return countedTraffic(mesh, shape, step);
  }
  return Traffic::uniform(0, 0);
}

/// Whether the pieces of the group lie one after another in the local tensor: one dimension is cut, evenly,
/// in one block, and it is the outermost that has more than one row.
bool piecesLieInOrder(const Layout &whole, const Layout &cut, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<int64_t> local) {
  std::vector<unsigned> dims = changedDims(whole, cut);
  if (dims.size() != 1)
    return dims.empty();
  unsigned d = dims.front();
  bool outermost = llvm::all_of(local.take_front(d), [](int64_t size) { return size == 1; });
  return outermost && blocksOf(cut.dims[d], shape[d]).size() == 1 &&
         cutsEvenly(cut.dims[d], shape[d], cut.dims[d].axes.size());
}

} // namespace

int64_t plumb::redistribution::stepMemory(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                          int64_t elementBytes, StepKind kind, const Layout &before,
                                          const Layout &after) {
  Index localBefore = largestLocalShape(mesh, before, shape),
        localAfter = largestLocalShape(mesh, after, shape);
  int64_t source = numElements(localBefore), result = numElements(localAfter);
  int64_t elements = source + result;
  switch (kind) {
  case StepKind::Slice:
  case StepKind::Mask:
    break;
  case StepKind::AllReduce:
    elements = source;
    break;
  case StepKind::AllGather:
    // Padding can make the buffer larger than the result.
    if (!piecesLieInOrder(after, before, shape, localAfter)) {
      int64_t members = 1;
      for (auto [wide, narrow] : llvm::zip_equal(localAfter, localBefore))
        members *= narrow ? ceilDiv(wide, narrow) : 1;
      elements += std::max(result, source * members);
    }
    break;
  case StepKind::ReduceScatter:
    if (!piecesLieInOrder(before, after, shape, localBefore))
      elements += source;
    break;
  case StepKind::AllToAll:
  case StepKind::Exchange:
    elements += source + result;
    break;
  case StepKind::Permute:
    break;
  }
  return elements * elementBytes;
}

void plumb::redistribution::account(Plan &plan, const std::optional<Topology> &topology) {
  int64_t ranks = plan.mesh.numRanks();
  std::vector<double> sent(ranks, 0), received(ranks, 0);
  plan.cost = 0;
  plan.peakMemory = numElements(largestLocalShape(plan.mesh, plan.from, plan.shape)) * plan.elementBytes;
  for (Step &step : plan.steps) {
    auto dims = changedDims(step.before, step.after);
    step.dims.assign(dims.begin(), dims.end());
    step.localBefore = largestLocalShape(plan.mesh, step.before, plan.shape);
    step.localAfter = largestLocalShape(plan.mesh, step.after, plan.shape);
    step.memory = stepMemory(plan.mesh, plan.shape, plan.elementBytes, step.kind, step.before, step.after);
    Traffic traffic = trafficOf(plan.mesh, plan.shape, step);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      sent[rank] += traffic.sent[traffic.sent.size() == 1 ? 0 : rank];
      received[rank] += traffic.received[traffic.received.size() == 1 ? 0 : rank];
    }
    step.bytes = traffic.most() * plan.elementBytes;
    step.cost = step.bytes;
    if (topology) {
      Link link = topology->slowest(plan.mesh, step.axes);
      step.cost = isLocal(step.kind)
                      ? 0
                      : link.latency + traffic.messages * link.messageLatency + step.bytes / link.bandwidth;
    }
    plan.cost += step.cost;
    plan.peakMemory = std::max(plan.peakMemory, step.memory);
  }
  plan.bytes = std::max(*std::max_element(sent.begin(), sent.end()),
                        *std::max_element(received.begin(), received.end())) *
               plan.elementBytes;
}
