#include "plumb/Schedule/Verifier.h"
#include "Verification.h"
#include <algorithm>

using namespace plumb::schedule;

Verification::Verification(const Problem &problem, const Schedule &schedule, const VerifyOptions &options)
    : problem(problem), schedule(schedule), options(options), neighbours(problem) {
  lowered =
      options.form == ListForm::Lowered || (options.form == ListForm::Detect && schedule.hasTransfers());
  int next = 0;
  for (const std::vector<Action> &row : schedule.rows) {
    rowBegin.push_back(next);
    next += static_cast<int>(row.size());
  }
  rowBegin.push_back(next);
}

int Verification::rowOf(int id) const {
  return static_cast<int>(std::upper_bound(rowBegin.begin(), rowBegin.end(), id) - rowBegin.begin()) - 1;
}

const Action &Verification::actionOf(int id) const {
  int row = rowOf(id);
  return schedule.rows[row][id - rowBegin[row]];
}

Diagnostic Verification::reject(Violation violation, int id, std::string message) const {
  Diagnostic diagnostic;
  diagnostic.violation = violation;
  diagnostic.message = std::move(message);
  if (id >= 0) {
    diagnostic.rank = rowOf(id);
    diagnostic.cell = id - rowBegin[diagnostic.rank];
    diagnostic.action = toString(actionOf(id));
  }
  return diagnostic;
}

std::string Verification::describe(int id) const {
  int row = rowOf(id);
  return toString(actionOf(id)) + " (rank " + std::to_string(row) + ", cell " +
         std::to_string(id - rowBegin[row]) + ")";
}

std::optional<Diagnostic> Verification::run() {
  constexpr Check (Verification::*checks[])() = {
      &Verification::checkRows,          &Verification::checkRanges,
      &Verification::checkPlacement,     &Verification::recordComputations,
      &Verification::checkBackwardForms, &Verification::checkNothingMissing,
      &Verification::checkOrderOnRank,   &Verification::checkForm,
      &Verification::recordTransfers,    &Verification::checkTransferEnds,
      &Verification::checkChannels,      &Verification::checkSharding,
      &Verification::checkCollectives,   &Verification::checkDeadlock,
      &Verification::checkMemory,
  };
  for (Check (Verification::*check)() : checks)
    if (Check error = (this->*check)())
      return error;
  return std::nullopt;
}

std::optional<Diagnostic> plumb::schedule::verify(const Problem &problem, const Schedule &schedule,
                                                  const VerifyOptions &options) {
  // The placement may be left open, all else of the problem must hold.
  Problem placed = problem;
  if (placed.placements.empty() && problem.stages >= 1 && problem.stages <= kMostCells)
    placed.placements = {std::vector<int>(problem.stages, 0)};
  if (std::optional<Diagnostic> error = placed.check(/*allowIdleRanks=*/true))
    return error;
  Diagnostic diagnostic;
  if (options.replicas < 1) {
    diagnostic.message = "a pipeline has at least one replica, not " + std::to_string(options.replicas);
    return diagnostic;
  }
  size_t cells = 0;
  for (const std::vector<Action> &row : schedule.rows)
    cells += row.size();
  constexpr size_t most = 1 << 28;
  size_t table = static_cast<size_t>(problem.stages) * problem.microbatches;
  if (cells > most || static_cast<size_t>(options.replicas) > most / table) {
    diagnostic.message = "the list or the number of replicas is too large to verify";
    return diagnostic;
  }
  return Verification(problem, schedule, options).run();
}
