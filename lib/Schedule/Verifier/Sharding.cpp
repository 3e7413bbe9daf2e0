//===- Sharding.cpp - UNSHARD, RESHARD and REDUCE_GRAD --------------------===//

#include "Verification.h"

using namespace plumb::schedule;

std::optional<Diagnostic> Verification::checkSharding() {
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    if (Check error = checkShardingOrder(row))
      return error;
  return std::nullopt;
}

std::optional<Diagnostic> Verification::checkShardingOrder(int row) {
  const std::vector<Action> &actions = schedule.rows[row];
  // A stage whose parameters are sharded starts a step sharded; one that no UNSHARD names is never sharded.
  std::vector<bool> sharded(problem.stages, false), everSharded(problem.stages, false);
  std::vector<int> reduced(problem.stages, -1);
  for (const Action &action : actions)
    if (action.kind == ActionKind::Unshard)
      sharded[action.stage] = everSharded[action.stage] = true;
  for (int cell = 0; cell < static_cast<int>(actions.size()); ++cell) {
    const Action &action = actions[cell];
    int id = cellId(row, cell), stage = action.stage;
    if (action.isSharding() && problem.rankOf(stage, 0) != rankOfRow(row) &&
        problem.rankOf(stage, problem.microbatches - 1) != rankOfRow(row))
      return reject(Violation::CommOnWrongRank, id,
                    "stage " + std::to_string(stage) + " does not live on rank " +
                        std::to_string(rankOfRow(row)));
    if (action.kind == ActionKind::Unshard) {
      if (!sharded[stage])
        return reject(Violation::DoubleUnshard, id, "the parameters of this stage are gathered already");
      sharded[stage] = false;
    }
    if (action.kind == ActionKind::Reshard) {
      if (sharded[stage] || !everSharded[stage])
        return reject(Violation::ReshardWithoutUnshard, id, "the parameters of this stage are not gathered");
      sharded[stage] = true;
    }
    if (action.kind == ActionKind::ReduceGrad) {
      if (reduced[stage] >= 0)
        return reject(Violation::DuplicateReduceGrad, id, "the gradients of this stage are reduced already");
      reduced[stage] = id;
    }
    if (!action.isCompute())
      continue;
    for (const Action &half : {action.first(), action.second()}) {
      if (half.isIdle())
        continue;
      if (sharded[half.stage])
        return reject(Violation::ComputeWhileResharded, id,
                      "the parameters of stage " + std::to_string(half.stage) + " are not gathered here");
      bool weights = half.kind == ActionKind::Backward || half.kind == ActionKind::WeightGrad;
      if (weights && reduced[half.stage] >= 0) {
        Diagnostic diagnostic = reject(Violation::ReduceGradTooEarly, reduced[half.stage], "");
        diagnostic.message = "stands before " + describe(id) + ", which still adds to the gradients";
        return diagnostic;
      }
    }
  }
  return std::nullopt;
}

/// The replicas of one rank must issue the collectives of their communicator in one order.
std::optional<Diagnostic> Verification::checkCollectives() {
  auto collectives = [&](int row) {
    std::vector<int> ids;
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell) {
      ActionKind kind = schedule.rows[row][cell].kind;
      if (kind == ActionKind::Unshard || kind == ActionKind::ReduceGrad)
        ids.push_back(cellId(row, cell));
    }
    return ids;
  };
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<int> reference = collectives(rank);
    for (int replica = 1; replica < options.replicas; ++replica) {
      std::vector<int> other = collectives(replica * problem.ranks + rank);
      for (size_t i = 0; i < std::max(reference.size(), other.size()); ++i) {
        if (i < reference.size() && i < other.size() && actionOf(reference[i]) == actionOf(other[i]))
          continue;
        int at = i < reference.size() ? reference[i] : other[i];
        Diagnostic diagnostic =
            reject(Violation::CollectiveOrderMismatch, at,
                   "collective number " + std::to_string(i + 1) +
                       " differs between the replicas of this rank; all must issue the same order");
        for (const std::vector<int> *ids : {&reference, &other})
          diagnostic.witness.push_back(i < ids->size() ? describe((*ids)[i]) : "no further collective");
        return diagnostic;
      }
    }
  }
  return std::nullopt;
}
