#include "plumb/Schedule/Diagnostic.h"

using namespace plumb::schedule;

const char *plumb::schedule::toString(Violation violation) {
  switch (violation) {
  case Violation::BadProblem:
    return "bad_problem";
  case Violation::UnmetPrecondition:
    return "unmet_precondition";
  case Violation::MemoryLimit:
    return "memory_limit";
  case Violation::BadActionText:
    return "bad_action_text";
  case Violation::EmptyFile:
    return "empty_file";
  case Violation::NoActions:
    return "no_actions";
  case Violation::WrongRankCount:
    return "wrong_rank_count";
  case Violation::StageOutOfRange:
    return "stage_out_of_range";
  case Violation::MicrobatchOutOfRange:
    return "microbatch_out_of_range";
  case Violation::MissingStage:
    return "missing_stage";
  case Violation::StageOnTwoRanks:
    return "stage_on_two_ranks";
  case Violation::StageOnWrongRank:
    return "stage_on_wrong_rank";
  case Violation::DuplicateForward:
    return "duplicate_forward";
  case Violation::DuplicateBackward:
    return "duplicate_backward";
  case Violation::FullAndSplitBackward:
    return "full_and_split_backward";
  case Violation::MissingForward:
    return "missing_forward";
  case Violation::MissingBackward:
    return "missing_backward";
  case Violation::MissingInputGrad:
    return "missing_input_grad";
  case Violation::MissingWeightGrad:
    return "missing_weight_grad";
  case Violation::OverlapDependent:
    return "overlap_dependent";
  case Violation::BackwardBeforeForward:
    return "backward_before_forward";
  case Violation::WeightBeforeInputGrad:
    return "weight_before_input_grad";
  case Violation::DependencyInversion:
    return "dependency_inversion";
  case Violation::CrossRankWaitCycle:
    return "cross_rank_wait_cycle";
  case Violation::CommInComputeList:
    return "comm_in_compute_list";
  case Violation::CommOnWrongRank:
    return "comm_on_wrong_rank";
  case Violation::CommWithoutPeer:
    return "comm_without_peer";
  case Violation::SelfSend:
    return "self_send";
  case Violation::DuplicateSend:
    return "duplicate_send";
  case Violation::DuplicateRecv:
    return "duplicate_recv";
  case Violation::MissingTransfer:
    return "missing_transfer";
  case Violation::SendWithoutRecv:
    return "send_without_recv";
  case Violation::RecvWithoutSend:
    return "recv_without_send";
  case Violation::SendBeforeCompute:
    return "send_before_compute";
  case Violation::RecvAfterUse:
    return "recv_after_use";
  case Violation::FifoOrderMismatch:
    return "fifo_order_mismatch";
  case Violation::DeadlockAsync:
    return "deadlock_async";
  case Violation::DeadlockGrouped:
    return "deadlock_grouped";
  case Violation::DeadlockRendezvous:
    return "deadlock_rendezvous";
  case Violation::DeadlockStreams:
    return "deadlock_streams";
  case Violation::DoubleUnshard:
    return "double_unshard";
  case Violation::ReshardWithoutUnshard:
    return "reshard_without_unshard";
  case Violation::ComputeWhileResharded:
    return "compute_while_resharded";
  case Violation::ReduceGradTooEarly:
    return "reduce_grad_too_early";
  case Violation::DuplicateReduceGrad:
    return "duplicate_reduce_grad";
  case Violation::CollectiveOrderMismatch:
    return "collective_order_mismatch";
  }
  return "unknown";
}

std::string Diagnostic::toString() const {
  std::string text;
  if (rank >= 0)
    text += "rank " + std::to_string(rank);
  if (cell >= 0)
    text += ", cell " + std::to_string(cell);
  if (!action.empty())
    text += (text.empty() ? "" : ", ") + action;
  text += (text.empty() ? "" : ": ") + message;
  text += std::string(" [") + schedule::toString(violation) + "]";
  for (const std::string &step : witness)
    text += "\n  " + step;
  return text;
}
