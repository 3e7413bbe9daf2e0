//===- VerifyTransfers.cpp - The two ends of every channel agree ---------------===//

#include "VerifyPlan.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace plumb;
using verification::Plan;

static StringRef getCommunicator(Operation *op) {
  if (auto send = dyn_cast<ccl::SendOp>(op))
    return send.getCommunicator();
  return cast<ccl::RecvOp>(op).getCommunicator();
}

static Type getMessageType(Operation *op) {
  if (auto send = dyn_cast<ccl::SendOp>(op))
    return send.getValue().getType();
  return cast<ccl::RecvOp>(op).getResult().getType();
}

static LogicalResult reportUnmatched(Operation *op, int64_t stage, const Part &part) {
  return emitModelError(op) << "of stage " << stage << " has no counterpart: stage " << part.peer
                            << " has fewer ops in " << getCounterpart(part, stage).getName();
}

/// Message k of one end is message k of the other.
static LogicalResult verifyMessages(const Plan &plan, int64_t stage, const Part &part,
                                    ArrayRef<Operation *> ops) {
  if (part.peer < 0 || part.peer >= static_cast<int64_t>(plan.parts.size()))
    return emitModelError(ops[0]) << "names stage " << part.peer << "; the stages are 0 to "
                                  << plan.parts.size() - 1;
  auto found = plan.parts[part.peer].find(getCounterpart(part, stage));
  ArrayRef<Operation *> others =
      found == plan.parts[part.peer].end() ? ArrayRef<Operation *>() : found->second;
  if (others.size() < ops.size())
    return reportUnmatched(ops[others.size()], stage, part);
  for (auto [index, pair] : llvm::enumerate(llvm::zip_first(ops, others))) {
    auto [op, other] = pair;
    bool types = getMessageType(op) == getMessageType(other);
    if (types && getCommunicator(op) == getCommunicator(other))
      continue;
    InFlightDiagnostic diagnostic = emitModelError(op);
    diagnostic << "of stage " << stage << " is message " << index << " of " << part.getName() << ", ";
    if (types)
      diagnostic << "on @" << getCommunicator(op) << "; its counterpart is on @" << getCommunicator(other);
    else
      diagnostic << getMessageType(op) << "; its counterpart is " << getMessageType(other);
    diagnostic.attachNote(other->getLoc()) << "the counterpart, of stage " << part.peer;
    return diagnostic;
  }
  return success();
}

/// A channel is a communicator of just the two coordinates, used in one direction between one pair of stages.
/// What stays on one coordinate needs none.
static LogicalResult verifyChannel(const Plan &plan, int64_t stage, const Part &part, Operation *op,
                                   const SymbolTable &symbols,
                                   llvm::StringMap<std::pair<int64_t, int64_t>> &channels) {
  StringRef name = getCommunicator(op);
  auto communicator = symbols.lookup<ccl::CommunicatorOp>(name);
  int64_t here = plan.pipeline.coordinateOf(stage), there = plan.pipeline.coordinateOf(part.peer);
  std::pair<int64_t, int64_t> ends =
      part.isSend() ? std::pair(stage, part.peer) : std::pair(part.peer, stage);
  if (here == there)
    return success();
  ArrayRef<int64_t> members = communicator.getPipeline();
  if (!communicator.getAxes().empty() || members.size() != 2 || !llvm::is_contained(members, here) ||
      !llvm::is_contained(members, there)) {
    InFlightDiagnostic diagnostic = emitModelError(op);
    diagnostic << "joins the pipeline coordinates " << here << " and " << there << ", but @" << name
               << " is not a communicator of just these";
    diagnostic.attachNote(communicator.getLoc()) << "the communicator";
    return diagnostic;
  }
  auto [it, isNew] = channels.try_emplace(name, ends);
  if (it->second != ends)
    return emitModelError(op) << "uses @" << name << ", which already carries what stage " << it->second.first
                              << " sends to stage " << it->second.second
                              << "; a channel has one direction and edge";
  return success();
}

LogicalResult verification::verifyTransfers(const Plan &plan) {
  SymbolTable symbols(plan.pipeline.module);
  llvm::StringMap<std::pair<int64_t, int64_t>> channels;
  for (auto [index, parts] : llvm::enumerate(plan.parts)) {
    int64_t stage = static_cast<int64_t>(index);
    for (const auto &[part, ops] : parts) {
      if (!part.isTransfer())
        continue;
      if (failed(verifyMessages(plan, stage, part, ops)))
        return failure();
      for (Operation *op : ops) {
        if (getCommunicator(op) != getCommunicator(ops[0]))
          return emitModelError(op) << "is on @" << getCommunicator(op) << ", another op of "
                                    << part.getName() << " on @" << getCommunicator(ops[0])
                                    << "; a group has one communicator";
        if (failed(verifyChannel(plan, stage, part, op, symbols, channels)))
          return failure();
      }
    }
  }
  return success();
}
