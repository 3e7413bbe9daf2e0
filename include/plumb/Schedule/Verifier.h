//===- Verifier.h - Prove that a schedule runs ------------------*- C++ -*-===//
//
// The verifier knows nothing of how a list was made. It takes any list, also a user's, and proves that every
// computation runs exactly once on its rank, that transfers match, and that no rank waits for ever.
//
// Model. One graph of events, a *start* and a *finish* for each unit (a computation, a transfer or a group of
// them). A list runs to its end iff the graph has no cycle, and then in every possible timing; a step leaves
// no message behind, so the same holds for any number of steps in a row. Linear time. A witness is sought on
// rejection only.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_VERIFIER_H
#define PLUMB_SCHEDULE_VERIFIER_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

/// What a listed transfer does to its rank. In all of them messages between two ranks keep their order.
enum class Transfers {
  /// Every transfer waits until the peer stands at its partner; the k-th send from rank a to b meets b's k-th
  /// receive
  /// from a.
  Rendezvous,
  /// Neighbouring transfers of a row are posted together; the rank goes on when all are done.
  Grouped,
  /// A send never waits; a receive waits for its send.
  Async,
  /// Plumb's programs: a stream and a communicator per (edge, direction); a transfer starts after the start
  /// of the
  /// transfer launched before it on the rank and after the finish of the one before it on its stream; it
  /// finishes
  /// after its partner's start; computations wait for what they read only.
  Streams,
};

enum class ListForm {
  /// Lowered iff it holds a transfer.
  Detect,
  /// Transfers are implied; a transfer in the list is an error.
  Compute,
  /// Every transfer must be listed.
  Lowered,
};

struct VerifyOptions {
  Transfers transfers = Transfers::Rendezvous;
  ListForm form = ListForm::Detect;
  /// Data-parallel copies of the whole pipeline; row = replica · ranks + rank. UNSHARD and REDUCE_GRAD of one
  /// rank are blocking collectives over its replicas, RESHARD is local.
  int replicas = 1;
};

/// The solution constraint of Problem.h; empty if it holds. With `problem.placements` empty, the placement is
/// taken from the list.
std::optional<Diagnostic> verify(const Problem &problem, const Schedule &schedule,
                                 const VerifyOptions &options = {});

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_VERIFIER_H
